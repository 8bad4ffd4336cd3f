"""What column stats that do not exist would take and bring: advice, size, what-if.

All columns that ranges pay for are one suggestion, as a table has column stats once. Values that an
index of single rows looks up, one of the table or a suggested one, need no ranges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds, merge_by_group
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.filegroup import META_COLUMNS, FileSlice, read_slice
from lakedex.index.advice import (
    MOST_COLUMNS,
    POINTS_OF_RANGES,
    RANGES,
    Demand,
    HypotheticalIndex,
    Sampled,
    Suggestion,
    WhatIfQuery,
    Workload,
)
from lakedex.index.kinds.column_stats.records import column_stats_change
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.size_estimate import SampledTable, SizeEstimate, spread_slices, stored_bytes

_KIND = "column_stats"
_SLICES = 12
_PROBES = 64
_VALUES_A_SLICE = 4
_PARTITION = "column_stats"


def advise(workload: Workload) -> Iterator[Suggestion | str]:
    """One suggestion for all columns, and why others are left out."""
    if workload.is_live(_KIND):
        return
    compared = [
        each
        for each in workload.demands(RANGES)
        if each.column not in META_COLUMNS
        and not (each.column in workload.answered and each.operators <= POINTS_OF_RANGES)
    ]
    whole: Suggestion | None = None
    for demand in compared[:MOST_COLUMNS]:
        for each in workload.guarded(_suggestion, demand):
            if isinstance(each, str):
                yield each
            else:
                whole = each if whole is None else _joined(whole, each)
    if whole is not None:
        yield whole


def _joined(one: Suggestion, more: Suggestion) -> Suggestion:
    return replace(
        one,
        columns=(*one.columns, *more.columns),
        queries=one.queries + more.queries,
        files_saved=one.files_saved + more.files_saved,
        size_bytes=one.size_bytes + more.size_bytes,
        bytes_per_change=one.bytes_per_change + more.bytes_per_change,
        build_seconds=one.build_seconds + more.build_seconds,
        reason=f"{one.reason}. {more.reason}",
    )


def _suggestion(workload: Workload, demand: Demand) -> Suggestion | str:
    size = workload.estimate(_KIND, (demand.column,))
    if size is None:
        return f"{workload.name}.{demand.column}: files have no ranges of it"
    values = demand.values_a_scan if demand.operators <= POINTS_OF_RANGES else 1.0
    left = demand.left(values, size.files_per_value, workload.files)
    if not demand.pays(left):
        return workload.too_little(demand, left, "column stats")
    return Suggestion(
        index=_KIND,
        kind=_KIND,
        columns=(demand.column,),
        queries=demand.scans,
        files_saved=demand.saved(left),
        size_bytes=size.size_bytes,
        bytes_per_change=size.bytes_per_change,
        build_seconds=size.seconds,
        reason=f"{demand}; a value lies in the ranges of about {size.files_per_value:,.1f} of "
        f"{workload.files:,} files, a range of values in more",
    )


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


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """Statistics of every column that a predicate names."""
    del kind, columns, schema
    return HypotheticalStats()


@dataclass(frozen=True, slots=True)
class HypotheticalStats:
    """Column stats of every column that the predicate names."""

    kind: str = _PARTITION
    name: str = _PARTITION
    lookups: int = 1

    def why_not(self, query: WhatIfQuery) -> str | None:
        """They answer comparisons of columns that have no statistics yet."""
        return None if self._columns(query) else "the table has statistics of these columns already"

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices whose ranges allow the predicate."""
        del share  # What is left of a part stands for the whole.
        columns = self._columns(query)
        stats = query.ranges([each.name for each in columns], slices)
        places = {
            (each.partition, file.name): number
            for number, each in enumerate(slices)
            for file in (each.base, *each.logs)
            if file is not None
        }
        bounds: dict[Expr, ColumnBounds] = {
            column: _bounds(column, stats[column.name], places, len(slices))
            for column in columns
            if column.name in stats
        }
        keep = may_match(query.predicate, bounds, len(slices), time_zone=query.time_zone)
        return Sampled(keep, None, f"ranges of {', '.join(each.name for each in columns)}")

    @staticmethod
    def _columns(query: WhatIfQuery) -> list[Column]:
        definition = query.definitions.get(_PARTITION)
        known: tuple[str, ...] | None = ()
        if query.is_live(_PARTITION):
            known = definition.source_fields if definition else None
        return [
            column
            for column in columns_of(query.predicate)
            if column.type is not None and len(column.path) == 1
            if known is not None and column.name not in known
        ]


def _bounds(
    column: Column, stats: pa.Table, places: dict[tuple[str, str], int], count: int
) -> ColumnBounds:
    """Ranges of files as bounds of slices; a slice with a file of no range has none."""
    names = zip(stats["partition"].to_pylist(), stats["file"].to_pylist(), strict=True)
    slice_of = np.array([places[name] for name in names], dtype=np.int64)
    with_ranges = np.bincount(slice_of, minlength=count)
    of_slice = np.bincount(np.array(list(places.values()), dtype=np.int64), minlength=count)
    files = ColumnBounds(
        stats["minimum"].type,
        stats["minimum"].combine_chunks(),
        stats["maximum"].combine_chunks(),
        stats["null_count"].to_numpy(),
        stats["value_count"].to_numpy(),
        (with_ranges == of_slice)[slice_of],
    )
    return merge_by_group(files, slice_of, count)
