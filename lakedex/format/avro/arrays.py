"""Arrow arrays from decoded Avro values that exist for some of the rows only.

A value inside a nullable record or a union branch is encoded for some rows only. `Place` defines
which rows of how many. Arrays are created at full length immediately, so nothing is moved twice.
Rows without a value contain zeros; the level that has the null marks them as null.

Decimals: Avro stores the unscaled number big-endian in two's complement, in a fixed size or in the
least number of bytes; Arrow stores 16 bytes little-endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import UnsupportedFeature
from lakedex.format.avro.lanes import I64, U8, Lanes, Mask, Source, view
from lakedex.schema.arrow_types import arrow_type
from lakedex.schema.avro_schema import AvroFixed, AvroPrimitive

_MAX_INT32 = 2**31 - 1
_WIDTH = 16
"""The greatest width of a fixed-width type."""
_FEW_ROWS = 1024
_DECIMAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """The rows of lanes: lane k fills row `index[k]` of `rows`, or row k without an index."""

    rows: int
    index: I64 | None = None

    def narrow(self, chosen: I64) -> Place:
        """The rows of some of the lanes."""
        return Place(self.rows, chosen if self.index is None else self.index[chosen])

    def spread(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The values at their rows, zeros elsewhere."""
        if self.index is None:
            return values
        full = np.zeros((self.rows, *values.shape[1:]), values.dtype)
        full[self.index] = values
        return full

    def validity(self, present: Mask) -> pa.Buffer | None:
        """A validity bitmap without the rows of lanes that are not present."""
        if present.all():
            return None
        full = present
        if self.index is not None:
            full = np.ones(self.rows, np.bool_)
            full[self.index] = present
        return bitmap(full)

    def only(self, chosen: I64) -> pa.Buffer | None:
        """A validity bitmap of the rows of the chosen lanes only."""
        full = np.zeros(self.rows, np.bool_)
        full[chosen if self.index is None else self.index[chosen]] = True
        return None if full.all() else bitmap(full)


