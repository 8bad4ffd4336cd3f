"""Reads an HFile: opens it by its tail, then scans it or looks up keys.

    data blocks | meta blocks | root data index | meta index | file info | trailer

Opening reads the last 64 KiB, which except in large files contain everything from the root index
on, and at most one more range.

A lookup of keys, prefixes or ranges reads the blocks that they belong to. A key belongs to the last
block whose index key is not greater. Index keys may be shorter than the first key of their block,
so a key may belong to a block and sort before all of its cells; it is then not in the file. Equal
keys never span two blocks.

Many keys are searched together (`KeyLookup`). If they and the keys of the cells all have the same
length, no masks or padding are needed: the queries are the rows of one matrix, the 8 bytes after
the common prefix of all stored keys are searched as numbers, and at the end of the search the whole
key is compared in the buffer. If several keys share those 8 bytes, the next ones are tried; if many
do, the search of keys of any length (`SortedKeys`) takes over. A few keys are searched one by one
(`PointLookup`), because setting up arrays would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.hfile.block import (
    FILE_INFO_MAGIC,
    INTERMEDIATE_INDEX_MAGIC,
    LEAF_INDEX_MAGIC,
    META_MAGIC,
    ROOT_INDEX_MAGIC,
    BlockIndex,
    Place,
    block_index,
    check_magic,
    child_entries,
    decode_block,
    decode_payload,
    root_entries,
)
from lakedex.format.hfile.data_blocks import (
    GROUP_BYTES,
    CellGroup,
    Cells,
    DataBlocks,
    ReadCounters,
    concat_cells,
    empty_cells,
    read_stored,
)
from lakedex.format.hfile.keys import (
    WORD_SIZE,
    Bytes,
    Ints,
    KeyColumn,
    SortedKeys,
    key_column,
    sorted_once,
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
from lakedex.schema.field_paths import flat
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


UNSURE = -2
"""A row that needs another search, because too many keys share 8 bytes."""

_STEPS = 3
MOST_KEYS = 16
"""More keys are looked up faster together (`KeyLookup`)."""
_KEY_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
KeyRange = tuple[bytes, bytes | None]
"""From a key (inclusive) to another one (exclusive); None means no end."""


def key_matrix(keys: KeyColumn) -> Bytes | None:
    """The keys as rows of equal length; None if their lengths differ or are too short.

    The keys must be consecutive in their buffer, as those of `key_column`.

    Example:
        >>> import pyarrow as pa
        >>> from lakedex.format.hfile.keys import key_column
        >>> key_matrix(key_column(pa.array(["trip-001", "trip-002"]))).shape
        (2, 8)
        >>> key_matrix(key_column(pa.array(["trip-001", "trip-1"])))
    """
    count = len(keys)
    width = int(keys.lengths[0]) if count else 0
    if width < WORD_SIZE or int(keys.lengths.min()) != width or int(keys.lengths.max()) != width:
        return None
    return keys.data[: count * width].reshape(count, width)


def find_rows(group: CellGroup, queries: Bytes) -> Ints | None:
    """For each query the row of its cell (the first of several), -1 or `UNSURE`.

    None if the keys of the cells do not have the length of the queries.
    """
    fixed, keys = group.found.fixed_width, group.sorted_keys()
    if fixed is None or fixed.length != queries.shape[1] or not len(group):
        return None
    skip = len(keys.shared)
    if skip + WORD_SIZE > fixed.length:
        return None
    stored = fixed.words(skip)
    stored = keys.words if stored is None else stored
    heads = np.ascontiguousarray(queries[:, skip : skip + WORD_SIZE]).view("<u8").ravel()
    words = heads.byteswap()
    rows = np.searchsorted(stored, words)
    np.minimum(rows, len(group) - 1, out=rows)
    wrong = _differing(keys, rows, queries)
    for _ in range(_STEPS):
        # The next key is also a candidate while it has the same 8 bytes.
        following = np.minimum(rows[wrong] + 1, len(group) - 1)
        tied = stored[following] == words[wrong]
        rows[wrong] = np.where(tied, following, -1)
        wrong = wrong[tied]
        if not len(wrong):
            return rows
        wrong = wrong[_differing(keys, rows[wrong], queries[wrong])]
    rows[wrong] = UNSURE
    return rows


def _differing(keys: SortedKeys, rows: Ints, queries: Bytes) -> Ints:
    """The queries that differ from the key at their row, ascending."""
    width = queries.shape[1]
    at_every_byte = np.ndarray((len(keys.data) - width + 1,), f"V{width}", keys.data, 0, (1,))
    stored = at_every_byte[keys.starts[rows]].view(np.uint8)
    differing = np.flatnonzero(stored != queries.ravel()) // width
    return sorted_once(differing)


class PointLookup:
    """Keys to look up, in any order, with repetitions and nulls (which are never found)."""

    def __init__(self, keys: Sequence[bytes | None]) -> None:
        """Prepare the lookup of keys."""
        self._keys_by_query = [(query, key) for query, key in enumerate(keys) if key is not None]

    def index_rows(self, index: BlockIndex) -> Ints:
        """For each key that is not null the row of its block in the index, or -1."""
        return np.array(
            [index.keys.count_up_to(key) - 1 for _, key in self._keys_by_query], np.int64
        )

    def find(self, index_rows: Ints, groups: Iterator[CellGroup]) -> Cells:
        """The cells of the keys that are found, by ascending `query`.

        Of several cells with the same key the first is found.
        """
        found: dict[int, tuple[bytes, bytes]] = {}
        for group in groups:
            keys, blocks = group.sorted_keys(), set(group.blocks.tolist())
            pairs = zip(self._keys_by_query, index_rows.tolist(), strict=True)
            for (query, key), index_row in pairs:
                row = keys.row_of(key) if index_row in blocks else -1
                if row >= 0:
                    found[query] = key, group.value(row)
        ordered = [found[query] for query in sorted(found)]
        return Cells(
            pa.array([key for key, _ in ordered], pa.binary()),
            pa.array([value for _, value in ordered], pa.binary()),
            np.array(sorted(found), np.int64),
        )


def key_lookup(keys: pa.Array | pa.ChunkedArray) -> KeyLookup | PointLookup:
    """Choose the faster lookup for keys, which must be binary or string."""
    if keys.type not in _KEY_TYPES:
        raise InvalidInput(f"keys to look up must be binary or string, not {keys.type}")
    binary = flat(keys).cast(pa.binary())
    return PointLookup(binary.to_pylist()) if len(binary) <= MOST_KEYS else KeyLookup(binary)


class KeyLookup:
    """Keys to look up, in any order, with repetitions and nulls (which are never found)."""

    def __init__(self, array: pa.BinaryArray) -> None:
        """Prepare the lookup of keys."""
        self._keys = array
        self._row_of = np.arange(len(array))
        if array.null_count:
            self._row_of = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
            self._keys = self._keys.drop_null()
        column = key_column(self._keys)
        words = column.words(0)
        # Keys are searched in the order of the file, which uses the caches better.
        self._order = np.argsort(words)
        self._words = words[self._order]
        self._sorted = column.take(self._order)
        matrix = key_matrix(column)
        self._matrix = None if matrix is None else matrix[self._order]

    def index_rows(self, index: BlockIndex) -> Ints:
        """For each key, in the order of the search, the row of its block in the index.

        The index has few keys: they are searched among the requested ones, by their first 8 bytes,
        and only requested keys that share these with a key of the index are searched in it.
        """
        starts = index.keys.column().words(0)
        first = np.searchsorted(self._words, starts, "left")
        after = np.searchsorted(self._words, starts, "right")
        index_rows = np.cumsum(np.bincount(after, minlength=len(self._words) + 1)[:-1]) - 1
        tied = _join_ranges(first, after)
        if len(tied):
            index_rows[tied] = index.keys.upper_bound(self._sorted.take(tied)) - 1
        return index_rows

    def find(self, index_rows: Ints, groups: Iterator[CellGroup]) -> Cells:
        """The cells of the keys that are found, by ascending `query`.

        Of several cells with the same key the first is found.
        """
        at = np.full(len(self._keys), -1)
        values = [empty_cells().values]
        count = 0
        by_row = np.argsort(index_rows, kind="stable")
        sorted_rows = index_rows[by_row]
        for group in groups:
            first = np.searchsorted(sorted_rows, group.blocks[0], "left")
            last = np.searchsorted(sorted_rows, group.blocks[-1], "right")
            rows, part = self._find_in(group, by_row[first:last])
            at[rows] = np.arange(count, count + len(rows))
            count += len(rows)
            values.append(part)
        if count == len(at):
            keys, query = self._keys, self._row_of
        else:
            rows = np.flatnonzero(at >= 0)
            keys, query, at = self._keys.take(pa.array(rows)), self._row_of[rows], at[rows]
        return Cells(keys, pa.concat_arrays(values).take(pa.array(at)), query)

    def _find_in(self, group: CellGroup, mine: Ints) -> tuple[Ints, pa.BinaryArray]:
        """The keys, of those at `mine`, that are in the group, and their values."""
        rows = None if self._matrix is None else find_rows(group, self._matrix[mine])
        if rows is None:
            rows = self._find_any(group, mine)
        if len(rows) and int(rows.min()) < 0:
            unsure = np.flatnonzero(rows == UNSURE)
            if len(unsure):
                rows[unsure] = self._find_any(group, mine[unsure])
            there = np.flatnonzero(rows >= 0)
            mine, rows = mine[there], rows[there]
        return self._order[mine], group.values(rows)

    def _find_any(self, group: CellGroup, mine: Ints) -> Ints:
        """For each of the keys at `mine`, of any length, the row of its cell or -1."""
        rows = group.sorted_keys().candidates(self._sorted.take(mine))
        possible = np.flatnonzero(rows >= 0)
        wanted = self._keys.take(pa.array(self._order[mine[possible]]))
        equal = pc.equal(group.keys(rows[possible]), wanted)
        rows[possible[~equal.to_numpy(zero_copy_only=False)]] = -1
        return rows


def touched_rows(index_rows: Ints) -> Ints:
    """The distinct rows, ascending, without -1."""
    rows = sorted_once(index_rows)
    return rows[rows >= 0]


class RangeLookup:
    """Lookup of the cells in ranges of keys."""

    def __init__(self, ranges: Sequence[KeyRange]) -> None:
        """Use ranges that ascend and do not overlap; only the last one may have no end."""
        ends = [stop for _, stop in ranges]
        self._open_end = bool(ends) and ends[-1] is None
        self._starts = key_column(pa.array([start for start, _ in ranges], pa.binary()))
        self._ends = key_column(pa.array([end or b"" for end in ends], pa.binary()))

    def touched(self, index: BlockIndex) -> Ints:
        """The rows of the blocks that may contain a key of the ranges, ascending."""
        first = np.maximum(index.keys.upper_bound(self._starts) - 1, 0)
        return _join_ranges(first, self._close(index.keys.lower_bound(self._ends), len(index)))

    def find(self, groups: Iterator[CellGroup]) -> Iterator[Cells]:
        """The cells that are in one of the ranges, in key order."""
        for group in groups:
            keys = group.sorted_keys()
            first = keys.lower_bound(self._starts)
            rows = _join_ranges(first, self._close(keys.lower_bound(self._ends), len(group)))
            if len(rows):
                yield group.cells(rows)

    def _close(self, bounds: Ints, count: int) -> Ints:
        """The bounds of the ends of the ranges, of which the last may be open."""
        if self._open_end:
            bounds[-1] = count
        return bounds


def prefix_ranges(prefixes: Sequence[bytes]) -> list[KeyRange]:
    """The ranges of all keys that start with one of the prefixes, without redundant prefixes.

    Example:
        >>> prefix_ranges([b"b", b"ab", b"a"])
        [(b'a', b'b'), (b'b', b'c')]
    """
    kept: list[bytes] = []
    for prefix in sorted(set(prefixes)):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return [(prefix, after_prefix(prefix)) for prefix in kept]


def after_prefix(prefix: bytes) -> bytes | None:
    r"""The smallest key that is greater than all keys with the prefix; None if there is none.

    Example:
        >>> after_prefix(b"ab"), after_prefix(b"a\xff"), after_prefix(b"")
        (b'ac', b'b', None)
    """
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _join_ranges(starts: Ints, stops: Ints) -> Ints:
    """The distinct rows of ascending ranges."""
    lengths = np.maximum(stops - starts, 0)
    before = np.cumsum(lengths) - lengths
    rows = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return sorted_once(rows)
