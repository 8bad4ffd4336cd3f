"""What dead writers left behind, cleared away by the next writer before it begins.

Under the lock of the table:

* rollbacks and restores that were begun are finished, savepoints that were begun are dropped;
* pending commits, deltacommits and replacecommits of dead writers are rolled back; those of
  writers that may live are left alone;
* a clustering of a dead lakedex process is rolled back, plan and all: what it was to replace is
  free again. Of a compaction, and of a clustering that was scheduled apart, only the run of a dead
  process is rolled back: their plans, as those of others, may be run by anyone later. What others
  run is left alone, unless it died after its commit to the metadata table;
* index builds of dead processes are taken back, those that were stopped are left alone; indexes
  of lakedex whose entries another engine deleted are no longer named;
* markers, spill files and signs of life of instants that no longer pend are removed, as are files
  that were never given their name.

Other engines do not know the indexes that only lakedex has: they may delete the metadata table and
build it again, and the properties go on naming what is no longer there. A file without an entry is
read, so that queries stay right; the definitions stay, for REFRESH INDEX.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from lakedex.config import keys
from lakedex.config.keys import META_FOLDER, METADATA_TABLE_FOLDER
from lakedex.config.table_config import ASYNC_SECONDARY_PREFIX, OWN_EXPRESSION_PREFIX
from lakedex.errors import CorruptFile, FileMissing, InvalidInput
from lakedex.storage import Storage, split
from lakedex.timeline import (
    Action,
    Instant,
    State,
    Timeline,
    instant_key,
    load_table_config,
    parse_instant_file,
    to_epoch_ms,
    update_properties,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.txn.clocks import newest_time
from lakedex.txn.heartbeat import HeartbeatOptions, SignsOfLife
from lakedex.txn.index_builds import clear_builds
from lakedex.txn.markers import marked_files
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.restoring import resume_restore
from lakedex.txn.rollback import LockedTable, forget, read_plan_of, resume_rollback, roll_back
from lakedex.txn.rollback_files import RollbackPlan, delete_files, remove_instant
from lakedex.txn.working_folders import (
    HEARTBEATS,
    MARKERS,
    SPILL,
    WRITERS,
    heartbeat_path,
    marker_folder,
    remove_dead_scratch,
)

_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_SERVICES = (Action.CLUSTERING, Action.COMPACTION)
_log = logging.getLogger("lakedex")


def forget_lost_indexes(table: LockedTable) -> bool:
    """Let the properties no longer name indexes of lakedex whose entries are gone.

    Returns whether there were any.
    """
    names = table.config.own_metadata_partitions
    own = [n for n in names if n.startswith((OWN_EXPRESSION_PREFIX, ASYNC_SECONDARY_PREFIX))]
    if not own:
        return False
    there = set(table.storage.folders(keys.METADATA_TABLE_FOLDER))
    lost = [name for name in own if name not in there]
    if not lost:
        return False
    _log.warning(
        "%s of table %s went when another engine took the metadata table away; REFRESH INDEX "
        "builds it anew",
        ", ".join(lost),
        table.config.name,
    )
    left = sorted(set(load_table_config(table.storage).metadata_partitions).difference(lost))
    update_properties(table.storage, {keys.METADATA_PARTITIONS: ",".join(left)})
    return True


def recover(table: LockedTable) -> tuple[str, ...]:
    """Clear away what dead writers left; returns the instants that were rolled back."""
    # Leftovers are listed before the timeline: an instant is on it before it has markers.
    left = Leftovers.load(table.storage, table.heartbeat)
    return clear_leftovers(replace(table, data=table.timeline()), left).rolled_back


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the next writer did about what dead ones left."""

    rolled_back: tuple[str, ...]
    is_table_changed: bool
    """Whether timelines or properties are others than before."""


