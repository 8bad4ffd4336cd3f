"""Data blocks and their cells, the key-value pairs of an HFile.

Only the blocks that a request needs are read, and each is inflated once, in groups of bounded size.
Several threads may read one file at the same time, because queries share a snapshot.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.format.hfile.block import (
    DATA_MAGIC,
    BlockHeader,
    BlockIndex,
    Place,
    check_magic,
    decode_header,
    decode_payload,
)
from lakedex.format.hfile.cell_starts import (
    CONTENT_START,
    KEY_SUFFIX,
    BrokenCell,
    FoundCells,
    find_cells,
    find_fixed_width_cells,
)
from lakedex.format.hfile.keys import PADDING, Ints, SortedKeys
from lakedex.format.hfile.trailer import Codec
from lakedex.storage.source import ByteSource

GROUP_BYTES = 5 * 1024 * 1024
"""The number of raw bytes that are decoded at a time; a larger block is a group of its own."""
_READ_BYTES = 4 * 1024 * 1024
_CACHE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cells:
    """Key-value pairs; an empty value is an ordinary value (Hudi reads it as deleted).

    `query` is the number of the requested key to which each pair belongs.
    """

    keys: pa.BinaryArray
    values: pa.BinaryArray
    query: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.keys)


def empty_cells() -> Cells:
    """Return no cells."""
    return Cells(pa.array([], pa.binary()), pa.array([], pa.binary()))


def concat_cells(parts: Sequence[Cells]) -> Cells:
    """Concatenate the pairs of all parts, without `query`."""
    if not parts:
        return empty_cells()
    return Cells(
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays([part.values for part in parts]),
    )


@dataclass(frozen=True, slots=True)
class CellGroup:
    """Consecutive raw data blocks in one buffer, with the starts of all their cells.

    The buffer is reused for the next group, so callers copy what they need first.
    """

    data: bytearray
    found: FoundCells
    end: int
    blocks: npt.NDArray[np.int64]
    """The numbers of the blocks, ascending."""

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.starts)

    @property
    def starts(self) -> Ints:
        """The starts of the cells in the buffer."""
        return self.found.starts

    def sorted_keys(self) -> SortedKeys:
        """The keys, for searching."""
        data = np.frombuffer(self.data, np.uint8)
        return SortedKeys(data, self.starts + CONTENT_START, self.found.shortest_key)

    def cells(self, rows: Ints | None = None) -> Cells:
        """Copy the cells at `rows`, or all cells, to Arrow columns."""
        return Cells(self.keys(rows), self.values(rows))

    def keys(self, rows: Ints | None = None) -> pa.BinaryArray:
        """Copy the keys of the cells at `rows`, or of all cells."""
        starts = self.starts if rows is None else self.starts[rows]
        return _gather(self.data, starts + CONTENT_START, self._key_ends(starts))

    def values(self, rows: Ints | None = None) -> pa.BinaryArray:
        """Copy the values of the cells at `rows`, or of all cells."""
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
        """The ends of the contents of the keys of the cells at `starts`."""
        ends: Ints
        if self.found.fixed_width is not None:
            ends = starts + (CONTENT_START + self.found.fixed_width.length)
            return ends
        data = np.frombuffer(self.data, np.uint8)
        lengths = (data[starts + 8].astype(np.int64) << 8) | data[starts + 9]
        ends = starts + CONTENT_START + lengths
        return ends


def _gather(data: bytearray, starts: Ints, ends: Ints) -> pa.BinaryArray:
    """Copy the bytes of ranges, which may be in any order, to one array.

    Arrow views the buffer as an array with one slot for each range and one for each gap after it;
    `take` copies the former. Ranges that are not in order are first sorted by their start.
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


@dataclass(slots=True)
class ReadCounters:
    """The data blocks, bytes and requests that have been read from a file so far."""

    blocks: int = 0
    bytes: int = 0
    requests: int = 0


class StoredBlock(NamedTuple):
    """One block before it is inflated."""

    view: memoryview
    header: BlockHeader
    place: Place


