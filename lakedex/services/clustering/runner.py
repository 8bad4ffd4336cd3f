"""Plans and runs a clustering in one go.

The plan goes on the timeline first, so that other writers leave its file groups alone. Readers see
the old file groups until the commit, and the new ones after it, with the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakedex.errors import CommitConflict
from lakedex.services.clustering.plan import Regrouping, regroup, requested
from lakedex.services.clustering.request import Asked
from lakedex.services.clustering.resizing import cluster_buckets, has_ring
from lakedex.services.clustering.rewriting import rewrite_groups
from lakedex.services.clustering.selection import Selection
from lakedex.table import Snapshot
from lakedex.timeline import Action
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.layout.order import RowOrder, Strategy
from lakedex.write.operation import CLUSTER
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import Target

log = logging.getLogger("lakedex")


def cluster_table(
    writer: TableWriter,
    by: str | Sequence[str] = (),
    strategy: str | Strategy | None = None,
    where: str | None = None,
    *,
    time_zone: str = "UTC",
) -> WriteResult:
    """Lay the rows of a table out again.

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
    if has_ring(target):
        return cluster_buckets(writer, by, where, time_zone)
    clock = StepClock()
    snapshot = Snapshot.open(target.address.open())
    asked = Asked.of(target, snapshot, by, strategy, where, time_zone)
    if not asked.selection.slices(snapshot):
        return WriteResult(CLUSTER.name, None, seconds=clock.seconds)
    run = _Run(target, asked.order, asked.selection, clock)
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
                return rewrite_groups(
                    self._target,
                    transaction,
                    self._groups,
                    self._order,
                    scratch=scratch.path,
                    clock=self._clock,
                )

    def _plan(self, snapshot: Snapshot) -> bytes:
        slices = self._selection.slices(snapshot)
        self._groups = regroup(slices, self._target.options.layout.clustering_file_bytes)
        return requested(snapshot.storage, self._groups, self._order)