def clear_leftovers(table: LockedTable, left: Leftovers) -> Recovery:
    """Clear away what dead writers left, which was listed before the timeline of the table."""
    timeline = table.data
    in_work: set[str] = set()
    rollbacks = timeline.pending_of(Action.ROLLBACK)
    for rollback in rollbacks:
        plan = read_plan_of(table, rollback)
        if _may_be_resumed(table, left, timeline, rollback, plan):
            resume_rollback(table, rollback, plan)
        elif plan is not None:
            in_work.add(plan.instant)
    restores = [
        each
        for each in timeline.pending_of(Action.RESTORE)
        if each.requested_time in left.life.writers or not _is_alive(table, left, each)
    ]
    for restore in restores:
        resume_restore(table, restore)
    saved = [
        each
        for each in timeline.pending_of(Action.SAVEPOINT)
        if each.requested_time in left.life.writers or not _is_alive(table, left, each)
    ]
    for savepoint in saved:
        time = savepoint.requested_time
        remove_instant(table.storage, table.config, time, Action.SAVEPOINT)
        # One without a writer was deleted by half, or begun after others had swept its writer away.
        if time in left.life.writers:
            forget(table.storage, time)
    cleared = clear_builds(table, timeline, left.life)
    is_forgotten = forget_lost_indexes(table)
    is_changed = bool(rollbacks or restores or saved or cleared)
    if is_changed:
        # Of a run that was just taken back the plan may be left, and nobody is at work on that.
        left = Leftovers.load(table.storage, table.heartbeat)
        timeline = table.timeline()
    undone = [
        instant
        for instant in timeline.pending_of(*_WRITES, *_SERVICES)
        if instant.requested_time not in in_work
        and not _is_alive(table, left, instant)
        and (
            not _is_service_of_others(timeline, left, instant) or _holds_up_metadata(table, instant)
        )
    ]
    for instant in undone:
        _log.warning(
            "the writer of %s %s is dead, rolling it back",
            instant.action.value,
            instant.requested_time,
        )
        others = _is_service_of_others(timeline, left, instant)
        keeps_plan = others or left.life.keeps_plan(instant.requested_time)
        if keeps_plan and instant.state is State.REQUESTED:
            forget(table.storage, instant.requested_time)  # it had not begun to write
        else:
            roll_back(table, instant, keeps_plan=keeps_plan)
    _sweep(table, table.timeline() if undone else timeline, left)
    remove_dead_scratch(table.storage, left.spilled)
    _remove_nameless(table)
    return Recovery(
        tuple(instant.requested_time for instant in undone),
        is_changed or is_forgotten or bool(undone),
    )


def is_being_run(table: LockedTable, instant: Instant) -> bool:
    """Whether a process may be at work on the plan of a pending instant.

    A plan that was only requested is young without anybody at work on it.
    """
    life = SignsOfLife.load(table.storage, table.heartbeat)
    time = instant.requested_time
    if instant.state is State.INFLIGHT and time not in life.beats and time not in life.writers:
        return life.is_alive(time, _other_signs(table, time))
    return life.is_alive(time)


