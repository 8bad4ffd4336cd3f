"""How writes and plans get their place on the timeline: a time of their own, the requested file."""

from __future__ import annotations

import logging
from collections.abc import Collection

from lakedex.config import TableConfig, TableType
from lakedex.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    StorageError,
    UnsupportedFeature,
)
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_instants, check_metadata
from lakedex.timeline import (
    Action,
    Instant,
    RequestedReplace,
    State,
    Timeline,
    file_name,
    load_table_config,
    write_instant,
)
from lakedex.txn.clocks import InstantClock
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions
from lakedex.txn.lock import TableLock
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.recovery import is_being_run
from lakedex.txn.rollback import LockedTable, roll_back

WRITTEN_VERSION = 9
"""The version of the tables that are written."""
_DELETE_PARTITION = "DELETE_PARTITION"
_TIME_ATTEMPTS = 20
_log = logging.getLogger("lakedex")


def write_action(config: TableConfig) -> Action:
    """The action of a write that replaces nothing: that of the kind of table."""
    is_log = config.table_type is TableType.MERGE_ON_READ
    return Action.DELTACOMMIT if is_log else Action.COMMIT


def locked_table(
    storage: Storage,
    lock: TableLock,
    heartbeat: HeartbeatOptions,
    *,
    may_lack_instants: bool = False,
    before: Snapshot | None = None,
    claims: Collection[str] | None = None,
) -> LockedTable:
    """The table of a lock that was just taken; properties and timelines are read again.

    Args:
        storage: Where the table lies.
        lock: Its lock.
        heartbeat: How often its writers give signs of life.
        may_lack_instants: Whether the caller can deal with a timeline that lacks instants.
        before: An earlier snapshot: what it has read of commits is not read again.
        claims: The instant times that writers have claimed, where they were listed already.

    Raises:
        UnsupportedFeature: the table has a version that is only read.
        TimelineDamaged: its timeline lacks instants.
        IndexUnusable: its metadata table lacks instants, with the same exception.
    """
    config = load_table_config(storage)
    if config.version != WRITTEN_VERSION:
        raise UnsupportedFeature(
            "writing",
            table_version=config.version,
            instead=f"run `lakedex upgrade {storage.root}` first",
        )
    data = Timeline.load(storage, config, before=None if before is None else before.timeline)
    metadata = _metadata_timeline(storage, config, before)
    if not may_lack_instants:
        check_instants(data, metadata if config.metadata_enabled else None)
        if metadata is not None and config.metadata_enabled:
            check_metadata(data, metadata)
    timelines = [data] if metadata is None else [data, metadata]
    clock = InstantClock.after(storage, timelines, claims)
    return LockedTable(
        storage, config, clock, lock.check, heartbeat, data, metadata, lock.check_lease
    )


def _metadata_timeline(
    storage: Storage, config: TableConfig, before: Snapshot | None
) -> Timeline | None:
    """The timeline of the metadata table, if there is one."""
    known = None if before is None or before.config.raw != config.raw else before.metadata
    if known is not None:
        timeline = Timeline.load(known.storage, known.timeline.config, before=known.timeline)
        if timeline.instants:
            return timeline
    opened = open_metadata_table(storage)
    return None if opened is None else Timeline.load(*opened)


def take_instant(
    table: LockedTable,
    action: Action,
    operation: str,
    plan: bytes | None = None,
    *,
    keeps_plan: bool = False,
) -> tuple[Instant, Heartbeat]:
    """A new instant that is requested, and its heartbeat, which beats before it is seen.

    With `keeps_plan` the request stays when this process dies, for others to run.
    """
    body = _requested_body(action, operation) if plan is None else plan
    for _ in range(_TIME_ATTEMPTS):
        instant = Instant(table.clock.next(), action, State.REQUESTED)
        time = instant.requested_time
        heartbeat = Heartbeat(table.storage, time, table.heartbeat, keeps_plan=keeps_plan)
        try:
            heartbeat.start(is_new=True)
        except AlreadyExists:
            continue
        try:
            # Whoever takes the lock from here on sees that this time is claimed.
            (table.check_lease or table.check)()
            is_taken = _is_taken_by_others(table, instant, body, is_plan=plan is not None)
        except BaseException:
            heartbeat.stop()
            raise
        if not is_taken:
            return instant, heartbeat
        heartbeat.release()
    raise CommitConflict(f"other writers took {_TIME_ATTEMPTS} instant times without the lock")


def _is_taken_by_others(
    table: LockedTable, instant: Instant, body: bytes, *, is_plan: bool
) -> bool:
    """Put a request on the timeline, unless one is there under the same time (case B56).

    That is of a writer that does not use this lock, but for a plan that is the very same: of that
    the answer was lost, and the request repeated.
    """
    try:
        write_instant(table.storage, table.config, instant, body)
    except AlreadyExists:
        return not is_plan or table.timeline().read(instant) != body
    return False


def put_plan(table: LockedTable, action: Action, plan: bytes) -> str:
    """Put a plan on the timeline, for anyone to run, and answer its instant."""
    instant, claim = take_instant(table, action, "", plan, keeps_plan=True)
    try:
        claim.release()
    except StorageError as error:
        # The plan is there; what was to be seen before it was is swept up by the next writer.
        _log.warning("left over from %s for the next writer: %s", instant.requested_time, error)
    return instant.requested_time


def take_up(table: LockedTable, instant: str, action: Action) -> tuple[Instant, Heartbeat]:
    """A plan that pends, as requested, and the heartbeat of this process that is to run it.

    Raises:
        InvalidInput: no such plan pends.
        CommitConflict: another process is at work on it.
    """
    table.check()
    found = table.timeline().find(instant)
    if found is None or found.is_completed or found.action is not action:
        raise InvalidInput(f"no {action.value} {instant} pends in {table.storage.root}")
    if is_being_run(table, found):
        raise CommitConflict(f"another process runs the {action.value} {instant}; wait for it")
    if found.state is State.INFLIGHT:
        roll_back(table, found, keeps_plan=True)
    heartbeat = Heartbeat(table.storage, instant, table.heartbeat, keeps_plan=True)
    heartbeat.start()
    return Instant(instant, action, State.REQUESTED), heartbeat


def forget_request(table: LockedTable, instant: Instant) -> None:
    """Take a requested instant off the timeline that nothing was written for."""
    name = file_name(instant, table.config.timeline_layout)
    table.storage.delete(f"{table.config.timeline_folder}/{name}")


def _requested_body(action: Action, operation: str) -> bytes:
    """The content of a requested file: nothing, but for a replacecommit."""
    if action is not Action.REPLACECOMMIT:
        return b""
    if operation == _DELETE_PARTITION:
        return RequestedReplace(_DELETE_PARTITION, extra={}).encode()
    return RequestedReplace().encode()
