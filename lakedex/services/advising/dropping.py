"""Indexes that cost writes and that no query was helped by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lakedex.errors import LakedexError
from lakedex.index.catalog import IndexInfo, list_indexes
from lakedex.index.registry import find_metadata_kind, metadata_kind
from lakedex.prune.usage import IndexUsage
from lakedex.services.advising.advice import AdvisedTable, Proposal
from lakedex.services.index_estimating import estimate_index

_ENOUGH_QUERIES = 10
"""An index that was there for fewer queries may still be needed."""


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
            yield _proposal(table, info, reason)


def _why(table: AdvisedTable, info: IndexInfo) -> str | None:
    used = table.usage.indexes.get(info.name, IndexUsage())
    if used.offered < _ENOUGH_QUERIES or used.files_pruned:
        return None
    if not used.scans:
        return f"none of {used.offered:,} queries asked it"
    return f"{used.scans:,} of {used.offered:,} queries asked it, and it left out no file"


def _proposal(table: AdvisedTable, info: IndexInfo, reason: str) -> Proposal:
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
