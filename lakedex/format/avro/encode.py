"""Encodes Arrow rows as Avro binary records, all rows at once.

Each field becomes pieces, one byte string per row, and the pieces of all fields are joined to
records. Rows without a value have an empty piece, so that all pieces have the same number of rows.
Arrays are written as one block, as all Avro writers do for small ones, and decimals of type bytes
in the least number of bytes, so equal rows have equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.avro import pieces as put
from lakedex.format.avro.arrays import big_endian, least_length
from lakedex.format.avro.lanes import offsets, payload, view
from lakedex.format.avro.pieces import I64, U8, Mask
from lakedex.schema.arrow_types import arrow_type
from lakedex.schema.avro_schema import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
    is_nullable,
)
from lakedex.schema.field_paths import flat
from lakedex.schema.hudi_types import is_vector, vector_bytes

_CHUNK_ROWS = 1 << 15


def encode_primitive(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    """Encode a column that has the Arrow type of the primitive."""
    return _PRIMITIVES[node.kind](node, array, valid)


def present_rows(array: pa.Array) -> Mask:
    """A mask of the rows that are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def refuse_nulls(array: pa.Array, valid: Mask | None, path: str) -> None:
    """Raise for the first null row that must have a value."""
    if not array.null_count:
        return
    missing = ~present_rows(array)
    if valid is not None:
        missing &= valid
    if missing.any():
        raise InvalidInput(f"column {path} must not be null; row {int(np.argmax(missing))} is")


