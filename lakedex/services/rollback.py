"""Rolls back one instant of a table, or restores the table to an earlier commit.

`rollback_instant` undoes a pending instant or the newest completed commit. An older commit cannot
be undone alone, because later ones are based on it.

`restore_table` returns to a savepoint, or to a commit whose files all still exist. All instants
that completed after that commit are undone, the newest first, with what was pending or planned
since. Every index is then as it was at that commit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakedex.engine import Engine, LocalEngine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import LogFile, parse_data_file
from lakedex.index.builds import IndexBuild, pending_builds
from lakedex.services.metadata_rebuilding import rebuild_metadata
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import Action, Instant, State, Timeline, instant_key
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import SignsOfLife, is_alive
from lakedex.txn.index_builds import discard_build
from lakedex.txn.lock import open_lock
from lakedex.txn.metadata_rollback import require_forgettable
from lakedex.txn.recovery import recover
from lakedex.txn.restoring import restore
from lakedex.txn.rollback import LockedTable, roll_back
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.cleaning import forget_scans, run_pending_cleans
from lakedex.upkeep.completion_order import completed_after, missing_before, require_whole

_REVERSIBLE = (
    Action.COMMIT,
    Action.DELTACOMMIT,
    Action.REPLACECOMMIT,
    Action.COMPACTION,
    Action.LOGCOMPACTION,
    Action.CLUSTERING,
)


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The instants that were taken back, and the one that says so."""

    instants: tuple[str, ...]
    rollback: str | None
    """None where the next step had been done by the recovery after a dead writer."""
    indexes_rebuilt: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "instants": list(self.instants),
            "rollback": self.rollback,
            "indexes_rebuilt": list(self.indexes_rebuilt),
        }


def rollback_instant(
    address: StorageAddress,
    instant: str,
    *,
    engine: Engine | None = None,
    patience: TransactionOptions | None = None,
    keeps_plan: bool = False,
) -> RollbackResult:
    """Take an instant back, with every index as it was before.

    Args:
        address: Where the table lies.
        instant: The newest completed commit, or one that pends and whose writer is gone.
        engine: Runs the workers where indexes must be built again.
        patience: How long to wait for other writers.
        keeps_plan: Take back the run of a clustering only, not its plan.

    Raises:
        InvalidInput: there is no such instant, or it cannot be taken back by itself.
        CommitConflict: somebody writes; nothing was changed.
        UnsupportedFeature: an index would be lost; the message names it.
    """
    storage, chosen = address.open(), patience or TransactionOptions()
    run_pending_cleans(address, chosen)
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        recovered = recover(table)
        snapshot = Snapshot.open(storage)
        # Of a run that died recovery leaves the plan, which is to go too.
        if instant in recovered and (keeps_plan or snapshot.timeline.find(instant) is None):
            return RollbackResult((instant,), None)
        found = _found(snapshot.timeline, instant)
        if found.is_completed:
            _check_newest(snapshot.timeline, found)
            _check_files_before(snapshot, found)
            require_forgettable(storage, snapshot.timeline, {instant})
        elif is_alive(storage, instant, chosen.heartbeat):
            raise CommitConflict(f"the writer of {instant} is at work; stop it, or wait for it")
        has_copies = has_copied_rows(snapshot, instant)
        if has_copies and found.state is State.REQUESTED:
            raise InvalidInput(
                f"{instant} resizes buckets, and writers have given rows to its new buckets: run "
                "it; the resize back can be planned afterwards"
            )
        # Of a run its plan stays, for another run; a plan that nobody ran is what is meant itself.
        # So does that of a resize whose new buckets have rows of writers already.
        keeps_plan = has_copies or (keeps_plan and found.action is Action.CLUSTERING)
        time_of = roll_back(
            table, found, keeps_plan=keeps_plan, drops_plan=found.state is State.REQUESTED
        )
        forget_scans(storage)
        rebuilt = rebuild_metadata(address, engine or LocalEngine(), snapshot.config, table)
    return RollbackResult((instant,), time_of, rebuilt)


def has_copied_rows(snapshot: Snapshot, instant: str) -> bool:
    """Whether writers have given rows to the buckets that a resize makes, pending or complete.

    As long as the resize pends, no reader sees these log files. Once it was taken off the timeline
    for good they could be taken for committed ones.
    """
    found = snapshot.timeline.find(instant)
    if found is None or not is_resize(snapshot.timeline, found):
        return False
    return any(
        isinstance(parsed, LogFile) and parsed.instant_time == instant
        for files in snapshot.listing.files.values()
        for name, size in files
        if (parsed := parse_data_file(name, size)) is not None
    )


def _found(timeline: Timeline, instant: str) -> Instant:
    found = timeline.find(instant)
    if found is None or found.action not in _REVERSIBLE:
        raise InvalidInput(f"the active timeline has no commit {instant!r} to roll back")
    return found


def _check_newest(timeline: Timeline, found: Instant) -> None:
    instant = found.requested_time
    if instant in timeline.savepoints():
        raise InvalidInput(f"the commit {instant} has a savepoint: delete that first")
    # Of two writes at once neither has seen the other: the later to complete goes first.
    later = completed_after(timeline, found)
    if later:
        raise InvalidInput(
            f"{later[-1].requested_time} was committed after {instant}: roll it back first, or "
            "restore the table to an earlier commit"
        )
    for each in timeline.pending():
        if each > found and each.action in _REVERSIBLE:
            raise CommitConflict(
                f"{each.action.value} {each.requested_time} pends, which began after {instant}: "
                "let it finish, or roll it back first"
            )


