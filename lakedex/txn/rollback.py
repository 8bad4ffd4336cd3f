"""Takes an instant back: its files, its part of the metadata table, its place in time.

The order makes each step safe to repeat, and none visible to readers:

1. a rollback instant R with its plan goes on the timeline; a completed instant loses its completed
   file, and pends from then on, so that its files are no longer read;
2. the data files that markers name are deleted, and rings of a bucket index that it stored;
3. the metadata table's deltacommit of the same time is taken back, while the data table still has
   the instant as pending, so that its records stay invisible throughout;
4. the instant's own files go from the timeline; a late task that looks for them stops here;
5. files that such a task made meanwhile are deleted, then the markers and what lies beside;
6. R completes.

The plan of a compaction, and of a clustering that was scheduled apart, stays in step 4: the instant
is then requested as before, and anyone may run it again.

A rollback that was killed is on the timeline as pending; the next writer finishes it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lakedex.config import TableConfig, keys
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing
from lakedex.filegroup.names import parse_data_file
from lakedex.index.registry import discard_buckets
from lakedex.storage import Storage, split
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, Timeline, file_name, write_instant
from lakedex.txn.clocks import InstantClock
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions, SignsOfLife
from lakedex.txn.markers import is_file_of, is_log_file, is_written_by, marked_files
from lakedex.txn.metadata_rollback import forget_in_metadata, open_metadata_table
from lakedex.txn.rollback_files import (
    RollbackPlan,
    begin_rollback,
    delete_files,
    named_files,
    outcome,
    remove_instant,
    write_once,
)
from lakedex.txn.working_folders import heartbeat_path, marker_folder, spill_folder, writer_path

PLANNED_FOR_ANYONE = (Action.COMPACTION, Action.LOGCOMPACTION)
"""Actions whose plans always outlive a run that failed."""
_REPLACING = (Action.REPLACECOMMIT, Action.CLUSTERING)
"""Actions that may store rings of a bucket index."""
_log = logging.getLogger("lakedex")


def files_written(timeline: Timeline, instant: Instant) -> tuple[str, ...]:
    """The data files of a completed write, as its commit names them, or their own names do."""
    try:
        stats = list(timeline.commit_metadata(instant).stats())
    except CorruptFile:
        return files_of(timeline.storage, instant.requested_time, instant.action)
    storage, time_of = timeline.storage, instant.requested_time
    paths = {path for stat in stats for path in named_files(stat)}
    return tuple(sorted(path for path in paths if is_written_by(storage, path, time_of)))


def files_of(storage: Storage, instant: str, action: Action) -> tuple[str, ...]:
    """All data files of an instant by their names: every folder of the table is listed.

    Log files with the time of a clustering are those of writes beside it.
    """
    found = (info.path for info in storage.list_recursive())
    own = [path for path in found if is_file_of(path, instant)]
    with_logs = action not in _REPLACING
    return tuple(sorted(path for path in own if with_logs or not is_log_file(path)))


def unpublish(storage: Storage, timeline: Timeline, instant: str) -> None:
    """Make a completed instant pend again; one that pends already is left as it is."""
    found = timeline.find(instant)
    if found is None or not found.is_completed:
        return
    config = timeline.config
    action = timeline.requested_action(instant) or found.action
    with suppress(AlreadyExists):
        # Without it the instant would be no more at all, and its log files would count.
        write_instant(storage, config, Instant(instant, action, State.INFLIGHT), b"")
    storage.delete(f"{config.timeline_folder}/{file_name(found, config.timeline_layout)}")


@dataclass(frozen=True, slots=True)
class LockedTable:
    """A table whose lock is held: its storage, its times, and the check that it still is."""

    storage: Storage
    config: TableConfig
    clock: InstantClock
    check: Callable[[], None]
    heartbeat: HeartbeatOptions
    data: Timeline
    """Its timeline when the lock was taken."""
    metadata: Timeline | None = None
    """The timeline of its metadata table when the lock was taken."""
    check_lease: Callable[[], None] | None = None
    """The check by the own clocks alone."""

    def next_time(self) -> str:
        """A time after all times of the table, while the lock is held."""
        self.check()
        return self.clock.next()

    def next_hidden_time(self) -> str:
        """The same for steps that are not visible before the lock is checked once more."""
        (self.check_lease or self.check)()
        return self.clock.next()

    def timeline(self) -> Timeline:
        """The timeline as it is now."""
        return Timeline.load(self.storage, self.config, before=self.data)

    def snapshot(self, before: Snapshot | None = None, *, own: str | None = None) -> Snapshot:
        """The table when the lock was taken, with what still holds of an earlier snapshot.

        `own` is the instant of the running write, which pends.
        """
        if before is not None:
            return before.renewed(self.config, self.data, self.metadata, own=own)
        return Snapshot(self.storage, self.config, self.data, metadata_timeline=self.metadata)

    @contextmanager
    def claim(self, instant: str, *, keeps_plan: bool = False) -> Iterator[None]:
        """Let others see that an instant time is taken, from before it is on the timeline.

        Who takes the lock while this process stands still gives the time to nobody else, and who
        finds the instant pending knows by the claim that it was made under the lock. With
        `keeps_plan` what is on the timeline then stays there, for anyone to run.
        """
        own = Heartbeat(self.storage, instant, self.heartbeat, keeps_plan=keeps_plan)
        own.start()
        try:
            self.check()
            yield
        except BaseException:
            own.stop()
            raise
        own.release()


def roll_back(
    table: LockedTable, instant: Instant, *, keeps_plan: bool = False, drops_plan: bool = False
) -> str:
    """Take an instant back and answer the time of the rollback.

    The caller has made sure that nobody writes it any more, and of a completed one that nothing
    was built on it. With `keeps_plan`, and for a compaction unless it is told to drop its plan too,
    only the run is taken back: the instant is requested as before.
    """
    keeps_plan = not drops_plan and (keeps_plan or instant.action in PLANNED_FOR_ANYONE)
    table.check()
    marked = marked_files(table.storage, instant.requested_time)
    written = files_written(table.timeline(), instant) if instant.is_completed else ()
    plan = RollbackPlan(instant.requested_time, instant.action, tuple(sorted({*marked, *written})))
    rollback = table.clock.next()
    with table.claim(rollback, keeps_plan=keeps_plan):
        begin_rollback(table.storage, table.config, rollback, plan.encode(table.storage))
        _finish(table, rollback, plan, keeps_plan=keeps_plan)
    return rollback


def read_plan_of(table: LockedTable, rollback: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None when it has none that can be read."""
    requested = Instant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
    name = file_name(requested, table.config.timeline_layout)
    path = f"{table.config.timeline_folder}/{name}"
    try:
        return RollbackPlan.decode(table.storage.read(path), path=path)
    except (CorruptFile, FileMissing):
        return None


