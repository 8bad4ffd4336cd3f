"""Incoming rows in exactly the columns and types of a table, or an error that names the column.

Nothing is rounded, cut off or wrapped: a value that does not fit is refused. Columns and struct
fields that the rows leave out get their default, else null. A null inside a list or a map is
kept (case B68).

Rows of an upsert that leave out columns would set them to null. As in Hudi they are refused unless
an option says that null is meant: a forgotten column looks the same as one emptied on purpose.

A float becomes a double by way of its text, as in Hudi, so that 1.1 stays 1.1. Numbers become text
as Java prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.schema.conversions import java_number_text
from lakedex.schema.field_paths import validity_buffer
from lakedex.schema.hudi_types import (
    BLOB,
    check_blobs,
    check_symbols,
    hudi_type,
    is_vector,
    type_name,
    vectors_of_lists,
)
from lakedex.schema.storable import is_bytes, is_list, is_text

_WIDE_DIGITS = 38


def exact_cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """A column of a plain type as `target`; `path` names it in errors.

    Example:
        >>> exact_cast(pa.array([1.1], pa.float32()), pa.float64(), "x").to_pylist()
        [1.1]
        >>> exact_cast(pa.array([1 << 40]), pa.int32(), "n")
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: column n: ...

    Raises:
        InvalidInput: the types do not go together, or a value does not fit.
    """
    if array.type == target:
        return array
    for goes, step in _STEPS:
        if goes(array.type, target):
            try:
                return step(array, target)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
                raise InvalidInput(
                    f"column {path}: a value of type {array.type} does not fit {target}: {error}"
                ) from None
    raise mismatch(array.type, target, path)


def mismatch(given: pa.DataType, target: pa.DataType, path: str) -> InvalidInput:
    """The error for a column whose type has no exact conversion, with the cast to write.

    Example:
        >>> print(mismatch(pa.float64(), pa.decimal128(12, 2), "fare"))
        column fare is DECIMAL(12,2) in the table and DOUBLE in the input; cast it first:
        cast(fare AS DECIMAL(12,2)) in SQL, or
        df.withColumn("fare", df["fare"].cast("DECIMAL(12,2)")) in Spark
    """
    wanted, shown = type_name(target), type_name(given)
    message = f"column {path} is {wanted} in the table and {shown} in the input"
    if "." in path or pa.types.is_nested(target) or pa.types.is_nested(given):
        return InvalidInput(message)
    return InvalidInput(
        f"{message}; cast it first: cast({path} AS {wanted}) in SQL, or "
        f'df.withColumn("{path}", df["{path}"].cast("{wanted}")) in Spark'
    )


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _float_by_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.float32()).cast(pa.string()).cast(target)


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    # By the widest decimal: Arrow needs digits for all values of the integer type.
    return array.cast(pa.decimal128(_WIDE_DIGITS, 0)).cast(target)


def _float_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == pa.float16():
        array = array.cast(pa.float32())
    return java_number_text(array)


def _same_zone(old: pa.DataType, new: pa.DataType) -> bool:
    both = pa.types.is_timestamp(old) and pa.types.is_timestamp(new)
    return both and (old.tz is None) == (new.tz is None)


_number = pa.types.is_integer
_float = pa.types.is_floating
_decimal = pa.types.is_decimal
_STEPS: tuple[
    tuple[
        Callable[[pa.DataType, pa.DataType], bool],
        Callable[[pa.Array, pa.DataType], pa.Array],
    ],
    ...,
] = (
    (lambda old, new: _number(old) and _number(new), _cast),
    (lambda old, new: _number(old) and _float(new), _cast),
    (lambda old, new: old != pa.float64() and _float(old) and new == pa.float64(), _float_by_text),
    (lambda old, new: old == pa.float16() and new == pa.float32(), _cast),
    (lambda old, new: _decimal(old) and _decimal(new), _cast),
    (lambda old, new: _number(old) and _decimal(new), _integer_to_decimal),
    (lambda old, new: is_text(old) and is_text(new), _cast),
    (lambda old, new: _float(old) and is_text(new), _float_text),
    (
        lambda old, new: is_text(new) and (_number(old) or _decimal(old) or pa.types.is_date(old)),
        _cast,
    ),
    (lambda old, new: (is_bytes(old) or is_text(old)) and is_bytes(new), _cast),
    (lambda old, new: pa.types.is_date(old) and pa.types.is_date(new), _cast),
    (_same_zone, _cast),
)


_NO_DEFAULTS: Mapping[str, pa.Scalar] = {}


def conform(
    rows: pa.Table, target: pa.Schema, *, defaults: Mapping[str, pa.Scalar] = _NO_DEFAULTS
) -> pa.Table:
    """The rows with exactly the columns of `target`; other columns are left out.

    Example:
        >>> target = pa.schema([("a", pa.int64()), ("b", pa.string())])
        >>> conform(pa.table({"a": pa.array([1], pa.int8())}), target).to_pylist()
        [{'a': 1, 'b': None}]

    Raises:
        InvalidInput: a value that does not fit its column, or a null where none may be.
    """
    columns = []
    for field in target:
        if len(rows.schema.get_all_field_indices(field.name)) > 1:
            raise InvalidInput(f"the input has the column {field.name} twice")
        if field.name in rows.schema.names:
            column = rows.column(field.name)
            chunks = [_value(chunk, field, field.name) for chunk in column.chunks]
            for chunk in chunks:
                check_symbols(chunk, field)
                if hudi_type(field) == BLOB:
                    check_blobs(chunk, field.name)
            columns.append(pa.chunked_array(chunks, type=field.type))
        elif field.name in defaults:
            columns.append(pa.repeat(defaults[field.name].cast(field.type), rows.num_rows))
        else:
            columns.append(_missing(field, rows.num_rows, field.name))
    if not columns:
        return rows.select([])
    return pa.Table.from_arrays(columns, schema=target)


def _missing(field: pa.Field, rows: int, path: str) -> pa.Array:
    if rows and not field.nullable:
        raise InvalidInput(f"column {path} is missing in the input and may not be null")
    return pa.nulls(rows, field.type)


def _value(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """One array as the field's type, with its nulls checked."""
    if not field.nullable and array.null_count:
        raise InvalidInput(f"column {path} may not be null, and a row of the input has a null")
    return _typed(array, field.type, path)


