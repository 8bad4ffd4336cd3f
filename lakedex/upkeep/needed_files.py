"""Files that no clean may touch, however old: those of savepoints and of pending plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakedex.filegroup import latest_slices
from lakedex.table import Snapshot
from lakedex.timeline import Action, PlanKind, Timeline, read_plan
from lakedex.upkeep.overtaking import Place, as_completed, is_overtaken

Files = Mapping[str, Iterable[tuple[str, int]]]


def needed_files(snapshot: Snapshot, files: Files) -> frozenset[Place]:
    """The files, among those of some partitions, that savepoints and pending plans name."""
    timeline = snapshot.timeline
    found = set(_planned(timeline))
    for savepoint in timeline.savepoints():
        found |= set(_saved(timeline, savepoint))
        # Other engines may name base files only; what a reader needs is told by the timeline.
        found |= files_kept(snapshot, savepoint, files)
    return frozenset(found)


def _planned(timeline: Timeline) -> Iterable[Place]:
    for instant in timeline.pending_of(Action.COMPACTION, Action.LOGCOMPACTION):
        for operation in timeline.compaction_plan(instant.requested_time).operations:
            names = (operation.data_file, *operation.log_files)
            yield from ((operation.partition_path, name) for name in names if name)
    for instant in timeline.pending_of(Action.CLUSTERING, Action.REPLACECOMMIT):
        plan = timeline.requested_replace(instant.requested_time).clustering
        for group in plan.groups if plan is not None else ():
            for part in group.slices:
                names = (part.data_file, *part.log_files)
                yield from ((part.partition_path, name) for name in names if name)


def _saved(timeline: Timeline, savepoint: str) -> Iterable[Place]:
    for instant in timeline.completed():
        if instant.action is Action.SAVEPOINT and instant.requested_time == savepoint:
            record = read_plan(
                PlanKind.SAVEPOINT_METADATA, timeline.read(instant), path=f"savepoint {savepoint}"
            )
            for partition, entry in record["partitionMetadata"].items():
                yield from ((partition, name) for name in entry["savepointDataFile"])


def files_kept(snapshot: Snapshot, savepoint: str, files: Files) -> set[Place]:
    """The files, among some, of the table as of a commit, and as it was when that completed.

    Raises:
        InvalidInput: the files of the commit were cleaned.
    """
    views = [snapshot.at(savepoint).visibility]
    target = snapshot.timeline.find(savepoint)
    if target is not None and is_overtaken(snapshot.timeline, target):
        views.append(as_completed(snapshot, target))
    return {
        (partition, name)
        for visibility in views
        for partition, listed in files.items()
        for current in latest_slices(partition, listed, visibility)
        for name in current.file_names
    }
