"""Many rows of codes packed at once: each row is a run of bits, and rows follow one another.

Codes are added by column: one for every row, or for some. When all are there, it is known where
each row starts, and a column at a time is put into 64-bit words. A row that is not longer than two
words could meet its neighbour in one word in the same step, so then some steps are made of one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakedex.format.deflate.codes import CODE_MASK, COUNT_SHIFT, Ints, Words

_WORD_BITS = 64


class BitRows:
    """Rows of bits in several streams, each of which starts on a word of its own.

    A row may be empty; then all its codes are 0.
    """

    def __init__(self, count: int) -> None:
        """Start with empty rows."""
        self._columns: list[tuple[Words, Ints, Ints | None]] = []
        self._totals = np.zeros(count, np.int64)

    def add(self, codes: Words, counts: Ints, rows: Ints | None = None) -> None:
        """Add `counts` bits of `codes` to all rows, or to those at `rows` (ascending)."""
        self._columns.append((codes, counts, rows))
        if rows is None:
            self._totals += counts
        else:
            self._totals[rows] += counts

    def add_entries(self, entries: Words, rows: Ints | None = None) -> None:
        """Add codes as tables have them."""
        self.add(entries & CODE_MASK, (entries >> COUNT_SHIFT).view(np.int64), rows)

    def pack(
        self, cuts: Ints, before: list[tuple[int, int]], end: np.uint64
    ) -> list[npt.NDArray[np.uint8]]:
        """The bytes of each stream: `before` it as bits and their number, its rows, and `end`.

        Stream i has the rows from `cuts[i]` to `cuts[i + 1]`.
        """
        heads = np.array([count for _, count in before], np.int64)
        sums = np.append(0, np.cumsum(self._totals))
        starts, lengths = sums[cuts[:-1]], np.diff(sums[cuts])
        ends = heads + lengths
        bits = ends + int(end >> COUNT_SHIFT)
        bases = np.append(0, np.cumsum(bits // _WORD_BITS + 2)) * _WORD_BITS
        out = np.zeros(int(bases[-1]) // _WORD_BITS + 2, np.uint64)
        positions = sums[:-1] + np.repeat(bases[:-1] + heads - starts, np.diff(cuts))
        positions[self._totals == 0] = int(bases[-1])  # where nothing else is
        step = self._rows_apart()
        for codes, counts, rows in self._columns:
            at = positions if rows is None else positions[rows]
            for first in range(step):
                _put(out, at[first::step], codes[first::step])
            if rows is None:
                positions += counts
            else:
                positions[rows] = at + counts
        for base, (code, count) in zip((bases[:-1] // _WORD_BITS).tolist(), before, strict=True):
            words = np.frombuffer(code.to_bytes(-(-count // _WORD_BITS) * 8, "little"), "<u8")
            out[base : base + len(words)] |= words
        _put(out, bases[:-1] + ends, np.repeat(end & CODE_MASK, len(ends)))
        data = out.view(np.uint8)
        sizes = zip((bases[:-1] // 8).tolist(), (-(-bits // 8)).tolist(), strict=True)
        return [data[start : start + size] for start, size in sizes]

    def _rows_apart(self) -> int:
        """How many rows on a row is that surely shares no word with it."""
        least = int(self._totals.min(initial=2 * _WORD_BITS, where=self._totals > 0))
        return max(1, -(-2 * _WORD_BITS // least))


def _put(out: Words, positions: Ints, codes: Words) -> None:
    """Put codes at bit positions no two of which touch the same word."""
    words = positions >> 6
    shifts = (positions & 63).view(np.uint64)
    out[words] |= codes << shifts
    words += 1
    out[words] |= (codes >> np.uint64(1)) >> (np.uint64(63) - shifts)
