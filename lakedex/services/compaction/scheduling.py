"""Puts the plan of a compaction on the timeline, with the file slices that a strategy takes.

Any engine may run the plan then. It is made under the table's lock, so its instant lies after the
completion of every log file that it names, and before that of every later one: later ones count for
the new base file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence

from lakedex.config import TableType
from lakedex.config.service_options import CompactionStrategy, SchedulingOptions, Trigger
from lakedex.config.write_option_names import COMPACTION_PATTERN
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.keys.partition_path import matching_paths
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    CompactionOperation,
    CompactionPlan,
    Timeline,
    instant_key,
    to_epoch_ms,
)
from lakedex.txn.begin import locked_table, put_plan
from lakedex.txn.conflicts import pending_groups
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.write.verbs import TableWriter

log = logging.getLogger("lakedex")
LOG_FILES, LOG_BYTES, IO_MB = "TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_MB"
_READ_MB, _WRITE_MB = "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB"
_MB = 1 << 20


def schedule_compaction(writer: TableWriter, *, if_due: bool = False) -> str | None:
    """Plan a compaction and answer its instant; None when there is nothing to compact.

    File groups that a pending compaction or clustering has are left out.

    Args:
        writer: The table, with Hudi's options: `hoodie.compaction.*`.
        if_due: Only when `hoodie.compact.inline.trigger.strategy` says so.

    Raises:
        InvalidInput: the table has no log files, as it is copy-on-write.
        CommitConflict: other writers held the lock all the time.
    """
    target = writer.target(keeps_file_groups=True)
    storage, patience = target.address.open(), target.patience
    require_merge_on_read(Snapshot.open(storage))
    options = target.options.scheduling
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        snapshot = Snapshot.open(storage)
        if if_due and not is_due(snapshot.timeline, options):
            return None
        plan = _plan(snapshot, options, target.options.max_file_size)
        if plan is None:
            return None
        instant = put_plan(table, Action.COMPACTION, plan.encode())
    log.info("scheduled the compaction %s of %d file slices", instant, len(plan.operations))
    return instant


def require_merge_on_read(snapshot: Snapshot) -> None:
    """Refuse a table that has nothing to compact, whatever is written to it.

    Raises:
        InvalidInput: the table is copy-on-write.
    """
    if snapshot.config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            f"table {snapshot.config.name} is copy-on-write: it has no log files to compact"
        )


def pending_compactions(timeline: Timeline) -> tuple[str, ...]:
    """The instants of compactions that were planned and not completed, oldest first."""
    return tuple(each.requested_time for each in timeline.pending_of(Action.COMPACTION))


def is_due(timeline: Timeline, options: SchedulingOptions) -> bool:
    """Whether the trigger of the options asks for a compaction."""
    after_request = options.trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    last = _last_compaction(timeline, pending_too=after_request)
    since = [
        instant
        for instant in timeline.write_instants()
        if instant.action is Action.DELTACOMMIT
        and timeline.requested_action(instant.requested_time) is Action.DELTACOMMIT
        and instant_key(instant.completion_time or instant.requested_time) > instant_key(last)
    ]
    by_count = len(since) >= options.max_delta_commits
    if options.trigger in (Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST):
        return by_count
    if not since:
        return False
    start = last or since[0].requested_time
    age = time.time() - to_epoch_ms(start, timeline.config.timezone) / 1000
    by_time = age >= options.max_delta_seconds
    if options.trigger is Trigger.TIME_ELAPSED:
        return by_time
    if options.trigger is Trigger.NUM_AND_TIME:
        return by_count and by_time
    return by_count or by_time


def _last_compaction(timeline: Timeline, *, pending_too: bool) -> str:
    """The instant of the newest compaction; empty where there was none."""
    done = [
        instant.requested_time
        for instant in timeline.instants
        if instant.action.completed is Action.COMMIT
        and timeline.requested_action(instant.requested_time) is Action.COMPACTION
        and (instant.is_completed or pending_too)
    ]
    return max(done, key=instant_key, default="")


def _plan(snapshot: Snapshot, options: SchedulingOptions, file_bytes: int) -> CompactionPlan | None:
    closed = pending_groups(snapshot.timeline)
    operations = choose(operations_of(snapshot.slices, closed, file_bytes), options)
    return CompactionPlan(operations) if operations else None


def operations_of(
    slices: Iterable[FileSlice], closed: Collection[FileSliceId], file_bytes: int
) -> list[CompactionOperation]:
    """An operation for each slice that has log files and is not in `closed`.

    `file_bytes` is how large a base file is taken to become where there is none yet.
    """
    return [
        operation_of(each, file_bytes) for each in slices if each.logs and each.id not in closed
    ]


def operation_of(current: FileSlice, file_bytes: int) -> CompactionOperation:
    """What a plan says of a slice, with the metrics that Hudi's strategies go by."""
    base, logs = current.base, current.logs
    read_mb = current.size_bytes // _MB
    write_mb = (file_bytes if base is None else base.size_bytes) // _MB
    return CompactionOperation(
        file_id=current.file_id,
        partition_path=current.partition,
        base_instant_time=current.base_instant,
        data_file=None if base is None else base.name,
        log_files=tuple(log.name for log in logs),
        metrics={
            LOG_FILES: float(len(logs)),
            LOG_BYTES: float(sum(log.size_bytes for log in logs)),
            IO_MB: float(read_mb + write_mb),
            _READ_MB: float(read_mb),
            _WRITE_MB: float(write_mb),
        },
    )


