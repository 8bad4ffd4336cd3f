"""Suggests column stats of all columns that they pay for: a table has them once.

Values that an index of single rows looks up, one of the table or a suggested one, need no ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakedex.filegroup import META_COLUMNS
from lakedex.index.advice import (
    MOST_COLUMNS,
    POINTS_OF_RANGES,
    RANGES,
    Demand,
    Suggestion,
    Workload,
)

_KIND = "column_stats"


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
