"""One file of a metadata file group: a base HFile, or a log file with HFiles for blocks.

What to read is a selection: all cells, some keys, some key prefixes or ranges. Only the HFile
blocks that the selection touches are read; delete blocks are small and always read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.format.hfile import Cells, HFileReader, KeyRange, prefix_ranges
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_delete_block,
    hfile_of,
    read_blocks,
)
from lakedex.storage.source import ByteSource

NO_BYTES = pa.scalar(0, pa.int32())
"""The length of the value of a deleted key. A bare 0 would have its type guessed each time."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cells to read; all None means all of them."""

    keys: pa.Array | None = None
    prefixes: tuple[str, ...] | None = None
    ranges: tuple[KeyRange, ...] | None = None

    def read(self, reader: HFileReader) -> Cells:
        """The selected cells of an HFile."""
        if self.keys is not None:
            return reader.lookup(self.keys.cast(pa.binary()))
        if self.prefixes is not None:
            return reader.scan_prefixes([prefix.encode() for prefix in self.prefixes])
        if self.ranges is not None:
            return reader.scan_ranges(self.ranges)
        return reader.scan()

    def chosen(self, keys: pa.Array) -> pa.Array:
        """Those of the given keys that the selection names."""
        if not len(keys):
            return keys
        if self.keys is not None:
            return keys.filter(pc.is_in(keys, value_set=self.keys))
        if self.prefixes is not None:
            ranges = prefix_ranges([prefix.encode() for prefix in self.prefixes])
            return keys.filter(_in_ranges(keys.cast(pa.binary()), ranges))
        if self.ranges is not None:
            return keys.filter(_in_ranges(keys.cast(pa.binary()), self.ranges))
        return keys


@dataclass(slots=True, eq=False)
class RawCells:
    """Cells whose values are not decoded yet; no values at all for deleted keys."""

    keys: pa.Array
    values: pa.Array | None
    path: str
    schema_text: str
    records: dict[tuple[str, ...], pa.Table] | None = field(default=None, repr=False)
    """Their records by columns, as far as they were decoded, where cells are kept to be asked
    for again."""

    @property
    def held_bytes(self) -> int:
        """How much memory they take."""
        tables = list((self.records or {}).values())
        own = self.keys.nbytes + (0 if self.values is None else self.values.nbytes)
        return own + sum(table.nbytes for table in tables)


class CellFile:
    """One file of a group, opened as far as somebody asked for it."""

    def __init__(self, source: ByteSource, may_keep: Callable[[int], bool]) -> None:
        """Open nothing yet; `may_keep` says whether so many bytes more may stay in memory."""
        self._source = source
        self._may_keep = may_keep
        self._base: HFileReader | None = None
        self._blocks: list[LogBlock] | None = None
        self._readers: dict[int, HFileReader] = {}
        self._deletes: dict[int, pa.Array] = {}

    @property
    def base(self) -> HFileReader:
        """The reader of a base HFile."""
        if self._base is None:
            self._base = HFileReader(self._source)
        return self._base

    @property
    def blocks(self) -> Sequence[LogBlock]:
        """All blocks of a log file, those that do not count too."""
        if self._blocks is None:
            self._blocks = read_blocks(self._source)
        return self._blocks

    def base_cells(self, selection: Selection) -> list[RawCells]:
        """The selected cells of a base HFile."""
        text = self.base.file_info.get("schema", b"").decode("utf-8", "replace")
        return _split(selection.read(self.base), self._source.path, text)

    def block_cells(self, block: LogBlock, selection: Selection) -> list[RawCells]:
        """The selected cells of one block of a log file."""
        if block.kind is BlockKind.DELETE:
            keys = selection.chosen(self.deleted_keys(block))
            return [RawCells(keys, None, block.path, "")]
        return _split(selection.read(self.block_reader(block)), block.path, block.schema_text)

    def deleted_keys(self, block: LogBlock) -> pa.Array:
        """The keys that a delete block names."""
        if block.offset in self._deletes:
            return self._deletes[block.offset]
        keys = decode_delete_block(block).keys
        if self._may_keep(keys.nbytes):
            self._deletes[block.offset] = keys
        return keys

    def block_reader(self, block: LogBlock) -> HFileReader:
        """The HFile that a block is."""
        if block.kind is not BlockKind.HFILE_DATA:
            raise CorruptFile(block.path, block.offset, expected="HFile block", actual=block.kind)
        if block.offset in self._readers:
            return self._readers[block.offset]
        reader = hfile_of(block)
        if self._may_keep(reader.raw_bytes):
            self._readers[block.offset] = reader
        return reader


def _split(cells: Cells, path: str, schema_text: str) -> list[RawCells]:
    """The cells of one HFile; an empty value is a deleted key."""
    if len(cells.keys) == 0:
        return []
    keys = _as_text(cells.keys, path)
    emptied = pc.equal(pc.binary_length(cells.values), NO_BYTES)
    if not pc.any(emptied).as_py():
        return [RawCells(keys, cells.values, path, schema_text)]
    present = pc.invert(emptied)
    return [
        RawCells(keys.filter(emptied), None, path, ""),
        RawCells(keys.filter(present), cells.values.filter(present), path, schema_text),
    ]


def _as_text(keys: pa.Array, path: str) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile(path, 0, expected="keys in UTF-8", actual=error) from error


def _in_ranges(keys: pa.Array, ranges: Sequence[KeyRange]) -> pa.Array:
    """Which keys lie in ranges that ascend and do not overlap, all looked at in one go."""
    count = len(ranges)
    starts = pa.array([start for start, _ in ranges], keys.type)
    order = pc.sort_indices(pa.concat_arrays([starts, keys])).to_numpy().astype(np.int64)
    # The sort is stable: the last start before a key, or equal to it, is that of its range.
    last = np.maximum.accumulate(np.where(order < count, order, -1))
    mine = np.empty(len(keys), dtype=np.int64)
    mine[order[order >= count] - count] = last[order >= count]
    stops = pa.array([stop for _, stop in ranges], keys.type)
    before = pc.less(keys, stops.take(pa.array(mine, mask=mine < 0)))
    # Without a start there is no range, and without a stop it has no end.
    return pc.and_(pa.array(mine >= 0), pc.fill_null(before, fill_value=True))
