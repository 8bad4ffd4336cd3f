"""What one commit did, turned into write stats and into changes of every index."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakedex.timeline import WriteStat
from tests.support.column_statistics import FileSet, LiveStatistics, file_statistics
from tests.support.data_files import PARTITION_PATH, RECORD_KEY, WrittenBase
from tests.support.index_specs import ExpressionIndex, IndexPlan
from tests.support.metadata_records import (
    Change,
    bloom_change,
    files_change,
    record_index_change,
    secondary_change,
    secondary_keys,
    stats_change,
)
from tests.support.model import Group, Merged


@dataclass
class Effects:
    """The files of one commit in the order of writing, and the rows that came and went."""

    time: str
    inserted: pa.Table | None = None
    is_log: bool = False
    files: list[tuple[Group, pa.Table, str]] = field(default_factory=list)
    written: list[tuple[str, int, WrittenBase | None, int]] = field(default_factory=list)
    _old: list[pa.Table] = field(default_factory=list)
    _new: list[pa.Table] = field(default_factory=list)
    _deleted: list[pa.Table] = field(default_factory=list)

    def add_file(self, group: Group, rows: pa.Table) -> None:
        """A file with these rows goes into a group, which has no base file yet if it is new."""
        self.files.append((group, rows, group.base_name))

    def add_merge(self, merged: Merged) -> None:
        """Rows of a group changed."""
        self._old.append(merged.old)
        self._new.append(merged.new)
        self._deleted.append(merged.deleted)

    def set_base(self, name: str, written: WrittenBase) -> None:
        """The next file was written as this base file."""
        self.written.append((name, written.size, written, 0))

    def set_log(self, name: str, size: int, deletes: int) -> None:
        """The next file was written as this log file."""
        self.written.append((name, size, None, deletes))

    @property
    def old(self) -> list[pa.Table]:
        """The rows that are no more, updated or deleted."""
        return [*self._old, *self._deleted]

    @property
    def new(self) -> list[pa.Table]:
        """The rows that are there now, inserted or updated, unless deleted at once."""
        inserted = [] if self.inserted is None else [self.inserted]
        return [*inserted, *self._new]

    @property
    def deleted(self) -> list[pa.Table]:
        """The rows whose keys are gone."""
        return self._deleted

    def file_set(self, nan_bounds: str) -> FileSet:
        """All files as one."""
        groups = [group for group, _, _ in self.files]
        lengths = [len(rows) for _, rows, _ in self.files]
        bases = [written for _, _, written, _ in self.written]
        sizes: dict[str, tuple] = {}
        if bases and all(written is not None for written in bases):
            for column in bases[0].chunk_sizes:
                pairs = np.array([written.chunk_sizes[column] for written in bases], np.int64)
                sizes[column] = (pairs[:, 0], pairs[:, 1])
        rows = [rows for _, rows, _ in self.files]
        return FileSet(
            names=[name for name, _, _, _ in self.written],
            partitions=[group.partition for group in groups],
            file_ids=[group.file_id for group in groups],
            sizes=[size for _, size, _, _ in self.written],
            rows=pa.concat_tables(rows).combine_chunks(),
            file_numbers=np.repeat(np.arange(len(rows)), lengths),
            chunk_sizes=sizes,
            nan_bounds=nan_bounds,
        )


class IndexKeeper:
    """Keeps what indexes need to know of earlier commits, and makes the changes of each."""

    def __init__(self, plan: IndexPlan, nan_bounds: str) -> None:
        """Start with an empty table."""
        self._plan = plan
        self._nan_bounds = nan_bounds
        self._live: dict[str, LiveStatistics] = defaultdict(LiveStatistics)

    def changes(self, effects: Effects, instant_ms: int) -> dict[str, Change]:
        """The changes of all metadata partitions by one commit."""
        if not effects.files:
            return {"files": files_change({})}
        files = effects.file_set(self._nan_bounds)
        listing: dict[str, dict[str, int]] = defaultdict(dict)
        for partition, name, size in zip(files.partitions, files.names, files.sizes, strict=True):
            listing[partition][name] = size
        found = {"files": files_change(listing)}
        found |= self._column_stats(effects, files)
        if self._plan.has("bloom_filters") and not effects.is_log:
            texts = [written.bloom for _, _, written, _ in effects.written]
            found["bloom_filters"] = bloom_change(
                files.names, files.partitions, texts, effects.time
            )
        if self._plan.has("record_index"):
            found["record_index"] = _record_index(effects, files, instant_ms)
        for index in self._plan.secondaries:
            old = _pairs(effects.old, index.column)
            new = _pairs(effects.new, index.column)
            found[index.partition] = secondary_change(old, new)
        for index in self._plan.expressions:
            found[index.partition] = self._expression(index, effects, files)
        return found

    def _column_stats(self, effects: Effects, files: FileSet) -> dict[str, Change]:
        replaced = [] if effects.is_log else files.file_ids
        touched = sorted(set(files.partitions))
        by_file, by_partition = Change(), Change()
        if not self._plan.has("column_stats") and not self._plan.has("partition_stats"):
            return {}
        for column in self._plan.stat_columns:
            stats = file_statistics(files, files.rows[column], files.column_sizes(column))
            by_file += stats_change(column, stats, "file")
            if self._plan.has("partition_stats"):
                live = self._live["column_stats"]
                live.add(column, stats, replaced)
                by_partition += stats_change(
                    column, live.by_partition(column, touched), "partition"
                )
        found = {"column_stats": by_file, "partition_stats": by_partition}
        return {name: change for name, change in found.items() if self._plan.has(name)}

    def _expression(self, index: ExpressionIndex, effects: Effects, files: FileSet) -> Change:
        sizes = np.array(files.sizes, np.int64)
        results = index.evaluate(files.rows[index.column])
        stats = file_statistics(files, results, (sizes, 2 * sizes))
        with_rows = stats.filter(pa.array(stats["value_count"].to_numpy() > 0))
        live = self._live[index.partition]
        live.add(index.column, with_rows, [] if effects.is_log else files.file_ids)
        touched = live.by_partition(index.column, sorted(set(files.partitions)))
        own = stats_change(index.column, with_rows, "file")
        return own + stats_change(index.column, touched, "expr_partition")


def write_stats(effects: Effects) -> dict[str, tuple[WriteStat, ...]]:
    """The write stats of the commit, by partition."""
    found: dict[str, list[WriteStat]] = defaultdict(list)
    for (group, rows, before), entry in zip(effects.files, effects.written, strict=True):
        name, size, _, deletes = entry
        previous = effects.time if effects.is_log else before.rpartition("_")[2][:-8] or "null"
        log = {"log_version": 1, "log_offset": 0, "base_file": "", "log_files": (name,)}
        found[group.partition].append(
            WriteStat(
                file_id=group.file_id,
                path=f"{group.partition}/{name}" if group.partition else name,
                partition_path=group.partition,
                prev_commit=previous,
                num_writes=len(rows),
                num_inserts=0 if before else len(rows),
                num_updates=len(rows) if before else 0,
                num_deletes=deletes,
                total_write_bytes=size,
                total_write_errors=0,
                file_size_bytes=size,
                **(log if effects.is_log else {"prev_base_file": before or None}),
            )
        )
    return {partition: tuple(stats) for partition, stats in found.items()}


def _record_index(effects: Effects, files: FileSet, instant_ms: int) -> Change:
    deleted = _keys(effects.deleted)
    if effects.inserted is None or not len(effects.inserted):
        return Change(deletes=deleted)
    rows = effects.inserted
    places = pa.array(files.file_ids).take(pa.array(files.file_numbers[: len(rows)]))
    locations = pa.table({"partition": rows[PARTITION_PATH], "file_id": places})
    added = record_index_change(rows[RECORD_KEY].combine_chunks(), locations, instant_ms)
    return Change(added.keys, added.values, deleted)


def _keys(tables: list[pa.Table]) -> pa.Array:
    chunks = [chunk for table in tables for chunk in table[RECORD_KEY].chunks]
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def _pairs(tables: list[pa.Table], column: str) -> tuple[pa.Array, pa.Array]:
    if not tables:
        return pa.array([], pa.string()), pa.array([], pa.string())
    rows = pa.concat_tables(tables)
    return secondary_keys(rows[column], rows[RECORD_KEY])
