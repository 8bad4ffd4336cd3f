"""Column statistics of files, computed for all files of a commit at once, as a correct writer does.

A column that is all null has no bounds. A float column with a NaN has none either, as no pair of
bounds holds for all orders that readers give NaN; or it has infinite ones, as Hudi skips files
without bounds. Zero bounds are widened to cover both zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
NAN_BOUNDS = {"none": (None, None), "nan": (-np.inf, np.nan), "infinite": (-np.inf, np.inf)}
COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed")


@dataclass(frozen=True)
class FileSet:
    """The files that one commit wrote, and their rows end to end.

    `file_numbers` says for each row which of the files it is in; `chunk_sizes` has the packed and
    unpacked sizes of a column in each file, zeros for log files.
    """

    names: list[str]
    partitions: list[str]
    file_ids: list[str]
    sizes: list[int]
    rows: pa.Table
    file_numbers: Numbers
    chunk_sizes: Mapping[str, tuple[Numbers, Numbers]] = field(default_factory=dict)
    nan_bounds: str = "none"

    def column_sizes(self, column: str) -> tuple[Numbers, Numbers]:
        """The packed and unpacked bytes of a column in each file."""
        zeros = np.zeros(len(self.names), np.int64)
        return self.chunk_sizes.get(column, (zeros, zeros))


def file_statistics(files: FileSet, values: pa.ChunkedArray, sizes: tuple) -> pa.Table:
    """One row for each file: its bounds and counts of the values."""
    count = len(files.names)
    minimum, maximum = _bounds(values, files.file_numbers, count, NAN_BOUNDS[files.nan_bounds])
    nulls = np.bincount(
        files.file_numbers[pc.is_null(values).to_numpy().astype(np.bool_)], minlength=count
    )
    return pa.table(
        {
            "file": pa.array(files.names, pa.string()),
            "partition": pa.array(files.partitions, pa.string()),
            "file_id": pa.array(files.file_ids, pa.string()),
            "minimum": minimum,
            "maximum": maximum,
            "value_count": np.bincount(files.file_numbers, minlength=count).astype(np.int64),
            "null_count": nulls.astype(np.int64),
            "total_size": np.asarray(sizes[0], np.int64),
            "total_uncompressed": np.asarray(sizes[1], np.int64),
        }
    )


class LiveStatistics:
    """The statistics of the latest slices of all file groups: what partition stats sum up."""

    def __init__(self) -> None:
        """Start with no files."""
        self._tables: dict[str, pa.Table] = {}

    def add(self, column: str, stats: pa.Table, replaced_file_ids: Sequence[str]) -> None:
        """Add the statistics of new files; new base files put their group's older files away."""
        known = self._tables.get(column)
        if known is not None:
            if replaced_file_ids:
                gone = pc.is_in(known["file_id"], pa.array(replaced_file_ids, pa.string()))
                known = known.filter(pc.invert(gone))
            stats = pa.concat_tables([known, stats])
        self._tables[column] = stats

    def by_partition(self, column: str, partitions: Sequence[str]) -> pa.Table:
        """One row for each partition, in the form of `file_statistics`."""
        live = self._tables[column]
        live = live.filter(pc.is_in(live["partition"], pa.array(partitions, pa.string())))
        unknown = pc.and_(pc.is_null(live["minimum"]), _has_values(live))
        summed = (
            live.append_column("unknown", unknown)
            .group_by("partition", use_threads=False)
            .aggregate(
                [("minimum", "min"), ("maximum", "max"), ("unknown", "any")]
                + [(name, "sum") for name in COUNTS]
            )
        )
        columns = {"file": summed["partition"], "partition": summed["partition"]}
        for name, aggregate in (("minimum", "min"), ("maximum", "max")):
            bound = summed[f"{name}_{aggregate}"]
            columns[name] = pc.if_else(summed["unknown_any"], pa.scalar(None, bound.type), bound)
        return pa.table(columns | {name: summed[f"{name}_sum"] for name in COUNTS})


def _has_values(stats: pa.Table) -> pa.ChunkedArray:
    return pc.less(stats["null_count"], stats["value_count"])


def _bounds(
    values: pa.ChunkedArray, numbers: Numbers, count: int, with_nan: tuple
) -> tuple[pa.Array, pa.Array]:
    wanted = [("v", "min"), ("v", "max")]
    table = pa.table({"f": numbers, "v": values})
    floating = pa.types.is_floating(values.type)
    if floating:
        table = table.append_column("nan", pc.is_nan(values))
        wanted.append(("nan", "any"))
    grouped = table.group_by("f", use_threads=False).aggregate(wanted)
    place = np.full(count, -1, np.int64)
    place[grouped["f"].to_numpy()] = np.arange(len(grouped))
    at = pa.array(place, mask=place < 0)
    minimum, maximum = (grouped[f"v_{end}"].combine_chunks() for end in ("min", "max"))
    if floating:
        nan = grouped["nan_any"].combine_chunks().fill_null(False)
        minimum = _cleaned(minimum, nan, with_nan[0], zero=-0.0)
        maximum = _cleaned(maximum, nan, with_nan[1], zero=0.0)
    return minimum.take(at), maximum.take(at)


def _cleaned(bound: pa.Array, nan: pa.Array, instead: float | None, *, zero: float) -> pa.Array:
    """Another bound where there is a NaN, and of the two zeros the outer one."""
    bound = pc.if_else(pc.equal(bound, 0.0), pa.scalar(zero, bound.type), bound)
    return pc.if_else(nan, pa.scalar(instead, bound.type), bound)
