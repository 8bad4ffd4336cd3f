"""Runs a clustering: the rows of file slices in new file groups, in an order, as one commit.

    plan -> sample -> spread -> write -> commit

The plan goes on the timeline first, so that other writers leave its file groups alone. Readers see
the old file groups until the commit, and the new ones after it, with the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.services.clustering.moved_keys import moved_keys
from lakedex.services.clustering.plan import Regrouping, regroup, requested
from lakedex.services.clustering.selection import Selection
from lakedex.table import Snapshot
from lakedex.timeline import Action
from lakedex.txn.transaction import Transaction
from lakedex.write.assign import arranged_groups, share_out
from lakedex.write.commit import Outcome, commit_outcome
from lakedex.write.due import compact_metadata
from lakedex.write.handles.task import write_groups
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.layout.arranging import Unarranged, arrange
from lakedex.write.layout.order import RowOrder, Strategy, column_names
from lakedex.write.layout.parts import Part
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import CLUSTER
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.row_size import stored_rows
from lakedex.write.scratch import Scratch
from lakedex.write.table_facts import table_facts
from lakedex.write.taking import Target
from lakedex.write.target import StoredSchema, WriteSchema
from lakedex.write.verbs import TableWriter

log = logging.getLogger("lakedex")


def cluster_table(
    writer: TableWriter,
    by: str | Sequence[str] = (),
    strategy: str | Strategy | None = None,
    where: str | None = None,
    *,
    time_zone: str = "UTC",
) -> WriteResult:
    """Lay the rows of a table out anew.

    Args:
        writer: The table, with Hudi's options: `hoodie.clustering.plan.strategy.*`.
        by: The column or columns that queries filter by; those of the option
            `hoodie.clustering.plan.strategy.sort.columns` unless told.
        strategy: `linear`, `zorder` or `hilbert`; that of the option
            `hoodie.layout.optimize.strategy` unless told.
        where: A SQL condition on partition columns; only these partitions are clustered.
        time_zone: The session zone of the condition.

    Raises:
        InvalidInput: a column, the strategy or the condition is wrong; nothing was changed.
        CommitConflict: another writer was first; the table is as it was.
    """
    target = writer.target()
    layout = target.options.layout
    layout.require_kept_meta()
    clock = StepClock()
    snapshot = Snapshot.open(target.address.open())
    order = RowOrder.of(
        column_names(by) or layout.clustering_columns,
        Strategy.parse(layout.strategy if strategy is None else strategy),
        WriteSchema.of(StoredSchema.of(snapshot).columns, StoredSchema.of(snapshot)).full,
    )
    if where is not None and not isinstance(where, str):
        raise InvalidInput(f"where is a SQL condition as text, not {where!r}")
    selection = Selection(
        where=where,
        partitions=layout.clustering_partitions,
        most_bytes=layout.clustering_most_bytes,
        time_zone=time_zone,
    )
    if not selection.slices(snapshot):
        return WriteResult(CLUSTER.name, None, seconds=clock.seconds)
    run = _Run(target, order, selection, clock)
    for attempt in range(target.conflict_retries + 1):
        try:
            return run.attempt()
        except CommitConflict:
            if attempt == target.conflict_retries:
                raise
            log.warning("%s lost a conflict and is tried again", CLUSTER.name)
    raise AssertionError("unreachable")


class _Run:
    """One clustering, which may take several attempts."""

    def __init__(
        self, target: Target, order: RowOrder, selection: Selection, clock: StepClock
    ) -> None:
        self._target = target
        self._order = order
        self._selection = selection
        self._clock = clock
        self._groups: tuple[Regrouping, ...] = ()

    def attempt(self) -> WriteResult:
        """Plan, write, commit; whatever fails is rolled back."""
        with Scratch(self._target.address) as scratch:
            with self._clock.step("begin"):
                transaction = Transaction.begin(
                    self._target.address,
                    action=Action.CLUSTERING,
                    operation=CLUSTER.name,
                    options=self._target.patience,
                    plan=self._plan,
                )
            with transaction:
                if not self._groups:
                    return WriteResult(CLUSTER.name, None, seconds=self._clock.seconds)
                return self._write(transaction, scratch.path)

    def _plan(self, snapshot: Snapshot) -> bytes:
        slices = self._selection.slices(snapshot)
        self._groups = regroup(slices, self._target.options.layout.clustering_file_bytes)
        return requested(snapshot.storage, self._groups, self._order)

    def _write(self, transaction: Transaction, scratch: str) -> WriteResult:
        target, clock, snapshot = self._target, self._clock, transaction.snapshot
        stored = StoredSchema.of(snapshot)
        schema = WriteSchema.of(stored.columns, stored)
        plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
        facts = table_facts(
            target, snapshot, schema, plan, instant=transaction.instant, scratch=scratch, rows=0
        )
        # Values and keys stay as they are, and so do the secondary indexes.
        facts = replace(facts, secondary=())
        with clock.step("layout"):
            arranged = arrange(target.engine, facts, self._order, self._unarranged(snapshot))
            groups = arranged_groups(arranged, self._order)
            shares = share_out(groups, facts.instant, target.engine.parallelism)
        with clock.step("write"):
            transaction.start_writing()
            tasks = [
                WriteTask(facts, number, tuple(share))
                for number, share in enumerate(shares)
                if share
            ]
            done: list[TaskResult] = target.engine.map("write the files", write_groups, tasks)
            replaced = tuple(each for group in self._groups for each in group.slices)
            # Every key stays: the entry of its new place takes that of the old one.
            notes = tuple(note for answer in done for note in answer.notes)
            if plan.has_record_index:
                notes = moved_keys(target.engine, facts, snapshot, replaced, notes)
        outcome = Outcome(
            facts=facts,
            stored=stored.columns,
            schema=schema,
            plan=plan,
            answers=tuple(done),
            notes=notes,
            replaced=replaced,
            kept={**target.kept, **target.options.kept()},
        )
        with clock.step("commit"):
            commit_outcome(
                target.engine, CLUSTER, transaction, outcome, unique_keys=False, is_global=False
            )
        with clock.step("services"):
            compact_metadata(target)
        files = [file for answer in done for file in answer.files]
        result = WriteResult(
            CLUSTER.name,
            facts.instant,
            rows_in=sum(file.num_writes for file in files),
            files=len(files),
            file_groups_replaced=len(replaced),
            bytes_written=sum(file.size for file in files),
            seconds=clock.seconds,
        )
        log.info("%s", result)
        return result

    def _unarranged(self, snapshot: Snapshot) -> dict[str, Unarranged]:
        rows, table_bytes = stored_rows(snapshot), sum(e.size_bytes for e in snapshot.slices)
        found = {}
        for group in self._groups:
            parts = tuple(Part(group.partition, each) for each in group.slices)
            own = sum(part.size_bytes for part in parts)
            about = rows * own // max(table_bytes, 1)
            found[group.partition] = Unarranged(parts, about, group.files)
        return found