def _typed(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    dtype = array.type
    if _fits(dtype, target):
        return array
    if pa.types.is_null(dtype):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(dtype):
        return _typed(array.dictionary_decode(), target, path)
    if pa.types.is_run_end_encoded(dtype):
        return _typed(pc.run_end_decode(array), target, path)
    if pa.types.is_struct(target) and pa.types.is_struct(dtype):
        return _struct(array, target, path)
    if pa.types.is_map(target) and pa.types.is_map(dtype):
        return _map(array, target, path)
    if is_list(target) and is_list(dtype):
        return _list(array, target, path)
    if pa.types.is_nested(dtype) or pa.types.is_nested(target):
        raise mismatch(dtype, target, path)
    return exact_cast(array, target, path)


def _fits(dtype: pa.DataType, target: pa.DataType) -> bool:
    """Whether arrays of the type are what they should be, inner names and nulls included."""
    if dtype != target or not pa.types.is_nested(target):
        return dtype == target
    shown = str(target)
    return str(dtype) == shown and "not null" not in shown


def _struct(array: pa.StructArray, target: pa.StructType, path: str) -> pa.Array:
    # Flattened children are null where their struct is: what is under a null is no value.
    children = array.flatten()
    converted = []
    for field in target:
        inner = f"{path}.{field.name}"
        at = array.type.get_field_index(field.name)
        if at < 0:
            _missing(field, len(array) - array.null_count, inner)
            converted.append(pa.nulls(len(array), field.type))
            continue
        if not field.nullable and children[at].null_count > array.null_count:
            raise InvalidInput(f"column {inner} may not be null, and a row of the input has a null")
        converted.append(_typed(children[at], field.type, inner))
    return pa.Array.from_buffers(target, len(array), [validity_buffer(array)], children=converted)


def _vector(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target and not array.flatten().null_count:
        return array
    item = target.value_field.with_nullable(nullable=True)
    # What is below a null is no value, and need not be as long as a vector.
    plain = pa.list_(item)
    lists = _list(array, plain, path)
    return vectors_of_lists(lists, target, path)


def _list(array: pa.Array, target: pa.ListType, path: str) -> pa.Array:
    if is_vector(target):
        return _vector(array, target, path)
    items = _value(array.flatten(), target.value_field, f"{path}.element")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    buffers = [validity_buffer(array), _offsets(lengths)]
    return pa.Array.from_buffers(target, len(array), buffers, children=[items])


def _map(array: pa.MapArray, target: pa.MapType, path: str) -> pa.Array:
    ends = array.offsets.to_numpy()
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    pairs = pa.ListArray.from_arrays(pa.array(ends), entries, mask=array.is_null()).flatten()
    keys = _value(pairs.field(0), target.key_field, f"{path}.key")
    items = _value(pairs.field(1), target.item_field, f"{path}.value")
    fields = [target.key_field, target.item_field]
    converted = pa.StructArray.from_arrays([keys, items], fields=fields)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(ends), 0)
    buffers = [validity_buffer(array), _offsets(lengths)]
    return pa.Array.from_buffers(target, len(array), buffers, children=[converted])


def _offsets(lengths: np.ndarray) -> pa.Buffer:
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise InvalidInput("a batch of lists has more than 2147483647 elements")
    return pa.py_buffer(ends.astype(np.int32))


def columns_left_out(
    table_schema: pa.Schema, incoming: pa.Schema, *, optional: Collection[str] = ()
) -> list[str]:
    """The columns, and fields of structs, that rows of a schema lack, as dotted paths.

    Args:
        table_schema: The table's own columns.
        incoming: Those of the rows.
        optional: Columns that rows need not have.

    Example:
        >>> point = pa.struct([("x", pa.int32()), ("y", pa.int32())])
        >>> table = pa.schema([("id", pa.string()), ("at", point), ("name", pa.string())])
        >>> rows = pa.schema([("id", pa.string()), ("at", pa.struct([("x", pa.int32())]))])
        >>> columns_left_out(table, rows)
        ['at.y', 'name']
    """
    wanted = [field for field in table_schema if field.name not in optional]
    return _lacking(wanted, {field.name: field.type for field in incoming}, "")


def _lacking(stored: Iterable[pa.Field], given: dict[str, pa.DataType], parent: str) -> list[str]:
    found = []
    for field in stored:
        path = f"{parent}{field.name}"
        if field.name in given:
            found += _inside(field.type, given[field.name], path)
        else:
            found.append(path)
    return found


def _inside(stored: pa.DataType, given: pa.DataType, path: str) -> list[str]:
    if pa.types.is_struct(stored) and pa.types.is_struct(given):
        return _lacking(stored, {field.name: field.type for field in given}, f"{path}.")
    if pa.types.is_map(stored) and pa.types.is_map(given):
        return _inside(stored.item_type, given.item_type, f"{path}.value")
    if is_list(stored) and is_list(given):
        return _inside(stored.value_type, given.value_type, f"{path}.element")
    return []
