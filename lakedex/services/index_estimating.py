"""What an index that does not exist would cost and bring, from a sample of file slices."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.metadata_options import IndexRoom, record_index_bounds
from lakedex.config.option_check import did_you_mean
from lakedex.engine import Engine, LocalEngine
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import FileSlice
from lakedex.index.file_index import FileIndex, IndexRequest
from lakedex.index.file_index.maintenance import estimate_file_index
from lakedex.index.maintenance import Collectors, CollectTask, MaintainRequest
from lakedex.index.registry import default_kind, file_index_kinds, kind_name, stat_indexes
from lakedex.index.size_estimate import SampledTable, SizeEstimate, shards_for
from lakedex.services.index_names import indexed_path
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import load_table_config
from lakedex.write.assign import stored_rows
from lakedex.write.build_survey import StoredFiles
from lakedex.write.file_indexes import BUILD_TASKS_A_CORE

_MOST_GROWTH = 1_000_000
_OPENINGS = 3
"""How often a build looks at the whole table: before it begins, and under the lock."""
_COMMIT_FILES = 16
"""Files that the commit of a build writes, besides those of its file groups."""
_FILES_A_GROUP = 2
"""The log file by which it comes to be, and its base file."""
_FILE_SECONDS = 0.005
"""What a small file takes to be safely on a disk, besides the way to its storage."""


@dataclass(frozen=True, slots=True)
class IndexEstimate:
    """An index that does not exist yet."""

    column: str
    """The column, or the columns of an index on several."""
    rows: int
    """The entries that it would have."""
    values: int
    """Different values, about."""
    file_groups: int
    size_bytes: int
    build_seconds: float
    """Commit included; by one task after another, unless an engine was given: then as its jobs."""
    bytes_per_change: float
    """What a write adds for a row whose value changes: an entry, and a tombstone."""
    bytes_per_write: int
    """What a write adds besides, if it changes values of all file groups."""
    files: int
    """File slices of the table."""
    files_per_value: float
    """How many of them a lookup of one value reads, about; NaN where it is not known."""
    sampled_rows: int

    def write_bytes(self, changed: int) -> int:
        """What a write adds that changes the value of so many rows.

        Few changed values are in some of the file groups, and no others are written.
        """
        groups = max(self.file_groups, 1)
        touched = 1 - (1 - 1 / groups) ** changed
        return round(touched * self.bytes_per_write + changed * self.bytes_per_change)

    def as_size(self) -> SizeEstimate:
        """The same as kinds of index estimate it; the commit is part of the build."""
        return SizeEstimate(
            rows=self.rows,
            size_bytes=self.size_bytes,
            bytes_per_change=self.bytes_per_change,
            seconds=self.build_seconds,
            files_per_value=self.files_per_value,
        )


def estimate_index(
    snapshot: Snapshot,
    column: str | Sequence[str],
    *,
    using: str = "",
    options: Mapping[str, str] | None = None,
    growth: float = 1.0,
    engine: Engine | None = None,
) -> IndexEstimate:
    """What an index on a column would be like: by default a secondary index.

    Args:
        snapshot: The table.
        column: The column, or the columns.
        using: A kind whose indexes describe single files.
        options: The options of such an index; a secondary index is estimated with those of the
            table, and takes none.
        growth: How many times as many rows the table will have; values grow in number with them.
        engine: Who would build it; how long a job of it takes to start is tried out.

    Raises:
        InvalidInput: The column is missing or cannot be indexed, there are no rows, or an option
            has no effect on the estimate.
    """
    named = [column] if isinstance(column, str) else column
    columns = tuple(indexed_path(snapshot, str(each)) for each in named)
    if not columns:
        raise InvalidInput("name the column to index")
    _check_growth(growth)
    table = sampled_table(snapshot, growth)
    if using:
        tasks = BUILD_TASKS_A_CORE * (engine or LocalEngine()).parallelism
        estimate = _estimate_of_kind(
            table, _request(snapshot, columns, options or {}), using, tasks
        )
    else:
        estimate = _estimate_of_default(table, columns, options or {})
    if estimate is None:
        raise InvalidInput(f"table {snapshot.config.name} has no rows to estimate an index from")
    building = estimate.seconds
    if engine is not None:
        building = _as_jobs(engine, estimate.seconds, estimate.rows)
    return IndexEstimate(
        column=", ".join(columns),
        rows=estimate.rows,
        values=estimate.values,
        file_groups=estimate.file_groups,
        size_bytes=estimate.size_bytes,
        build_seconds=_commit_seconds(snapshot, estimate.file_groups) + building,
        bytes_per_change=estimate.bytes_per_change,
        bytes_per_write=estimate.bytes_per_write,
        files=len(snapshot.slices),
        files_per_value=estimate.files_per_value,
        sampled_rows=estimate.sampled_rows,
    )


def _request(
    snapshot: Snapshot, columns: tuple[str, ...], options: Mapping[str, str]
) -> IndexRequest:
    return IndexRequest(
        name="estimated",
        table=snapshot.config.name,
        columns=columns,
        schema=snapshot.schema,
        options=options,
    )


def _estimate_of_kind(
    table: SampledTable, request: IndexRequest, using: str, tasks: int
) -> SizeEstimate | None:
    kinds = file_index_kinds()
    kind = kinds.get(using.lower())
    if kind is None:
        if kind_name(using) == default_kind().kind:
            return _estimate_of_default(table, request.columns, request.options)
        known = ", ".join((default_kind().kind, *kinds))
        hint = did_you_mean(using, kinds)
        raise UnsupportedFeature(f"estimating an index of kind {using!r} (only {known}{hint})")
    return estimate_file_index(FileIndex(kind, kind.define(request)), table, tasks)


def _estimate_of_default(
    table: SampledTable, columns: tuple[str, ...], options: Mapping[str, str]
) -> SizeEstimate | None:
    for name in options:
        raise InvalidInput(
            f"the estimate of an index of kind {default_kind().kind} takes no option {name!r}: it "
            "is that of an index with the settings of the table"
        )
    return default_kind().estimate_size(table, columns)


def sampled_table(snapshot: Snapshot, growth: float = 1.0) -> SampledTable:
    """A table as kinds of index sample it."""
    return SampledTable(
        read=snapshot.read_context,
        slices=snapshot.slices,
        stored_rows=lambda: stored_rows(snapshot),
        groups_for=lambda rows: _groups_for(snapshot, rows),
        ranges=lambda columns, slices: stored_ranges(snapshot, columns, slices),
        growth=growth,
    )


def stored_ranges(
    snapshot: Snapshot, columns: Sequence[str], slices: Sequence[FileSlice]
) -> Mapping[str, pa.Table]:
    """The ranges of some columns in the files of some slices, read from the data."""
    context = snapshot.read_context
    request = MaintainRequest(
        snapshot.config.name, None, 0, context.schema, stat_columns=tuple(columns)
    )
    collectors = Collectors(stat_indexes(request), CollectTask(context.storage, ""))
    files = StoredFiles(context, collectors)
    for each in slices:
        files.add(each)
    (found,) = collectors.finish().values() or ({},)
    return dict(found)


def _commit_seconds(snapshot: Snapshot, groups: int) -> float:
    """What a build takes however few rows there are: it opens the table, and writes small files."""
    began = time.perf_counter()
    _ = Snapshot.open(snapshot.storage).slices
    opened = time.perf_counter()
    load_table_config(snapshot.storage)
    # The way to the storage and back, which a disk hardly has.
    opening, way = opened - began, time.perf_counter() - opened
    files = _COMMIT_FILES + _FILES_A_GROUP * groups
    return _OPENINGS * opening + files * (_FILE_SECONDS + way)


def _as_jobs(engine: Engine, seconds: float, entries: int) -> float:
    """What so much work takes when the tasks of an engine share it.

    One job reads the slices; another one writes the file groups, unless the entries are few.
    """
    for _ in range(2):  # The first may have to start workers, which then stay.
        began = time.perf_counter()
        engine.map("see how long a job takes", abs, list(range(engine.parallelism)))
        start = time.perf_counter() - began
    jobs = 1 if entries <= default_kind().few_entries else 2
    return jobs * start + seconds / engine.parallelism


def _groups_for(snapshot: Snapshot, rows: int) -> int:
    """The file groups that an index of record keys of the table gets for so many rows."""
    kept = read_own_properties(snapshot.storage)
    room = IndexRoom.resolve(kept)
    return shards_for(rows, *record_index_bounds(kept), partitioned=False, room=room)


def _check_growth(growth: object) -> None:
    if not isinstance(growth, int | float) or not 0 < growth <= _MOST_GROWTH:
        raise InvalidInput(f"growth is a factor above 0, at most {_MOST_GROWTH:,}, not {growth!r}")
