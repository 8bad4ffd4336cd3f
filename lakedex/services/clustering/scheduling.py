"""Clusterings that are planned at one time and run at another, by whichever process or engine.

While a plan pends, writes to its file groups are refused; new rows go elsewhere. A run that fails
leaves the plan as it was.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.services.clustering.plan import (
    LAYOUT_STRATEGY,
    SORT_COLUMNS,
    WRITE_ORDER,
    Regrouping,
    regroup,
    requested,
)
from lakedex.services.clustering.request import Asked, table_order
from lakedex.services.clustering.resizing import (
    has_ring,
    pending_resizes,
    run_resize,
    schedule_buckets,
)
from lakedex.services.clustering.rewriting import rewrite_groups
from lakedex.table import Snapshot
from lakedex.timeline import Action, Timeline
from lakedex.timeline.clustering_plan import ClusteringPlan
from lakedex.txn.begin import locked_table, put_plan
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.layout.order import RowOrder, Strategy
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.rows import KEY
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import Target

log = logging.getLogger("lakedex")


def schedule_clustering(
    writer: TableWriter,
    by: str | Sequence[str] = (),
    strategy: str | Strategy | None = None,
    where: str | None = None,
    *,
    time_zone: str = "UTC",
) -> str | None:
    """Plan a clustering and answer its instant; None when there is nothing to lay out.

    The arguments are those of `cluster_table`. Until the plan is run or taken back, writes to the
    file groups that it names are refused.

    Raises:
        InvalidInput: a column, the strategy or the condition is wrong; nothing was changed.
        CommitConflict: other writers held the lock all the time.
    """
    target = writer.target()
    if has_ring(target):
        return schedule_buckets(writer, by, where, time_zone)
    storage, patience = target.address.open(), target.patience
    asked = Asked.of(target, Snapshot.open(storage), by, strategy, where, time_zone)
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        slices = asked.selection.slices(Snapshot.open(storage))
        if not slices:
            return None
        groups = regroup(slices, target.options.layout.clustering_file_bytes)
        plan = requested(storage, groups, asked.order)
        instant = put_plan(table, Action.CLUSTERING, plan)
    log.info("scheduled the clustering %s", instant)
    return instant


def run_clustering(writer: TableWriter, instant: str) -> WriteResult:
    """Run a clustering that pends, whoever planned it.

    Raises:
        InvalidInput: no such clustering pends.
        CommitConflict: another process runs it, or a writer was first; the plan stays.
    """
    target = writer.target()
    if instant in pending_resizes(target.snapshot.timeline):
        return run_resize(writer, instant)
    clock = StepClock()
    with Scratch(target.address) as scratch:
        with clock.step("begin"):
            transaction = Transaction.resume(
                target.address, instant, action=Action.CLUSTERING, options=target.patience
            )
        with transaction:
            snapshot = transaction.snapshot
            plan = snapshot.timeline.requested_replace(instant).clustering
            if plan is None:
                raise InvalidInput(f"the requested file of {instant} holds no clustering plan")
            return rewrite_groups(
                target,
                transaction,
                planned_groups(snapshot, plan),
                planned_order(snapshot, plan, target),
                scratch=scratch.path,
                clock=clock,
            )


def run_pending_clusterings(writer: TableWriter) -> list[WriteResult]:
    """Run every clustering that pends; those that another process runs are left to it."""
    storage = writer.address.open()
    results = []
    for instant in pending_clusterings(Snapshot.open(storage).timeline):
        try:
            results.append(run_clustering(writer, instant))
        except CommitConflict as error:
            log.warning("the clustering %s was not run: %s", instant, error)
        except InvalidInput:
            if Snapshot.open(storage).timeline.is_pending(instant):
                raise
            log.info("another process has run the clustering %s, or took it back", instant)
    return results


def pending_clusterings(timeline: Timeline) -> tuple[str, ...]:
    """The instants of clusterings that were planned and not completed, oldest first."""
    return tuple(each.requested_time for each in timeline.pending_of(Action.CLUSTERING))


def planned_groups(snapshot: Snapshot, plan: ClusteringPlan) -> tuple[Regrouping, ...]:
    """The slices of a plan by partition, as they are now; replaced ones are left out."""
    slices = {each.id: each for each in snapshot.slices}
    found: dict[str, list[FileSlice]] = defaultdict(list)
    files: dict[str, int] = defaultdict(int)
    for group in plan.groups:
        for each in group.slices:
            current = slices.get(FileSliceId(each.partition_path, each.file_id))
            if current is None:
                log.info("%s was replaced since it was planned: left out", each.file_id)
                continue
            found[current.partition].append(current)
        for partition in {each.partition_path for each in group.slices}:
            files[partition] += max(1, group.output_file_groups)
    return tuple(
        Regrouping(partition, tuple(own), files[partition])
        for partition, own in sorted(found.items())
    )


def planned_order(snapshot: Snapshot, plan: ClusteringPlan, target: Target) -> RowOrder:
    """The order of a plan; by record keys where it names no columns.

    How several columns become one order stands in plans of lakedex, and so do expression indexes;
    Hudi leaves the first to the options of whoever runs the plan.

    Raises:
        InvalidInput: a column that it names is not there, or has no order.
    """
    said = plan.extra or {}
    listed = said.get(WRITE_ORDER) or plan.strategy_params.get(SORT_COLUMNS, "")
    names = [name.strip() for name in listed.split(",")]
    wanted = [name for name in names if name] or [KEY]
    chosen = said.get(LAYOUT_STRATEGY, target.options.layout.strategy)
    return table_order(snapshot, target, wanted, chosen)
