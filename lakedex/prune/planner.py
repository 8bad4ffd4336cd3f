"""From a predicate to the file slices that may match, with the reason of every step.

Each step sees only what the last one left, and is taken only where it is worth its cost (`cost`).
An index that fails, that is still being built or that does not know the predicate keeps every slice
and says why; a query never fails for an index. Partition values are read from the paths alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bounds import ColumnBounds, exact_bounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr, Literal, Unknown, columns_of
from lakedex.filegroup import Slices, partition_layout
from lakedex.index.contract import IndexedTable, IndexKind, Mask, Question
from lakedex.index.cost import FIRST_S, LEAST_S, Estimate, round_trip_seconds
from lakedex.index.registry import kinds, kinds_without_metadata
from lakedex.keys import PartitionValue
from lakedex.prune.cost import ANY_ENGINE, Reader, Scales
from lakedex.prune.disjunction import lookups_for
from lakedex.prune.report import Report, Step, shapes_of
from lakedex.table import Snapshot

_PARTITION_PATH = "_hoodie_partition_path"
_PARTITION_VALUES = "partition_values"
_SWITCHED_OFF = "switched off by the caller"
_FEW_SLICES = 1
"""With so few slices left no index lookup can save anything."""


def prune_partitions(
    snapshot: Snapshot, predicate: Expr, partitions: Sequence[str], time_zone: str
) -> Mask | str:
    """Which partitions may hold a match, or why their paths do not determine that."""
    names = {*snapshot.config.partition_fields, _PARTITION_PATH}
    columns = [
        column
        for column in columns_of(predicate)
        if column.name in names and len(column.path) == 1 and column.type is not None
    ]
    if not columns:
        fields = ", ".join(snapshot.config.partition_fields)
        return f"the predicate does not name a partition column ({fields or 'there is none'})"
    types = {column.name: column.type for column in columns if column.type is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) if layout.fields else {} for path in partitions]
    bounds: dict[Expr, ColumnBounds] = {}
    for column in columns:
        if column.name == _PARTITION_PATH:
            found = [PartitionValue(path, known=True) for path in partitions]
        else:
            found = [value[column.name] for value in values]
        bounds[column] = _bounds(column, found)
    if not any(each.known.any() for each in bounds.values()):
        return "the partition paths do not determine the values of their columns"
    mask: Mask = may_match(predicate, bounds, len(partitions), time_zone=time_zone)
    return mask


def is_decided(snapshot: Snapshot, predicate: Expr, partitions: list[str]) -> bool:
    """Whether the paths of these partitions determine every column of the predicate."""
    columns = columns_of(predicate)
    fields = snapshot.config.partition_fields
    if not columns or any(column.path not in [(name,) for name in fields] for column in columns):
        return False
    types = {column.name: column.type for column in columns if column.type is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) for path in partitions]
    return all(value[name].known for value in values for name in types)


def _bounds(column: Column, found: list[PartitionValue]) -> ColumnBounds:
    if any(value.bounds is not None for value in found):
        return _ranges(column, found)
    known = np.array([value.known for value in found], dtype=np.bool_)
    try:
        values = pa.array([value.value for value in found], column.type)
    except (pa.ArrowInvalid, OverflowError):
        values, known = pa.nulls(len(found), column.type), np.zeros(len(found), dtype=np.bool_)
    return exact_bounds(values).where(known)


def _ranges(column: Column, found: list[PartitionValue]) -> ColumnBounds:
    """The bounds of values of which some paths determine only a range."""
    known = np.array([each.known or each.bounds is not None for each in found], dtype=np.bool_)
    pairs = [each.bounds or (each.value, each.value) for each in found]
    least, most = (pa.array([pair[at] for pair in pairs], column.type) for at in (0, 1))
    ones = np.ones(len(found), np.int64)
    return ColumnBounds(least.type, least, most, ones * 0, ones, known)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan: session zone, and indexes to leave alone."""

    time_zone: str = "UTC"
    expression_time_zone: str | None = None
    without: frozenset[str] = field(default_factory=frozenset)
    """Names of indexes, or kinds, that must not be used; `all` switches pruning off."""
    reader: Reader | None = ANY_ENGINE
    """Who reads the files, which decides when an index is worth its cost; None consults them
    all."""
    base_files_only: bool = False
    """Whether rows are read as base files have them, without what log files changed since."""


