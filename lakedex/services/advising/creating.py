"""Indexes that would have helped the queries that were counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from lakedex.filegroup import RECORD_KEY
from lakedex.index.advice import Demand, Suggestion, Workload
from lakedex.index.registry import advising_kinds, default_kind, metadata_kind
from lakedex.index.size_estimate import SizeEstimate
from lakedex.services.advising.advice import AdvisedTable, Proposal
from lakedex.services.index_estimating import estimate_index, sampled_table
from lakedex.services.index_names import find_index


def create_proposals(table: AdvisedTable) -> Iterator[Proposal | str]:
    """What to create; a text says of a column that was looked at why not."""
    snapshot = table.snapshot
    if not snapshot.slices:
        return
    workload = Workload(
        name=table.name,
        config=snapshot.config,
        schema=snapshot.schema,
        definitions=snapshot.definitions,
        files=len(snapshot.slices),
        demands=partial(_demands, table),
        key_demand=partial(_key_demand, table),
        estimate=partial(_estimate, table),
        is_taken=lambda name: find_index(snapshot, name) is not None,
    )
    for kind in advising_kinds():
        for each in kind.advise(workload):
            yield each if isinstance(each, str) else _proposal(table, each)


def _estimate(table: AdvisedTable, kind: str, columns: tuple[str, ...]) -> SizeEstimate | None:
    if kind != default_kind().kind:
        return metadata_kind(kind).estimate_size(sampled_table(table.snapshot), columns)
    return estimate_index(table.snapshot, columns).as_size()


def _proposal(table: AdvisedTable, suggestion: Suggestion) -> Proposal:
    columns = ", ".join(suggestion.columns)
    return Proposal(
        action="create",
        table=table.name,
        index=suggestion.index,
        kind=suggestion.kind,
        columns=suggestion.columns,
        statement=f"CREATE INDEX {suggestion.index} ON {table.name} ({columns})"
        f"{suggestion.options}",
        queries=suggestion.queries,
        files_saved=suggestion.files_saved,
        bytes_saved=suggestion.files_saved * table.mean_bytes,
        size_bytes=suggestion.size_bytes,
        bytes_per_change=suggestion.bytes_per_change,
        build_seconds=suggestion.build_seconds,
        reason=suggestion.reason,
    )


def _demands(table: AdvisedTable, operators: Collection[str]) -> list[Demand]:
    """How bare columns were compared by some operators; most files read first."""
    by_column: dict[str, Demand] = {}
    for (column, operator, expression), seen in table.usage.predicates.items():
        if expression or operator not in operators or not seen.scans:
            continue
        if column not in table.snapshot.schema.names:
            continue
        demand = by_column.setdefault(column, Demand(column))
        demand.scans += seen.scans
        demand.files_read += seen.files_read
        demand.values += seen.values
        demand.unanswered += seen.unanswered
        demand.operators.add(operator)
    return sorted(by_column.values(), key=lambda each: (-each.files_read, each.column))


def _key_demand(table: AdvisedTable) -> Demand | None:
    """How the record key was compared; of several key columns the one compared least."""
    by_column = {each.column: each for each in _demands(table, {"equal", "in"})}
    if RECORD_KEY in by_column:
        return by_column[RECORD_KEY]
    keys = [by_column.get(name) for name in table.snapshot.config.record_key_fields]
    known = [each for each in keys if each is not None]
    if not known or len(known) < len(keys):
        return None
    return min(known, key=lambda each: each.scans)
