"""Decimals in Avro and in Arrow.

Avro stores the unscaled number big-endian in two's complement, in a fixed size or in as few bytes
as it needs. Arrow stores 16 bytes little-endian.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakedex.format.avro import place as to
from lakedex.format.avro.buffers import view
from lakedex.format.avro.lanes import I64, U8, Lanes
from lakedex.format.avro.place import Place
from lakedex.schema.arrow_types import arrow_type
from lakedex.schema.avro_type import AvroFixed, AvroPrimitive

_WIDTH = 16


def decimals_of_fixed(
    node: AvroFixed, lanes: Lanes, start: I64, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    """Decimals of a fixed size that begin at `start`."""
    lengths = np.full(len(lanes), node.size, np.int64)
    return _decimals(node, lanes, start, lengths, place, validity)


def decimals_of_bytes(
    node: AvroPrimitive, lanes: Lanes, lengths: I64, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    """Decimals of any length that end where the lanes are now."""
    return _decimals(node, lanes, lanes.cur - lengths, lengths, place, validity)


def _decimals(
    node: AvroFixed | AvroPrimitive,
    lanes: Lanes,
    start: I64,
    lengths: I64,
    place: Place,
    validity: pa.Buffer | None,
) -> pa.Array:
    data = lanes.source.data
    first = np.where(lengths > 0, data.take(start, mode="clip"), 0)
    fill = np.where(first >= 0x80, 0xFF, 0).astype(np.uint8)
    _check_excess(lanes, start, lengths, fill)
    distance = np.arange(_WIDTH, dtype=np.int64)
    at = (start + lengths - 1)[:, None] - distance
    digits = data.take(at, mode="clip")
    digits = np.where(distance < lengths[:, None], digits, fill[:, None])
    array = to.fixed_width(arrow_type(node), digits, place, validity)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        expected = f"decimals of {node.precision} digits"
        raise lanes.corrupt(int(start[0]), expected, error) from None
    return array


def _check_excess(lanes: Lanes, start: I64, lengths: I64, fill: U8) -> None:
    """Bytes beyond 16 may only repeat the sign."""
    excess = np.maximum(lengths - _WIDTH, 0)
    most = int(excess.max()) if len(excess) else 0
    if not most:
        return
    for position in range(min(most, 64)):
        byte = lanes.source.data.take(start + position, mode="clip")
        lanes.require((position >= excess) | (byte == fill), "a decimal of 16 bytes", lengths)
    lanes.require(excess <= 64, "a decimal of 16 bytes", lengths)
    low = lanes.source.data.take(start + excess, mode="clip")
    signed = ((low >= 0x80) == (fill == 0xFF)) | (excess == 0)
    lanes.require(signed, "a decimal of 16 bytes", lengths)


def big_endian(array: pa.Array) -> U8:
    """The values of a decimal128 array as rows of 16 big-endian bytes; nulls hold anything."""
    rows = view(array.buffers()[1], np.uint8, array.offset * _WIDTH, len(array) * _WIDTH)
    return rows.reshape(len(array), _WIDTH)[:, ::-1]


def least_length(rows: U8) -> I64:
    """How many of the last bytes of each row are needed: those above only repeat the sign."""
    fill = np.where(rows[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    # Byte k can go when it is the sign and the byte after it starts with the same sign bit.
    spare = (rows[:, :-1] == fill[:, None]) & ((rows[:, 1:] ^ fill[:, None]) < 0x80)
    dropped = np.cumprod(spare, axis=1).sum(axis=1)
    return (_WIDTH - dropped).astype(np.int64)
