"""Reads an HFile: opens it by its tail, then scans it or looks up keys.

    data blocks | meta blocks | root data index | meta index | file info | trailer

Opening reads the last 64 KiB, which except in large files contain everything from the root index
on, and at most one more range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.format.hfile.block import (
    FILE_INFO_MAGIC,
    INTERMEDIATE_INDEX_MAGIC,
    LEAF_INDEX_MAGIC,
    META_MAGIC,
    ROOT_INDEX_MAGIC,
    Place,
    check_magic,
    decode_block,
    decode_payload,
)
from lakedex.format.hfile.block_index import (
    BlockIndex,
    block_index,
    child_entries,
    root_entries,
)
from lakedex.format.hfile.data_blocks import (
    GROUP_BYTES,
    Cells,
    DataBlocks,
    ReadCounters,
    concat_cells,
    read_stored,
)
from lakedex.format.hfile.keys import Ints
from lakedex.format.hfile.lookup import (
    KeyRange,
    RangeLookup,
    key_lookup,
    prefix_ranges,
    touched_rows,
)
from lakedex.format.hfile.trailer import (
    AVERAGE_KEY_LENGTH,
    AVERAGE_VALUE_LENGTH,
    LAST_KEY,
    TRAILER_SIZE,
    Trailer,
    check_no_timestamps,
    decode_file_info,
    decode_trailer,
)
from lakedex.storage.source import ByteSource

_TAIL_BYTES = 64 * 1024
_KEY_LENGTH_SIZE = 2
_MAX_LOAD_ON_OPEN_BYTES = 128 * 1024 * 1024
_MAX_LEVELS = 8
_MAX_META_BLOCKS = 65536
_MIN_SCAN_BYTES = 128 * 1024 * 1024
_MAX_SCAN_RATIO = 64
_MAX_ARRAY_BYTES = 2**31 - 2**20
_MIN_BLOCK = 33


class HFileReader:
    """One HFile, open for reading.

    Example:
        >>> from lakedex.format.hfile import write_hfile
        >>> from lakedex.storage.source import MemorySource
        >>> data = write_hfile(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]))
        >>> reader = HFileReader(MemorySource(data))
        >>> reader.lookup(pa.array(["b", "c"])).values.to_pylist()
        [b'2']
    """

    def __init__(self, source: ByteSource) -> None:
        """Read trailer, indexes and file info of `source`."""
        self._source = source
        self._place = Place(source.path, source.base_offset)
        self.reads = ReadCounters()
        tail = self._read_tail()
        self._trailer = self._read_trailer(tail)
        self._load_on_open(tail)
        self._blocks = DataBlocks(source, self._trailer.codec, self.reads)

    @property
    def entry_count(self) -> int:
        """The number of cells, according to the trailer."""
        return self._trailer.entry_count

    @property
    def raw_bytes(self) -> int:
        """The approximate bytes of all keys and values, from the averages in the file info."""
        averages = (AVERAGE_KEY_LENGTH, AVERAGE_VALUE_LENGTH)
        noted = (self._file_info.get(name, b"") for name in averages)
        return self.entry_count * sum(int.from_bytes(each, "big") for each in noted)

    @property
    def held_bytes(self) -> int:
        """The bytes of the file that are cached for the next request."""
        return self._blocks.held_bytes

    @property
    def trailer(self) -> Trailer:
        """The trailer."""
        return self._trailer

    @property
    def file_info(self) -> dict[str, bytes]:
        """The file info map, by name."""
        return dict(self._file_info)

    @property
    def last_key(self) -> bytes | None:
        """The key of the last cell, as the file info notes it; None where it does not."""
        stored = self._file_info.get(LAST_KEY, b"")
        length = int.from_bytes(stored[:_KEY_LENGTH_SIZE], "big")
        key = stored[_KEY_LENGTH_SIZE : _KEY_LENGTH_SIZE + length]
        return key if length and len(key) == length else None

    def meta_block(self, name: str) -> bytes | None:
        """The content of a meta block, such as `bloomFilter`, or None."""
        entry = self._meta_index.get(name.encode())
        if entry is None:
            return None
        offset, size = entry
        if offset < 0 or offset + size > self._trailer.load_on_open_offset:
            raise self._place.fail(0, "a meta block before the index", f"offset {offset}")
        data = memoryview(self._read(offset, size))
        place = Place(self._place.path, self._place.offset + offset)
        return decode_block(data, 0, self._trailer.codec, place, META_MAGIC)[0]

    def scan(self) -> Cells:
        """All cells, in key order.

        Raises:
            InvalidInput: The file is too large for one array; use `scan_batches`.
        """
        limit = min(max(_MIN_SCAN_BYTES, _MAX_SCAN_RATIO * self._source.size), _MAX_ARRAY_BYTES)
        parts: list[Cells] = []
        total = 0
        for part in self.scan_batches(max_bytes=GROUP_BYTES):
            total += part.keys.nbytes + part.values.nbytes
            if total > limit:
                raise InvalidInput(f"{self._place.path} is too large to scan at once")
            parts.append(part)
        return concat_cells(parts)

    def scan_batches(self, max_bytes: int = GROUP_BYTES) -> Iterator[Cells]:
        """All cells, in key order, about `max_bytes` of raw data at a time."""
        index = self._leaf_index(_all_rows)
        count = 0
        for group in self._blocks.groups(index, _all_rows(index), max_bytes=max_bytes):
            count += len(group)
            if len(group):
                yield group.cells()
        if count != self.entry_count:
            raise self._place.fail(0, f"{self.entry_count} cells, as in the trailer", count)

    def lookup(self, keys: pa.Array | pa.ChunkedArray) -> Cells:
        """The cells of those `keys` that exist, by ascending `query`.

        Keys may be in any order and repeat; `query` is the number of the key of a cell.
        """
        wanted = key_lookup(keys)
        index = self._leaf_index(lambda each: touched_rows(wanted.index_rows(each)))
        index_rows = wanted.index_rows(index)
        return wanted.find(index_rows, self._blocks.groups(index, touched_rows(index_rows)))

    def scan_prefixes(self, prefixes: Sequence[bytes]) -> Cells:
        """The cells whose keys start with one of `prefixes`, each once, in key order."""
        return self.scan_ranges(prefix_ranges(prefixes))

    def scan_ranges(self, ranges: Sequence[KeyRange]) -> Cells:
        """The cells of ranges that ascend and do not overlap, in key order.

        Example:
            >>> from lakedex.format.hfile import write_hfile
            >>> from lakedex.storage.source import MemorySource
            >>> data = write_hfile(pa.array([b"a", b"b", b"c"]), pa.array([b"1", b"2", b"3"]))
            >>> HFileReader(MemorySource(data)).scan_ranges([(b"aa", b"c")]).keys.to_pylist()
            [b'b']
        """
        if not ranges:
            return concat_cells([])
        wanted = RangeLookup(ranges)
        index = self._leaf_index(wanted.touched)
        return concat_cells(list(wanted.find(self._blocks.groups(index, wanted.touched(index)))))

    def share_of(self, ranges: Sequence[KeyRange]) -> float:
        """The share of the blocks in the file that may contain keys of some ranges."""
        if not ranges or not self.entry_count:
            return 0.0
        wanted = RangeLookup(ranges)
        index = self._leaf_index(wanted.touched)
        stored = int(index.sizes[wanted.touched(index)].sum())
        return min(1.0, stored / max(1, self._trailer.load_on_open_offset))

    def _read(self, start: int, length: int) -> bytes:
        """Read and count bytes."""
        self.reads.bytes += length
        self.reads.requests += 1
        return self._source.read(start, length)

    def _read_tail(self) -> bytes:
        """The last bytes of the file: the trailer and the bytes before it."""
        size = self._source.size
        if size < TRAILER_SIZE:
            raise self._place.fail(0, "an HFile of at least 4096 bytes", f"{size} bytes")
        length = min(size, _TAIL_BYTES)
        return self._read(size - length, length)

    def _read_trailer(self, tail: bytes) -> Trailer:
        """Decode the trailer and check its numbers against the size of the file."""
        end = self._source.size - TRAILER_SIZE
        place = self._place
        trailer = decode_trailer(tail[-TRAILER_SIZE:], path=place.path, offset=place.offset + end)
        if not max(0, end - _MAX_LOAD_ON_OPEN_BYTES) <= trailer.load_on_open_offset <= end:
            raise place.fail(end, f"a load-on-open offset up to {end}", trailer.load_on_open_offset)
        if not 1 <= trailer.data_index_levels <= _MAX_LEVELS:
            raise place.fail(end, "1 to 8 index levels", trailer.data_index_levels)
        most = trailer.load_on_open_offset // _MIN_BLOCK
        if trailer.data_index_count > most:
            raise place.fail(end, f"at most {most} data blocks", trailer.data_index_count)
        if trailer.meta_index_count > min(most, _MAX_META_BLOCKS):
            raise place.fail(end, f"at most {most} meta blocks", trailer.meta_index_count)
        return trailer

    def _load_on_open(self, tail: bytes) -> None:
        """Decode root index, meta index and file info, which are consecutive."""
        trailer, size = self._trailer, self._source.size
        start = trailer.load_on_open_offset
        held = size - len(tail)
        data = tail[max(start - held, 0) : len(tail) - TRAILER_SIZE]
        if start < held:
            data = self._read(start, held - start) + data
        place = Place(self._place.path, self._place.offset + start)
        view = memoryview(data)
        root, end = decode_block(view, 0, trailer.codec, place, ROOT_INDEX_MAGIC)
        entries = root_entries(root, trailer.data_index_count, place)
        self._root = block_index([entries], end=start, place=place)
        meta, info_start = decode_block(view, end, trailer.codec, place, ROOT_INDEX_MAGIC)
        meta_place = Place(place.path, place.offset + end)
        named = root_entries(meta, trailer.meta_index_count, meta_place)
        self._meta_index = {
            named.key(row): (int(named.offsets[row]), int(named.sizes[row]))
            for row in range(trailer.meta_index_count)
        }
        info, _ = decode_block(view, info_start, trailer.codec, place, FILE_INFO_MAGIC)
        self._file_info = decode_file_info(info, path=place.path, offset=place.offset + info_start)
        check_no_timestamps(self._file_info, path=place.path)

    def _leaf_index(self, touched: Callable[[BlockIndex], Ints]) -> BlockIndex:
        """The index of data blocks, from the index blocks that `touched` selects on each level."""
        index = self._root
        for _ in range(self._trailer.data_index_levels - 1):
            rows = touched(index)
            if not len(rows):
                return block_index([], end=0, place=self._place)
            stored = read_stored(self._source, index, rows, self.reads)
            parts = []
            for block in stored:
                check_magic(
                    block.header,
                    (LEAF_INDEX_MAGIC, INTERMEDIATE_INDEX_MAGIC),
                    block.header.payload_start - _MIN_BLOCK,
                    block.place,
                )
                raw = decode_payload(block.view, block.header, self._trailer.codec, block.place)
                parts.append(child_entries(raw, block.place))
            end = self._trailer.load_on_open_offset
            index = block_index(parts, end=end, place=self._place)
        return index


def _all_rows(index: BlockIndex) -> Ints:
    """Every row of an index."""
    return np.arange(len(index))
