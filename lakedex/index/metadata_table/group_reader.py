"""Reads the cells of one metadata file group, oldest first: base HFile, then log blocks.

What to read is a selection: all cells, some keys, some key prefixes or ranges. Only the HFile
blocks that the selection touches are read; delete blocks are small and always read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.filegroup.slices import FileSlice
from lakedex.filegroup.torn_logs import check_whole
from lakedex.format.avro import METADATA_RECORD, decode_distinct
from lakedex.format.hfile import Cells, HFileReader, KeyRange, prefix_ranges
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_delete_block,
    effective_blocks,
    hfile_of,
    read_blocks,
)
from lakedex.index.metadata_table.merging import CellBatch
from lakedex.index.metadata_table.partitions import MetadataPartition
from lakedex.schema import AvroRecord, arrow_schema, parse_avro_record, project
from lakedex.storage import Storage

NO_BYTES = pa.scalar(0, pa.int32())
"""The length of the value of a deleted key. A bare 0 would have its type guessed each time."""
_KEPT_BYTES = 16 << 20
"""So much of the log blocks is kept; what goes beyond is read again for each selection."""


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


class GroupReader:
    """The cells of one file group of the metadata table."""

    def __init__(
        self,
        storage: Storage,
        partition: MetadataPartition,
        group: FileSlice,
        is_committed: Callable[[str], bool],
    ) -> None:
        """Open nothing yet; `is_committed` says which log blocks count."""
        self._storage = storage
        self._partition = partition
        self._group = group
        self._is_committed = is_committed
        self._base: HFileReader | None = None
        self._blocks: list[LogBlock] | None = None
        self._hfiles: dict[int, HFileReader] = {}
        self._deletes: dict[int, pa.Array] = {}
        self._kept_bytes = 0

    @property
    def base(self) -> HFileReader | None:
        """The reader of the base HFile, if the group has one."""
        if self._base is None and self._group.base is not None:
            size = self._group.base.size_bytes
            self._base = HFileReader(self._storage.source(self.base_path, size))
        return self._base

    @property
    def base_path(self) -> str:
        """The path of the base HFile; empty without one."""
        return self._group.path_of(self._group.base.name) if self._group.base else ""

    @property
    def log_blocks(self) -> Sequence[LogBlock]:
        """The log blocks that count, oldest first."""
        if self._blocks is None:
            found: list[LogBlock] = []
            for log in self._group.logs:
                path = self._group.path_of(log.name)
                blocks = read_blocks(self._storage.source(path, log.size_bytes))
                check_whole(self._group, log, blocks, self._is_committed)
                found.extend(blocks)
            self._blocks = effective_blocks(found, is_committed=self._is_committed)
        return self._blocks

    def batches(self, selection: Selection) -> list[CellBatch]:
        """The selected cells, oldest first."""
        return decode_cells(self.cells(selection), record_schema(self._partition))

    def cells(self, selection: Selection) -> list[RawCells]:
        """The selected cells, oldest first, their values as they are stored."""
        found: list[RawCells] = []
        if self.base is not None:
            text = self.base.file_info.get("schema", b"").decode("utf-8", "replace")
            found.extend(_split(selection.read(self.base), self.base_path, text))
        for number, block in enumerate(self.log_blocks):
            if block.kind is BlockKind.DELETE:
                keys = selection.chosen(self._deleted_keys(number, block))
                found.append(RawCells(keys, None, block.path, ""))
            else:
                cells = selection.read(self._block_reader(number, block))
                found.extend(_split(cells, block.path, block.schema_text))
        return found

    def cell_count(self) -> int:
        """How many cells base file and log blocks have, deleted keys left aside."""
        return sum(reader.entry_count for reader in self._hfile_readers())

    def count_between(self, ranges: Sequence[KeyRange]) -> int:
        """About how many cells lie in some ranges, told by the sizes of the blocks there."""
        readers = self._hfile_readers()
        return round(sum(each.share_of(ranges) * each.entry_count for each in readers))

    def _hfile_readers(self) -> Iterator[HFileReader]:
        if self.base is not None:
            yield self.base
        for number, block in enumerate(self.log_blocks):
            if block.kind is BlockKind.HFILE_DATA:
                yield self._block_reader(number, block)

    def log_cells(self, max_bytes: int) -> Iterator[tuple[LogBlock, pa.Array, pa.Array | None]]:
        """The cells of all log blocks, oldest first: keys, and values unless they are deleted."""
        for number, block in enumerate(self.log_blocks):
            if block.kind is BlockKind.DELETE:
                yield block, self._deleted_keys(number, block).cast(pa.large_binary()), None
            else:
                for cells in self._block_reader(number, block).scan_batches(max_bytes=max_bytes):
                    yield block, cells.keys.cast(pa.large_binary()), cells.values

    def _deleted_keys(self, number: int, block: LogBlock) -> pa.Array:
        if number in self._deletes:
            return self._deletes[number]
        keys = decode_delete_block(block).keys
        if self._may_keep(keys.nbytes):
            self._deletes[number] = keys
        return keys

    def _block_reader(self, number: int, block: LogBlock) -> HFileReader:
        if block.kind is not BlockKind.HFILE_DATA:
            raise CorruptFile(block.path, block.offset, expected="HFile block", actual=block.kind)
        if number in self._hfiles:
            return self._hfiles[number]
        reader = hfile_of(block)
        if self._may_keep(reader.raw_bytes):
            self._hfiles[number] = reader
        return reader

    def _may_keep(self, size: int) -> bool:
        """Whether so many bytes more may stay in memory for the next selection."""
        fits = self._kept_bytes + size <= _KEPT_BYTES
        self._kept_bytes += size if fits else 0
        return fits


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


@dataclass(frozen=True, slots=True)
class RawCells:
    """Cells whose values are not decoded yet; no values at all for deleted keys."""

    keys: pa.Array
    values: pa.Array | None
    path: str
    schema_text: str


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


def decode_cells(found: list[RawCells], schema: pa.Schema) -> list[CellBatch]:
    """The cells with their records; all values of one schema are decoded in one go."""
    by_schema: dict[str, list[int]] = {}
    for number, cells in enumerate(found):
        if cells.values is not None:
            by_schema.setdefault(cells.schema_text, []).append(number)
    records: dict[int, pa.Table] = {}
    for text, numbers in by_schema.items():
        path = found[numbers[0]].path
        values = pa.concat_arrays([found[number].values for number in numbers])
        record = parse_avro_record(text, path=path)
        known = {field.name for field in record.fields}
        wanted = [name for name in schema.names if name in known]
        decoded = decode_distinct(record, values, columns=wanted, path=path)
        rows = _newest_form(pa.Table.from_batches([decoded]), schema, record)
        start = 0
        for number in numbers:
            records[number] = rows.slice(start, len(found[number].keys))
            start += len(found[number].keys)
    return [CellBatch(cells.keys, records.get(number)) for number, cells in enumerate(found)]


def _newest_form(rows: pa.Table, schema: pa.Schema, written: AvroRecord) -> pa.Table:
    """The rows in `schema`; from the newest schema it differs in what may be null only."""
    if written != METADATA_RECORD:
        return project(rows, schema)
    return pa.table([_viewed(rows[field.name], field.type) for field in schema], schema=schema)


def _viewed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The same bytes as a type of the same layout: a cast would go through some forty columns."""
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


@lru_cache(maxsize=64)
def record_schema(partition: MetadataPartition) -> pa.Schema:
    """`type` and the payload columns of a partition, in their newest form."""
    full = arrow_schema(METADATA_RECORD)
    names = ("type", *partition.payloads)
    return pa.schema([pa.field(name, _relaxed(full.field(name).type)) for name in names])


def _relaxed(data_type: pa.DataType) -> pa.DataType:
    """The type with every nested field nullable: older writers left fields out."""
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(inner.name, _relaxed(inner.type)) for inner in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, _relaxed(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_relaxed(data_type.value_type))
    return data_type


def _as_text(keys: pa.Array, path: str) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile(path, 0, expected="keys in UTF-8", actual=error) from error
