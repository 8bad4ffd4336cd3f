"""Comparison and search of many keys at a time, as big-endian 8-byte words.

Byte strings compare by unsigned bytes, a proper prefix first. Padding the shorter one with NULs
gives the same order, except if the longer one continues with NULs only; then the lengths decide.
Two keys are therefore compared word by word, and by length if all words are equal, which is correct
for prefixes and for keys that contain NULs.

The cells of data blocks and the entries of index blocks both store keys as `2-byte length,
content`, so one search (`SortedKeys`) serves both. It has two steps: all sorted keys share a first
part, and the 8 bytes after it, as numbers, are searched with `numpy.searchsorted`. Only if several
keys also share these 8 bytes, whole keys are compared, in lockstep over all queries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

PADDING = 32
"""The number of bytes that must follow the last key, so that whole words can be loaded."""

WORD_SIZE = 8
_LENGTH_SIZE = 2
_FEW_QUERIES = 2
"""So few queries are searched one by one, because setting up arrays would take longer."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Many keys inside one padded buffer.

    `starts` and `lengths` may be in any order, may repeat keys and may omit keys of the buffer.
    """

    data: Bytes
    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.starts)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> KeyColumn:
        """The keys at `rows`, over the same buffer."""
        return KeyColumn(self.data, self.starts[rows], self.lengths[rows])

    def key(self, row: int) -> bytes:
        """One key."""
        start = int(self.starts[row])
        return self.data[start : start + int(self.lengths[row])].tobytes()

    def words(self, skip: int) -> Words:
        """The 8 bytes of each key after its first `skip`, NUL-padded, as numbers."""
        words = load_words(self.data, self.starts + skip)
        return mask_words(words, self.lengths - skip)


def key_column(keys: pa.Array) -> KeyColumn:
    """The keys of a binary array without nulls."""
    binary = keys.cast(pa.binary())
    offsets = np.frombuffer(binary.buffers()[1] or b"\0\0\0\0", np.int32)
    offsets = offsets[binary.offset : binary.offset + len(binary) + 1].astype(np.int64)
    if len(offsets) == 0:
        offsets = np.zeros(1, np.int64)
    stored = np.frombuffer(binary.buffers()[2] or b"", np.uint8)
    data = np.concatenate([stored[offsets[0] : offsets[-1]], np.zeros(PADDING, np.uint8)])
    starts = offsets[:-1] - offsets[0]
    return KeyColumn(data, starts, np.diff(offsets))


def load_words(data: Bytes, positions: Ints) -> Words:
    """The 8 bytes at each position as big-endian numbers; positions past the end are clipped."""
    last = len(data) - WORD_SIZE
    at_every_byte = np.ndarray((last + 1,), np.dtype("<u8"), data, 0, (1,))
    if len(positions) and int(positions.max()) > last:
        positions = np.minimum(positions, last)
    return at_every_byte[positions].byteswap()


def mask_words(words: Words, lengths: Ints) -> Words:
    """Set the bytes of words from `lengths` on to NUL."""
    if len(lengths) == 0 or int(lengths.min()) >= WORD_SIZE:
        return words
    missing: Words = np.clip(WORD_SIZE - lengths, 0, WORD_SIZE).astype(np.uint64) * np.uint64(8)
    # A shift by the whole width is undefined, so there are two shifts by half of it.
    half = missing >> np.uint64(1)
    rest = missing - half
    kept: Words = np.left_shift(np.left_shift(words >> half >> rest, half), rest)
    return kept


def sorted_once(numbers: Ints) -> Ints:
    """The distinct numbers, ascending; faster than hashing if they are nearly sorted."""
    ascending = np.sort(numbers, kind="stable")
    return ascending[
        np.append(ascending[1:] != ascending[:-1], np.ones(min(len(numbers), 1), np.bool_))
    ]


def compare(left: KeyColumn, right: KeyColumn, skip: int = 0) -> npt.NDArray[np.int8]:
    """Compare each pair of keys as -1, 0 or 1; their first `skip` bytes must be equal."""
    signs = np.zeros(len(left), np.int8)
    rows = np.arange(len(left))
    while len(rows):
        a, b = left.words(skip), right.words(skip)
        signs[rows] = (a > b).astype(np.int8) - (a < b).astype(np.int8)
        skip += WORD_SIZE
        longest = np.maximum(left.lengths, right.lengths)
        tie = a == b
        ended = tie & (longest <= skip)
        signs[rows[ended]] = np.sign(left.lengths[ended] - right.lengths[ended])
        more = tie & ~ended
        rows, left, right = rows[more], left.take(more), right.take(more)
    return signs


@dataclass(frozen=True)
class SortedKeys:
    """Sorted keys in one padded buffer, each after its big-endian 2-byte length."""

    data: Bytes
    starts: Ints
    shortest: int = 0
    """A lower bound of the lengths of keys."""

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.starts)

    def column(self, rows: Ints | slice = slice(None)) -> KeyColumn:
        """The keys at `rows`."""
        starts = self.starts[rows]
        high = self.data[starts - _LENGTH_SIZE].astype(np.int64)
        return KeyColumn(self.data, starts, (high << 8) | self.data[starts - 1])

    def lower_bound(self, queries: KeyColumn) -> Ints:
        """For each query, the number of smaller keys."""
        return self._bound(queries, highest_counted=-1)

    def upper_bound(self, queries: KeyColumn) -> Ints:
        """For each query, the number of smaller or equal keys."""
        return self._bound(queries, highest_counted=0)

    def count_up_to(self, key: bytes) -> int:
        """The number of keys that are smaller than or equal to a key."""
        return bisect_right(range(len(self)), key, key=self._key)

    def row_of(self, key: bytes) -> int:
        """The row of one key (the first of several), or -1."""
        row = bisect_left(range(len(self)), key, key=self._key)
        return row if row < len(self) and self._key(row) == key else -1

    def candidates(self, queries: KeyColumn) -> Ints:
        """For each query, the only row whose key may equal it (the first of several), or -1."""
        low, high = self._narrow(queries)
        open_rows = np.flatnonzero(high - low > 1)
        while len(open_rows):
            middle = (low[open_rows] + high[open_rows] - 1) // 2
            smaller = self._compare(middle, queries.take(open_rows)) < 0
            low[open_rows[smaller]] = middle[smaller] + 1
            high[open_rows[~smaller]] = middle[~smaller] + 1
            open_rows = open_rows[high[open_rows] - low[open_rows] > 1]
        return np.where(low < high, low, -1)

    @cached_property
    def shared(self) -> bytes:
        """The common prefix of all keys."""
        if not len(self):
            return b""
        ends = self.column(np.array([0, len(self) - 1]))
        return _common_start(ends.key(0), ends.key(1))

    @cached_property
    def words(self) -> Words:
        """The 8 bytes after the common prefix of each key."""
        skip = len(self.shared)
        if self.shortest >= skip + WORD_SIZE:
            return load_words(self.data, self.starts + skip)
        return self.column().words(skip)

    def _bound(self, queries: KeyColumn, *, highest_counted: int) -> Ints:
        """Count the keys whose comparison with each query is at most `highest_counted`."""
        if len(queries) <= _FEW_QUERIES:
            side = bisect_right if highest_counted == 0 else bisect_left
            rows = range(len(self))
            found = [side(rows, queries.key(each), key=self._key) for each in range(len(queries))]
            return np.array(found, dtype=np.int64)
        low, high = self._narrow(queries)
        open_rows = np.flatnonzero(low < high)
        while len(open_rows):
            middle = (low[open_rows] + high[open_rows]) // 2
            counted = self._compare(middle, queries.take(open_rows)) <= highest_counted
            low[open_rows[counted]] = middle[counted] + 1
            high[open_rows[~counted]] = middle[~counted]
            open_rows = open_rows[low[open_rows] < high[open_rows]]
        return low

    def _narrow(self, queries: KeyColumn) -> tuple[Ints, Ints]:
        """The rows `low <= row < high` whose first bytes equal those of each query."""
        words = queries.words(len(self.shared))
        low = np.searchsorted(self.words, words, "left")
        high = self._ends_of_ties(words, low)
        if self.shared:
            side = self._side_of_shared(queries)
            for sign, row in ((-1, 0), (1, len(self))):
                low[side == sign] = row
                high[side == sign] = row
        return low, high

    def _ends_of_ties(self, words: Words, low: Ints) -> Ints:
        """The end of the keys with the same word as each query; mostly there is one key or none."""
        closed = np.append(self.words, np.zeros(2, np.uint64))
        high = low + ((closed[low] == words) & (low < len(self)))
        tied = np.flatnonzero((high > low) & (closed[high] == words) & (high < len(self)))
        high[tied] = np.searchsorted(self.words, words[tied], "right")
        return high

    def _side_of_shared(self, queries: KeyColumn) -> npt.NDArray[np.int8]:
        """0 for queries with the common prefix, -1 or 1 for those before or after all keys."""
        size = len(self.shared)
        heads = KeyColumn(queries.data, queries.starts, np.minimum(queries.lengths, size))
        zeros = np.zeros(len(queries), np.int64)
        return compare(heads, KeyColumn(self.data, zeros + self.starts[0], zeros + size))

    def _key(self, row: int) -> bytes:
        """The key at one row."""
        start = int(self.starts[row])
        size = int.from_bytes(self.data[start - _LENGTH_SIZE : start].tobytes(), "big")
        return self.data[start : start + size].tobytes()

    def _compare(self, rows: Ints, queries: KeyColumn) -> npt.NDArray[np.int8]:
        """Compare the keys at `rows` with `queries`."""
        return compare(self.column(rows), queries)


def _common_start(left: bytes, right: bytes) -> bytes:
    """The longest common prefix of two keys."""
    size = min(len(left), len(right))
    differ = np.frombuffer(left, np.uint8, size) != np.frombuffer(right, np.uint8, size)
    return left[: int(differ.argmax())] if differ.any() else left[:size]
