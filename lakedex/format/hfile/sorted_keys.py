"""Searching many keys at once among keys that are sorted by unsigned bytes.

Both the cells of data blocks and the entries of index blocks hold keys as `2-byte length,
content`, so one search serves both. It runs in two steps: all sorted keys share a first part,
and the 8 bytes after it, as numbers, are searched with `numpy.searchsorted`; only where
several keys share these 8 bytes too, whole keys are compared, in lockstep over all queries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakedex.format.hfile.words import WORD_SIZE, Bytes, Ints, KeyColumn, Words, compare, load_words

_LENGTH_SIZE = 2
_FEW_QUERIES = 2
"""So few are searched one by one: setting up whole arrays would take longer."""


@dataclass(frozen=True)
class SortedKeys:
    """Sorted keys in one padded buffer; a big-endian 2-byte length stands before each."""

    data: Bytes
    starts: Ints
    shortest: int = 0
    """A length that no key is shorter than."""

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.starts)

    def column(self, rows: Ints | slice = slice(None)) -> KeyColumn:
        """The keys at `rows`."""
        starts = self.starts[rows]
        high = self.data[starts - _LENGTH_SIZE].astype(np.int64)
        return KeyColumn(self.data, starts, (high << 8) | self.data[starts - 1])

    def lower_bound(self, queries: KeyColumn) -> Ints:
        """For each query, how many keys are smaller."""
        return self._bound(queries, highest_counted=-1)

    def upper_bound(self, queries: KeyColumn) -> Ints:
        """For each query, how many keys are smaller or equal."""
        return self._bound(queries, highest_counted=0)

    def count_up_to(self, key: bytes) -> int:
        """How many keys are smaller than one, or equal to it."""
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
        """What all keys start with."""
        if not len(self):
            return b""
        ends = self.column(np.array([0, len(self) - 1]))
        return _common_start(ends.key(0), ends.key(1))

    @cached_property
    def words(self) -> Words:
        """The 8 bytes after the shared part, of each key."""
        skip = len(self.shared)
        if self.shortest >= skip + WORD_SIZE:
            return load_words(self.data, self.starts + skip)
        return self.column().words(skip)

    def _bound(self, queries: KeyColumn, *, highest_counted: int) -> Ints:
        """Count the keys that compare to each query with at most `highest_counted`."""
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
        """Where the keys with the same word as each query end; mostly one key or none."""
        closed = np.append(self.words, np.zeros(2, np.uint64))
        high = low + ((closed[low] == words) & (low < len(self)))
        tied = np.flatnonzero((high > low) & (closed[high] == words) & (high < len(self)))
        high[tied] = np.searchsorted(self.words, words[tied], "right")
        return high

    def _side_of_shared(self, queries: KeyColumn) -> npt.NDArray[np.int8]:
        """0 for queries that start as all keys do, -1 or 1 for those before or after them."""
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
        """How the keys at `rows` compare to `queries`."""
        return compare(self.column(rows), queries)


def _common_start(left: bytes, right: bytes) -> bytes:
    """The longest start that two keys share."""
    size = min(len(left), len(right))
    differ = np.frombuffer(left, np.uint8, size) != np.frombuffer(right, np.uint8, size)
    return left[: int(differ.argmax())] if differ.any() else left[:size]
