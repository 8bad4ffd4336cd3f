"""Lays the rows of file slices out again: in new file groups, in an order, as one commit.

sample -> spread -> write -> commit
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakedex.services.clustering.moved_keys import moved_keys
from lakedex.services.clustering.plan import Regrouping
from lakedex.services.rewrite_commit import commit_rewrite
from lakedex.table import Snapshot
from lakedex.txn.transaction import Transaction
from lakedex.write.assign import arranged_groups, share_out, stored_rows
from lakedex.write.commit import Outcome
from lakedex.write.handles.task import write_groups
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.layout.arranging import Part, Unarranged, arrange
from lakedex.write.layout.order import RowOrder
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import CLUSTER
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target, write_context

log = logging.getLogger("lakedex")


def rewrite_groups(
    target: Target,
    transaction: Transaction,
    groups: Sequence[Regrouping],
    order: RowOrder,
    *,
    scratch: str,
    clock: StepClock,
) -> WriteResult:
    """Write the rows of groups of slices to new file groups, and commit the clustering.

    Raises:
        CommitConflict: another writer was first; the clustering is rolled back.
    """
    snapshot = transaction.snapshot
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(
        target, snapshot, schema, plan, instant=transaction.instant, scratch=scratch, rows=0
    )
    # Values and keys stay as they are, and so do the indexes of rows.
    facts = facts.without_row_indexes()
    with clock.step("layout"):
        arranged = arrange(target.engine, facts, order, _unarranged(snapshot, groups))
        files = arranged_groups(arranged, order)
        shares = share_out(files, facts.instant, target.engine.parallelism)
    with clock.step("write"):
        transaction.start_writing()
        tasks = [
            WriteTask(facts, number, tuple(share)) for number, share in enumerate(shares) if share
        ]
        done: list[TaskResult] = target.engine.map("write the files", write_groups, tasks)
        replaced = tuple(each for group in groups for each in group.slices)
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
        kept=target.kept_then,
        kept_before=target.kept,
    )
    return commit_rewrite(target, CLUSTER, transaction, outcome, clock)


def _unarranged(snapshot: Snapshot, groups: Sequence[Regrouping]) -> dict[str, Unarranged]:
    rows, table_bytes = stored_rows(snapshot), snapshot.slices.size_bytes
    found = {}
    for group in groups:
        parts = tuple(Part(group.partition, each) for each in group.slices)
        own = sum(part.size_bytes for part in parts)
        about = rows * own // max(table_bytes, 1)
        found[group.partition] = Unarranged(parts, about, group.files)
    return found
