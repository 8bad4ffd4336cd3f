"""Arrow columns of plain types to Avro pieces; rows outside `valid` get no bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.avro import pieces as put
from lakedex.format.avro.buffers import offsets, view
from lakedex.format.avro.decimals import big_endian, least_length
from lakedex.format.avro.pieces import I64, U8, Mask
from lakedex.schema.avro_type import AvroEnum, AvroFixed, AvroPrimitive, PrimitiveKind
from lakedex.schema.hudi_types import is_vector, vector_bytes


def encode_primitive(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    """A column that already has the Arrow type of the primitive."""
    return _PRIMITIVES[node.kind](node, array, valid)


def present_rows(array: pa.Array) -> Mask:
    """Which rows are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def refuse_nulls(array: pa.Array, valid: Mask | None, path: str) -> None:
    """Raise for the first row that should have a value and has none."""
    if not array.null_count:
        return
    missing = ~present_rows(array)
    if valid is not None:
        missing &= valid
    if missing.any():
        raise InvalidInput(f"column {path} is null in row {int(np.argmax(missing))}, may not be")


def encode_fixed(node: AvroFixed, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    """Bytes or decimals of a fixed size."""
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
    """Symbols as their numbers."""
    index = pc.index_in(array, pa.array(node.symbols, pa.string()))
    try:
        refuse_nulls(index, valid, path)
    except InvalidInput:
        raise InvalidInput(f"column {path} holds text that is no symbol of its enum") from None
    return [put.varints(index.fill_null(0).to_numpy(), valid)]


def _int(node: AvroPrimitive, array: pa.Array, valid: Mask | None) -> list[pa.Array]:
    # The values under nulls are read too; nobody will look at them.
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
