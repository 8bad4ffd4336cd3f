"""What a clean retains: the earliest instant that can be read, and files that must stay.

Files of savepoints and of pending plans stay, however old they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakedex.config.service_options import CleaningOptions, CleaningPolicy
from lakedex.filegroup import LogFile, Visibility, latest_slices, parse_data_file
from lakedex.table import Snapshot
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import (
    Action,
    Instant,
    PlanKind,
    Timeline,
    from_epoch_ms,
    instant_key,
    read_plan,
)
from lakedex.timeline.clean_plan import CleanOutcome
from lakedex.upkeep.completion_order import DataFile, as_completed, is_overtaken

_HOUR_MS = 3_600_000
_WRITERS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)


@dataclass(frozen=True, slots=True)
class CleanScan:
    """Up to which instant a clean has looked for files, and which savepoints kept files from it."""

    earliest: str
    at: str
    savepoints: frozenset[str]


def earliest_retained(timeline: Timeline, options: CleaningOptions, now_ms: int) -> Instant | None:
    """The earliest write as of which the table must stay whole; None where nothing can be cleaned.

    It is never after a write that goes on: that one may have begun with what is there now.
    """
    commits = timeline.write_instants()
    chosen = None
    if options.policy is CleaningPolicy.COMMITS and len(commits) > options.commits:
        chosen = commits[len(commits) - options.commits]
    elif options.policy is CleaningPolicy.HOURS and commits:
        limit = from_epoch_ms(now_ms - options.hours * _HOUR_MS, timeline.config.timezone)
        young = (each for each in commits if instant_key(each.requested_time) >= limit)
        chosen = next(young, commits[-1])
    pending = timeline.pending_of(*_WRITERS)
    if chosen is None or not pending or chosen < pending[0]:
        return chosen
    before = [each for each in commits if each < pending[0]]
    return before[-1] if before else None


def last_clean(timeline: Timeline) -> Instant | None:
    """The newest completed clean of the active timeline."""
    cleans = (each for each in reversed(timeline.completed()) if each.action is Action.CLEAN)
    return next(cleans, None)


def clean_outcome(timeline: Timeline, clean: Instant) -> CleanOutcome:
    """What a completed clean did."""
    return CleanOutcome.decode(timeline.read(clean), path=clean.requested_time)


def is_clean_due(
    timeline: Timeline, options: CleaningOptions, seen: CleanScan | None = None
) -> bool:
    """Whether it is worth looking for files to clean; no file is read for that."""
    if timeline.pending_of(Action.CLEAN):
        return True
    commits = timeline.write_instants()
    last = last_clean(timeline)
    after = instant_key("" if last is None else last.requested_time)
    after = after if seen is None else max(after, instant_key(seen.at))
    since = sum(instant_key(each.completion_time or "") > after for each in commits)
    if since < options.after_commits:
        return False
    if options.policy is CleaningPolicy.COMMITS:
        return len(commits) > options.commits
    # The first version of anything is the newest one, too.
    return len(commits) > 1


Files = Mapping[str, Iterable[tuple[str, int]]]


def needed_files(snapshot: Snapshot, files: Files) -> frozenset[DataFile]:
    """The files, among those of some partitions, that savepoints and pending plans name."""
    timeline = snapshot.timeline
    found = set(_planned(timeline))
    for savepoint in timeline.savepoints():
        found |= set(_saved(timeline, savepoint))
        # Other engines may name base files only; the timeline has what a reader needs.
        found |= retained_files(snapshot, savepoint, files)
    return frozenset(found)


def _planned(timeline: Timeline) -> Iterable[DataFile]:
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


def _saved(timeline: Timeline, savepoint: str) -> Iterable[DataFile]:
    for instant in timeline.completed():
        if instant.action is Action.SAVEPOINT and instant.requested_time == savepoint:
            record = read_plan(
                PlanKind.SAVEPOINT_METADATA, timeline.read(instant), path=f"savepoint {savepoint}"
            )
            for partition, entry in record["partitionMetadata"].items():
                yield from ((partition, name) for name in entry["savepointDataFile"])


def retained_files(snapshot: Snapshot, savepoint: str, files: Files) -> set[DataFile]:
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
    } | set(_named_logs(snapshot, views, files))


def _named_logs(
    snapshot: Snapshot, views: Sequence[Visibility], files: Files
) -> Iterator[DataFile]:
    """Log files that virtual ones may name: those with the time of a resize that pended then.

    They are known by their names, so that no log file is read for it.
    """
    pended: dict[str, bool] = {}
    for partition, listed in files.items():
        for name, size in listed:
            log = parse_data_file(name, size)
            if not isinstance(log, LogFile):
                continue
            time = log.instant_time
            if time not in pended:
                instant = snapshot.timeline.find(time)
                is_hidden = not all(view.is_visible(time) for view in views)
                pended[time] = bool(instant and is_hidden and is_resize(snapshot.timeline, instant))
            if pended[time]:
                yield partition, name
