"""Indexes that would have helped the queries that were counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lakedex.errors import InvalidInput, LakedexError
from lakedex.filegroup import META_COLUMNS
from lakedex.index.kinds.secondary.key_encoding import is_sure
from lakedex.index.registry import metadata_kind
from lakedex.services.advising.advice import Proposal
from lakedex.services.advising.demand import (
    POINTS,
    RANGES,
    AdvisedTable,
    Demand,
    demands,
    key_demand,
)
from lakedex.services.index_estimating import estimate_index, sampled_table
from lakedex.services.index_names import existing_index, find_index

_MOST_COLUMNS = 8
_LEAST_FILES = 1.0
_LEAST_SHARE = 0.2
"""An index must save a query so many of the files that it reads."""
_POINTS_OF_RANGES = frozenset({"equal", "in"})
"""Comparisons of which every constant is a value of its own."""
_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class _Cost:
    """What an index takes."""

    size_bytes: int
    bytes_per_change: float
    build_seconds: float


_WITH_RECORD_INDEX = " OPTIONS ('hoodie.metadata.global.record.level.index.enable'='true')"


def create_proposals(table: AdvisedTable) -> Iterator[Proposal | str]:
    """What to create; a text says of a column that was looked at why not."""
    if not table.snapshot.slices:
        return
    asked = key_demand(table)
    if asked is not None and not table.has("record_index"):
        yield from _guarded(_record_index, table, asked)
    points = list(demands(table, POINTS))
    columns = [each for each in points if _is_candidate(table, each.column)]
    snapshot = table.snapshot
    answered = {e.column for e in points if existing_index(snapshot, e.column) is not None}
    for demand in columns[:_MOST_COLUMNS]:
        for found in _guarded(_secondary, table, demand):
            if isinstance(found, Proposal):
                answered.add(demand.column)
            yield found
    if not table.has("column_stats"):
        yield from _all_ranges(table, answered)


def _guarded(
    propose: Callable[[AdvisedTable, Demand], _Told], table: AdvisedTable, demand: Demand
) -> Iterator[_Told | str]:
    """One proposal; a part of the table that cannot be read spoils no other."""
    try:
        yield propose(table, demand)
    except LakedexError as error:
        yield f"{table.name}.{demand.column}: {error}"


def _is_candidate(table: AdvisedTable, column: str) -> bool:
    """Whether a secondary index on the column would be asked, and is not there."""
    if column in META_COLUMNS or table.key_columns == (column,):
        return False
    is_spelled = is_sure(table.snapshot.schema.field(column).type)
    return is_spelled and existing_index(table.snapshot, column) is None


def _secondary(table: AdvisedTable, demand: Demand) -> Proposal | str:
    told = estimate_index(table.snapshot, demand.column)
    left = demand.left(demand.values_a_scan, told.files_per_value, told.files)
    if not _pays(demand, left):
        return _too_little(table, demand, left, "a secondary index")
    cost = _Cost(told.size_bytes, told.bytes_per_change, told.build_seconds)
    name, more, why = _free_name(table, demand.column), "", ""
    if not table.has("record_index"):
        needed = _record_index_cost(table)
        cost = _Cost(
            cost.size_bytes + needed.size_bytes,
            cost.bytes_per_change + needed.bytes_per_change,
            cost.build_seconds + needed.build_seconds,
        )
        more, why = _WITH_RECORD_INDEX, "; the record index that it needs is built with it"
    return _proposal(
        table,
        demand,
        left,
        cost,
        index=name,
        kind="secondary_index",
        statement=f"CREATE INDEX {name} ON {table.name} ({demand.column}){more}",
        reason=f"{demand}; a value is in about {told.files_per_value:,.1f} of "
        f"{told.files:,} files{why}",
    )


def _record_index(table: AdvisedTable, demand: Demand) -> Proposal | str:
    left = demand.left(demand.values_a_scan, 1.0, len(table.snapshot.slices))
    if not _pays(demand, left):
        return _too_little(table, demand, left, "the record index")
    cost = _record_index_cost(table)
    keys = ", ".join(table.key_columns)
    return _proposal(
        table,
        demand,
        left,
        cost,
        index="record_index",
        kind="record_index",
        statement=f"CREATE INDEX record_index ON {table.name} ({keys})",
        reason=f"{demand}; a key is in one file",
    )


def _record_index_cost(table: AdvisedTable) -> _Cost:
    estimate = metadata_kind("record_index").estimate_size(sampled_table(table.snapshot), ())
    if estimate is None:
        raise InvalidInput(f"table {table.name} has no rows")
    return _Cost(estimate.size_bytes, estimate.bytes_per_change, estimate.seconds)


def _all_ranges(table: AdvisedTable, answered: set[str]) -> Iterator[Proposal | str]:
    """Column stats of all columns that they pay for: a table has them once.

    Values that a secondary index looks up, there or proposed (`answered`), need no ranges.
    """
    asked = [
        each
        for each in demands(table, RANGES)
        if each.column not in META_COLUMNS
        and not (each.column in answered and each.operators <= _POINTS_OF_RANGES)
    ]
    whole: Proposal | None = None
    for demand in asked[:_MOST_COLUMNS]:
        for found in _guarded(_column_stats, table, demand):
            if isinstance(found, str):
                yield found
            else:
                whole = found if whole is None else _joined(table, whole, found)
    if whole is not None:
        yield whole


def _joined(table: AdvisedTable, one: Proposal, more: Proposal) -> Proposal:
    columns = (*one.columns, *more.columns)
    return replace(
        one,
        columns=columns,
        statement=_stats_statement(table, columns),
        queries=one.queries + more.queries,
        files_saved=one.files_saved + more.files_saved,
        bytes_saved=one.bytes_saved + more.bytes_saved,
        size_bytes=one.size_bytes + more.size_bytes,
        bytes_per_change=one.bytes_per_change + more.bytes_per_change,
        build_seconds=one.build_seconds + more.build_seconds,
        reason=f"{one.reason}. {more.reason}",
    )


def _stats_statement(table: AdvisedTable, columns: Sequence[str]) -> str:
    return f"CREATE INDEX column_stats ON {table.name} ({', '.join(columns)})"


def _column_stats(table: AdvisedTable, demand: Demand) -> Proposal | str:
    kind = metadata_kind("column_stats")
    told = kind.estimate_size(sampled_table(table.snapshot), (demand.column,))
    if told is None:
        return f"{table.name}.{demand.column}: files have no ranges of it"
    asked = demand.values_a_scan if demand.operators <= _POINTS_OF_RANGES else 1.0
    left = demand.left(asked, told.files_per_value, len(table.snapshot.slices))
    if not _pays(demand, left):
        return _too_little(table, demand, left, "column stats")
    return _proposal(
        table,
        demand,
        left,
        _Cost(told.size_bytes, told.bytes_per_change, told.seconds),
        index="column_stats",
        kind="column_stats",
        statement=_stats_statement(table, [demand.column]),
        reason=f"{demand}; a value lies in the ranges of about {told.files_per_value:,.1f} of "
        f"{len(table.snapshot.slices):,} files, a range of values in more",
    )


def _proposal(
    table: AdvisedTable,
    demand: Demand,
    left: float,
    cost: _Cost,
    *,
    index: str,
    kind: str,
    statement: str,
    reason: str,
) -> Proposal:
    saved = demand.saved(left)
    columns = table.key_columns if kind == "record_index" else (demand.column,)
    return Proposal(
        action="create",
        table=table.name,
        index=index,
        kind=kind,
        columns=columns,
        statement=statement,
        queries=demand.scans,
        files_saved=saved,
        bytes_saved=saved * table.mean_bytes,
        size_bytes=cost.size_bytes,
        bytes_per_change=cost.bytes_per_change,
        build_seconds=cost.build_seconds,
        reason=reason,
    )


def _pays(demand: Demand, left: float) -> bool:
    saved = demand.files_a_scan - left
    return saved >= _LEAST_FILES and saved >= _LEAST_SHARE * demand.files_a_scan


def _too_little(table: AdvisedTable, demand: Demand, left: float, what: str) -> str:
    return (
        f"{table.name}.{demand.column}: {what} would leave about {left:,.1f} of the "
        f"{demand.files_a_scan:,.1f} files that a query reads"
    )


def _free_name(table: AdvisedTable, column: str) -> str:
    name, number = f"idx_{column}", 2
    while find_index(table.snapshot, name) is not None:
        name, number = f"idx_{column}_{number}", number + 1
    return name
