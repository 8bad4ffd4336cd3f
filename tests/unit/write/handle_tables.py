"""A hand-made table for tests of the handles: its timeline is written here, its files by them."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import pyarrow as pa

import lakedex
from lakedex.filegroup import META_COLUMNS, base_file_name, log_file_name
from lakedex.format.spill import SpillWriter, read_segments
from lakedex.index.kinds.bloom_filters.collect import BloomTarget
from lakedex.index.kinds.column_stats.collect import StatsTarget
from lakedex.schema import avro_schema
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Action, CommitMetadata, WriteStat, load_table_config
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.working_folders import writer_path
from lakedex.write.context import WriteContext
from lakedex.write.handles import GroupWork, TaskResult, WriteTask
from lakedex.write.rows import DELETE, FILE_ID, KEY, LEADING, LIVE, PARTITION, TAGS
from tests.support.timeline_files import (
    Clock,
    data_properties,
    write_completed,
    write_pending,
    write_properties,
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One row for a group; `file_id` and `live` are what tagging said of its key."""

    key: str
    values: dict = dataclasses.field(default_factory=dict)
    delete: bool = False
    file_id: str | None = None
    live: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """Rows for one file group."""

    file_id: str
    rows: list
    is_log: bool = False


class HandTable:
    """A table without metadata table, in one partition folder `p=x`."""

    partition = "p=x"

    def __init__(self, root: Path, user: pa.Schema, *, table_type="cow", ordering=()):
        self.root = root
        self.user = user
        self._clock = Clock("20240101000000000")
        self._action = Action.COMMIT if table_type == "cow" else Action.DELTACOMMIT
        props = data_properties(
            "t",
            table_type,
            record_key=("id",),
            partition_by=("p",),
            ordering=",".join(ordering) or None,
            hive_style=True,
        )
        root.mkdir()
        write_properties(root, props)
        self.address = StorageAddress.of(str(root))
        self.storage = self.address.open()

    @property
    def schema(self):
        return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *self.user])

    def begin(self) -> str:
        instant = self._clock.next()
        write_pending(self.root, instant, self._action)
        self.storage.create(writer_path(instant), b"{}")
        return instant

    def facts(self, instant, **changes) -> WriteContext:
        snapshot = Snapshot.open(self.storage)
        columns = [KEY, *(f.name for f in self.user if not pa.types.is_nested(f.type))]
        given = {
            "indexes": (
                StatsTarget(pa.schema([self.schema.field(name) for name in columns])),
                BloomTarget(),
            ),
            "note_buckets": 3,
            "note_shards": 7,
        }
        return WriteContext(
            self.address,
            load_table_config(self.storage),
            self.schema,
            avro_schema(self.schema, "t_record", "hoodie.t").to_json(),
            instant,
            CommittedInstants.of(snapshot.timeline),
            f".hoodie/.temp/scratch-{instant}",
            **(given | changes),
        )

    def slices(self) -> dict:
        snapshot = Snapshot.open(self.storage)
        if snapshot.timeline.last_completed is None:
            return {}
        return {found.file_id: found for found in snapshot.slices}

    def task(self, instant, jobs, *, number=0, **changes) -> WriteTask:
        """All rows in one segment, each group with its range; rows of nobody between them."""
        facts = self.facts(instant, **changes)
        tables, ranges, start = [], [], 0
        for job in jobs:
            stray = self.spilled([Row("stray", {"id": "stray"})])
            tables += [stray, self.spilled(job.rows)]
            ranges.append((start + 1, len(job.rows)))
            start += len(job.rows) + 1
        writer = SpillWriter(self.storage, f"{facts.scratch}/in-{uuid.uuid4().hex}")
        segment = writer.add(pa.concat_tables(tables))
        writer.finish()
        current = self.slices()
        groups = []
        for job, span in zip(jobs, ranges, strict=True):
            name = (
                log_file_name(job.file_id, instant, 1, "0-0-0")
                if job.is_log
                else base_file_name(job.file_id, "0-0-0", instant, "parquet")
            )
            cut = span[1] // 2
            pieces = ((span[0], cut), (span[0] + cut, span[1] - cut))
            groups.append(
                GroupWork(
                    self.partition,
                    job.file_id,
                    current.get(job.file_id),
                    (segment, segment),
                    pieces,
                    name,
                    job.is_log,
                )
            )
        return WriteTask(facts, number, tuple(groups))

    def spilled(self, rows) -> pa.Table:
        leading = [
            {
                KEY: row.key,
                PARTITION: self.partition,
                DELETE: row.delete,
                FILE_ID: row.file_id,
                LIVE: row.live,
                **row.values,
            }
            for row in rows
        ]
        return pa.Table.from_pylist(leading, pa.schema([*LEADING, *self.user, *TAGS]))

    def complete(self, instant, result: TaskResult) -> None:
        stats = tuple(_stat(file) for file in result.files)
        text = avro_schema(self.user, "t_record", "hoodie.t").to_json()
        metadata = CommitMetadata({self.partition: stats}, {"schema": text}, "UPSERT", version=1)
        write_completed(self.root, instant, self._clock.next(), self._action, metadata)

    def read(self) -> list[dict]:
        return lakedex.open(str(self.root)).to_arrow(columns=self.schema.names).to_pylist()

    def notes(self, result: TaskResult) -> list[dict]:
        found = []
        for note in result.notes:
            rows = read_segments(self.storage, [note.segment]).to_pylist()
            found += [{**row, "bucket": note.bucket} for row in rows]
        return found

    def data_files(self) -> dict[str, bytes]:
        folder = self.root / self.partition
        return (
            {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
        )


def _stat(file) -> WriteStat:
    log = {"log_version": 1, "log_offset": 0, "base_file": "", "log_files": (file.name,)}
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition}/{file.name}",
        partition_path=file.partition,
        prev_commit=file.prev_commit,
        num_writes=file.num_writes,
        num_inserts=file.num_inserts,
        num_updates=file.num_updates,
        num_deletes=file.num_deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        file_size_bytes=file.size,
        **(log if file.is_log else {"prev_base_file": file.previous_base}),
    )
