"""Column stats as writers keep them up to date: the ranges of the columns of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import META_COLUMNS
from lakedex.index.column_ranges import ColumnRanges
from lakedex.index.kinds.column_stats.records import NAME
from lakedex.index.maintenance import (
    Collector,
    CollectTask,
    FileRows,
    MaintainedIndex,
    MaintainRequest,
)
from lakedex.index.written import FileStatistics

PARTITION_STATS = "partition_stats"


@dataclass(frozen=True)
class StatsTarget(MaintainedIndex):
    """The columns that have ranges; partition stats are made of the same notes."""

    columns: pa.Schema

    @property
    def name(self) -> str:
        """The name of the index."""
        return NAME

    @property
    def serves(self) -> frozenset[str]:
        """Column stats, and partition stats."""
        return frozenset({NAME, PARTITION_STATS})

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.columns.names)

    @property
    def sized_columns(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.columns.names)

    @property
    def is_joint(self) -> bool:
        """Not every file has every column: each column counts its own files."""
        return False

    def collector(self, task: CollectTask) -> StatsCollector:
        """The collector of one task."""
        del task
        return StatsCollector(self.columns)

    def joined(self, parts: Sequence[FileStatistics]) -> FileStatistics:
        """The ranges of all files, by column."""
        columns = dict.fromkeys(name for part in parts for name in part)
        return {
            name: pa.concat_tables([part[name] for part in parts if name in part])
            for name in columns
        }


def maintained(name: str, request: MaintainRequest) -> MaintainedIndex | None:
    """The columns of a table that have ranges; None if none has."""
    del name
    if not request.stat_columns:
        return None
    fields = [
        pa.field(each, pa.string()) if each in META_COLUMNS else request.columns.field(each)
        for each in request.stat_columns
    ]
    return StatsTarget(pa.schema([each.with_nullable(nullable=True) for each in fields]))


class StatsCollector(Collector):
    """The ranges of the files of one task."""

    def __init__(self, columns: pa.Schema) -> None:
        """Start without files."""
        self._ranges = {name: ColumnRanges([name], columns) for name in columns.names}

    def add_file(self, file: FileRows) -> None:
        """Add the ranges of the columns that a file has."""
        for name in self._ranges.keys() & {*file.rows.column_names}:
            self._ranges[name].add(file.partition, file.file, file.rows, file.sizes)

    def finish(self) -> object:
        """For each column that a file has a table with a row for each such file."""
        found: dict[str, pa.Table] = {}
        for ranges in self._ranges.values():
            found.update(ranges.tables())
        return found or None