@dataclass(frozen=True, slots=True)
class _CachedBlock:
    """One inflated block with the starts of its cells."""

    raw: bytes
    starts: Ints


def read_stored(
    source: ByteSource, index: BlockIndex, rows: Ints, reads: ReadCounters
) -> list[StoredBlock]:
    """Read the blocks at `rows` of the index (ascending), neighbouring ones as one range."""
    offsets, sizes = index.offsets[rows], index.sizes[rows]
    breaks = np.flatnonzero(offsets[1:] != offsets[:-1] + sizes[:-1]) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.append(breaks, len(rows)) - 1
    lengths = offsets[lasts] + sizes[lasts] - offsets[firsts]
    ranges = list(zip(offsets[firsts].tolist(), lengths.tolist(), strict=True))
    read = source.read_many(ranges)
    reads.bytes += int(lengths.sum())
    reads.requests += 1
    views = [memoryview(data) for data in read]
    places = [Place(source.path, source.base_offset + start) for start, _ in ranges]
    run = np.repeat(np.arange(len(firsts)), lasts - firsts + 1).tolist()
    inside = (offsets - np.repeat(offsets[firsts], lasts - firsts + 1)).tolist()
    blocks = []
    for which, position, size in zip(run, inside, sizes.tolist(), strict=True):
        header = decode_header(views[which], position, places[which])
        if header.end != position + size:
            raise places[which].fail(
                position, f"a block of {size} bytes, as in its index", header.end - position
            )
        blocks.append(StoredBlock(views[which], header, places[which]))
    return blocks


