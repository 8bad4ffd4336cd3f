"""Column defaults: what a column holds in rows that leave it out.

A default stands in the Avro schema that the table was created with. In an Arrow schema it is
given as JSON in the field's metadata under `default`. Avro wants the type of the default first in
a union, so a nullable column with a default other than null is `[T, "null"]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.arrow_types import arrow_type
from lakedex.schema.avro_schema import NO_DEFAULT, AvroField, AvroRecord, AvroUnion, is_null

_METADATA_KEY = b"default"
_DIGITS = 76


def column_defaults(record: AvroRecord) -> dict[str, pa.Scalar]:
    """The defaults other than null of a schema's columns, in their Arrow types.

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> text = ('{"type":"record","name":"r","fields":'
        ...         '[{"name":"n","type":"int","default":7},{"name":"s","type":"string"}]}')
        >>> column_defaults(parse_avro_record(text))
        {'n': <pyarrow.Int32Scalar: 7>}

    Raises:
        InvalidInput: a default that is no value of its column.
    """
    return {
        field.name: _scalar(field)
        for field in record.fields
        if field.default is not NO_DEFAULT and field.default is not None
    }


def with_defaults(record: AvroRecord, schema: pa.Schema) -> AvroRecord:
    """The record with the defaults that the fields of an Arrow schema carry as JSON.

    Raises:
        InvalidInput: a default that is no JSON, or no value of its column.
    """
    given: dict[str, Any] = {}
    for field in schema:
        text = (field.metadata or {}).get(_METADATA_KEY)
        if text is not None:
            try:
                given[field.name] = json.loads(text)
            except ValueError:
                raise InvalidInput(f"the default of column {field.name} is no JSON") from None
    return _apply(record, given)


def keep_defaults(record: AvroRecord, older: AvroRecord) -> AvroRecord:
    """The record with the defaults that its columns had in an older schema.

    A column whose type changed keeps its default if that is a value of the new type, too.
    """
    old = {field.name: field.default for field in older.fields}
    kept = {name: default for name, default in old.items() if default not in (NO_DEFAULT, None)}
    return _apply(record, kept)


def _apply(record: AvroRecord, defaults: Mapping[str, Any]) -> AvroRecord:
    fields = [
        _with_default(field, defaults[field.name]) if field.name in defaults else field
        for field in record.fields
    ]
    return replace(record, fields=tuple(fields))


def _with_default(field: AvroField, default: object) -> AvroField:
    node = field.type
    if isinstance(node, AvroUnion):
        nulls = [branch for branch in node.branches if is_null(branch)]
        others = [branch for branch in node.branches if not is_null(branch)]
        order = [*nulls, *others] if default is None else [*others, *nulls]
        node = AvroUnion(tuple(order))
    changed = replace(field, type=node, default=default)
    if default is not None:
        _scalar(changed)
    elif not isinstance(node, AvroUnion):
        raise InvalidInput(f"the default of column {field.name} is null, which it may not be")
    return changed


def _scalar(field: AvroField) -> pa.Scalar:
    dtype, value = arrow_type(field.type), field.default
    if isinstance(value, bool) != pa.types.is_boolean(dtype):
        value = ()  # JSON has no other truth values, and Arrow would take them for numbers
    try:
        if pa.types.is_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
            value = value.encode("latin-1")
        elif pa.types.is_decimal(dtype):
            unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
            value = Decimal(unscaled).scaleb(-dtype.scale, Context(prec=_DIGITS))
        elif pa.types.is_date32(dtype):
            return pa.scalar(value, pa.int32()).cast(dtype)
        elif pa.types.is_timestamp(dtype):
            return pa.scalar(value, pa.int64()).cast(dtype)
        return pa.scalar(value, dtype)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, AttributeError):
        shown = json.dumps(value, default=str)[:80]
        raise InvalidInput(
            f"the default {shown} of column {field.name} is no value of type {dtype}"
        ) from None
