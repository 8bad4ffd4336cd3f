"""Savepoints: a commit whose files no clean removes, so that the table can be restored to it.

T.savepoint.inflight   empty; T is the time of the commit
T_C.savepoint          HoodieSavepointMetadata: the files of the table as of T, by partition, and
                       those of the table as it was when T completed
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from dataclasses import dataclass

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.retention import is_retained, retained_by_clean
from lakedex.timeline import (
    Action,
    Instant,
    PlanKind,
    State,
    Timeline,
    instant_key,
    read_plan,
    write_plan,
)
from lakedex.timeline.clean_plan import CleanOutcome
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable, forget
from lakedex.txn.rollback_files import remove_instant, write_once
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.archiving import archive_left_behind
from lakedex.upkeep.cleaning import run_pending_cleans
from lakedex.upkeep.completion_order import newest_completed, require_whole
from lakedex.upkeep.retained import files_kept

log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint, as its file has it."""

    instant: str
    user: str = ""
    comments: str = ""
    files: int = 0

    def as_dict(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "instant": self.instant,
            "user": self.user,
            "comments": self.comments,
            "files": self.files,
        }


def create_savepoint(
    address: StorageAddress,
    instant: str | None = None,
    *,
    user: str = "",
    comments: str = "",
    patience: TransactionOptions | None = None,
) -> Savepoint:
    """Keep the files of the table as of a commit until the savepoint is deleted.

    Args:
        address: The address of the table.
        instant: The commit; by default the newest one.
        user: Who wants it, for people to read.
        comments: Why, for people to read.
        patience: How long to wait for the lock.

    Raises:
        InvalidInput: there is no such commit, its files were cleaned, or it has a savepoint.
        CommitConflict: another process is about to remove files.
    """
    storage, chosen = address.open(), patience or TransactionOptions()
    # What a clean is about to remove cannot be kept any more.
    run_pending_cleans(address, chosen)
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        recover(table)
        snapshot = Snapshot.open(storage)
        _check_no_clean(snapshot.timeline)
        target = _commit(snapshot.timeline, instant)
        time_of = target.requested_time
        require_whole(snapshot, target)
        files = _files_of(snapshot, time_of)
        _write(table, time_of, _encoded(files, user, comments))
    log.info("savepoint %s of %s", time_of, storage.root)
    return Savepoint(time_of, user, comments, sum(map(len, files.values())))


def complete_savepoint(table: LockedTable, instant: str) -> None:
    """Write the completed file of a savepoint that lost it.

    Args:
        table: The table; the caller holds its lock.
        instant: The commit. Whether its savepoint was about to be deleted is not known.

    Raises:
        InvalidInput: there is no such commit, or its files were cleaned.
        CommitConflict: a clean is removing files.
    """
    timeline = table.timeline()
    if any(clean.state is State.INFLIGHT for clean in timeline.pending_of(Action.CLEAN)):
        _check_no_clean(timeline)
    _commit(timeline, instant)
    _check_cleans(timeline, instant)
    # With its savepoint complete the timeline shows the commit as one whose files are kept.
    done = Instant(instant, Action.SAVEPOINT, State.COMPLETED, table.next_time())
    whole = Timeline(table.storage, table.config, (*timeline.instants, done))
    data = rebuilt_savepoint(Snapshot(table.storage, table.config, whole), instant)
    table.check()
    write_once(table.storage, table.config, Instant(instant, Action.SAVEPOINT, State.INFLIGHT), b"")
    write_once(table.storage, table.config, done, data)
    forget(table.storage, instant)


def _check_cleans(timeline: Timeline, instant: str) -> None:
    """Refuse a commit whose files a clean removed while it had no savepoint."""
    for clean in timeline.completed():
        if clean.action is not Action.CLEAN:
            continue
        data, path = timeline.read(clean), f"clean {clean.requested_time}"
        retained = retained_by_clean(data, path)
        is_later = retained is not None and instant_key(retained) > instant_key(instant)
        if is_later and instant not in CleanOutcome.decode(data, path=path).savepoints:
            raise InvalidInput(
                f"the clean {clean.requested_time} kept no file for a savepoint of {instant}"
            )