def choose(
    operations: Sequence[CompactionOperation], options: SchedulingOptions
) -> tuple[CompactionOperation, ...]:
    """The operations that strategies take, one after the other, in the order of the last.

    Example:
        >>> small, large = (
        ...     CompactionOperation(name, "", None, None, ("l",), {LOG_BYTES: size, IO_MB: 1.0})
        ...     for name, size in (("small", 1.0), ("large", 9.0)))
        >>> options = SchedulingOptions.resolve({"hoodie.compaction.target.io": "1"})
        >>> [each.file_id for each in choose([small, large], options)]
        ['large']
    """
    for strategy in options.strategies:
        operations = _chosen(operations, strategy, options)
    return tuple(operations)


def _chosen(
    operations: Sequence[CompactionOperation],
    strategy: CompactionStrategy,
    options: SchedulingOptions,
) -> list[CompactionOperation]:
    if strategy is CompactionStrategy.UNBOUNDED:
        return list(operations)
    if strategy is CompactionStrategy.PARTITION_PATTERN:
        if not options.partition_pattern:
            raise InvalidInput(f"{strategy.value} needs {COMPACTION_PATTERN.name}")
        paths = sorted({each.partition_path for each in operations})
        pattern, option = options.partition_pattern, COMPACTION_PATTERN.name
        wanted = set(matching_paths(paths, pattern, option=option))
        return [each for each in operations if each.partition_path in wanted]
    if strategy is CompactionStrategy.DAY_BASED:
        days = sorted({each.partition_path for each in operations}, reverse=True)
        newest = days[: options.day_partitions]
        taken = [each for each in operations if each.partition_path in newest]
        return sorted(taken, key=lambda each: newest.index(each.partition_path))
    if strategy is CompactionStrategy.LOG_FILE_SIZE:
        operations = _largest_first(operations, LOG_BYTES, options.log_size_threshold)
    elif strategy is CompactionStrategy.LOG_FILE_COUNT:
        operations = _largest_first(operations, LOG_FILES, options.log_count_threshold)
    return list(_bounded(operations, options.target_io_mb))


def _largest_first(
    operations: Sequence[CompactionOperation], metric: str, least: int
) -> list[CompactionOperation]:
    enough = [each for each in operations if each.metrics[metric] >= least]
    return sorted(enough, key=lambda each: each.metrics[metric], reverse=True)


def _bounded(
    operations: Sequence[CompactionOperation], target_io_mb: int
) -> Iterable[CompactionOperation]:
    """As Hudi does, the operation that goes beyond the target is the last one taken."""
    left = float(target_io_mb)
    for each in operations:
        yield each
        left -= each.metrics[IO_MB]
        if left <= 0:
            return
