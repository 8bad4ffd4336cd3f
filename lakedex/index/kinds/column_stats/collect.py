"""Column stats as writers keep them up to date: the ranges of the columns of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import META_COLUMNS
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
_COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed")
_NO_SIZE = (0, 0)


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


def column_bounds(values: pa.Array | pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
    """The smallest and the largest value of a column, in its type; null for none.

    Example:
        >>> column_bounds(pa.array(["b", None, "a"]))
        (<pyarrow.StringScalar: 'a'>, <pyarrow.StringScalar: 'b'>)
        >>> column_bounds(pa.array([1.0, float("nan")]))
        (<pyarrow.DoubleScalar: -inf>, <pyarrow.DoubleScalar: inf>)
        >>> column_bounds(pa.array([0.0, 1.0]))
        (<pyarrow.DoubleScalar: -0.0>, <pyarrow.DoubleScalar: 1.0>)
    """
    both = pc.min_max(values)
    low, high = both["min"], both["max"]
    if not pa.types.is_floating(values.type):
        return low, high
    if pc.any(pc.is_nan(values)).as_py():
        return pa.scalar(-np.inf, values.type), pa.scalar(np.inf, values.type)
    # The zeros compare equal, so either may have been kept.
    if low.as_py() == 0:
        low = pa.scalar(-0.0, values.type)
    if high.as_py() == 0:
        high = pa.scalar(0.0, values.type)
    return low, high


class ColumnRanges:
    """Gathers the ranges of some columns, file after file.

    Example:
        >>> ranges = ColumnRanges(["v"], pa.schema([("v", pa.int64())]))
        >>> ranges.add("p", "f.parquet", pa.table({"v": [3, None, 5]}), {"v": (60, 70)})
        >>> ranges.tables()["v"].to_pylist()[0]["null_count"]
        1
    """

    def __init__(self, columns: Sequence[str], schema: pa.Schema) -> None:
        """Name the columns; the schema has their types."""
        self._types = {name: schema.field(name).type for name in columns}
        self._places: list[tuple[str, str]] = []
        self._bounds: dict[str, list[tuple[pa.Scalar, pa.Scalar]]] = {n: [] for n in columns}
        self._counts: dict[str, list[tuple[int, int, int, int]]] = {n: [] for n in columns}

    def add(
        self,
        partition: str,
        file: str,
        rows: pa.Table,
        sizes: Mapping[str, tuple[int, int]],
    ) -> None:
        """Take in a file; `sizes` are packed and unpacked bytes by column, none for a log."""
        self._places.append((partition, file))
        for name in self._types:
            values = rows[name]
            self._bounds[name].append(column_bounds(values))
            self._counts[name].append((len(values), values.null_count, *sizes.get(name, _NO_SIZE)))

    def tables(self) -> FileStatistics:
        """For each column a table with a row for each file."""
        if not self._places:
            return {}
        partitions, files = zip(*self._places, strict=True)
        return {name: self._table(name, partitions, files) for name in self._types}

    def _table(self, name: str, partitions: tuple[str, ...], files: tuple[str, ...]) -> pa.Table:
        data_type = self._types[name]
        low, high = zip(*self._bounds[name], strict=True)
        counts = np.array(self._counts[name], dtype=np.int64)
        columns = {
            "partition": pa.array(partitions, pa.string()),
            "file": pa.array(files, pa.string()),
            "minimum": pa.array(low, data_type),
            "maximum": pa.array(high, data_type),
        }
        for number, count in enumerate(_COUNTS):
            columns[count] = pa.array(counts[:, number])
        return pa.table(columns)
