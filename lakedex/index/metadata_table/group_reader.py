"""Reads the cells of one metadata file group, oldest first: base HFile, then log blocks.

A file of the group is a base HFile, or a log file with HFiles for blocks. What to read is a
selection: all cells, some keys, some key prefixes or ranges. Only the HFile blocks that the
selection touches are read; delete blocks are small and always read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.keys import METADATA_TABLE_FOLDER
from lakedex.errors import CorruptFile
from lakedex.filegroup.log_changes import check_whole
from lakedex.filegroup.slices import FileSlice
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
from lakedex.index.metadata_table.hashing import Int32s
from lakedex.index.metadata_table.merging import CellBatch
from lakedex.index.metadata_table.partitions import MetadataPartition
from lakedex.schema import AvroRecord, arrow_schema, parse_avro_record, project
from lakedex.storage import Storage
from lakedex.storage.source import ByteSource

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


OpenKept = Callable[[str, int], CellFile | None]
"""A file of some path and size that is in memory already, or worth to be kept there."""


class GroupReader:
    """The cells of one file group of the metadata table."""

    def __init__(
        self,
        storage: Storage,
        partition: MetadataPartition,
        group: FileSlice,
        is_committed: Callable[[str], bool],
        open_kept: OpenKept = lambda _path, _size: None,
    ) -> None:
        """Open nothing yet; `is_committed` says which log blocks count."""
        self._storage = storage
        self._partition = partition
        self._group = group
        self._is_committed = is_committed
        self._open_kept = open_kept
        self._files: dict[str, CellFile] = {}
        self._blocks: list[LogBlock] | None = None
        self._kept_bytes = 0

    @property
    def base(self) -> HFileReader | None:
        """The reader of the base HFile, if the group has one."""
        file = self._base_file
        return None if file is None else file.base

    def check_shard(self, shard: int, place: Callable[[pa.Array], Int32s | None]) -> None:
        """Refuse a base file that holds the keys of another file group.

        Args:
            shard: The number of this group.
            place: The numbers of the groups that contain keys; None where that is not known.

        Raises:
            CorruptFile: it names the base file.
        """
        last = None if self.base is None else self.base.last_key
        if last is None:
            return
        places = place(pa.array([last.decode(errors="replace")]))
        if places is not None and places[0] != shard:
            raise CorruptFile(
                f"{METADATA_TABLE_FOLDER}/{self.base_path}",
                0,
                expected=f"keys of file group {shard}",
                actual=f"those of file group {places[0]}",
            )

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
                blocks = self._file(self._group.path_of(log.name), log.size_bytes).blocks
                check_whole(self._group, log, blocks, self._is_committed)
                found.extend(blocks)
            self._blocks = effective_blocks(found, is_committed=self._is_committed)
        return self._blocks

    def blocks_by_time(self) -> dict[str, str]:
        """The instants of all log blocks, those included that do not count, and their files."""
        paths = [(self._group.path_of(log.name), log.size_bytes) for log in self._group.logs]
        return {
            block.instant_time: path
            for path, size in paths
            for block in self._file(path, size).blocks
            if block.kind is not BlockKind.CORRUPT and block.instant_time
        }

    def batches(self, selection: Selection) -> list[CellBatch]:
        """The selected cells, oldest first."""
        return decode_cells(self.cells(selection), record_schema(self._partition))

    def cells(self, selection: Selection) -> list[RawCells]:
        """The selected cells, oldest first, their values as they are stored."""
        file = self._base_file
        found = [] if file is None else list(file.base_cells(selection))
        for block in self.log_blocks:
            found.extend(self._files[block.path].block_cells(block, selection))
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
        for block in self.log_blocks:
            if block.kind is BlockKind.HFILE_DATA:
                yield self.block_reader(block)

    def block_reader(self, block: LogBlock) -> HFileReader:
        """The HFile that one of the log blocks is."""
        return self._files[block.path].block_reader(block)

    def log_cells(self, max_bytes: int) -> Iterator[tuple[LogBlock, pa.Array, pa.Array | None]]:
        """The cells of all log blocks, oldest first: keys, and values unless they are deleted."""
        for block in self.log_blocks:
            if block.kind is BlockKind.DELETE:
                gone = self._files[block.path].deleted_keys(block)
                yield block, gone.cast(pa.large_binary()), None
            else:
                for cells in self.block_reader(block).scan_batches(max_bytes=max_bytes):
                    yield block, cells.keys.cast(pa.large_binary()), cells.values

    @property
    def _base_file(self) -> CellFile | None:
        base = self._group.base
        return None if base is None else self._file(self.base_path, base.size_bytes)

    def _file(self, path: str, size: int) -> CellFile:
        if path not in self._files:
            self._files[path] = self._open_kept(path, size) or CellFile(
                self._storage.source(path, size), self._may_keep
            )
        return self._files[path]

    def _may_keep(self, size: int) -> bool:
        """Whether so many bytes more may stay in memory for the next selection."""
        fits = self._kept_bytes + size <= _KEPT_BYTES
        self._kept_bytes += size if fits else 0
        return fits


def decode_cells(found: list[RawCells], schema: pa.Schema) -> list[CellBatch]:
    """The cells with their records; all values of one schema are decoded in one go."""
    names = tuple(schema.names)
    records: dict[int, pa.Table] = {}
    by_schema: dict[str, list[int]] = {}
    for number, cells in enumerate(found):
        if cells.records and names in cells.records:
            records[number] = cells.records[names]
        elif cells.values is not None:
            by_schema.setdefault(cells.schema_text, []).append(number)
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
            cells = found[number]
            records[number] = rows.slice(start, len(cells.keys))
            start += len(cells.keys)
            if cells.records is not None:
                cells.records[names] = records[number]
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
