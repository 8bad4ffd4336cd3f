"""Puts the plan of a compaction on the timeline; anyone may run it then, Hudi too.

The plan is made under the table's lock, so its instant lies after the completion of every log file
that it names, and before that of every later one: later ones count for the new base file.
"""

from __future__ import annotations

import logging
import time

from lakedex.config import TableType
from lakedex.config.service_options import SchedulingOptions, Trigger
from lakedex.errors import InvalidInput
from lakedex.services.compaction.choosing import choose, operations_of
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
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