def _check_files_before(snapshot: Snapshot, found: Instant) -> None:
    """Refuse when a clean has removed what the table was made of before the commit."""
    gone = missing_before(snapshot, found)
    if gone is not None:
        raise _cleaned(found, gone)


def _cleaned(found: Instant, name: str) -> InvalidInput:
    return InvalidInput(
        f"{found.requested_time} cannot be rolled back: {name}, which it took the place of, was "
        "removed by a clean"
    )


_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_PLANS = (Action.CLUSTERING, Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore undid."""

    instant: str
    """The commit that the table is as of now."""
    restore: str | None
    """The instant of the restore; None when there was nothing to undo."""
    undone: tuple[str, ...] = ()
    indexes_rebuilt: tuple[str, ...] = ()
    builds_dropped: tuple[str, ...] = ()
    """Indexes whose build had been put down; they are to be created again."""

    def as_dict(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "instant": self.instant,
            "restore": self.restore,
            "undone": list(self.undone),
            "indexes_rebuilt": list(self.indexes_rebuilt),
            "builds_dropped": list(self.builds_dropped),
        }


def restore_table(
    address: StorageAddress,
    instant: str,
    *,
    engine: Engine | None = None,
    patience: TransactionOptions | None = None,
) -> RestoreResult:
    """Undo everything that was committed after an instant.

    Args:
        address: Where the table lies.
        instant: A savepoint, or any completed commit that no clean has taken files from.
        engine: Runs the workers where indexes must be built again.
        patience: How long to wait for other writers.

    Raises:
        InvalidInput: there is no such commit, its files were cleaned, or a later commit has a
            savepoint.
        CommitConflict: somebody writes; nothing was changed.
        UnsupportedFeature: an index would be lost; the message names it.
    """
    storage, chosen = address.open(), patience or TransactionOptions()
    run_pending_cleans(address, chosen)
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        recover(table)
        snapshot = Snapshot.open(storage)
        put_down = _put_down(table, snapshot.timeline)
        instants = instants_after(snapshot, instant, {each.instant for each in put_down})
        if not instants:
            return RestoreResult(instant, None)
        times = {each.requested_time for each in instants}
        require_forgettable(storage, snapshot.timeline, times)
        for build in put_down:
            discard_build(table, build)
        time_of = restore(table, instant, instants)
        forget_scans(storage)
        rebuilt = rebuild_metadata(address, engine or LocalEngine(), snapshot.config, table)
    return RestoreResult(
        instant,
        time_of,
        tuple(each.requested_time for each in instants),
        rebuilt,
        tuple(name for build in put_down for name in build.names),
    )


def _put_down(table: LockedTable, timeline: Timeline) -> list[IndexBuild]:
    """Indexes in the making that no process works on: what they were made of is undone."""
    life = SignsOfLife.load(table.storage, table.heartbeat)
    return [each for each in pending_builds(timeline) if not life.is_alive(each.instant)]


def instants_after(
    snapshot: Snapshot, instant: str, ignored: Collection[str] = ()
) -> list[Instant]:
    """The instants that a restore undoes, in order: plans that pend, then the newest commit first.

    Pending instants that are `ignored` do not stand in its way.

    Raises:
        InvalidInput: the table cannot be taken back to that commit.
        CommitConflict: a write goes on.
    """
    timeline = snapshot.timeline
    target = _restore_target(timeline, instant, ignored)
    snapshot.at(instant)  # refuses a time whose files were cleaned
    later = completed_after(timeline, target)
    saved = {each.requested_time for each in later}.intersection(timeline.savepoints())
    if saved:
        raise InvalidInput(
            f"the later commit {min(saved)} has a savepoint: delete that before a restore to "
            f"{instant}"
        )
    _check_archived(timeline, target)
    require_whole(snapshot, target)
    done = timeline.change_time(target)
    plans = [
        each for each in timeline.pending_of(*_PLANS) if instant_key(each.requested_time) > done
    ]
    return [*reversed(plans), *reversed(later)]


def _check_archived(timeline: Timeline, target: Instant) -> None:
    """Refuse where archiving went past a savepoint: what is archived cannot be undone."""
    first = timeline.first_active
    if first is None or first <= target:
        return
    for each in timeline.archived.instants(target.requested_time, first.requested_time):
        if each.action.is_write and each > target:
            raise InvalidInput(
                f"{each.requested_time} was committed after {target.requested_time} and is "
                "archived (hoodie.archive.beyond.savepoint), so that it cannot be undone; the "
                "table can still be read as of the savepoint"
            )


def _restore_target(timeline: Timeline, instant: str, ignored: Collection[str]) -> Instant:
    found = timeline.find(instant)
    if found is None or not (found.is_completed and found.action.is_write):
        raise InvalidInput(f"{instant!r} is no completed commit of the active timeline")
    for each in timeline.pending_of(*_WRITES, Action.INDEXING, Action.CLEAN, Action.ROLLBACK):
        if each.requested_time in ignored:
            continue
        raise CommitConflict(
            f"{each.action.value} {each.requested_time} pends: stop all writers, and let it end"
        )
    return found
