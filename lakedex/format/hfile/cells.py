"""Cells, the key-value pairs of an HFile, as Arrow columns and as a group of raw blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.hfile.sorted_keys import SortedKeys
from lakedex.format.hfile.walk import CONTENT_START, KEY_SUFFIX, FoundCells
from lakedex.format.hfile.words import Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """Key-value pairs; an empty value is a pair like any other (Hudi reads it as deleted).

    `query` says for each pair which of the keys that were asked for it answers.
    """

    keys: pa.BinaryArray
    values: pa.BinaryArray
    query: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.keys)


def empty_cells() -> Cells:
    """No cells."""
    return Cells(pa.array([], pa.binary()), pa.array([], pa.binary()))


def concat_cells(parts: Sequence[Cells]) -> Cells:
    """The pairs of all parts, in order; `query` is not kept."""
    if not parts:
        return empty_cells()
    return Cells(
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays([part.values for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class CellGroup:
    """Some raw data blocks end to end in one buffer, with the starts of all their cells.

    The buffer is used again for the next group: take out what you need before.
    """

    data: bytearray
    found: FoundCells
    end: int
    blocks: npt.NDArray[np.int64]
    """The numbers of the blocks, ascending."""

    def __len__(self) -> int:
        """How many cells there are."""
        return len(self.starts)

    @property
    def starts(self) -> Ints:
        """Where the cells start in the buffer."""
        return self.found.starts

    def sorted_keys(self) -> SortedKeys:
        """The keys, to search in."""
        data = np.frombuffer(self.data, np.uint8)
        return SortedKeys(data, self.starts + CONTENT_START, self.found.shortest_key)

    def cells(self, rows: Ints | None = None) -> Cells:
        """The cells at `rows`, or all, as Arrow columns of their own memory."""
        return Cells(self.keys(rows), self.values(rows))

    def keys(self, rows: Ints | None = None) -> pa.BinaryArray:
        """The keys of the cells at `rows`, or of all."""
        starts = self.starts if rows is None else self.starts[rows]
        return _gather(self.data, starts + CONTENT_START, self._key_ends(starts))

    def values(self, rows: Ints | None = None) -> pa.BinaryArray:
        """The values of the cells at `rows`, or of all."""
        if rows is None:
            starts = self.starts
            ends = np.append(starts[1:], self.end)
        else:
            starts = self.starts[rows]
            last = rows == len(self) - 1
            ends = self.starts.take(rows + 1, mode="clip")
            ends[last] = self.end
        return _gather(self.data, self._key_ends(starts) + len(KEY_SUFFIX), ends - 1)

    def value(self, row: int) -> bytes:
        """The value of one cell."""
        start = int(self.starts[row])
        end = int(self.starts[row + 1]) if row + 1 < len(self) else self.end
        content = int.from_bytes(self.data[start + 8 : start + CONTENT_START], "big")
        return bytes(self.data[start + CONTENT_START + content + len(KEY_SUFFIX) : end - 1])

    def _key_ends(self, starts: Ints) -> Ints:
        """Where the contents of the keys end, of the cells at `starts`."""
        ends: Ints
        if self.found.even is not None:
            ends = starts + (CONTENT_START + self.found.even.length)
            return ends
        data = np.frombuffer(self.data, np.uint8)
        lengths = (data[starts + 8].astype(np.int64) << 8) | data[starts + 9]
        ends = starts + CONTENT_START + lengths
        return ends


def _gather(data: bytearray, starts: Ints, ends: Ints) -> pa.BinaryArray:
    """The bytes of each range as one array; ranges may be in any order.

    Arrow views the buffer as an array with one slot for each range and one for each gap that
    follows it; taking the former copies them together. Ranges that go back need their order
    first, which a sort by start gives.
    """
    count = len(starts)
    order: Ints | None = None
    if count > 1 and not (starts[1:] >= ends[:-1]).all():
        unique, order = np.unique(starts, return_inverse=True)
        lengths = np.zeros(len(unique), np.int64)
        lengths[order] = ends - starts
        starts, ends = unique, unique + lengths
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    slots = pa.BinaryArray.from_buffers(
        pa.binary(),
        max(len(offsets) - 1, 0),
        [None, pa.py_buffer(offsets), pa.py_buffer(data)],
    )
    rows = np.arange(0, len(offsets), 2) if order is None else order * 2
    return pc.take(slots, pa.array(rows), boundscheck=False)
