"""Rolls back an instant: its files, its part of the metadata table, its files on the timeline.

The order makes each step safe to repeat, and none visible to readers:

1. a rollback instant R with its plan goes on the timeline; a completed instant loses its completed
   file, and pends from then on, so that its files are no longer read;
2. the data files that markers name are deleted, and rings of a bucket index that it stored;
3. the metadata table's deltacommit of the same time is taken back, while the data table still has
   the instant as pending, so that its records stay invisible throughout;
4. the instant's own files go from the timeline; a late task that looks for them stops here;
5. files that such a task made meanwhile are deleted, then the markers and the heartbeat;
6. R completes.

The plan of a compaction, and of a clustering that was scheduled apart, stays in step 4: the instant
is then requested as before, and anyone may run it again.

A rollback that was killed is on the timeline as pending; the next writer finishes it. Its files
have Hudi's form, for the data table and for the metadata table:

    R.rollback.requested   HoodieRollbackPlan: the instant, and the files to delete
    R.rollback.inflight    empty
    R_C.rollback           HoodieRollbackMetadata: the files that were deleted

Addresses in them are absolute, as the JVM writes them; of the addresses of other writers only the
partition and the last part are used. Files that a marker names and no write stat does are orphans
of attempts that were not needed.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from lakedex.config import TableConfig, keys
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, UnsafePath
from lakedex.filegroup.names import parse_data_file
from lakedex.index.registry import discard_buckets
from lakedex.storage import Storage, join, split
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    PlanKind,
    State,
    Timeline,
    WriteStat,
    file_name,
    parse_instant_file,
    read_plan,
    write_instant,
    write_plan,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.timeline.plans import bare_name
from lakedex.txn.clocks import InstantClock
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions, SignsOfLife
from lakedex.txn.markers import is_file_of, is_log_file, is_written_by, marked_files
from lakedex.txn.metadata_rollback import forget_in_metadata, open_metadata_table
from lakedex.txn.working_folders import heartbeat_path, marker_folder, spill_folder, writer_path

_DELETERS = 8


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What a rollback takes back: an instant, the action it was begun as, and its files."""

    instant: str
    action: Action
    files: tuple[str, ...]

    def encode(self, storage: Storage) -> bytes:
        """The content of the requested file."""
        requests = [
            {
                "partitionPath": partition,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": [f"{storage.root}/{path}" for path in paths],
                "logBlocksToBeDeleted": {},
            }
            for partition, paths in _by_partition(self.files).items()
        ]
        info = {"commitTime": self.instant, "action": self.action.value}
        record = {"instantToRollback": info, "RollbackRequests": requests, "version": 1}
        return write_plan(PlanKind.ROLLBACK_PLAN, record)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> RollbackPlan:
        """The plan of a requested file, of any engine.

        A log file of another name may be the instant's by what is in it, which is for the caller to
        see.

        Raises:
            CorruptFile: there is no plan in it, or none that names an instant.
        """
        record = read_plan(PlanKind.ROLLBACK_PLAN, data, path=path)
        info = record["instantToRollback"]
        actions = {action.value: action for action in Action}
        known = info is not None and info["action"] in actions
        if not known or not is_instant_time(info["commitTime"]):
            raise CorruptFile(path, 0, expected="an instant to roll back", actual=info)
        instant = info["commitTime"]
        files = []
        for request in record["RollbackRequests"] or ():
            addresses = [*request["filesToBeDeleted"], *(request["logBlocksToBeDeleted"] or {})]
            for address in addresses:
                try:
                    named = join(request["partitionPath"], bare_name(address))
                except UnsafePath:
                    continue
                if is_file_of(named, instant) or is_log_file(named):
                    files.append(named)
        return cls(instant, actions[info["action"]], tuple(files))


def outcome(storage: Storage, rollback: str, plan: RollbackPlan, taken_ms: int) -> bytes:
    """The content of the completed file."""
    record = outcome_record(storage, rollback, plan, taken_ms)
    return write_plan(PlanKind.ROLLBACK_METADATA, record)


