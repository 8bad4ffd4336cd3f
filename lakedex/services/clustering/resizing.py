"""Resizing of buckets: a clustering plan that splits and merges them, and its run.

    find      without the lock: which buckets are too large or too small, where they are divided
    schedule  under the lock: T.clustering.requested, in the form that Hudi runs
    run       the rows go to the new buckets; the new ring is stored, then T_C.replacecommit

Plans of Hudi's are run in the same way, and Hudi runs those of lakedex. Of two resizes of one
partition the later one is not scheduled until the first is done.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from lakedex.config.bucket_options import BucketEngineType
from lakedex.config.write_option_names import CLUSTERING_COLUMNS
from lakedex.errors import CommitConflict, InvalidInput, UnsupportedFeature
from lakedex.services.clustering.moved_keys import moved_keys
from lakedex.services.clustering.plan import plan_group
from lakedex.services.clustering.request import table_order
from lakedex.services.clustering.selection import Selection
from lakedex.services.rewrite_commit import commit_rewrite
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import Action, RequestedReplace, Timeline
from lakedex.timeline.clustering_plan import ClusteringPlan
from lakedex.txn.begin import locked_table, put_plan
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.layout.order import RowOrder, column_names
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import CLUSTER
from lakedex.write.resizing import ResizeLimits, ResizePolicy
from lakedex.write.resizing.planning import (
    BucketResize,
    ResizeBounds,
    RingTable,
    find_resizes,
    named_policy,
    resize_of_group,
    still_holds,
)
from lakedex.write.resizing.running import slices_of_plan, write_resizes
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.rows import KEY
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target, write_context

log = logging.getLogger("lakedex")
_STRATEGIES = "org.apache.hudi.client.clustering.run.strategy"
_STRATEGY_CLASS = f"{_STRATEGIES}.SparkConsistentBucketClusteringExecutionStrategy"
_MOST_ROUNDS = 100
_LEAST_ATTEMPTS = 3


def resize_buckets(
    writer: TableWriter,
    limits: ResizeLimits | None = None,
    policy: ResizePolicy | None = None,
) -> list[WriteResult]:
    """Split and merge buckets until all are of a good size, one plan after the other.

    Args:
        writer: The table, with Hudi's options: `hoodie.bucket.index.split.threshold` and others.
        limits: When buckets are split and merged, instead of what options say.
        policy: What decides on the changes; lakedex's own by default.

    Returns:
        What each plan came to; none where nothing was due.

    Raises:
        InvalidInput: the table has no buckets, or a fixed number of them.
        CommitConflict: another writer was first; the plan pends.
    """
    results: list[WriteResult] = []
    for _ in range(_MOST_ROUNDS):
        instant = schedule_resize(writer, limits, policy)
        if instant is None:
            return results
        results.append(run_resize(writer, instant))
    log.warning("buckets were resized %d times, and more is due: call it again", _MOST_ROUNDS)
    return results


def schedule_resize(
    writer: TableWriter,
    limits: ResizeLimits | None = None,
    policy: ResizePolicy | None = None,
    *,
    scope: Selection | None = None,
    columns: Sequence[str] = (),
) -> str | None:
    """Plan splits and merges and answer the instant; None when nothing is due.

    Args:
        writer: The table.
        limits: When buckets are split and merged, instead of what options say.
        policy: What decides on the changes.
        scope: Which partitions are looked at, instead of those that options name.
        columns: The order of the rows in new buckets, instead of that of options.

    Raises:
        InvalidInput: the table has no buckets, or a fixed number of them.
        CommitConflict: other writers held the lock all the time.
    """
    target = writer.target()
    storage, patience = target.address.open(), target.patience
    found = _find(target, limits or _limits(target), policy, scope)
    if not found:
        return None
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        snapshot = Snapshot.open(storage)
        others = _writes_of_others(table, snapshot.timeline)
        if others:
            log.warning("no resize is planned while another engine writes %s", others[0])
            return None
        buckets = RingTable.of(target.options.buckets, snapshot)
        now = [still_holds(snapshot, buckets, each) for each in found]
        kept = [each for each in now if each is not None]
        if not kept:
            return None
        order = tuple(columns) or target.options.layout.clustering_columns
        instant = put_plan(table, Action.CLUSTERING, _plan(storage, kept, order))
    log.info("scheduled the resize %s of %d groups of buckets", instant, len(kept))
    return instant


def run_resize(writer: TableWriter, instant: str) -> WriteResult:
    """Run a resize that pends, whoever planned it.

    Raises:
        InvalidInput: no such resize pends.
        CommitConflict: another process runs it, or writers were first all the time; the plan stays.
    """
    target = writer.target()
    attempts = max(_LEAST_ATTEMPTS, target.conflict_retries + 1)
    clock = StepClock()
    for attempt in range(attempts):
        try:
            return _run(target, instant, clock)
        except CommitConflict:
            if attempt == attempts - 1:
                raise
            log.warning("the resize %s lost a conflict and is run again", instant)
    raise AssertionError("unreachable")


def _run(target: Target, instant: str, clock: StepClock) -> WriteResult:
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
            outcome = write_resizes(
                target,
                transaction,
                RingTable.of(target.options.buckets, snapshot),
                _resizes_of(snapshot, plan, instant),
                _order(snapshot, plan, target),
                scratch=scratch.path,
                clock=clock,
            )
            if outcome.plan.has_record_index:
                notes = moved_keys(
                    target.engine, outcome.facts, snapshot, outcome.replaced, outcome.notes
                )
                outcome = replace(outcome, notes=notes)
            return commit_rewrite(target, CLUSTER, transaction, outcome, clock)


def pending_resizes(timeline: Timeline) -> tuple[str, ...]:
    """The instants of resizes that were planned and not completed, oldest first."""
    pending = timeline.pending_of(Action.CLUSTERING)
    return tuple(each.requested_time for each in pending if is_resize(timeline, each))


def has_ring(target: Target) -> bool:
    """Whether clusterings of a table are resizes, as its file groups are buckets of a ring.

    Raises:
        UnsupportedFeature: they are buckets of a fixed number.
    """
    options = target.options.buckets
    if options is not None and options.engine is BucketEngineType.SIMPLE:
        raise UnsupportedFeature(
            f"clustering table {target.snapshot.config.name}, which has a bucket index of "
            f"{options.count} buckets, a fixed number (a rescale changes it),"
        )
    return options is not None


def schedule_buckets(
    writer: TableWriter, by: str | Sequence[str], where: str | None, time_zone: str
) -> str | None:
    """Plan a clustering of a table with buckets: a resize, with the rows of new ones in order."""
    target = writer.target()
    target.options.layout.clustering_scope.require_bucket_classes()
    scope = Selection(target.options.layout.clustering_scope, where, time_zone)
    # Of an order by keys alone no index has use, and the hash takes it apart anyway.
    columns = [str(name) for name in column_names(by) if name != KEY]
    if columns:
        table_order(target.snapshot, target, columns, target.options.layout.strategy)
    return schedule_resize(writer, scope=scope, columns=columns)


def cluster_buckets(
    writer: TableWriter, by: str | Sequence[str], where: str | None, time_zone: str
) -> WriteResult:
    """Plan such a clustering, and run it."""
    instant = schedule_buckets(writer, by, where, time_zone)
    return WriteResult(CLUSTER.name, None) if instant is None else run_resize(writer, instant)


def _find(
    target: Target,
    limits: ResizeLimits,
    policy: ResizePolicy | None,
    scope: Selection | None,
) -> list[BucketResize]:
    """The changes that are due, found without the lock."""
    snapshot = Snapshot.open(target.address.open())
    buckets = RingTable.of(target.options.buckets, snapshot)
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(target, snapshot, schema, plan, instant="", scratch="", rows=0)
    options = target.options.resizing
    selection = scope or Selection(target.options.layout.clustering_scope)
    return find_resizes(
        target.engine,
        facts,
        snapshot,
        buckets,
        limits,
        partitions=selection.partitions(snapshot),
        bounds=ResizeBounds(options.most_bytes, options.most_partitions),
        policy=policy or named_policy(options.policy, buckets.options.engine),
    )


def _limits(target: Target) -> ResizeLimits:
    options = target.options.resizing
    limits = ResizeLimits.of(
        target.options.max_file_size, split=options.split_threshold, merge=options.merge_threshold
    )
    return replace(limits, least=options.least or limits.least, most=options.most or limits.most)


def _writes_of_others(table: LockedTable, timeline: Timeline) -> list[str]:
    """Writes of other engines that pend: what they add to a bucket, a run of Hudi's would lose.

    Those of lakedex are refused when they commit beside the plan.
    """
    ours = SignsOfLife.load(table.storage, table.heartbeat).writers
    pending = timeline.pending_of(Action.COMMIT, Action.DELTACOMMIT)
    return [each.requested_time for each in pending if each.requested_time not in ours]


def _plan(storage: Storage, resizes: Sequence[BucketResize], columns: Sequence[str]) -> bytes:
    plan = ClusteringPlan(
        groups=tuple(
            plan_group(storage, each.slices, len(each.outputs), each.extra()) for each in resizes
        ),
        strategy_class=_STRATEGY_CLASS,
        strategy_params={CLUSTERING_COLUMNS.name: ",".join(columns)} if columns else {},
        extra={},
        preserve_metadata=True,
    )
    return RequestedReplace("CLUSTER", plan, extra={}).encode()


def _resizes_of(snapshot: Snapshot, plan: ClusteringPlan, instant: str) -> list[BucketResize]:
    found = []
    for group in plan.groups:
        wanted = [(each.partition_path, each.file_id) for each in group.slices]
        slices = slices_of_plan(snapshot, wanted, instant)
        found.append(resize_of_group(group, slices, f"the clustering plan {instant}"))
    return found


def _order(snapshot: Snapshot, plan: ClusteringPlan, target: Target) -> RowOrder | None:
    """The order of rows in each bucket, where the plan has one."""
    named = plan.strategy_params.get(CLUSTERING_COLUMNS.name, "")
    names = [name.strip() for name in named.split(",") if name.strip()]
    if not names:
        return None
    return table_order(snapshot, target, names, target.options.layout.strategy)
