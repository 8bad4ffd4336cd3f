"""Takes a table back to a savepoint, or to a commit whose files are still all there.

All instants that completed after that commit are undone, the newest first; what pends and was
planned since goes too. Every index is as it was then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakedex.engine import Engine, LocalEngine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.builds import IndexBuild, pending_builds
from lakedex.services.metadata_rebuilding import rebuild_metadata
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, Timeline, instant_key
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.index_builds import discard_build
from lakedex.txn.lock import open_lock
from lakedex.txn.metadata_rollback import require_forgettable
from lakedex.txn.recovery import recover
from lakedex.txn.restoring import restore
from lakedex.txn.rollback import LockedTable
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.cleaning import forget_scans, run_pending_cleans
from lakedex.upkeep.completion_order import completed_after, require_whole

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
    target = _target(timeline, instant, ignored)
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


def _target(timeline: Timeline, instant: str, ignored: Collection[str]) -> Instant:
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
