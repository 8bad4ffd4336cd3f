"""Takes one instant of a table back: a pending one, or the newest completed commit.

An older commit cannot be taken back alone, as later ones were built on it: that is a restore.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.engine import Engine, LocalEngine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.filegroup import LogFile, parse_data_file
from lakedex.services.metadata_rebuilding import rebuild_metadata
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import Action, Instant, State, Timeline
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import is_alive
from lakedex.txn.lock import open_lock
from lakedex.txn.metadata_rollback import require_forgettable
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import roll_back
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.cleaning import forget_scans, run_pending_cleans
from lakedex.upkeep.completion_order import completed_after, missing_before

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
