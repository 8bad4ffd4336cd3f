"""Rescaling: another fixed number of buckets for a table, or for some of its partitions.

All rows are written again, as one commit; readers see the old buckets until then. Writers that
began before are refused: the hash of a key names another file group afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.services.clustering.moved_keys import moved_keys
from lakedex.timeline import Action
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.operation import RESCALE
from lakedex.write.post_commit import commit_rewrite
from lakedex.write.resizing.rescaling import NewCounts, plan_rescale, write_rescale
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import Target

log = logging.getLogger("lakedex")
_LEAST_ATTEMPTS = 3


def rescale_buckets(
    writer: TableWriter, buckets: int, partitions: Sequence[str] = ()
) -> WriteResult:
    """Put the rows of a table, or of some partitions, into another number of buckets.

    Args:
        writer: The table, whose bucket index has the engine SIMPLE.
        buckets: The new number of buckets of each partition.
        partitions: The paths of some partitions; none for all, and for those to come.

    Raises:
        InvalidInput: the table has no fixed number of buckets, the number is none, or a partition
            is not there.
        CommitConflict: other writers were first all the time; the table is as it was.
    """
    if isinstance(buckets, bool) or not isinstance(buckets, int):
        raise InvalidInput(f"the number of buckets is a whole number, not {buckets!r}")
    return rescale_partitions(writer, NewCounts(buckets, tuple(partitions)))


def rescale_partitions(writer: TableWriter, counts: NewCounts) -> WriteResult:
    """As `rescale_buckets`, with numbers that rules say by partition.

    Raises:
        InvalidInput: the table has no fixed number of buckets, or a rule is none.
        CommitConflict: other writers were first all the time; the table is as it was.
    """
    target = writer.target()
    clock = StepClock()
    if plan_rescale(target, target.snapshot, counts).changes_nothing:
        return WriteResult(RESCALE.name, None, seconds=clock.seconds)
    attempts = max(_LEAST_ATTEMPTS, target.conflict_retries + 1)
    for attempt in range(attempts):
        try:
            return _run(target, counts, clock)
        except CommitConflict:
            if attempt == attempts - 1:
                raise
            log.warning("%s lost a conflict and is tried again", RESCALE.name)
    raise AssertionError("unreachable")


def _run(target: Target, counts: NewCounts, clock: StepClock) -> WriteResult:
    with Scratch(target.address) as scratch:
        with clock.step("begin"):
            transaction = Transaction.begin(
                target.address,
                action=Action.REPLACECOMMIT,
                operation=RESCALE.name,
                options=target.patience,
                before=target.snapshot,
            )
        with transaction:
            plan = plan_rescale(target, transaction.snapshot, counts)
            outcome = write_rescale(target, transaction, plan, scratch=scratch.path, clock=clock)
            if outcome.plan.has_record_index:
                notes = moved_keys(
                    target.engine,
                    outcome.facts,
                    transaction.snapshot,
                    outcome.replaced,
                    outcome.notes,
                )
                outcome = replace(outcome, notes=notes)
            return commit_rewrite(target, RESCALE, transaction, outcome, clock)
