"""How a write gets its place on the timeline: a time of its own, and the requested file."""

from __future__ import annotations

from lakedex.config import TableType
from lakedex.errors import AlreadyExists, CommitConflict, InvalidInput, UnsupportedFeature
from lakedex.storage import Storage
from lakedex.timeline import (
    Action,
    Instant,
    RequestedReplace,
    State,
    file_name,
    load_table_config,
    write_instant,
)
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions
from lakedex.txn.lock import TableLock
from lakedex.txn.places import writer_path
from lakedex.txn.recovery import is_being_run
from lakedex.txn.rollback import LockedTable, roll_back
from lakedex.txn.times import InstantClock

_WRITTEN_VERSION = 9
_DELETE_PARTITION = "DELETE_PARTITION"
_TIME_ATTEMPTS = 20


def write_action(storage: Storage) -> Action:
    """The action of a write that replaces nothing: that of the kind of table."""
    is_log = load_table_config(storage).table_type is TableType.MERGE_ON_READ
    return Action.DELTACOMMIT if is_log else Action.COMMIT


def locked_table(storage: Storage, lock: TableLock, heartbeat: HeartbeatOptions) -> LockedTable:
    """The table of a lock that was just taken; properties and times are read anew.

    Raises:
        UnsupportedFeature: the table has a version that is only read.
    """
    config = load_table_config(storage)
    if config.version != _WRITTEN_VERSION:
        feature = f"writing, before `lakedex upgrade {storage.root}`,"
        raise UnsupportedFeature(feature, table_version=config.version)
    clock = InstantClock.load(storage, config)
    return LockedTable(storage, config, clock, lock.check, heartbeat)


def take_instant(
    table: LockedTable, action: Action, operation: str, plan: bytes | None = None
) -> tuple[Instant, Heartbeat]:
    """A new instant that is requested, and its heartbeat, which beats before it is seen."""
    body = _requested_body(action, operation) if plan is None else plan
    table.check()
    for _ in range(_TIME_ATTEMPTS):
        instant = Instant(table.clock.next(), action, State.REQUESTED)
        heartbeat = Heartbeat(table.storage, instant.requested_time, table.heartbeat)
        heartbeat.start()
        try:
            # Whoever takes the lock from here on sees that this time is claimed.
            table.check()
            write_instant(table.storage, table.config, instant, body)
        except AlreadyExists:
            # traps: B56 - a writer that does not use this lock took the same time.
            heartbeat.stop()
            table.storage.delete(writer_path(instant.requested_time))
        except BaseException:
            heartbeat.stop()
            raise
        else:
            return instant, heartbeat
    raise CommitConflict(f"other writers took {_TIME_ATTEMPTS} instant times without the lock")


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
