"""Bring rows of an older schema to a newer one: columns by name, missing ones null, types widened.

What may change into what is Hudi's list (int → long, float, double, string, decimal and so on).
A float becomes a double by way of its text, so that 1.1 stays 1.1, as Hudi does it. Everything
else is refused with the name of the column: a wrong guess here would be a wrong answer.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import LakedexError, UnsupportedFeature
from lakedex.schema.conversions import convert_leaf
from lakedex.schema.flat_columns import validity_buffer
from lakedex.schema.hudi_types import is_vector, vectors_of_bytes

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def project(table: Rows, target: pa.Schema) -> Rows:
    """The rows with exactly the columns and types of `target`.

    Example:
        >>> old = pa.table({"a": pa.array([1, 2], pa.int32())})
        >>> project(old, pa.schema([("a", pa.int64()), ("b", pa.string())])).to_pylist()
        [{'a': 1, 'b': None}, {'a': 2, 'b': None}]
    """
    if _fits(table, target):
        return type(table).from_arrays(table.columns, schema=target)
    positions = {name: number for number, name in enumerate(table.schema.names)}
    columns: list[pa.Array | pa.ChunkedArray] = []
    for field in target:
        number = positions.get(field.name)
        if number is None:
            columns.append(_missing(field, table.num_rows, field.name))
        else:
            columns.append(_column(table.column(number), field))
    if isinstance(table, pa.RecordBatch):
        if not columns:
            return table.select([])
        return pa.RecordBatch.from_arrays(columns, schema=target)
    if not columns:
        return table.select([])
    return pa.Table.from_arrays(columns, schema=target)


def _fits(table: pa.Table | pa.RecordBatch, target: pa.Schema) -> bool:
    """Whether the columns are what `target` says already, as in most files."""
    if not len(target) or table.schema != target:
        return False
    return all(
        (field.nullable or not table.column(number).null_count)
        and (
            not pa.types.is_nested(field.type)
            or _names_agree(table.schema.field(number).type, field.type)
        )
        for number, field in enumerate(target)
    )


def _column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        chunks = [convert(chunk, field, field.name) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=field.type)
    return convert(column, field, field.name)


def convert(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """One array to the type of `field`; `path` names the column in errors."""
    if not field.nullable and array.null_count:
        raise LakedexError(f"column {path} holds nulls but its schema says it has none")
    old, new = array.type, field.type
    if old == new and _names_agree(old, new):
        return array
    if pa.types.is_dictionary(old):
        return convert(array.cast(old.value_type), field, path)
    if pa.types.is_null(old):
        return pa.nulls(len(array), new)
    if is_vector(new) and pa.types.is_fixed_size_binary(old):
        return _vector(array, new, path)
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        return _struct(array, new, path)
    if pa.types.is_map(new) and pa.types.is_map(old):
        return _map(array, new, path)
    if _is_list(new) and _is_list(old) and not pa.types.is_map(old) and not pa.types.is_map(new):
        return _list(array, new, path)
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        raise UnsupportedFeature(f"the change of column {path} from {old} to {new}")
    return convert_leaf(array, new, path)


def _vector(array: pa.Array, new: pa.DataType, path: str) -> pa.Array:
    """Vectors as base files hold them; of another dimension they would be other vectors."""
    width = new.list_size * new.value_type.bit_width // 8
    if array.type.byte_width != width:
        raise UnsupportedFeature(
            f"column {path}: vectors of {array.type.byte_width} bytes in a file, {width} in the "
            "table,"
        )
    return vectors_of_bytes(array, new)


def _names_agree(old: pa.DataType, new: pa.DataType) -> bool:
    """Equal list types may still differ in the names of their inner fields."""
    return not pa.types.is_nested(old) or str(old) == str(new)


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype)


def _missing(field: pa.Field, rows: int, path: str) -> pa.Array:
    if not field.nullable and rows:
        raise LakedexError(f"column {path} is not in the file and may not be null")
    return pa.nulls(rows, field.type)


def _struct(array: pa.StructArray, new: pa.StructType, path: str) -> pa.Array:
    old = array.type
    children = []
    for number in range(new.num_fields):
        field = new.field(number)
        index = old.get_field_index(field.name)
        inner = f"{path}.{field.name}"
        if index < 0:
            # A row whose struct is null needs no value, so only rows that have one count.
            present = len(array) - array.null_count
            _missing(field, present, inner)
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_struct_child(array, index, field, inner))
    return pa.Array.from_buffers(new, len(array), [validity_buffer(array)], children=children)


def _struct_child(array: pa.StructArray, index: int, field: pa.Field, path: str) -> pa.Array:
    child = array.field(index)
    if field.nullable or not array.null_count:
        return convert(child, field, path)
    return convert(child, pa.field(field.name, field.type), path)


def _list(array: pa.ListArray, new: pa.ListType, path: str) -> pa.Array:
    offsets = _offsets(array)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    items = convert(values, new.value_field, f"{path}.element")
    width = np.int64 if pa.types.is_large_list(new) else np.int32
    bytes_ = pa.py_buffer((offsets - offsets[0]).astype(width))
    return pa.Array.from_buffers(
        new, len(array), [validity_buffer(array), bytes_], children=[items]
    )


def _map(array: pa.MapArray, new: pa.MapType, path: str) -> pa.Array:
    offsets = _offsets(array)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = convert(array.keys.slice(start, length), new.key_field, f"{path}.key")
    items = convert(array.items.slice(start, length), new.item_field, f"{path}.value")
    entries = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
    bytes_ = pa.py_buffer((offsets - offsets[0]).astype(np.int32))
    return pa.Array.from_buffers(
        new, len(array), [validity_buffer(array), bytes_], children=[entries]
    )


def _offsets(array: pa.ListArray) -> npt.NDArray[np.int64]:
    """The n + 1 offsets of a list or map array, of which a slice keeps only its own."""
    return array.offsets.to_numpy().astype(np.int64)
