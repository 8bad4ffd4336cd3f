"""Proposes indexes to create and to drop, judging by the queries that were counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial

from lakedex.errors import LakedexError
from lakedex.filegroup import RECORD_KEY
from lakedex.index.advice import Demand, Suggestion, Workload
from lakedex.index.catalog import IndexInfo, list_indexes
from lakedex.index.registry import advising_kinds, default_kind, find_metadata_kind, metadata_kind
from lakedex.index.size_estimate import SizeEstimate
from lakedex.prune.usage import IndexUsage, TableUsage
from lakedex.services.advising.advice import Advice, AdvisedTable, Proposal, ranked
from lakedex.services.index_estimating import estimate_index, sampled_table
from lakedex.services.index_names import find_index
from lakedex.table import Snapshot

_ENOUGH_QUERIES = 10
"""An index that was there for fewer queries may still be needed."""


def advise_table(snapshot: Snapshot, usage: TableUsage, name: str) -> Advice:
    """What to create and to drop, judging by the queries that were counted.

    Args:
        snapshot: The table; samples of its data are read.
        usage: What was counted.
        name: What statements call the table.
    """
    table = AdvisedTable(snapshot, usage, name)
    if not usage.scans:
        note = f"{name}: no query with a predicate was counted yet"
        return Advice((), (note,))
    found = list(create_proposals(table))
    notes = [each for each in found if isinstance(each, str)]
    proposals = [each for each in found if isinstance(each, Proposal)]
    proposals += drop_proposals(table)
    return Advice(ranked(proposals), tuple(notes))


def joined_advice(parts: Sequence[Advice]) -> Advice:
    """The advice of several tables, ranked together.

    Example:
        >>> print(joined_advice([Advice((), ("trips: nothing was counted",))]))
        no index to create or to drop
        note: trips: nothing was counted
    """
    proposals = [each for part in parts for each in part.proposals]
    return Advice(ranked(proposals), tuple(note for part in parts for note in part.notes))


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
            yield each if isinstance(each, str) else _create_proposal(table, each)


def _estimate(table: AdvisedTable, kind: str, columns: tuple[str, ...]) -> SizeEstimate | None:
    if kind != default_kind().kind:
        return metadata_kind(kind).estimate_size(sampled_table(table.snapshot), columns)
    return estimate_index(table.snapshot, columns).as_size()


def _create_proposal(table: AdvisedTable, suggestion: Suggestion) -> Proposal:
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


def drop_proposals(table: AdvisedTable) -> Iterator[Proposal]:
    """What to drop: indexes that no query profited from and that serve queries only."""
    view = table.snapshot
    covered: dict[tuple[str, tuple[str, ...], str], str] = {}
    for info in list_indexes(view.config, view.definitions, view.metadata):
        kind = find_metadata_kind(info.name)
        if info.state != "live" or kind is None or not kind.serves_queries_only:
            continue
        same = covered.setdefault((info.kind, info.columns, info.function), info.name)
        reason = f"{same} is on the same column" if same != info.name else _why(table, info)
        if reason is not None:
            yield _drop_proposal(table, info, reason)


def _why(table: AdvisedTable, info: IndexInfo) -> str | None:
    used = table.usage.indexes.get(info.name, IndexUsage())
    if used.offered < _ENOUGH_QUERIES or used.files_pruned:
        return None
    if not used.scans:
        return f"none of {used.offered:,} queries asked it"
    return f"{used.scans:,} of {used.offered:,} queries asked it, and it left out no file"


def _drop_proposal(table: AdvisedTable, info: IndexInfo, reason: str) -> Proposal:
    per_change = 0.0
    if info.columns:
        with suppress(LakedexError):
            per_change = estimate_index(table.snapshot, info.columns).bytes_per_change
    used = table.usage.indexes.get(info.name, IndexUsage())
    own = metadata_kind(info.name).given_name(info.name)
    return Proposal(
        action="drop",
        table=table.name,
        index=own,
        kind=info.kind,
        columns=info.columns,
        statement=f"DROP INDEX {own} ON {table.name}",
        queries=used.offered,
        files_saved=0.0,
        bytes_saved=0.0,
        size_bytes=info.size_bytes,
        bytes_per_change=per_change,
        build_seconds=0.0,
        reason=f"{reason}; every write keeps it up to date",
    )
