"""Lookup of keys, prefixes and ranges: their blocks, and the matching cells of those blocks.

A key belongs to the last block whose index key is not greater. Index keys may be shorter than the
first key of their block, so a key may belong to a block and sort before all of its cells; it is
then not in the file. Equal keys never span two blocks.

Many keys are searched together (`KeyLookup`). If they and the keys of the cells all have the same
length, no masks or padding are needed: the queries are the rows of one matrix, the 8 bytes after
the common prefix of all stored keys are searched as numbers, and at the end of the search the whole
key is compared in the buffer. If several keys share those 8 bytes, the next ones are tried; if many
do, the search of keys of any length (`SortedKeys`) takes over. A few keys are searched one by one
(`PointLookup`), because setting up arrays would take longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.hfile.block_index import BlockIndex
from lakedex.format.hfile.data_blocks import CellGroup, Cells, empty_cells
from lakedex.format.hfile.keys import (
    WORD_SIZE,
    Bytes,
    Ints,
    KeyColumn,
    SortedKeys,
    key_column,
    sorted_once,
)
from lakedex.schema.field_paths import flat

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