def bitmap(mask: Mask) -> pa.Buffer:
    """Convert a mask to an Arrow bitmap."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def fixed_width(
    dtype: pa.DataType,
    values: npt.NDArray[np.generic],
    place: Place,
    validity: pa.Buffer | None,
) -> pa.Array:
    """An array of a fixed-width type."""
    full = np.ascontiguousarray(place.spread(values))
    return pa.Array.from_buffers(dtype, place.rows, [validity, pa.py_buffer(full)])


def booleans(values: Mask, place: Place, validity: pa.Buffer | None) -> pa.Array:
    """An array of bits."""
    bits = bitmap(place.spread(values).astype(np.bool_))
    return pa.Array.from_buffers(pa.bool_(), place.rows, [validity, bits])


def variable_width(
    lanes: Lanes, lengths: I64, place: Place, validity: pa.Buffer | None, *, text: bool
) -> pa.Array:
    """Byte strings that end at the lanes' cursors, as binary or validated text.

    The buffer is viewed as an array of alternating pieces and gaps, without a copy, and Arrow's
    `take` then copies the pieces, which is much faster than moving single bytes with numpy.
    """
    wide = len(lanes.source.data) > _MAX_INT32
    count = len(lanes)
    offsets = np.zeros(2 * count + 2, np.int64 if wide else np.int32)
    offsets[0 : 2 * count : 2] = lanes.cur - lengths
    offsets[1 : 2 * count + 1 : 2] = lanes.cur
    if count:
        offsets[2 * count :] = offsets[2 * count - 1]
    pieces = pa.Array.from_buffers(
        pa.large_binary() if wide else pa.binary(),
        2 * count + 1,
        [None, pa.py_buffer(offsets), pa.py_buffer(lanes.source.data)],
    )
    # Piece 2 * count is empty and represents rows without a value.
    rows = 2 * np.arange(count, dtype=np.int64)
    if place.index is not None:
        rows = np.full(place.rows, 2 * count, np.int64)
        rows[place.index] = 2 * np.arange(count, dtype=np.int64)
    if int(lengths.sum()) > _MAX_INT32:
        raise UnsupportedFeature("more than 2 GiB of text or bytes of one column in a batch")
    found = pieces.take(pa.array(rows)).cast(pa.binary())
    if text:
        found = _as_text(found, lanes, lengths)
    return found if validity is None else with_validity(found, validity)


def lists(
    dtype: pa.DataType, counts: I64, place: Place, validity: pa.Buffer | None, items: pa.Array
) -> pa.Array:
    """A list or map array from the number of items in each lane and all items in a row."""
    if len(items) > _MAX_INT32:
        raise UnsupportedFeature("more than 2^31 items of one column in a batch")
    offsets = np.zeros(place.rows + 1, np.int32)
    np.cumsum(place.spread(counts), out=offsets[1:])
    return pa.Array.from_buffers(
        dtype, place.rows, [validity, pa.py_buffer(offsets)], children=[items]
    )


def struct(
    dtype: pa.DataType, children: list[pa.Array], rows: int, validity: pa.Buffer | None
) -> pa.Array:
    """A struct array; it may have no fields."""
    return pa.Array.from_buffers(dtype, rows, [validity], children=children)


def with_validity(array: pa.Array, validity: pa.Buffer) -> pa.Array:
    """The same values with another validity bitmap."""
    return pa.Array.from_buffers(
        array.type, len(array), [validity, *array.buffers()[1:]], offset=array.offset
    )


def empty_rows(dtype: pa.DataType, rows: int, source: Source, *, valid: bool = True) -> pa.Array:
    """Rows without values: all null, or zeros for a level that is null further up.

    All buffers share one block of zeros, so a wide type costs no more than a narrow one.
    """
    if pa.types.is_fixed_size_list(dtype):
        source.spend_cells(rows * dtype.list_size)
    elif pa.types.is_fixed_size_binary(dtype) and dtype.byte_width > _WIDTH:
        source.spend_cells(rows * (dtype.byte_width // 8))
    if rows <= _FEW_ROWS and (known := _few_empty_rows(dtype, valid=valid)) is not None:
        return known.slice(0, rows)
    zeros = pa.py_buffer(np.zeros((rows + 1) * _WIDTH, np.uint8))
    return _zero_rows(dtype, rows, zeros, valid=valid)


@lru_cache(maxsize=128)
def _few_empty_rows(dtype: pa.DataType, *, valid: bool) -> pa.Array | None:
    """Empty rows of a type, cached because they dominate small reads of wide unions.

    None for types with fixed-size values of any length, whose memory use depends on the file.
    """
    if _has_fixed(dtype):
        return None
    zeros = pa.py_buffer(np.zeros((_FEW_ROWS + 1) * _WIDTH, np.uint8))
    return _zero_rows(dtype, _FEW_ROWS, zeros, valid=valid)


def _has_fixed(dtype: pa.DataType) -> bool:
    if pa.types.is_fixed_size_binary(dtype) or pa.types.is_fixed_size_list(dtype):
        return True
    return any(_has_fixed(dtype.field(number).type) for number in range(dtype.num_fields))


def _zero_rows(dtype: pa.DataType, rows: int, zeros: pa.Buffer, *, valid: bool) -> pa.Array:
    validity = None if valid else zeros
    if pa.types.is_null(dtype):
        return pa.nulls(rows)
    if pa.types.is_struct(dtype):
        fields = [dtype.field(number) for number in range(dtype.num_fields)]
        inner = [_zero_rows(f.type, rows, zeros, valid=not f.nullable) for f in fields]
        return struct(dtype, inner, rows, validity)
    if pa.types.is_fixed_size_list(dtype):
        count = rows * dtype.list_size
        inner_zeros = pa.py_buffer(np.zeros(count * _WIDTH, np.uint8))
        child = _zero_rows(dtype.value_type, count, inner_zeros, valid=True)
        return pa.Array.from_buffers(dtype, rows, [validity], children=[child])
    if pa.types.is_map(dtype) or pa.types.is_list(dtype):
        child = pa.nulls(0, dtype.field(0).type)
        return pa.Array.from_buffers(dtype, rows, [validity, zeros], children=[child])
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return pa.Array.from_buffers(dtype, rows, [validity, zeros, zeros])
    if pa.types.is_fixed_size_binary(dtype) and dtype.byte_width > _WIDTH:
        zeros = pa.py_buffer(np.zeros(rows * dtype.byte_width, np.uint8))
        return pa.Array.from_buffers(dtype, rows, [None if valid else zeros, zeros])
    return pa.Array.from_buffers(dtype, rows, [validity, zeros])


def _as_text(found: pa.Array, lanes: Lanes, lengths: I64) -> pa.Array:
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        lane = _first_bad_text(lanes, lengths)
    start = int(lanes.cur[lane] - lengths[lane])
    raise lanes.corrupt(start, "text in UTF-8", "other bytes")


def _first_bad_text(lanes: Lanes, lengths: I64) -> int:
    """Find the first lane with invalid text by bisection."""
    low, high = 0, len(lanes)
    while high - low > 1:
        middle = (low + high) // 2
        index = np.arange(low, middle, dtype=np.int64)
        part = lanes.subset(index)
        try:
            found = variable_width(part, lengths[index], Place(len(index)), None, text=False)
            found.cast(pa.string())
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def decimals_of_fixed(
    node: AvroFixed, lanes: Lanes, start: I64, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    """Decimals of a fixed size that begin at `start`."""
    lengths = np.full(len(lanes), node.size, np.int64)
    return _decimals(node, lanes, start, lengths, place, validity)


def decimals_of_bytes(
    node: AvroPrimitive, lanes: Lanes, lengths: I64, place: Place, validity: pa.Buffer | None
) -> pa.Array:
    """Decimals of any length that end at the cursors of the lanes."""
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
    distance = np.arange(_DECIMAL_BYTES, dtype=np.int64)
    at = (start + lengths - 1)[:, None] - distance
    digits = data.take(at, mode="clip")
    digits = np.where(distance < lengths[:, None], digits, fill[:, None])
    array = fixed_width(arrow_type(node), digits, place, validity)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        expected = f"decimals of {node.precision} digits"
        raise lanes.corrupt(int(start[0]), expected, error) from None
    return array


def _check_excess(lanes: Lanes, start: I64, lengths: I64, fill: U8) -> None:
    """Check that bytes beyond 16 only repeat the sign."""
    excess = np.maximum(lengths - _DECIMAL_BYTES, 0)
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
    """The values of a decimal128 array as rows of 16 big-endian bytes; undefined for nulls."""
    rows = view(
        array.buffers()[1], np.uint8, array.offset * _DECIMAL_BYTES, len(array) * _DECIMAL_BYTES
    )
    return rows.reshape(len(array), _DECIMAL_BYTES)[:, ::-1]


def least_length(rows: U8) -> I64:
    """The number of last bytes of each row that are needed; those above only repeat the sign."""
    fill = np.where(rows[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    # Byte k can be dropped if it is the sign and the next byte starts with the same sign bit.
    spare = (rows[:, :-1] == fill[:, None]) & ((rows[:, 1:] ^ fill[:, None]) < 0x80)
    dropped = np.cumprod(spare, axis=1).sum(axis=1)
    return (_DECIMAL_BYTES - dropped).astype(np.int64)
