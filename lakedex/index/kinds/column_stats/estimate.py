"""What ranges of a column would take and bring: those of a few slices, scaled to all."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSlice, read_slice
from lakedex.index.kinds.column_stats.records import column_stats_change
from lakedex.index.sampling import spread_slices
from lakedex.index.size_estimate import SampledTable, SizeEstimate, stored_bytes

_SLICES = 12
_PROBES = 64
_VALUES_A_SLICE = 4


def estimate(table: SampledTable, columns: tuple[str, ...]) -> SizeEstimate | None:
    """What ranges of a column would take and bring; None where files have no range of it."""
    (column,) = columns
    started = time.perf_counter()
    chosen = spread_slices(table.slices, _PROBES)
    stats = table.ranges([column], chosen).get(column)
    if stats is None or not len(stats):
        return None
    known = stats.filter(pc.is_valid(stats["minimum"]))
    if not len(known):
        return None
    change = column_stats_change({column: stats}, {}, [column])
    order = pc.sort_indices(change.keys.cast(pa.large_binary()))
    fixed, each_bytes = stored_bytes(change.keys.take(order), change.values.take(order))
    scale = len(table.slices) / len(chosen)
    size = round(fixed + scale * len(stats) * each_bytes)
    seconds = (time.perf_counter() - started) * scale
    values = _values(table, spread_slices(tuple(chosen), _SLICES), column)
    return SizeEstimate(
        rows=round(scale * len(stats)),
        size_bytes=size,
        bytes_per_change=each_bytes,
        seconds=seconds,
        files_per_value=_files_a_value(known, values, len(table.slices)),
    )


def _values(table: SampledTable, slices: Sequence[FileSlice], column: str) -> pa.ChunkedArray:
    """Some values of the column, from all over some slices."""
    parts = [
        rows.take(np.linspace(0, rows.num_rows - 1, _VALUES_A_SLICE).astype(np.int64))
        for each in slices
        for rows in read_slice(table.read, each, [column])
        if rows.num_rows
    ]
    nothing = table.read.target([column]).empty_table()
    return pa.concat_tables([nothing, *parts])[column].drop_null()


def _files_a_value(stats: pa.Table, values: pa.ChunkedArray, files: int) -> float:
    """How many files have a range that holds a value, in the mean of some values.

    The ranges are those of a sample, which has the file that a value is of: one file is sure, and
    the others are as many as in the sample.
    """
    if not len(values):
        return float(files)
    low, high = stats["minimum"].combine_chunks(), stats["maximum"].combine_chunks()
    held = [
        int(pc.sum(pc.and_(pc.less_equal(low, each), pc.greater_equal(high, each))).as_py() or 0)
        for each in values
    ]
    others = max(0.0, float(np.mean(held)) - 1) / max(1, len(stats) - 1)
    return min(float(files), 1 + others * (files - 1))
