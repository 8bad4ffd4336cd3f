"""Workers that read existing file slices to build new indexes.

One pass over the file slices serves all new indexes. Keys are spilled by bucket, because there are
as many as records; ranges and filters are returned.

Ranges are computed from values, not read from footers: footers leave out long strings and do not
mention NaN. A file that does not store a column under its present name has no range of it, and
readers keep the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.engine import Engine
from lakedex.errors import CorruptFile, FileMissing, UnsupportedFeature
from lakedex.filegroup import RECORD_KEY, BaseFile, FileSlice, LogFile, ReadContext, read_slice
from lakedex.filegroup.log_changes import slice_blocks
from lakedex.format.logfile import BlockKind, LogBlock, decode_avro_block, decode_parquet_block
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.format.spill import SpillWriter
from lakedex.index.commit_changes import KeyNote, note_rows
from lakedex.index.maintenance import (
    ChangedRows,
    Collector,
    Collectors,
    ColumnSizes,
    FileRows,
    MaintainedIndex,
    joined_notes,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.schema import SchemaHistory
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext


class StoredFiles:
    """Reads the columns that indexes need of the files of slices."""

    def __init__(self, context: ReadContext, collectors: Collectors) -> None:
        """Read for these collectors."""
        self._context = context
        self._all = collectors.by_columns
        self._names = list(dict.fromkeys(name for each, _ in self._all for name in each.sources))
        self._joint = [(each, own) for each, own in self._all if each.is_joint]
        self._wide = [(each, own) for each, own in self._joint if len(each.sources) > 1]

    def add(self, file_slice: FileSlice) -> None:
        """Read the files of a slice."""
        if not self._names:
            return
        if file_slice.base is not None:
            self._add_base(file_slice, file_slice.base)
        if file_slice.logs:
            self._add_logs(file_slice)

    def _add_column(
        self, place: FileSlice, file: BaseFile | LogFile, rows: pa.Table, sizes: ColumnSizes
    ) -> None:
        """Add the only column of some rows, which are all that a file has."""
        (name,) = rows.column_names
        added = FileRows(place.partition, file.name, file.size_bytes, rows, sizes)
        for index, own in self._all:
            if index.sources == (name,) or (not index.is_joint and name in index.sources):
                own.add_file(added)

    def _add_base(self, file_slice: FileSlice, base: BaseFile) -> None:
        self._context.config.require_readable_base_files()
        path = file_slice.path_of(base.name)
        try:
            with (
                self._context.storage.open_parquet_input(path, base.size_bytes) as handle,
                pq.ParquetFile(handle, coerce_int96_timestamp_unit="us") as file,
            ):
                sizes = _column_sizes(file.metadata)
                stored = self._stored(file.schema_arrow.names, base.instant_time)
                self._note_lacking(file_slice, stored)
                # One column at a time, so that no more than that is in memory.
                for name in stored:
                    rows = file.read([name], use_threads=False)
                    rows = self._conformed(rows, [name], base.instant_time, file_slice.partition)
                    self._add_column(file_slice, base, rows, sizes)
                for index, own in self._wide:
                    if set(index.sources) <= set(stored):
                        names = list(index.sources)
                        rows = file.read(names, use_threads=False)
                        rows = self._conformed(rows, names, base.instant_time, file_slice.partition)
                        own.add_file(
                            FileRows(file_slice.partition, base.name, base.size_bytes, rows)
                        )
        except (FileMissing, FileNotFoundError) as error:
            raise FileMissing(f"{path} is listed but not there; was the table cleaned?") from error
        except PARQUET_ERRORS as error:
            raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error

    def _add_logs(self, file_slice: FileSlice) -> None:
        counting = slice_blocks(self._context, file_slice)
        for log in file_slice.logs:
            path = file_slice.path_of(log.name)
            parts: dict[str, list[pa.Table]] = {name: [] for name in self._names}
            blocks = [block for block in counting if block.log_of_slice == path]
            data = [block for block in blocks if block.kind is not BlockKind.DELETE]
            for block in data:
                for name, rows in self._block_columns(block, file_slice.partition):
                    parts[name].append(rows)
            for name, tables in parts.items():
                if data and not tables:
                    self._note_lacking(file_slice, [each for each in parts if each != name])
                    continue
                nothing = self._context.target([name]).empty_table()
                rows = pa.concat_tables([nothing, *tables])
                self._add_column(file_slice, log, rows, {})
            for index, own in self._wide:
                self._add_joined(index, own, file_slice, log, parts, len(data))

    def _add_joined(
        self,
        index: MaintainedIndex,
        own: Collector,
        place: FileSlice,
        log: LogFile,
        parts: dict[str, list[pa.Table]],
        blocks: int,
    ) -> None:
        """Add several columns of a log file, which belong together if no block lacks one."""
        if any(len(parts[name]) != blocks for name in index.sources):
            own.lack(place.partition)
            return
        columns = {}
        for name in index.sources:
            nothing = self._context.target([name]).empty_table()
            columns[name] = pa.concat_tables([nothing, *parts[name]])[name]
        own.add_file(FileRows(place.partition, log.name, log.size_bytes, pa.table(columns)))

    def _note_lacking(self, place: FileSlice, stored: Sequence[str]) -> None:
        for index, own in self._joint:
            if not set(index.sources) <= set(stored):
                own.lack(place.partition)

    def _block_columns(self, block: LogBlock, partition: str) -> Iterator[tuple[str, pa.Table]]:
        wanted = self._stored(self._names, block.instant_time)
        rows = _block_rows(block, wanted)
        present = [name for name in wanted if name in rows.column_names]
        rows = self._conformed(rows, present, block.instant_time, partition)
        for name in present:
            yield name, rows.select([name])

    def _stored(self, names: Sequence[str], instant_time: str) -> list[str]:
        """Those of the names that are wanted, and were the same column at an instant."""
        return [
            name
            for name in names
            if name in self._names and self._context.stored_names([name], instant_time) == [name]
        ]

    def _conformed(
        self, rows: pa.Table, columns: list[str], instant_time: str, partition: str
    ) -> pa.Table:
        target = self._context.target(columns)
        return self._context.conform(rows, instant_time, target, partition)


def _column_sizes(metadata: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The packed and unpacked bytes of every flat column."""
    sizes: dict[str, tuple[int, int]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            packed, unpacked = sizes.get(chunk.path_in_schema, (0, 0))
            sizes[chunk.path_in_schema] = (
                packed + chunk.total_compressed_size,
                unpacked + chunk.total_uncompressed_size,
            )
    return sizes


def _block_rows(block: LogBlock, names: list[str]) -> pa.Table:
    if block.kind is BlockKind.AVRO_DATA:
        return pa.Table.from_batches([decode_avro_block(block, columns=names)])
    if block.kind is BlockKind.PARQUET_DATA:
        return decode_parquet_block(block, columns=names)
    raise UnsupportedFeature(f"a {block.kind.name} block in the data log {block.path}")


_TASKS_A_CORE = 4
_NOTES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class SurveyWants:
    """What is read of the data."""

    indexes: tuple[MaintainedIndex, ...] = ()
    """The indexes that are to be built."""
    shards: int = 0
    """File groups of the record index, of one partition if it is partitioned; 0 for none."""
    buckets: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether no data has to be read."""
        return not (self.indexes or self.shards)


@dataclass(frozen=True)
class Survey:
    """What was found in some slices."""

    notes: tuple[KeyNote, ...] = ()
    """The keys, for a record index."""
    index_notes: Mapping[str, Any] = field(default_factory=dict)
    """What was noted for each index, by name."""

    @classmethod
    def joined(cls, wants: SurveyWants, parts: Sequence[Survey]) -> Survey:
        """All parts in one."""
        return cls(
            tuple(note for part in parts for note in part.notes),
            joined_notes(wants.indexes, [part.index_notes for part in parts]),
        )


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    history: SchemaHistory | None
    wants: SurveyWants
    slices: tuple[FileSlice, ...]


def survey(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    slices: Sequence[FileSlice],
    wants: SurveyWants,
) -> Survey:
    """Read the slices in workers.

    Args:
        engine: Where the workers run.
        facts: The table; `committed` says which log blocks count.
        history: How columns were renamed and retyped.
        slices: What to look at.
        wants: What to look for.
    """
    if wants.is_empty or not slices:
        return Survey()
    shares = shares_of_slices(slices, engine.parallelism * _TASKS_A_CORE)
    return Survey.joined(wants, survey_shares(engine, facts, history, shares, wants))


def shares_of_slices(slices: Sequence[FileSlice], most: int) -> list[tuple[FileSlice, ...]]:
    """The slices in so many shares at most, large ones in different shares."""
    count = max(1, min(len(slices), most))
    by_size = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    return [tuple(by_size[at::count]) for at in range(count)]


def survey_shares(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    shares: Sequence[tuple[FileSlice, ...]],
    wants: SurveyWants,
) -> list[Survey]:
    """What was found in each share of the slices."""
    tasks = [_Task(facts, history, wants, share) for share in shares]
    return engine.map("read the data for new indexes", survey_slices, tasks)


def survey_slices(task: _Task) -> Survey:
    """The worker: looks at the slices of one task."""
    facts, wants = task.facts, task.wants
    context = ReadContext(
        storage=facts.address.open(),
        config=facts.config,
        schema=facts.schema,
        history=task.history,
        is_committed=facts.committed,
    )
    # Only what the new indexes need is read of the rows, and that once.
    needed = replace(facts, indexes=wants.indexes)
    collectors = needed.collectors(context.storage)
    files = StoredFiles(context, collectors)
    notes = _KeyNotes(context.storage, facts.scratch, wants)
    columns = list(dict.fromkeys([RECORD_KEY, *needed.row_columns]))
    for current in task.slices:
        files.add(current)
        for collector in collectors.by_slices:
            collector.add_slice(context, current)
        if wants.shards or needed.needs_changed_rows:
            for rows in read_slice(context, current, columns):
                if wants.shards:
                    notes.add(current, context.record_keys(rows))
                nothing = rows.slice(0, 0)
                collectors.add_rows(ChangedRows(nothing, rows, place=current.id))
    return Survey(notes.finish(), collectors.finish())


class _KeyNotes:
    """Puts keys with their places aside, by bucket."""

    def __init__(self, storage: Storage, scratch: str, wants: SurveyWants) -> None:
        self._wants = wants
        self._writer = SpillWriter(storage, f"{scratch}/build-{uuid.uuid4().hex}")
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._notes: list[KeyNote] = []

    def add(self, place: FileSlice, keys: pa.Array) -> None:
        """Keys that are in a file group."""
        self._parts.append(note_rows(keys, place.partition, place.file_id, is_delete=False))
        self._rows += len(keys)
        if self._rows >= _NOTES_AT_ONCE:
            self._spill()

    def finish(self) -> tuple[KeyNote, ...]:
        """Write what is left, and answer where everything is."""
        self._spill()
        self._writer.finish()
        return tuple(self._notes)

    def _spill(self) -> None:
        if not self._rows:
            return
        notes = pa.concat_tables(self._parts).combine_chunks()
        buckets = shards_of(flat(notes["key"]), self._wants.shards) % self._wants.buckets
        for bucket, segment in self._writer.add_by_number(notes, buckets):
            self._notes.append(KeyNote(bucket, segment))
        self._parts, self._rows = [], 0
