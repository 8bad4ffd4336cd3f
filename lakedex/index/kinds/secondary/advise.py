"""Suggests secondary indexes where queries compared columns with single values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakedex.filegroup import META_COLUMNS
from lakedex.index.advice import MOST_COLUMNS, POINTS, Demand, Suggestion, Workload
from lakedex.index.kinds.secondary.key_encoding import is_sure
from lakedex.index.kinds.secondary.pairs import PREFIX

_KIND = "secondary_index"
_RECORD_INDEX = "record_index"
_WITH_RECORD_INDEX = " OPTIONS ('hoodie.metadata.global.record.level.index.enable'='true')"


def advise(workload: Workload) -> Iterator[Suggestion | str]:
    """Indexes of single columns, and why others are not suggested."""
    points = list(workload.demands(POINTS))
    candidates = [each for each in points if _is_candidate(workload, each.column)]
    workload.answered.update(each.column for each in points if _has_index(workload, each.column))
    for demand in candidates[:MOST_COLUMNS]:
        for each in workload.guarded(_suggestion, demand):
            if isinstance(each, Suggestion):
                workload.answered.add(demand.column)
            yield each


def _is_candidate(workload: Workload, column: str) -> bool:
    """Whether queries would use a secondary index on the column, and there is none."""
    if column in META_COLUMNS or workload.key_columns == (column,):
        return False
    return is_sure(workload.schema.field(column).type) and not _has_index(workload, column)


def _has_index(workload: Workload, column: str) -> bool:
    return any(
        name.startswith(PREFIX) and workload.is_live(name) and each.source_fields == (column,)
        for name, each in workload.definitions.items()
    )


def _suggestion(workload: Workload, demand: Demand) -> Suggestion | str:
    size = workload.size_of(_KIND, (demand.column,))
    left = demand.left(demand.values_a_scan, size.files_per_value, workload.files)
    if not demand.pays(left):
        return workload.too_little(demand, left, "a secondary index")
    suggestion = Suggestion(
        index=_free_name(workload, demand.column),
        kind=_KIND,
        columns=(demand.column,),
        queries=demand.scans,
        files_saved=demand.saved(left),
        size_bytes=size.size_bytes,
        bytes_per_change=size.bytes_per_change,
        build_seconds=size.seconds,
        reason=f"{demand}; a value is in about {size.files_per_value:,.1f} of "
        f"{workload.files:,} files",
    )
    if workload.is_live(_RECORD_INDEX):
        return suggestion
    needed = workload.size_of(_RECORD_INDEX)
    return replace(
        suggestion,
        size_bytes=suggestion.size_bytes + needed.size_bytes,
        bytes_per_change=suggestion.bytes_per_change + needed.bytes_per_change,
        build_seconds=suggestion.build_seconds + needed.seconds,
        options=_WITH_RECORD_INDEX,
        reason=f"{suggestion.reason}; the record index that it needs is built with it",
    )


def _free_name(workload: Workload, column: str) -> str:
    name, number = f"idx_{column}", 2
    while workload.is_taken(name):
        name, number = f"idx_{column}_{number}", number + 1
    return name