def _remove_nameless(table: LockedTable) -> None:
    """Remove files that never got their name, where a writer works outside of an instant too."""
    timelines = (META_FOLDER, table.config.timeline_folder)
    inner = [f"{METADATA_TABLE_FOLDER}/{folder}" for folder in timelines]
    table.storage.remove_leftovers(*timelines, *inner, WRITERS, HEARTBEATS)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What writers keep outside of the timeline, by instant time."""

    marked: frozenset[str]
    spilled: frozenset[str]
    """Instant times, and the folders of writers that are not on the timeline yet."""
    life: SignsOfLife

    @classmethod
    def load(cls, storage: Storage, heartbeat: HeartbeatOptions) -> Leftovers:
        """Four listings."""
        return cls(
            frozenset(filter(is_instant_time, storage.folders(MARKERS))),
            frozenset(storage.folders(SPILL)),
            SignsOfLife.load(storage, heartbeat),
        )


def _is_alive(table: LockedTable, left: Leftovers, instant: Instant) -> bool:
    """Whether somebody may still be at work on a pending instant (case B40)."""
    time = instant.requested_time
    known = time in left.life.beats or time in left.life.writers
    return left.life.is_alive(time, () if known else _other_signs(table, time))


def _other_signs(table: LockedTable, time: str) -> Iterator[int]:
    """Moments at which the writer of an instant without heartbeat must have lived."""
    with suppress(InvalidInput):
        yield to_epoch_ms(time, table.config.timezone)
    for info in table.storage.list(table.config.timeline_folder):
        parsed = parse_instant_file(split(info.path)[1], table.config.timeline_layout)
        if parsed is not None and parsed.requested_time == time:
            yield info.modified_ms
    for info in table.storage.list_recursive(marker_folder(time)):
        yield info.modified_ms


def _may_be_resumed(
    table: LockedTable,
    left: Leftovers,
    timeline: Timeline,
    rollback: Instant,
    plan: RollbackPlan | None,
) -> bool:
    """Whether nobody is at work on a rollback any more, nor on the instant that it takes back."""
    target = None if plan is None else timeline.find(plan.instant)
    # Ours run under the lock, which we hold: one that pends was killed.
    is_ours = rollback.requested_time in left.life.writers
    if target is not None and not target.is_completed:
        time = target.requested_time
        # A commit that was complete has no writer, however young it looks now.
        is_written = time in left.life.beats or time in left.life.writers
        if (is_written or not is_ours) and _is_alive(table, left, target):
            return False
    return is_ours or not _is_alive(table, left, rollback)


def _is_service_of_others(timeline: Timeline, left: Leftovers, instant: Instant) -> bool:
    """Whether it is a compaction or clustering that no lakedex process runs or ran.

    In tables of older versions such a one pends as replacecommit.
    """
    if instant.action in _SERVICES:
        return instant.requested_time not in left.life.writers
    if instant.action is not Action.REPLACECOMMIT:
        return False
    try:
        return timeline.requested_replace(instant.requested_time).clustering is not None
    except (CorruptFile, FileMissing):
        return False


def _holds_up_metadata(table: LockedTable, instant: Instant) -> bool:
    """Whether a service died between its commit to the metadata table and its own (case B44).

    The metadata table is not compacted while such a one pends. Its plan stays, to be run again.
    """
    if instant.state is not State.INFLIGHT or instant.action not in _SERVICES:
        return False
    opened = open_metadata_table(table.storage)
    return opened is not None and Timeline.load(*opened).is_completed(instant.requested_time)


def _sweep(table: LockedTable, timeline: Timeline, left: Leftovers) -> None:
    """Remove what belongs to instants that no longer pend.

    A claim after all times of the timeline stays, unless its process has surely ended: it may stand
    still in front of its first request, and nobody else may take that time. It goes once newer
    times are there.
    """
    pending = {instant.requested_time for instant in timeline.pending()}
    newest = newest_time(timeline)
    for time in sorted(left.marked | left.spilled | left.life.writers):
        if time in pending or not is_instant_time(time):
            continue
        if instant_key(time) > newest and left.life.may_go_on(time):
            continue
        table.check()
        if time in left.marked and timeline.find(time) is None:
            if _is_surely_uncommitted(timeline, time):
                # Its rollback lost its plan after it took the instant off the timeline.
                delete_files(table.storage, marked_files(table.storage, time))
            elif timeline.completion_time(time) is None:
                continue
        forget(table.storage, time)
    for time in sorted(left.life.beats.keys() - left.life.writers - pending):
        # A process that stood still gave a sign of life once more, after all else of it was gone.
        if is_instant_time(time) and not left.life.is_alive(time):
            table.storage.delete(heartbeat_path(time))


def _is_surely_uncommitted(timeline: Timeline, time: str) -> bool:
    """Whether an instant that is not on the active timeline was not archived either."""
    first = timeline.first_active
    return first is None or instant_key(time) > instant_key(first.requested_time)
