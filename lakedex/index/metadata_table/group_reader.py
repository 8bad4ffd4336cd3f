"""Reads the cells of one metadata file group, oldest first: base HFile, then log blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from lakedex.config.keys import METADATA_TABLE_FOLDER
from lakedex.errors import CorruptFile
from lakedex.filegroup.log_changes import check_whole
from lakedex.filegroup.slices import FileSlice
from lakedex.format.avro import METADATA_RECORD, decode_distinct
from lakedex.format.hfile import HFileReader, KeyRange
from lakedex.format.logfile import BlockKind, LogBlock, effective_blocks
from lakedex.index.metadata_table.cell_file import CellFile, RawCells, Selection
from lakedex.index.metadata_table.hashing import Int32s
from lakedex.index.metadata_table.merging import CellBatch
from lakedex.index.metadata_table.partitions import MetadataPartition
from lakedex.schema import AvroRecord, arrow_schema, parse_avro_record, project
from lakedex.storage import Storage

_KEPT_BYTES = 16 << 20
"""So much of the log blocks is kept; what goes beyond is read again for each selection."""
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
