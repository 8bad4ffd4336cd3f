"""The end of a service that wrote rows anew without changing them: its commit, and what follows."""

from __future__ import annotations

import logging

from lakedex.txn.transaction import Transaction
from lakedex.write.commit import Outcome, commit_outcome
from lakedex.write.context import Target
from lakedex.write.operation import Operation
from lakedex.write.post_commit import tend
from lakedex.write.result import StepClock, WriteResult

log = logging.getLogger("lakedex")


def commit_rewrite(
    target: Target,
    operation: Operation,
    transaction: Transaction,
    outcome: Outcome,
    clock: StepClock,
) -> WriteResult:
    """Commit what a compaction or clustering wrote, do what is due, and tell what it came to.

    Raises:
        CommitConflict: another writer was first; the run is rolled back.
    """
    with clock.step("commit"):
        commit_outcome(
            target.engine,
            operation,
            transaction,
            outcome,
            unique_keys=False,
            is_global=False,
            moves_only=True,
        )
    with clock.step("services"):
        tend(target)
    files = [file for answer in outcome.answers for file in answer.files]
    result = WriteResult(
        operation.name,
        outcome.facts.instant,
        rows_in=sum(file.num_writes for file in files),
        files=len(files),
        file_groups_replaced=len(outcome.replaced),
        bytes_written=sum(file.size for file in files),
        seconds=clock.seconds,
    )
    log.info("%s", result)
    return result
