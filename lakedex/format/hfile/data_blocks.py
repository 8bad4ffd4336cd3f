"""Reading data blocks: only those asked for, each inflated once, in groups of bounded size.

Several threads may read one file at the same time, as queries that share a snapshot do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lakedex.errors import CorruptFile
from lakedex.format.hfile.block import (
    DATA_MAGIC,
    BlockHeader,
    Place,
    check_magic,
    decode_header,
    decode_payload,
)
from lakedex.format.hfile.block_index import BlockIndex
from lakedex.format.hfile.cells import CellGroup
from lakedex.format.hfile.even_cells import find_even_cells
from lakedex.format.hfile.trailer import Codec
from lakedex.format.hfile.walk import BrokenCell, FoundCells, find_cells
from lakedex.format.hfile.words import PADDING, Ints
from lakedex.storage.source import ByteSource

GROUP_BYTES = 5 * 1024 * 1024
"""How many raw bytes are decoded at a time; a single larger block makes a larger group."""

_READ_BYTES = 4 * 1024 * 1024
_CACHE_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class ReadCounters:
    """What has been read from a file so far: data blocks, bytes and requests of any kind."""

    blocks: int = 0
    bytes: int = 0
    requests: int = 0


class StoredBlock(NamedTuple):
    """One block as it was read, not yet inflated."""

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
    """Read the index's blocks at `rows` (ascending); neighbours are read as one range."""
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
                position, f"a block of {size} bytes, as its index says", header.end - position
            )
        blocks.append(StoredBlock(views[which], header, places[which]))
    return blocks


class DataBlocks:
    """The data blocks of one file."""

    def __init__(self, source: ByteSource, codec: Codec, reads: ReadCounters) -> None:
        """Read from `source`, and count in `reads`."""
        self._source = source
        self._codec = codec
        self._reads = reads
        self._cache: OrderedDict[int, _CachedBlock] = OrderedDict()
        self._cached_bytes = 0
        self._guard = threading.Lock()
        self._spare: list[bytearray] = []
        self._may_be_even = True

    @property
    def held_bytes(self) -> int:
        """The bytes of the blocks that are kept."""
        return self._cached_bytes

    def groups(
        self, index: BlockIndex, rows: Ints, *, max_bytes: int = GROUP_BYTES
    ) -> Iterator[CellGroup]:
        """The index's blocks at `rows` (ascending), as groups of about `max_bytes` raw bytes.

        Blocks of small requests are kept for the next request.
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
        # Of a walk that is not gone to its end somebody may still look at the last group.
        self._spare = [buffer]

    def _own_buffer(self) -> bytearray:
        """A buffer that no other walk uses: that of one that has ended, if there is one."""
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
            # A bytearray makes a copy of bytes before it takes them in; a view of it does not.
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
        """The cells in a buffer; what did not work for one group is not tried again."""
        found = find_even_cells(buffer, bounds) if self._may_be_even else None
        self._may_be_even = found is not None
        return find_cells(buffer, bounds) if found is None else found

    def _from_cache(self, index: BlockIndex, rows: Ints) -> CellGroup | None:
        """The blocks as a group when all of them are kept."""
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
        """Keep the blocks of a group, and forget those not used for longest."""
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
        """Take a block's bytes off the count."""
        if block is not None:
            self._cached_bytes -= len(block.raw) + block.starts.nbytes


def _larger(buffer: bytearray, used: int, needed: int) -> bytearray:
    """A larger buffer with what was used of another; that may still be looked at."""
    larger = bytearray(needed + PADDING)
    larger[:used] = buffer[:used]
    return larger


def _cut(sizes: Ints, most: int) -> list[tuple[int, int]]:
    """Cut sizes into runs of at most `most` in sum; a larger one is a run of its own."""
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
