"""Many cursors over one buffer that move in lockstep: the basis of the Avro decoder.

Lane i is at `cur[i]` and must stay before `end[i]`. Every read is one numpy operation over all
lanes. A strict set of lanes raises `CorruptFile` for the first invalid lane. A tolerant set only
marks such lanes as dead; it is used to try many positions, few of which are valid.

An Avro number is a zigzag varint: seven bits per byte, lowest first; a set high bit means that
another byte follows. Arrow buffers are viewed as numpy arrays without a copy (`view`, `offsets`,
`payload`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import CorruptFile

Scalar = TypeVar("Scalar", bound=np.generic)
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
PADDING_BYTES = 16
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
# The product of 1 << 8k with this number has k + 1 in its top byte.
_BYTE_NUMBERS = np.uint64(0x0102030405060708)


def view(
    buffer: pa.Buffer | None, dtype: type[Scalar], first: int, count: int
) -> npt.NDArray[Scalar]:
    """`count` values of the buffer from the `first` one on; the buffer may be padded or None.

    Example:
        >>> view(pa.py_buffer(bytes([1, 2, 3])), np.uint8, 1, 2).tolist()
        [2, 3]
    """
    if buffer is None or not buffer.size or not count:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)


def offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """The n + 1 offsets of a binary array into its data buffer."""
    buffer = array.buffers()[1]
    if pa.types.is_large_binary(array.type):
        return view(buffer, np.int64, array.offset, len(array) + 1 if buffer else 1)
    narrow = view(buffer, np.int32, array.offset, len(array) + 1 if buffer else 1)
    return narrow.astype(np.int64)


def payload(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The whole data buffer of a binary array."""
    buffer = array.buffers()[2]
    return view(buffer, np.uint8, 0, buffer.size if buffer is not None else 0)


@dataclass(slots=True)
class Source:
    """The bytes of the lanes, their origin, and the remaining budget for decoding them."""

    data: U8
    words: U64
    path: str
    base_offset: int
    empty_items_left: int = 1_000_000
    cells_left: int = 1 << 26

    def spend_cells(self, count: int) -> None:
        """Count cells of Arrow arrays, so that a small file cannot exhaust the memory."""
        self.cells_left -= count
        if self.cells_left < 0:
            raise CorruptFile(
                self.path,
                self.base_offset,
                expected="records of a limited number of values",
                actual="too many nested columns for one batch",
            )


def concat_padded(parts: Sequence[bytes]) -> U8:
    """Concatenate bytes and leave padding after them, so that `open_source` needs no copy.

    Example:
        >>> concat_padded([b"ab", b"c"]).tobytes()
        b'abc'
    """
    whole = np.frombuffer(b"".join([*parts, bytes(PADDING_BYTES)]), np.uint8)
    return whole[: len(whole) - PADDING_BYTES]


def open_source(data: U8, path: str, base_offset: int) -> Source:
    """The bytes with padding, so that a word can be read at every position."""
    padded = _padded(data)
    words: U64 = np.ndarray((len(data) + PADDING_BYTES - 7,), "<u8", padded.data, strides=(1,))
    return Source(padded, words, path, base_offset, cells_left=(1 << 26) + 64 * len(data))


def _padded(data: U8) -> U8:
    """The bytes with the following bytes of their buffer, or a padded copy if there are too few."""
    whole = data.base
    if isinstance(whole, np.ndarray) and whole.dtype == np.uint8 and len(data):
        start = data.ctypes.data - whole.ctypes.data
        end = start + len(data) + PADDING_BYTES
        in_one_piece = whole.flags.c_contiguous and data.flags.c_contiguous
        if in_one_piece and end <= whole.size:
            return whole.reshape(-1)[start:end]
    padded = np.zeros(len(data) + PADDING_BYTES, np.uint8)
    padded[: len(data)] = data
    return padded