class DataBlocks:
    """The data blocks of one file."""

    def __init__(self, source: ByteSource, codec: Codec, reads: ReadCounters) -> None:
        """Read from `source`, and update the counters `reads`."""
        self._source = source
        self._codec = codec
        self._reads = reads
        self._cache: OrderedDict[int, _CachedBlock] = OrderedDict()
        self._cached_bytes = 0
        self._guard = threading.Lock()
        self._spare: list[bytearray] = []
        self._may_be_fixed_width = True

    @property
    def held_bytes(self) -> int:
        """The bytes of the cached blocks."""
        return self._cached_bytes

    def groups(
        self, index: BlockIndex, rows: Ints, *, max_bytes: int = GROUP_BYTES
    ) -> Iterator[CellGroup]:
        """The blocks at `rows` of the index (ascending), as groups of about `max_bytes` raw bytes.

        Blocks of small requests are cached for the next request.
        """
        if not len(rows):
            return
        batches = _cut(index.sizes[rows], min(_READ_BYTES, max(max_bytes, 1)))
        buffer = self._own_buffer()
        for first, last in batches:
            batch = rows[first:last]
            cached = self._from_cache(index, batch)
            if cached is not None:
                yield cached
                continue
            stored = read_stored(self._source, index, batch, self._reads)
            self._reads.blocks += len(stored)
            raw_sizes = np.array([block.header.raw_size for block in stored], np.int64)
            keep = len(batches) == 1 and int(raw_sizes.sum()) <= _CACHE_BYTES // 4
            for start, stop in _cut(raw_sizes, max_bytes):
                group, bounds = self._decode(buffer, stored[start:stop], batch[start:stop])
                buffer = group.data
                if keep:
                    self._keep(index, group, bounds)
                yield group
        # If a walk has not finished, its caller may still use the last group.
        self._spare = [buffer]

    def _own_buffer(self) -> bytearray:
        """A buffer that no other walk uses, preferably that of a finished walk."""
        try:
            return self._spare.pop()
        except IndexError:
            return bytearray()

    def _decode(
        self, buffer: bytearray, stored: Sequence[StoredBlock], rows: Ints
    ) -> tuple[CellGroup, Ints]:
        """Inflate blocks into the buffer, or a larger one, and find their cells."""
        sizes = [block.header.raw_size for block in stored]
        bounds = np.cumsum([0, *sizes])
        position = 0
        for block, size in zip(stored, sizes, strict=True):
            check_magic(block.header, (DATA_MAGIC,), block.header.payload_start - 33, block.place)
            raw = decode_payload(block.view, block.header, self._codec, block.place)
            if len(buffer) < position + size + PADDING:
                buffer = _larger(buffer, position, int(bounds[-1]))
            # Assigning bytes to a bytearray copies them first; assigning to a view of it does not.
            memoryview(buffer)[position : position + size] = raw
            position += size
        try:
            found = self._find(buffer, bounds)
        except BrokenCell as broken:
            at = int(np.searchsorted(bounds, broken.position, "right")) - 1
            inside = broken.position - int(bounds[at])
            raise _broken(stored[at], inside, broken.found) from None
        return CellGroup(buffer, found, position, rows), bounds

    def _find(self, buffer: bytearray, bounds: Ints) -> FoundCells:
        """The cells in a buffer; a method that failed for one group is not tried again."""
        found = find_fixed_width_cells(buffer, bounds) if self._may_be_fixed_width else None
        self._may_be_fixed_width = found is not None
        return find_cells(buffer, bounds) if found is None else found

    def _from_cache(self, index: BlockIndex, rows: Ints) -> CellGroup | None:
        """The blocks as a group, if all of them are cached."""
        offsets = index.offsets[rows].tolist()
        with self._guard:
            if not all(offset in self._cache for offset in offsets):
                return None
            blocks = [self._cache[offset] for offset in offsets]
            for offset in offsets:
                self._cache.move_to_end(offset)
        bounds = np.cumsum([0, *(len(block.raw) for block in blocks)])
        starts = [block.starts + base for block, base in zip(blocks, bounds, strict=False)]
        data = bytearray().join([*(block.raw for block in blocks), bytes(PADDING)])
        return CellGroup(data, FoundCells(np.concatenate(starts), 0), int(bounds[-1]), rows)

    def _keep(self, index: BlockIndex, group: CellGroup, bounds: Ints) -> None:
        """Cache the blocks of a group, and evict the least recently used ones."""
        cuts = np.searchsorted(group.starts, bounds)
        for nth, offset in enumerate(index.offsets[group.blocks].tolist()):
            low, high = int(bounds[nth]), int(bounds[nth + 1])
            starts = group.starts[cuts[nth] : cuts[nth + 1]] - low
            block = _CachedBlock(bytes(memoryview(group.data)[low:high]), starts)
            with self._guard:
                self._forget(self._cache.pop(offset, None))
                self._cache[offset] = block
                self._cached_bytes += high - low + starts.nbytes
        with self._guard:
            while self._cached_bytes > _CACHE_BYTES:
                self._forget(self._cache.popitem(last=False)[1])

    def _forget(self, block: _CachedBlock | None) -> None:
        """Subtract a block's bytes from the count."""
        if block is not None:
            self._cached_bytes -= len(block.raw) + block.starts.nbytes


def _larger(buffer: bytearray, used: int, needed: int) -> bytearray:
    """A larger buffer with the used bytes of another one, which may still be in use."""
    larger = bytearray(needed + PADDING)
    larger[:used] = buffer[:used]
    return larger


def _cut(sizes: Ints, most: int) -> list[tuple[int, int]]:
    """Split sizes into runs with sums of at most `most`; a larger one is a run of its own."""
    sums = np.concatenate([[0], np.cumsum(sizes)])
    runs = []
    start = 0
    while start < len(sizes):
        stop = int(np.searchsorted(sums, sums[start] + most, "right")) - 1
        stop = max(stop, start + 1)
        runs.append((start, stop))
        start = stop
    return runs


def _broken(block: StoredBlock, inside: int, found: str) -> CorruptFile:
    """The error for a cell at byte `inside` of a block's raw data."""
    return block.place.fail(
        block.header.payload_start,
        f"a cell at byte {inside} of the block's raw data",
        found,
    )
