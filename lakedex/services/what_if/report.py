"""Adds assumed indexes to the report of a query: what each would leave, marked as assumed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakedex.errors import InvalidInput, LakedexError
from lakedex.expr.tree import Expr, Unknown
from lakedex.filegroup import META_COLUMNS, FileSlice
from lakedex.index.advice import HypotheticalIndex, Sampled, WhatIfQuery
from lakedex.index.cost import LEAST_S
from lakedex.index.registry import default_kind, kinds_by_name, metadata_kind
from lakedex.index.size_estimate import spread_slices
from lakedex.prune import Report, Step
from lakedex.services.index_estimating import stored_ranges
from lakedex.services.index_names import indexed_path
from lakedex.table import Snapshot

_MOST_SLICES = 256
_MOST_BYTES = 512 << 20
"""Up to so many slices and bytes are all looked into; of more, some."""
_SAMPLED_SLICES = 48
_ENOUGH_HITS = 3
"""From so many sampled slices on, their share is that of all."""


def with_assumed(
    snapshot: Snapshot,
    predicate: Expr | None,
    report: Report,
    names: Sequence[str],
    *,
    time_zone: str = "UTC",
) -> Report:
    """A report with the steps of indexes that do not exist yet, after those that do.

    Args:
        snapshot: The table.
        predicate: Bound and in normal form.
        report: What is read today; its files stay as they are.
        names: Columns that would have a secondary index each, `city, rider` for one on both; or
            `record_index`, `column_stats` and `bloom_filters`.
        time_zone: The session zone.

    Raises:
        InvalidInput: There is no such column, or it cannot be indexed.
    """
    indexes = [_index(snapshot, name) for name in names]
    if not indexes:
        return report
    if predicate is None or isinstance(predicate, Unknown):
        note = "indexes are assumed, but there is no predicate that they could answer"
        return replace(report, expected=len(report.files), notes=(*report.notes, note))
    view = _View.of(report.files)
    query = _query(snapshot, predicate, time_zone)
    steps = [view.take(index, query) for index in indexes]
    notes = [*report.notes]
    if view.share < 1 and any(step.used for step in steps):
        notes.append(
            f"assumed indexes are told from {view.seen} of {len(report.files):,} file slices, "
            "so their figures are estimates"
        )
    return replace(
        report, steps=(*report.steps, *steps), expected=round(view.left), notes=tuple(notes)
    )


@dataclass
class _View:
    """The slices that are looked into, and how many they stand for."""

    slices: list[FileSlice]
    share: float
    seen: int
    left: float
    """How many slices are left of all, about."""
    bytes_left: int
    """What they hold, about."""

    @classmethod
    def of(cls, files: tuple[FileSlice, ...]) -> _View:
        stored = _bytes_of(files)
        if len(files) <= _MOST_SLICES and stored <= _MOST_BYTES:
            return cls(list(files), 1.0, len(files), len(files), stored)
        chosen = spread_slices(files, _SAMPLED_SLICES)
        return cls(chosen, len(chosen) / len(files), len(chosen), len(files), stored)

    def take(self, index: HypotheticalIndex, query: WhatIfQuery) -> Step:
        """What an index would leave of what is left."""
        started = time.perf_counter()
        before = round(self.left)
        try:
            why_not = index.why_not(query)
            sampled = None if why_not else index.sample(query, self.slices, self.share)
        except LakedexError as error:
            why_not, sampled = f"the data could not be read: {error}", None
        seconds = time.perf_counter() - started
        name = f"{index.name} (assumed)"
        if sampled is None:
            reason = f"assumed, but would not be asked: {why_not}"
            return Step(
                name, index.kind, before, before, 0, seconds, reason, used=False, assumed=True
            )
        saved = self._narrow(sampled)
        return Step(
            name,
            index.kind,
            before,
            round(self.left),
            saved,
            seconds,
            f"assumed: {sampled.reason}",
            estimated_seconds=LEAST_S * index.lookups,
            assumed=True,
        )

    def _narrow(self, sampled: Sampled) -> int:
        """Leave what an index would, and tell the bytes that it saves: no more than are left."""
        before = self.left
        hits = int(sampled.keep.sum())
        expected = hits / self.share
        if sampled.typical is not None and hits < _ENOUGH_HITS:
            expected = sampled.typical
        if self.slices or self.share == 1:
            self.left = min(self.left, expected)
        kept = [self.slices[number] for number in np.flatnonzero(sampled.keep).tolist()]
        if self.share == 1:
            saved = _bytes_of(self.slices) - _bytes_of(kept)
        else:
            saved = round(self.bytes_left * (1 - self.left / before)) if before else 0
        self.slices = kept
        self.bytes_left -= saved
        return saved


def _bytes_of(slices: Sequence[FileSlice]) -> int:
    return sum(each.size_bytes for each in slices)


def _query(snapshot: Snapshot, predicate: Expr, time_zone: str) -> WhatIfQuery:
    return WhatIfQuery(
        read=snapshot.read_context,
        predicate=predicate,
        is_latest=snapshot.is_latest,
        read_definitions=lambda: snapshot.definitions,
        ranges=lambda columns, slices: stored_ranges(snapshot, columns, slices),
        time_zone=time_zone,
    )


def _index(snapshot: Snapshot, name: str) -> HypotheticalIndex:
    """The index that a name stands for: columns, or a kind that a table has once."""
    columns = _columns(snapshot, name)
    kind = default_kind() if columns else None
    if name in kinds_by_name() and not columns:
        kind = metadata_kind(name)
    if kind is not None:
        return kind.what_if(columns, snapshot.schema)
    known = ", ".join(each for each in snapshot.schema.names if each not in META_COLUMNS)
    raise InvalidInput(
        f"table {snapshot.config.name} has no column {name!r} to assume an index on; it has "
        f"{known}, and {', '.join(kinds_by_name())} can be assumed too"
    )


def _columns(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """The columns of a secondary index as the table spells them; none where one is missing."""
    whole = name in snapshot.schema.names
    asked = [name] if whole else [each.strip() for each in name.split(",")]
    try:
        found = tuple(indexed_path(snapshot, each) for each in asked)
    except InvalidInput:
        return ()
    return () if {*found} & {*META_COLUMNS} else found