class Lanes:
    """Cursors with their ends; `alive` is None for a strict set."""

    __slots__ = ("alive", "cur", "end", "source")

    def __init__(self, source: Source, cur: I64, end: I64, alive: Mask | None = None) -> None:
        """Use the arrays without a copy; reads replace `cur` and do not modify it."""
        self.source = source
        self.cur = cur
        self.end = end
        self.alive = alive

    def __len__(self) -> int:
        return len(self.cur)

    def require(self, ok: Mask, expected: str, actual: I64 | str) -> None:
        """Raise for the first lane for which `ok` is false, or mark such lanes as dead."""
        if self.alive is not None:
            self.alive &= ok
            return
        if ok.all():
            return
        lane = int(np.argmin(ok))
        found = actual if isinstance(actual, str) else int(actual[lane])
        raise self.corrupt(int(self.cur[lane]), expected, found)

    def corrupt(self, position: int, expected: str, actual: object) -> CorruptFile:
        """The error for a position in the buffer."""
        offset = self.source.base_offset + position
        return CorruptFile(self.source.path, offset, expected=expected, actual=actual)

    def subset(self, index: I64) -> Lanes:
        """A separate set of some of the lanes."""
        alive = None if self.alive is None else self.alive[index]
        return Lanes(self.source, self.cur[index], self.end[index], alive)

    def put_back(self, index: I64, part: Lanes) -> None:
        """Move the lanes of a subset to the subset's positions."""
        self.cur[index] = part.cur
        if self.alive is not None and part.alive is not None:
            self.alive[index] = part.alive

    def advance(self, lengths: I64 | int, expected: str) -> None:
        """Advance each lane by its length, which must not exceed its record."""
        left = self.end - self.cur
        ok = lengths <= left
        if not isinstance(lengths, int):
            ok &= lengths >= 0
        self.require(ok, expected, lengths if not isinstance(lengths, int) else "too few bytes")
        if self.alive is None:
            self.cur = self.cur + lengths
        else:
            self.cur = np.where(ok, self.cur + lengths, self.cur)

    def byte(self, expected: str) -> U8:
        """One byte from each lane."""
        self.require(self.cur < self.end, expected, "the end of the record")
        found = self.source.data.take(self.cur, mode="clip")
        self.cur = np.minimum(self.cur + 1, self.end)
        return found

    def varint(self, expected: str) -> I64:
        """One zigzag number of up to 64 bits from each lane."""
        self.require(self.cur < self.end, expected, "the end of the record")
        first = self.source.data.take(self.cur, mode="clip")
        if not len(first) or first.max() < 0x80:
            small = first.astype(np.int64)
            self.cur = (
                np.minimum(self.cur + 1, self.end) if self.alive is not None else self.cur + 1
            )
            return (small >> 1) ^ -(small & 1)
        value, length = self._long_varint(expected)
        self.advance(length, expected)
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def _long_varint(self, expected: str) -> tuple[U64, I64]:
        word = self.source.words[self.cur]
        stop = ~word & _HIGH_BITS
        stop &= ~stop + np.uint64(1)
        length = (((stop >> np.uint64(7)) * _BYTE_NUMBERS) >> np.uint64(56)).view(np.int64)
        word &= stop - np.uint64(1)
        word &= _LOW_BITS
        value = _squeeze(word)
        longer = np.flatnonzero(stop == 0)
        if len(longer):
            self._finish_long(longer, value, length, expected)
        return value, length

    def _finish_long(self, longer: I64, value: U64, length: I64, expected: str) -> None:
        """Bytes nine and ten of the few numbers that have them."""
        at = self.cur[longer]
        ninth = self.source.data[at + 8].astype(np.uint64)
        tenth = self.source.data[at + 9].astype(np.uint64)
        goes_on = ninth >= 0x80
        ok = np.ones(len(value), np.bool_)
        ok[longer] = ~goes_on | (tenth <= 1)
        self.require(ok, expected, "a number of more than 64 bits")
        value[longer] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        value[longer] |= np.where(goes_on, tenth, np.uint64(0)) << np.uint64(63)
        length[longer] = np.where(goes_on, 10, 9)


def _squeeze(word: U64) -> U64:
    """Compress eight groups of seven bits, one per byte, to 56 bits."""
    word = (word & np.uint64(0x007F007F007F007F)) | (
        (word & np.uint64(0x7F007F007F007F00)) >> np.uint64(1)
    )
    word = (word & np.uint64(0x00003FFF00003FFF)) | (
        (word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
    )
    return (word & np.uint64(0x000000000FFFFFFF)) | (
        (word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
    )