def rollback_of(table: LockedTable, timeline: Timeline, instant: str) -> str | None:
    """The pending rollback of an instant, of a writer that took this one for dead."""
    for rollback in timeline.pending_of(Action.ROLLBACK):
        plan = read_plan_of(table, rollback)
        if plan is not None and plan.instant == instant:
            return rollback.requested_time
    return None


def resume_rollback(table: LockedTable, rollback: Instant, plan: RollbackPlan | None) -> None:
    """Finish a rollback that somebody began, or drop it where nothing was begun.

    A rollback without a readable plan has deleted nothing that it could have known of: it is
    dropped, and its instant, if it pends still, is rolled back anew.
    """
    table.check()
    time_of = rollback.requested_time
    reason = None
    if plan is None:
        reason = "it has no plan that can be read"  # case B38: unreadable plan
    elif table.timeline().is_completed(plan.instant):
        # A write that finds its own rollback does not complete, and who rolls back a complete one
        # makes it pending first.
        reason = f"nothing was deleted yet, and {plan.instant} is complete"
    if plan is None or reason is not None:
        _log.warning("dropping the pending rollback %s: %s", time_of, reason)
        remove_instant(table.storage, table.config, time_of, Action.ROLLBACK)
        return
    _log.warning("finishing the rollback %s of %s", time_of, plan.instant)
    keeps_plan = plan.action in PLANNED_FOR_ANYONE or SignsOfLife.load(
        table.storage, table.heartbeat
    ).keeps_plan(time_of)
    begin_rollback(table.storage, table.config, time_of, plan.encode(table.storage))
    _finish(table, time_of, plan, keeps_plan=keeps_plan)
    table.storage.delete(heartbeat_path(time_of))
    table.storage.delete(writer_path(time_of))


def forget(
    storage: Storage, instant: str, *, is_stopped: bool = False, has_spilled: bool = True
) -> None:
    """Remove what an instant kept outside of the table: markers, spill files, signs of life.

    Its own writer knows whether its heartbeat is stopped, and whether it has spill files.
    """
    # The writer first: an attempt that outlives its write looks for it, after it made a marker.
    storage.delete(writer_path(instant))
    storage.delete_folder(marker_folder(instant))
    if has_spilled:
        storage.delete_folder(spill_folder(instant))
    if not is_stopped:
        storage.delete(heartbeat_path(instant))


