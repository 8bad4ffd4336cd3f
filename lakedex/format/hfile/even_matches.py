"""Which bytes of cells with even keys are matched with which before them, before they are deflated.

    header 10 | key | suffix 10 | value | 0        and the next cell

A match goes from the end of the key to that cell before, in the same block and in reach, which has
the same value, and on through the header and the bytes that all keys of the block share. A cell
whose value was not seen is matched with the cell before it, from both ends of its value; the bytes
between stay literals. So does the first cell of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.format.compression import fast_crc32
from lakedex.format.deflate.codes import MAX_DISTANCE, MAX_MATCH
from lakedex.format.hfile.walk import CONTENT_START
from lakedex.format.hfile.words import WORD_SIZE, Bytes, Ints

LIKE_HEADER = 7
"""So many bytes of all headers are alike: all but the last of the value's length, and the key's."""

_FEWEST_CELLS = 16 * 1024
_LEAST_MATCH = 3


@dataclass(frozen=True)
class EvenCells:
    """Cells with keys of one length, end to end; cell i starts at `bounds[i]`."""

    data: Bytes
    bounds: Ints
    keys: Bytes
    values: pa.Array

    @property
    def width(self) -> int:
        """The length of every key."""
        return int(self.keys.shape[1])


def as_even_cells(
    data: memoryview, bounds: Ints, keys: pa.Array, values: pa.Array
) -> EvenCells | None:
    """The cells when they are of the kind that is deflated here, and many; None otherwise."""
    count = len(keys)
    if fast_crc32 is None or count < _FEWEST_CELLS or int(np.diff(bounds).max()) > MAX_MATCH:
        return None
    offsets = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset :][: count + 1]
    lengths = np.diff(offsets)
    width = int(lengths[0])
    if width < WORD_SIZE or (lengths != width).any():
        return None
    stored = np.frombuffer(keys.buffers()[2], np.uint8)[int(offsets[0]) : int(offsets[-1])]
    view = np.frombuffer(data, np.uint8)
    return EvenCells(view, bounds, stored.reshape(count, width), values)


class CellMatches:
    """Some blocks, with what is matched with what.

    Positions are those in `data`, which has a word more behind the last cell.
    """

    def __init__(self, cells: EvenCells, cuts: Ints) -> None:
        """Match the cells from `cuts[0]` on; block i is that from `cuts[i]` to `cuts[i + 1]`."""
        low, high = int(cuts[0]), int(cuts[-1])
        begin, end = int(cells.bounds[low]), int(cells.bounds[high])
        self.data = np.append(cells.data[begin:end], np.zeros(WORD_SIZE, np.uint8))
        self.bounds = cells.bounds[low : high + 1] - begin
        self.keys = cells.keys[low:high]
        self.cuts = cuts - low
        self.firsts = self.cuts[:-1]
        self.sizes = np.diff(self.bounds)
        self.tails = self.sizes - (CONTENT_START + cells.width)
        """From the end of the key to the end of the cell."""
        self.key_ends = self.bounds[:-1] + (CONTENT_START + cells.width)
        self.shared = self._shared()
        self._match_values(cells.values.slice(low, high - low))
        self._match_others()

    def _shared(self) -> int:
        """How many bytes all keys of each block share; keys ascend."""
        differ = self.keys[self.firsts] != self.keys[self.cuts[1:] - 1]
        return int(np.where(differ.any(axis=1), differ.argmax(axis=1), differ.shape[1]).min())

    def _match_values(self, values: pa.Array) -> None:
        """Find the cell before with the same value; how far matches reach into the next cell."""
        count = len(self.sizes)
        # A slice has fewer cells than a 16-bit number has values, unless a block alone has more.
        kinds = values.dictionary_encode().indices.to_numpy()
        kinds = kinds.astype(np.uint16) if count <= 1 << 16 else kinds
        order = np.argsort(kinds, kind="stable")
        again = np.flatnonzero(kinds[order[1:]] == kinds[order[:-1]])
        before = np.full(count, -1)
        before[order[again + 1]] = order[again]
        distances = self.key_ends - self.key_ends[before]
        block_starts = np.repeat(self.firsts, np.diff(self.cuts))
        self.seen = (before >= block_starts) & (distances <= MAX_DISTANCE)
        previous = np.arange(count) - 1
        partner = np.where(self.seen, before, previous)
        self.distances = self.key_ends - self.key_ends[partner]
        self.distances[self.firsts] = 1  # of no use: they are matched with nothing
        following = np.append(self.sizes[1:], 0)
        like = following == self.sizes[np.minimum(partner + 1, count - 1)]
        self.reach = np.where(like, CONTENT_START + self.shared, LIKE_HEADER)
        self.reach[self.firsts] = LIKE_HEADER
        self.reach[self.cuts[1:] - 1] = 0
        self.lengths = self.tails + self.reach

    def _match_others(self) -> None:
        """Match cells whose value was not seen with the cell before, from both ends."""
        is_new = ~self.seen
        is_new[self.firsts] = False
        self.new = new = np.flatnonzero(is_new)
        ends = self.key_ends[new]
        leading = _equal_after(self.data, ends, ends - self.distances[new], self.tails[new])
        self.lengths[new] = leading
        most = np.minimum(self.tails[new] - leading, self.sizes[new - 1] - WORD_SIZE)
        stops = self.bounds[new + 1]
        trailing = _equal_before(self.data, stops, stops - self.sizes[new], most)
        self.closing = trailing + self.reach[new]
        self.closing[self.closing < _LEAST_MATCH] = 0
        self.middles = ends + leading
        self.middle_counts = self.tails[new] + self.reach[new] - leading - self.closing

    def headers(self) -> tuple[Ints, Bytes, Ints, Ints]:
        """Cells whose header was not reached: its differing byte, and the match for the rest."""
        rows = np.flatnonzero(self.reach[:-1] == LIKE_HEADER) + 1
        differing = self.data[self.bounds[rows] + LIKE_HEADER]
        lengths = np.full(len(rows), 2 + self.shared)
        return rows, differing, lengths, self.sizes[rows - 1]


def _equal_after(data: Bytes, left: Ints, right: Ints, most: Ints) -> Ints:
    """How many bytes are equal from two places on, up to `most`; 8 are known to be."""
    words = np.ndarray((len(data) - WORD_SIZE + 1,), np.dtype("<u8"), data, 0, (1,))
    found = np.full(len(left), WORD_SIZE)
    active = np.arange(len(left))
    while len(active):
        differ = words[left[active] + found[active]] ^ words[right[active] + found[active]]
        # The lowest bit that is set, as a float, has its place as exponent.
        lowest = (differ & (~differ + np.uint64(1))).astype(np.float64).view(np.int64) >> 52
        found[active] += np.where(differ == 0, WORD_SIZE, (lowest - 1023) >> 3)
        active = active[(differ == 0) & (found[active] < most[active])]
    return np.minimum(found, most)


def _equal_before(data: Bytes, left: Ints, right: Ints, most: Ints) -> Ints:
    """How many bytes are equal before two places, up to `most`; at times a few less."""
    words = np.ndarray((len(data) - WORD_SIZE + 1,), np.dtype("<u8"), data, 0, (1,))
    found = np.zeros(len(left), np.int64)
    active = np.flatnonzero(most > 0)
    while len(active):
        back = found[active] + WORD_SIZE
        differ = words[left[active] - back] ^ words[right[active] - back]
        # As a float a number may be rounded up, which makes the equal part look shorter.
        highest = (differ.astype(np.float64).view(np.int64) >> 52) - 1023
        found[active] += np.where(differ == 0, WORD_SIZE, (63 - highest) >> 3)
        active = active[(differ == 0) & (found[active] < most[active])]
    return np.clip(found, 0, np.maximum(most, 0))