def plan(
    snapshot: Snapshot,
    predicate: Expr | None,
    *,
    text: str = "",
    options: PlanOptions | None = None,
    unknown: Sequence[str] = (),
) -> Report:
    """The slices that may hold a row for which a predicate is true.

    Args:
        snapshot: The table.
        predicate: Bound and in normal form; None matches everything.
        text: How the report calls the predicate.
        options: How to plan.
        unknown: Why parts of the query are not in the predicate, from a translator; the
            report shows each reason and how often it was met.
    """
    report = _Plan(snapshot, predicate, options or PlanOptions()).run(text)
    return replace(report, notes=report.notes + _not_understood(unknown)) if unknown else report


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An index that left work to another one."""

    kind: IndexKind
    name: str
    question: Question
    step: Step


class _Plan:
    def __init__(self, snapshot: Snapshot, predicate: Expr | None, options: PlanOptions) -> None:
        self._snapshot = snapshot
        self._predicate = predicate
        self._options = options
        self._slices: Slices = snapshot.slices
        self._steps: list[Step] = []
        self._decided_by_path = False
        self._found: dict[str, Any] = {}

    def run(self, text: str) -> Report:
        total = self._slices
        predicate = self._predicate
        notes = []
        if isinstance(predicate, Unknown):
            notes.append(f"the predicate is not understood: {predicate.reason}")
        elif predicate is not None and "all" not in self._options.without:
            self._prune(predicate)
        elif predicate is not None:
            notes.append("all indexes are switched off")
        if self._snapshot.metadata_problem:
            notes.insert(0, f"metadata table not used: {self._snapshot.metadata_problem}")
        return Report(
            predicate=text,
            total=len(total),
            total_bytes=total.size_bytes,
            files=self._slices,
            steps=tuple(self._steps),
            listing=self._snapshot.listing.source,
            notes=tuple(notes),
            shapes=shapes_of(predicate),
        )

    def _prune(self, predicate: Expr) -> None:
        if isinstance(predicate, Literal):
            self._constant(predicate)
            return
        if _PARTITION_VALUES in self._options.without:
            self._skip("partition values", _PARTITION_VALUES, _SWITCHED_OFF)
        else:
            self._step("partition values", _PARTITION_VALUES, lambda: self._by_partition(predicate))
        table = self._snapshot.indexed_table(
            time_zone=self._options.time_zone,
            expression_time_zone=self._options.expression_time_zone,
        )
        known = kinds()
        if table is None:
            known = kinds_without_metadata()
            table = self._snapshot.unindexed_table(time_zone=self._options.time_zone)
        table = replace(table, without=self._options.without)
        scales = self._scales(table)
        waiting: list[_Waiting] = []
        for kind in lookups_for(predicate, known):
            for name in kind.names(table):
                question = self._question(predicate, table, scales)
                if self._is_of_later_rows(kind):
                    # Its answer may be incomplete, so others are consulted as well.
                    question = replace(question, found={})
                self._index(kind, name, question, scales)
                if question.left_to:
                    waiting.append(_Waiting(kind, name, question, self._steps[-1]))
        for each in waiting:
            self._ask_again(each, scales)

    def _question(self, predicate: Expr, table: IndexedTable, scales: Scales | None) -> Question:
        worth = inf if scales is None else scales.worth(self._slices)
        return Question(predicate, self._slices, table, self._found, worth)

    def _ask_again(self, waiting: _Waiting, scales: Scales | None) -> None:
        """Ask an index that left work to another one, if that one gave no answer."""
        answered = {name for step in self._steps if step.used for name in (step.index, step.kind)}
        silent = waiting.question.left_to - answered
        if not silent or len(self._slices) <= _FEW_SLICES:
            return
        if not waiting.step.used:
            # One line for each index: what it says now takes the place of what it said before.
            self._steps.remove(waiting.step)
        question = waiting.question.repeated(silent, self._slices)
        if scales is not None:
            question = replace(question, worth=scales.worth(self._slices))
        self._index(waiting.kind, waiting.name, question, scales)

    def _scales(self, table: IndexedTable) -> Scales | None:
        reader = self._options.reader
        if reader is None:
            return None
        is_remote = round_trip_seconds(table.read.storage) > 0
        return Scales(replace(reader, is_remote=is_remote), self._slices, table.kept)

    def _index(self, kind: IndexKind, name: str, question: Question, scales: Scales | None) -> None:
        if self._options.without.intersection([kind.kind, name]):
            self._skip(name, kind.kind, _SWITCHED_OFF)
        elif len(self._slices) <= _FEW_SLICES:
            self._skip(name, kind.kind, f"not needed: {len(self._slices)} file slices are left")
        elif self._decided_by_path:
            self._skip(name, kind.kind, "not needed: the predicate is about partition values only")
        elif question.worth < (LEAST_S if question.table.kept else FIRST_S):
            reason = f"not worth it: the {len(self._slices)} file slices are read faster"
            self._skip(name, kind.kind, reason)
        else:
            self._weigh(kind, name, question, scales)

    def _weigh(self, kind: IndexKind, name: str, question: Question, scales: Scales | None) -> None:
        started = time.perf_counter()
        before = question.slices
        try:
            estimate = kind.estimate(name, question)
        except LakedexError as error:
            estimate = f"it could not be read: {error}"
        reason = estimate if isinstance(estimate, str) else None
        if scales is not None and isinstance(estimate, Estimate):
            reason = scales.why_not(estimate, before)
        expected = estimate.seconds if isinstance(estimate, Estimate) else None
        if reason is not None:
            self._skip(name, kind.kind, reason, time.perf_counter() - started, expected)
            return
        self._step(name, kind.kind, lambda: self._masked(kind, name, question), expected)
        if scales is not None and expected is not None:
            # By what was expected, not by the clock: the same question gets the same plan.
            scales.spent(expected, before, self._slices)

    def _masked(self, kind: IndexKind, name: str, question: Question) -> tuple[Mask, str] | str:
        answer = kind.lookup(name, question)
        if isinstance(answer, str):
            return answer
        keep = answer.keep
        if self._is_of_later_rows(kind):
            # A row that a log file changed or deleted still stands in the base file as it was.
            keep = keep | np.array([bool(each.logs) for each in question.slices], np.bool_)
        return keep, answer.reason

    def _is_of_later_rows(self, kind: IndexKind) -> bool:
        """Whether an index knows rows only as log files left them, which are not read."""
        return self._options.base_files_only and not kind.describes_files

    def _by_partition(self, predicate: Expr) -> tuple[Mask, str] | str:
        partitions = self._slices.partitions
        keep = prune_partitions(self._snapshot, predicate, partitions, self._options.time_zone)
        if isinstance(keep, str):
            return keep
        kept = {path for path, keeps in zip(partitions, keep.tolist(), strict=True) if keeps}
        self._decided_by_path = is_decided(self._snapshot, predicate, list(kept))
        reason = f"{len(kept)} of {len(partitions)} partitions may match"
        return self._slices.in_partitions(kept), reason

    def _step(
        self,
        name: str,
        kind: str,
        ask: Callable[[], tuple[Mask, str] | str],
        expected: float | None = None,
    ) -> None:
        before = self._slices
        started = time.perf_counter()
        try:
            answer = ask()
        except LakedexError as error:
            answer = f"it could not be read: {error}"
        seconds = time.perf_counter() - started
        if isinstance(answer, str):
            self._skip(name, kind, answer, seconds, expected)
            return
        mask, reason = answer
        kept = before if mask.all() else before.where(mask)
        saved = before.size_bytes - kept.size_bytes
        self._slices = kept
        counts = len(before), len(kept)
        step = Step(name, kind, *counts, saved, seconds, reason, estimated_seconds=expected)
        self._steps.append(step)

    def _skip(
        self,
        name: str,
        kind: str,
        reason: str,
        seconds: float = 0.0,
        expected: float | None = None,
    ) -> None:
        count = len(self._slices)
        step = Step(name, kind, count, count, 0, seconds, reason, False, expected)  # noqa: FBT003
        self._steps.append(step)

    def _constant(self, predicate: Literal) -> None:
        if predicate.value is not True:
            nothing = np.zeros(len(self._slices), dtype=np.bool_)
            reason = "the predicate is never true"
            self._step("predicate", "constant", lambda: (nothing, reason))


def _not_understood(reasons: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"not understood, so nothing is pruned by it: {reason}"
        + (f" ({count} times)" if count > 1 else "")
        for reason, count in Counter(reasons).items()
    )
