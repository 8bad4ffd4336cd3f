"""Properties and timeline: what readers cannot do without, and what tells of completed instants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lakedex.errors import CorruptFile, FileMissing, TimelineDamaged
from lakedex.read.changes import instants_of_files
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_archive
from lakedex.table.own_properties import own_properties_problem
from lakedex.timeline import Action, Instant, PlanKind, Timeline, file_name, read_plan
from lakedex.timeline.lsm_history import LsmHistory, history_problem
from lakedex.timeline.properties_file import properties_problem
from lakedex.timeline.timeline import EARLIEST

_LAYOUT_WITH_MANIFESTS = 2
_KINDS = {
    Action.CLEAN: PlanKind.CLEAN_METADATA,
    Action.SAVEPOINT: PlanKind.SAVEPOINT_METADATA,
    Action.RESTORE: PlanKind.RESTORE_METADATA,
}
"""What is asked for later of instants that are no writes."""


def check_timeline(snapshot: Snapshot) -> None:
    """Look at what readers and writers need of the timeline: plans that pend, the list of archives.

    Raises:
        CorruptFile: one cannot be read.
        FileMissing: one is gone.
    """
    _ = snapshot.visibility
    for instant in snapshot.timeline.pending_of(Action.CLUSTERING):
        with suppress(FileMissing):  # taken back, or done, since the timeline was read
            snapshot.timeline.requested_replace(instant.requested_time)
    if snapshot.config.timeline_layout == _LAYOUT_WITH_MANIFESTS:
        LsmHistory(snapshot.storage, snapshot.config.history_folder).files()


def unreadable_files(snapshot: Snapshot) -> Iterator[str]:
    """Why properties, and files of completed instants, active or archived, cannot be read."""
    timeline, damaged = snapshot.timeline, set()
    for problem in (properties_problem(snapshot.storage), own_properties_problem(snapshot.storage)):
        if problem is not None:
            yield problem
    for instant in timeline.completed():
        try:
            read_completed(timeline, instant)
        except CorruptFile as error:
            damaged.add(instant.requested_time)
            yield str(error)
        except FileMissing:
            continue  # archived, or taken back, since the timeline was read
    if snapshot.config.timeline_layout == _LAYOUT_WITH_MANIFESTS:
        problem = history_problem(snapshot.storage, snapshot.config.history_folder)
        if problem is not None:
            yield problem
            return
    try:
        timeline.archived.instants()
        written = [each for each in timeline.write_instants() if each.requested_time not in damaged]
        check_archive(timeline, instants_of_files(snapshot, written), EARLIEST[0])
    except (CorruptFile, FileMissing, TimelineDamaged) as error:
        yield str(error)


def incomplete_savepoints(timeline: Timeline) -> Iterator[str]:
    """What is to be done about savepoints that did not complete, or lost the file that says so."""
    for instant in timeline.pending_of(Action.SAVEPOINT):
        time = instant.requested_time
        yield (
            f"the savepoint {time} is not complete, so that cleaning may remove its files: "
            "`lakedex repair PATH` completes it, "
            f"`lakedex savepoint PATH {time} --delete` removes it"
        )


def read_completed(timeline: Timeline, instant: Instant) -> None:
    """Read the file of a completed instant.

    Raises:
        CorruptFile: it does not hold what it should.
    """
    if instant.action.is_write:
        timeline.commit_metadata(instant)
    elif instant.action in _KINDS:
        path = file_name(instant, timeline.config.timeline_layout)
        read_plan(_KINDS[instant.action], timeline.read(instant), path=path)
