"""The schema that a table has after a write: its own, with what the incoming rows add to it.

    new columns, and new fields of structs     appended, nullable
    int → long → float → double                the wider of the two; whole numbers become double
    decimal                                    wide enough for both
    text                                       takes numbers, dates and decimals as their text
    bytes                                      take text
    decimal                                    takes whole numbers

A number column never becomes text: rows of a wrong type are an error, not a new type. Columns
that the rows leave out are filled, see `conform`, where rows may lack any (`left_out`).
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.conform import mismatch
from lakedex.schema.hudi_types import given_hudi_type, hudi_type, parse_hudi_type
from lakedex.schema.storable import (
    META_PREFIX,
    check_names,
    check_reserved,
    is_list,
    storable_field,
    storable_type,
)

_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
_WHOLE = (pa.int32(), pa.int64())
_MOST_DIGITS = 38
_META_COLUMNS = frozenset(
    f"{META_PREFIX}{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)


def reconcile(
    table_schema: pa.Schema,
    incoming: pa.Schema,
    *,
    defaults: Collection[str] = (),
    key_columns: Collection[str] = (),
) -> pa.Schema:
    """The table's columns after rows of the incoming schema were written.

    Neither has meta columns: those of the incoming schema are ignored. `defaults` are columns
    that have a default, so that they may be left out even if they are not nullable. Of
    `key_columns` (record key and partition columns) no value may change its text, so their types
    stay, but for int → long.

    Example:
        >>> table = pa.schema([("id", pa.int32()), ("name", pa.string())])
        >>> new = pa.schema([("id", pa.int64()), ("city", pa.large_string())])
        >>> reconcile(table, new).names
        ['id', 'name', 'city']
        >>> str(reconcile(table, new).field("id").type)
        'int64'

    Raises:
        InvalidInput: a type that does not go with the column's, a required column that is
            missing, or a name that differs from the table's by case only.
    """
    own = [field for field in incoming if field.name not in _META_COLUMNS]
    names = [field.name for field in own]
    check_names(names, "the input")
    check_reserved([name for name in names if name not in table_schema.names])
    merged = pa.schema(_fields(list(table_schema), own, "", defaults))
    for name in {name.partition(".")[0] for name in key_columns} & {*table_schema.names}:
        old, new = table_schema.field(name).type, merged.field(name).type
        if old != new and (old, new) != (pa.int32(), pa.int64()):
            raise InvalidInput(
                f"column {name} is part of keys or partition paths, so its type {old} cannot "
                f"become {new}"
            )
    return merged


def _fields(
    stored: list[pa.Field], incoming: list[pa.Field], parent: str, defaults: Collection[str] = ()
) -> list[pa.Field]:
    known = {field.name: field for field in stored}
    by_case = {name.lower(): name for name in known}
    given = {field.name: field for field in incoming}
    for name in given:
        twin = by_case.get(name.lower(), name)
        if twin != name:
            raise InvalidInput(
                f"column {parent}{name} of the input differs only by case from {parent}{twin}"
            )
    merged = []
    for name, field in known.items():
        path = f"{parent}{name}"
        if name in given and hudi_type(field) is not None:
            _check_own_type(field, given[name], path)
            merged.append(field)
        elif name in given:
            merged.append(field.with_type(_common(field.type, given[name].type, path)))
        elif field.nullable or name in defaults:
            merged.append(field)
        else:
            raise InvalidInput(f"column {path} is missing in the input and may not be null")
    for name, field in given.items():
        if name not in known:
            path = f"{parent}{name}"
            added = pa.field(name, storable_type(field.type, path))
            if not parent:
                added = storable_field(field, path).with_nullable(nullable=True)
            merged.append(added)
    return merged


def _check_own_type(stored: pa.Field, incoming: pa.Field, path: str) -> None:
    """Refuse rows that would change a VECTOR or a BLOB; values are checked by `conform`."""
    said, known = given_hudi_type(incoming), hudi_type(stored)
    is_same = said is None or parse_hudi_type(said, path) == stored.type
    kind = incoming.type
    fits = is_list(kind) if is_list(stored.type) else _is_part_of(kind, stored.type)
    if not is_same or not (fits or pa.types.is_null(kind)):
        raise InvalidInput(f"column {path} is {known} in the table and {said or kind} in the input")


def _is_part_of(given: pa.DataType, known: pa.DataType) -> bool:
    """Whether a struct has no other fields than another one."""
    if not pa.types.is_struct(known):
        return True
    fields = {field.name: field.type for field in known}
    return pa.types.is_struct(given) and all(
        field.name in fields and _is_part_of(field.type, fields[field.name]) for field in given
    )


def _common(stored: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
    new = storable_type(_typed(incoming, stored), path)
    if pa.types.is_struct(stored) and pa.types.is_struct(new):
        return pa.struct(_fields(list(stored), list(new), f"{path}."))
    if pa.types.is_map(stored) and pa.types.is_map(new):
        return pa.map_(pa.string(), _inner(stored.item_field, new.item_field, f"{path}.value"))
    if is_list(stored) and is_list(new):
        return pa.list_(_inner(stored.value_field, new.value_field, f"{path}.element"))
    common = stored if stored == new else _common_leaf(stored, new)
    if common is None:
        raise mismatch(incoming, stored, path)
    return common


def _typed(incoming: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """The incoming type with that of the table where it has none, as in `array()`."""
    if pa.types.is_null(incoming):
        return stored
    if is_list(incoming) and is_list(stored):
        return pa.list_(_typed_field(incoming.value_field, stored.value_field))
    if pa.types.is_map(incoming) and pa.types.is_map(stored):
        item = _typed_field(incoming.item_field, stored.item_field)
        return pa.map_(incoming.key_type, item)
    if pa.types.is_struct(incoming) and pa.types.is_struct(stored):
        known = {field.name: field for field in stored}
        return pa.struct([_typed_field(each, known.get(each.name, each)) for each in incoming])
    return incoming


def _typed_field(incoming: pa.Field, stored: pa.Field) -> pa.Field:
    return incoming.with_type(_typed(incoming.type, stored.type))


def _inner(stored: pa.Field, new: pa.Field, path: str) -> pa.Field:
    return stored.with_type(_common(stored.type, new.type, path))


def _common_leaf(stored: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    if stored in _WHOLE and new == pa.float32():
        # What is stored would lose digits in a float.
        return pa.float64()
    if stored in _NUMBERS and new in _NUMBERS:
        return max(stored, new, key=_NUMBERS.index)
    if pa.types.is_decimal(stored):
        return _common_decimal(stored, new)
    if pa.types.is_string(stored):
        as_text = new in _NUMBERS or pa.types.is_decimal(new) or pa.types.is_date(new)
        return stored if as_text else None
    if pa.types.is_binary(stored) and pa.types.is_string(new):
        return stored
    return None


def _common_decimal(stored: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(new):
        return stored
    if not pa.types.is_decimal(new):
        return None
    scale = max(stored.scale, new.scale)
    precision = max(stored.precision - stored.scale, new.precision - new.scale) + scale
    return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS else None