def delete_savepoint(
    address: StorageAddress, instant: str, *, patience: TransactionOptions | None = None
) -> None:
    """Let cleans remove the files of a commit again.

    Raises:
        InvalidInput: there is no such savepoint.
    """
    storage, chosen = address.open(), patience or TransactionOptions()
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        known = {
            each.requested_time
            for each in table.timeline().instants
            if each.action is Action.SAVEPOINT
        }
        if instant not in known:
            shown = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"there is no savepoint {instant!r}; there are {shown}")
        archive_left_behind(table, instant)
        table.check()
        remove_instant(storage, table.config, instant, Action.SAVEPOINT)


def list_savepoints(timeline: Timeline) -> list[Savepoint]:
    """The savepoints of a table, newest first."""
    found = []
    for instant in timeline.completed():
        if instant.action is Action.SAVEPOINT:
            data = timeline.read(instant)
            path = f"savepoint {instant.requested_time}"
            record = read_plan(PlanKind.SAVEPOINT_METADATA, data, path=path)
            parts = record["partitionMetadata"].values()
            files = sum(len(part["savepointDataFile"]) for part in parts)
            user, comments = record["savepointedBy"], record["comments"]
            found.append(Savepoint(instant.requested_time, user, comments, files))
    return sorted(found, key=lambda each: each.instant, reverse=True)


def rebuilt_savepoint(snapshot: Snapshot, instant: str) -> bytes:
    """Writes a damaged savepoint again: no clean has removed the files that it keeps."""
    return _encoded(_files_of(snapshot, instant), "", "rewritten by a repair")


def _files_of(snapshot: Snapshot, instant: str) -> dict[str, list[str]]:
    """The files of the table as of a commit, by partition."""
    files: dict[str, list[str]] = defaultdict(list)
    for partition, name in sorted(files_kept(snapshot, instant, snapshot.listing.files)):
        files[partition].append(name)
    return files


def _write(table: LockedTable, time_of: str, data: bytes) -> None:
    # Who finds it pending with a claim knows that it never will be complete.
    with table.claim(time_of):
        pending = Instant(time_of, Action.SAVEPOINT, State.INFLIGHT)
        write_once(table.storage, table.config, pending, b"")
        done = Instant(time_of, Action.SAVEPOINT, State.COMPLETED, table.next_time())
        write_once(table.storage, table.config, done, data)


def _commit(timeline: Timeline, instant: str | None) -> Instant:
    if instant is None:
        newest = newest_completed(timeline)
        if newest is not None and not is_retained(timeline, newest.requested_time):
            newest = timeline.last_completed  # the other was planned long ago, and run just now
        if newest is None:
            raise InvalidInput("a table without commits has nothing to keep")
        instant = newest.requested_time
    found = timeline.find(instant)
    if found is None or not (found.is_completed and found.action.is_write):
        raise InvalidInput(f"{instant!r} is no completed commit of the active timeline")
    if instant in timeline.savepoints():
        raise InvalidInput(f"the commit {instant} has a savepoint already")
    return found


def _check_no_clean(timeline: Timeline) -> None:
    """Refuse beside a clean that was planned since; it removes files without the lock."""
    for clean in timeline.pending_of(Action.CLEAN):
        raise CommitConflict(f"the clean {clean.requested_time} goes on: wait until it has ended")


def _encoded(files: dict[str, list[str]], user: str, comments: str) -> bytes:
    record = {
        "savepointedBy": user,
        "savepointedAt": time.time_ns() // 1_000_000,
        "comments": comments,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": names}
            for partition, names in files.items()
        },
        "version": 1,
    }
    return write_plan(PlanKind.SAVEPOINT_METADATA, record)