def encode_fixed(node: AvroFixed, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    """Encode bytes or decimals of a fixed size."""
    if is_vector(array.type):
        array = vector_bytes(array)
    if node.logical != "decimal":
        start, size = array.offset * node.size, len(array) * node.size
        data = view(array.buffers()[1], np.uint8, start, size)
        return [put.same_width(data.reshape(len(array), node.size), valid)]
    rows = big_endian(array)
    if node.size <= rows.shape[1]:
        return [put.same_width(rows[:, rows.shape[1] - node.size :], valid)]
    sign = np.where(rows[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    front = np.broadcast_to(sign, (len(rows), node.size - rows.shape[1]))
    return [put.same_width(np.concatenate([front, rows], axis=1), valid)]


def encode_enum(node: AvroEnum, array: pa.Array, valid: Mask | None, path: str) -> list[pa.Array]:
    """Encode symbols as their numbers."""
    index = pc.index_in(array, pa.array(node.symbols, pa.string()))
    try:
        refuse_nulls(index, valid, path)
    except InvalidInput:
        raise InvalidInput(f"column {path} has a value that is not a symbol of its enum") from None
    return [put.varints(index.fill_null(0).to_numpy(), valid)]


def _int(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    # The values of null rows are also converted; they are not used.
    buffer, first, count = array.buffers()[1], array.offset, len(array)
    if node.kind is PrimitiveKind.INT:
        values = view(buffer, np.int32, first, count).astype(np.int64)
    else:
        values = view(buffer, np.int64, first, count).copy()
    if valid is not None and array.null_count:
        values[~valid] = 0
    return [put.varints(values, valid)]


def _floating(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    width = 4 if node.kind is PrimitiveKind.FLOAT else 8
    raw = view(array.buffers()[1], np.uint8, array.offset * width, len(array) * width)
    return [put.same_width(raw.reshape(len(array), width), valid)]


def _boolean(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    values = pc.fill_null(array, pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    return [put.same_width(values.astype(np.uint8).reshape(-1, 1), valid)]


def _sized(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    if node.logical == "decimal":
        rows = big_endian(array)
        lengths = least_length(rows)
        reverse = np.ascontiguousarray(rows[:, ::-1])
        return [put.varints(lengths, valid), _tails(reverse, lengths, valid)]
    body = array.cast(pa.large_binary())
    if valid is not None:
        body = pc.if_else(pa.array(valid), body, pa.scalar(b"", pa.large_binary()))
    return [put.varints(np.diff(offsets(body)), valid), body]


def _tails(little: U8, lengths: I64, valid: Mask | None) -> pa.Array:
    """Little-endian rows as their `lengths` lowest bytes, big-endian."""
    at = np.maximum(lengths[:, None] - 1 - np.arange(little.shape[1]), 0)
    return put.ragged(np.take_along_axis(little, at, axis=1), lengths, valid)


_PRIMITIVES: Mapping[
    PrimitiveKind, Callable[[AvroPrimitive, pa.Array, Mask | None], list[pa.Array]]
] = {
    PrimitiveKind.BOOLEAN: _boolean,
    PrimitiveKind.INT: _int,
    PrimitiveKind.LONG: _int,
    PrimitiveKind.FLOAT: _floating,
    PrimitiveKind.DOUBLE: _floating,
    PrimitiveKind.BYTES: _sized,
    PrimitiveKind.STRING: _sized,
}


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Record i is `data[offsets[i]:offsets[i + 1]]`."""

    data: U8
    offsets: I64

    def as_binary(self) -> pa.Array:
        """A large_binary array of the records over the same bytes."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self.offsets) - 1, buffers)


def encode_records(schema: AvroRecord, batch: pa.RecordBatch | pa.Table) -> EncodedRecords:
    """Encode every row of the batch as a record of the schema, with columns matched by name.

    A field without a column is written as null, or as its default if that is a plain value.

    Example:
        >>> from lakedex.schema.avro_schema import parse_avro_record
        >>> schema = parse_avro_record(
        ...     '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}')
        >>> encode_records(schema, pa.record_batch({"n": pa.array([1, 3])})).data.tolist()
        [2, 6]
    """
    _check_names(schema, batch.schema)
    encoded = []
    for begin in range(0, max(batch.num_rows, 1), _CHUNK_ROWS):
        part = batch.slice(begin, _CHUNK_ROWS)
        columns = {name: flat(part.column(number)) for number, name in enumerate(part.schema.names)}
        encoded.append(put.joined(_fields(schema, columns, part.num_rows, None, ""), part.num_rows))
    return _concatenated(encoded)


def _check_names(schema: AvroRecord, columns: pa.Schema) -> None:
    names = {item.name for item in schema.fields}
    for name in columns.names:
        if name not in names:
            raise InvalidInput(f"the Avro schema {schema.full_name} has no field {name}")
    if len(set(columns.names)) != len(columns.names):
        raise InvalidInput("a column name occurs twice")


def _concatenated(encoded: list[pa.Array]) -> EncodedRecords:
    bounds = [np.zeros(1, np.int64)]
    data, end = [], 0
    for array in encoded:
        own = offsets(array)
        data.append(payload(array)[own[0] : own[-1]])
        bounds.append(own[1:] - own[0] + end)
        end += int(own[-1] - own[0])
    return EncodedRecords(np.concatenate(data), np.concatenate(bounds))


def _fields(
    record: AvroRecord,
    columns: Mapping[str, pa.Array],
    rows: int,
    valid: Mask | None,
    path: str,
) -> list[pa.Array]:
    out: list[pa.Array] = []
    for item in record.fields:
        name = f"{path}.{item.name}" if path else item.name
        array = columns.get(item.name)
        if array is None:
            array = _default(item, rows, name)
        out.extend(_encode(item.type, array, valid, name))
    return out


def _default(item: AvroField, rows: int, path: str) -> pa.Array:
    if is_nullable(item.type):
        return pa.nulls(rows, arrow_type(item.type))
    if item.default is NO_DEFAULT or isinstance(item.default, dict | list):
        raise InvalidInput(f"column {path} is missing and its field has no plain default")
    try:
        return pa.array([item.default], arrow_type(item.type)).take(
            pa.array(np.zeros(rows, np.int64))
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(f"the default of column {path} does not fit its type") from error


def _encode(node: AvroType, array: pa.Array, valid: Mask | None, path: str) -> list[pa.Array]:
    """The pieces of a column; rows outside `valid` have no bytes."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(node, AvroUnion):
        return _union(node, array, valid, path)
    if isinstance(node, AvroPrimitive) and node.kind is PrimitiveKind.NULL:
        return _null(array, valid, path)
    refuse_nulls(array, valid, path)
    if isinstance(node, AvroRecord):
        return _record(node, array, valid, path)
    if isinstance(node, AvroArray | AvroMap):
        return _items(node, array, valid, path)
    array = _as_type(array, arrow_type(node), path)
    if isinstance(node, AvroFixed):
        return encode_fixed(node, array, valid)
    if isinstance(node, AvroEnum):
        return encode_enum(node, array, valid, path)
    return encode_primitive(node, array, valid)


def _null(array: pa.Array, valid: Mask | None, path: str) -> list[pa.Array]:
    present = present_rows(array)
    if valid is not None:
        present &= valid
    if present.any():
        raise InvalidInput(f"column {path} has a value but its Avro type is null")
    return []


def _as_type(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        message = f"column {path} of type {array.type} cannot be written as {target}: {error}"
        raise InvalidInput(message) from error


def _union(node: AvroUnion, array: pa.Array, valid: Mask | None, path: str) -> list[pa.Array]:
    if len(node.members) > 1:
        return _member_union(node, array, valid, path)
    null = node.null_branch
    if not node.members:
        return [*_null(array, valid, path), put.constant(b"\x00", len(array), valid)]
    number, inner = node.members[0]
    if null is None:
        refuse_nulls(array, valid, path)
    if null is None or array.null_count == 0:
        branch = put.constant(bytes([2 * number]), len(array), valid)
        return [branch, *_encode(inner, array, valid, path)]
    present = present_rows(array)
    codes = np.where(present, np.uint8(2 * number), np.uint8(2 * null)).reshape(-1, 1)
    branch = put.same_width(codes, valid)
    inside = present if valid is None else present & valid
    return [branch] if not inside.any() else [branch, *_encode(inner, array, inside, path)]


def _member_union(
    node: AvroUnion, array: pa.Array, valid: Mask | None, path: str
) -> list[pa.Array]:
    rows = len(array)
    if pa.types.is_null(array.type):
        array = pa.nulls(rows, arrow_type(node))
    if not pa.types.is_struct(array.type):
        raise InvalidInput(f"column {path} must be a struct of union members, not {array.type}")
    here = present_rows(array) if valid is None else present_rows(array) & valid
    null = node.null_branch
    branch = np.full(rows, -1 if null is None else null, np.int64)
    counts = np.zeros(rows, np.int64)
    out: list[pa.Array] = []
    for position, (number, inner) in enumerate(node.members):
        index = array.type.get_field_index(f"member{position}")
        if index < 0:
            continue
        member = array.field(index)
        chosen = present_rows(member) & here
        branch[chosen] = number
        counts += chosen
        if chosen.any():
            out.extend(_encode(inner, member, chosen, f"{path}.member{position}"))
    needed = here if null is not None or valid is None else valid
    if null is None and valid is None:
        needed = np.ones(rows, np.bool_)
    wrong = needed & (counts != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(f"column {path} sets {int(counts[row])} union members in row {row}")
    return [put.varints(branch, valid), *out]


def _record(node: AvroRecord, array: pa.Array, valid: Mask | None, path: str) -> list[pa.Array]:
    if not pa.types.is_struct(array.type):
        raise InvalidInput(f"column {path} must be a struct, not {array.type}")
    names = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    for name in names:
        if all(item.name != name for item in node.fields):
            raise InvalidInput(f"the Avro record of column {path} has no field {name}")
    columns = {name: array.field(number) for name, number in names.items()}
    return _fields(node, columns, len(array), valid, path)


def _items(
    node: AvroArray | AvroMap, array: pa.Array, valid: Mask | None, path: str
) -> list[pa.Array]:
    array = _plain_list(node, array, path)
    rows = len(array)
    inside = array if valid is None else array.filter(pa.array(valid))
    bounds = inside.offsets.to_numpy().astype(np.int64)
    counts = np.diff(bounds)
    low, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    if isinstance(node, AvroMap):
        keys = inside.keys.slice(low, size)
        out = _encode(AvroPrimitive(PrimitiveKind.STRING), keys, None, f"{path}.key")
        out += _encode(node.values, inside.items.slice(low, size), None, f"{path}.value")
    else:
        out = _encode(node.items, inside.values.slice(low, size), None, f"{path}.element")
    if valid is not None:
        full = np.zeros(rows, np.int64)
        full[valid] = counts
        counts = full
    body = put.grouped(put.joined(out, size), counts)
    filled = counts > 0
    end = put.constant(b"\x00", rows, valid)
    if not filled.any():
        return [end]
    return [put.varints(counts, filled), body, end]


def _plain_list(node: AvroArray | AvroMap, array: pa.Array, path: str) -> pa.Array:
    dtype = array.type
    if isinstance(node, AvroMap):
        if not pa.types.is_map(dtype):
            raise InvalidInput(f"column {path} must be a map, not {dtype}")
        return array
    if pa.types.is_map(dtype):
        raise InvalidInput(f"column {path} must be a list, not {dtype}")
    if pa.types.is_fixed_size_list(dtype):
        return array.cast(pa.list_(dtype.value_field))
    if not pa.types.is_list(dtype) and not pa.types.is_large_list(dtype):
        raise InvalidInput(f"column {path} must be a list, not {dtype}")
    return array