def outcome_record(
    storage: Storage, rollback: str, plan: RollbackPlan, taken_ms: int
) -> dict[str, Any]:
    """The same as a wire record; a restore holds one for each instant."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": [f"{storage.root}/{path}" for path in paths],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition, paths in _by_partition(plan.files).items()
    }
    return {
        "startRollbackTime": rollback,
        "timeTakenInMillis": taken_ms,
        "totalFilesDeleted": len(plan.files),
        "commitsRollback": [plan.instant],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": plan.instant, "action": plan.action.value}],
    }


def write_once(storage: Storage, config: TableConfig, instant: Instant, data: bytes) -> None:
    """Put an instant on the timeline, unless an earlier try has done so."""
    try:
        write_instant(storage, config, instant, data)
    except AlreadyExists:
        return


def begin_rollback(storage: Storage, config: TableConfig, rollback: str, plan: bytes) -> None:
    """Put a rollback on the timeline, up to inflight."""
    write_once(storage, config, Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan)
    write_once(storage, config, Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")


def remove_instant(
    storage: Storage,
    config: TableConfig,
    instant: str,
    action: Action,
    *,
    keeps_plan: bool = False,
) -> None:
    """Take the files of an instant off the timeline, the furthest state first.

    With `keeps_plan` its requested file stays, and the instant can be run again.
    """
    found: list[tuple[int, str]] = []
    for info in storage.list(config.timeline_folder):
        parsed = parse_instant_file(split(info.path)[1], config.timeline_layout)
        if parsed is None or parsed.requested_time != instant:
            continue
        if keeps_plan and parsed.state is State.REQUESTED:
            continue
        if parsed.action.completed is action.completed:
            found.append((-parsed.state.value, info.path))
    for _, path in sorted(found):
        storage.delete(path)


def delete_files(storage: Storage, paths: Sequence[str]) -> None:
    """Delete files, some at a time; those that are gone already are fine."""
    if len(paths) < _DELETERS:
        for path in paths:
            storage.delete(path)
        return
    with ThreadPoolExecutor(_DELETERS) as pool:
        list(pool.map(storage.delete, paths))


def _by_partition(paths: Iterable[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        grouped[split(path)[0]].append(path)
    return grouped


def delete_orphan_files(
    storage: Storage, instant: str, metadata: CommitMetadata
) -> tuple[str, ...]:
    """Delete the files of an instant that its commit does not name, and answer them."""
    kept = {path for stat in metadata.stats() for path in named_files(stat)}
    strays = tuple(path for path in marked_files(storage, instant) if path not in kept)
    delete_files(storage, strays)
    return strays


def named_files(stat: WriteStat) -> Iterator[str]:
    """The files that a write stat tells of, relative to the table."""
    if stat.path is not None:
        yield stat.path
        for name in stat.log_files or ():
            yield join(split(stat.path)[0], name)
    yield from stat.cdc_stats or ()


PLANNED_FOR_ANYONE = (Action.COMPACTION, Action.LOGCOMPACTION)
"""Actions whose plans always outlive a run that failed."""
REPLACING = (Action.REPLACECOMMIT, Action.CLUSTERING)
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


def files_of(
    storage: Storage, instant: str, action: Action, resizes: Collection[str] = ()
) -> tuple[str, ...]:
    """All data files of an instant by their names: every folder of the table is listed.

    Log files with the time of a clustering are those of writes beside it, and belong to these.

    Args:
        storage: The table.
        instant: The instant.
        action: What it does.
        resizes: The times of resizes to whose new buckets it may have given log files.
    """
    with_logs = action not in REPLACING

    def is_own(path: str) -> bool:
        if is_file_of(path, instant):
            return with_logs or not is_log_file(path)
        return any(is_file_of(path, each) for each in resizes) and is_written_by(
            storage, path, instant
        )

    return tuple(sorted(info.path for info in storage.list_recursive() if is_own(info.path)))


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
    if plan.action in REPLACING:
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
    begun = time.monotonic()
    # Log files are named by their own instant from version 8 on, so that a listing finds them.
    files = [
        info.path
        for folder in folders
        for info in storage.list(folder)
        if (parsed := parse_data_file(split(info.path)[1], 0)) and parsed.instant_time == instant
    ]
    if timeline.find(instant) is None and timeline.find(rollback) is None:
        # A writer that slept while others rolled it back may have made a file after that.
        delete_files(storage, files)
        return
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
