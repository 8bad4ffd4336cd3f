"""Suggests a record index where queries compared the record key."""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.index.advice import Demand, Suggestion, Workload

_KIND = "record_index"


def advise(workload: Workload) -> Iterator[Suggestion | str]:
    """The index, or why not."""
    demand = workload.key_demand()
    if demand is not None and not workload.is_live(_KIND):
        yield from workload.guarded(_suggestion, demand)


def _suggestion(workload: Workload, demand: Demand) -> Suggestion | str:
    left = demand.left(demand.values_a_scan, 1.0, workload.files)
    if not demand.pays(left):
        return workload.too_little(demand, left, "the record index")
    size = workload.size_of(_KIND)
    return Suggestion(
        index=_KIND,
        kind=_KIND,
        columns=workload.key_columns,
        queries=demand.scans,
        files_saved=demand.saved(left),
        size_bytes=size.size_bytes,
        bytes_per_change=size.bytes_per_change,
        build_seconds=size.seconds,
        reason=f"{demand}; a key is in one file",
    )