def _finish(table: LockedTable, rollback: str, plan: RollbackPlan, *, keeps_plan: bool) -> None:
    begun = time.monotonic()
    storage, config = table.storage, table.config
    # Others may have committed since, if this process stood still: theirs would be given up too.
    table.check()
    timeline = table.timeline()
    if timeline.is_completed(plan.instant):
        forget_in_metadata(storage, timeline, {plan.instant})
    whole = take_back(table, rollback, plan, keeps_plan=keeps_plan)
    taken_ms = int((time.monotonic() - begun) * 1000)
    done = Instant(rollback, Action.ROLLBACK, State.COMPLETED, table.next_time())
    write_once(storage, config, done, outcome(storage, rollback, whole, taken_ms))
    _log.info(
        "rolled back %s %s of %s: %d files",
        plan.action.value,
        plan.instant,
        storage.root,
        len(whole.files),
    )


def take_back(
    table: LockedTable, rollback: str, plan: RollbackPlan, *, keeps_plan: bool = False
) -> RollbackPlan:
    """Undo one instant, and answer the plan with all files that are gone.

    Args:
        table: The table.
        rollback: The time under which the metadata table's deltacommit is rolled back.
        plan: The instant with its files.
        keeps_plan: Whether it is requested again afterwards.
    """
    storage, config = table.storage, table.config
    table.check()
    timeline = table.timeline()
    unpublish(storage, timeline, plan.instant)
    files = [path for path in plan.files if is_written_by(storage, path, plan.instant)]
    delete_files(storage, files)
    if plan.action in _REPLACING:
        discard_buckets(storage, timeline, plan.instant)
    _undo_metadata(table, rollback, plan.instant)
    table.check()
    remove_instant(storage, config, plan.instant, plan.action, keeps_plan=keeps_plan)
    # Until here a late task could make files: new ones, and those that were deleted above.
    whole = replace(plan, files=tuple(sorted({*files, *marked_files(storage, plan.instant)})))
    delete_files(storage, whole.files)
    for folder in {split(path)[0] for path in whole.files}:
        storage.remove_leftovers(folder)
    forget(storage, plan.instant)
    return whole


def _undo_metadata(table: LockedTable, rollback: str, instant: str) -> None:
    """Take the metadata table's deltacommit of an instant back, pending or complete.

    An instant that the metadata table never had leaves no trace there, as in Hudi.
    """
    opened = open_metadata_table(table.storage)
    if opened is None:
        return
    storage, config = opened
    timeline = Timeline.load(storage, config)
    folders = [folder for folder in storage.folders() if folder != keys.META_FOLDER]
    for folder in (keys.META_FOLDER, config.timeline_folder, *folders):
        storage.remove_leftovers(folder)
    rollback = _begun_before(timeline, instant) or rollback
    if timeline.is_completed(rollback):
        return
    if timeline.find(instant) is None and timeline.find(rollback) is None:
        return
    begun = time.monotonic()
    # Log files are named by their own instant from version 8 on, so that a listing finds them.
    files = [
        info.path
        for folder in folders
        for info in storage.list(folder)
        if (parsed := parse_data_file(split(info.path)[1], 0)) and parsed.instant_time == instant
    ]
    plan = RollbackPlan(instant, Action.DELTACOMMIT, tuple(sorted(files)))
    begin_rollback(storage, config, rollback, plan.encode(storage))
    table.check()
    delete_files(storage, plan.files)
    storage.delete_folder(marker_folder(instant))
    remove_instant(storage, config, instant, Action.DELTACOMMIT)
    done = Instant(rollback, Action.ROLLBACK, State.COMPLETED, table.next_time())
    taken_ms = int((time.monotonic() - begun) * 1000)
    write_once(storage, config, done, outcome(storage, rollback, plan, taken_ms))


def _begun_before(timeline: Timeline, instant: str) -> str | None:
    """The pending rollback of an instant that an attempt before this one began."""
    for pending in timeline.pending_of(Action.ROLLBACK):
        requested = Instant(pending.requested_time, Action.ROLLBACK, State.REQUESTED)
        try:
            plan = RollbackPlan.decode(timeline.read(requested), path=pending.requested_time)
        except (CorruptFile, FileMissing):
            continue
        if plan.instant == instant:
            return pending.requested_time
    return None
