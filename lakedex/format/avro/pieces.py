"""Encoded pieces: one byte string for each row, for one part of a record.

A record consists of the pieces of its fields, joined row by row. Rows without a value have an empty
piece, so that all pieces have the same number of rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro.lanes import offsets

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_EMPTY = pa.scalar(b"", pa.large_binary())
_JOIN_AT_ONCE = 64


def varints(values: npt.NDArray[np.signedinteger], valid: Mask | None) -> pa.Array:
    r"""Encode zigzag numbers.

    Example:
        >>> varints(np.array([0, -1, 64]), None).to_pylist()
        [b'\x00', b'\x01', b'\x80\x01']
    """
    signed = values.astype(np.int64, copy=False)
    code = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    if not len(code) or int(code.max()) < 0x80:
        return same_width(code.astype(np.uint8).reshape(-1, 1), valid)
    width = (int(code.max()).bit_length() + 6) // 7
    lengths = np.ones(len(code), np.int64)
    rows = np.empty((len(code), width), np.uint8)
    for number in range(width):
        left = code >> np.uint64(7)
        more = left != 0
        rows[:, number] = (code & np.uint64(0x7F)).astype(np.uint8) | (more.view(np.uint8) << 7)
        lengths += more
        code = left
    return ragged(rows, lengths, valid)


def same_width(rows: U8, valid: Mask | None) -> pa.Array:
    """Rows that all have the same number of bytes."""
    count, width = rows.shape
    if valid is None:
        return _pieces(np.ascontiguousarray(rows), np.arange(count + 1) * width)
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(valid, out=bounds[1:])
    return _pieces(rows[valid], bounds * width)


def ragged(rows: U8, lengths: I64, valid: Mask | None) -> pa.Array:
    """The first `lengths[i]` bytes of row i."""
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    return _pieces(rows[inside], bounds)


def constant(value: bytes, count: int, valid: Mask | None) -> pa.Array:
    """The same bytes for every row."""
    rows = np.broadcast_to(np.frombuffer(value, np.uint8), (count, len(value)))
    return same_width(rows, valid)


def joined(pieces: list[pa.Array], rows: int) -> pa.Array:
    """Join all pieces of each row."""
    if not pieces:
        return constant(b"", rows, None)
    while len(pieces) > 1:
        pieces = [
            pc.binary_join_element_wise(*pieces[i : i + _JOIN_AT_ONCE], _EMPTY)
            if len(pieces[i : i + _JOIN_AT_ONCE]) > 1
            else pieces[i]
            for i in range(0, len(pieces), _JOIN_AT_ONCE)
        ]
    return pieces[0]


def grouped(items: pa.Array, counts: I64) -> pa.Array:
    """Join the pieces of `counts[i]` consecutive items as the piece of row i, without a copy."""
    item_offsets = offsets(items)
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return pa.Array.from_buffers(
        pa.large_binary(),
        len(counts),
        [None, pa.py_buffer(item_offsets[ends]), items.buffers()[2] or pa.py_buffer(b"")],
    )


def _pieces(data: U8, bounds: npt.NDArray[np.signedinteger]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.large_binary(),
        len(bounds) - 1,
        [None, pa.py_buffer(bounds.astype(np.int64, copy=False)), pa.py_buffer(data)],
    )
