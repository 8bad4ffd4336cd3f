"""The table as it was when a commit completed, and whether the files for a restore to it exist.

Time travel goes by the times at which writes began, a restore by those at which they completed. The
two orders differ where a write completed before one that began earlier: a compaction is planned,
then a commit is made, and then the compaction is run. A restore to that commit undoes the
compaction, and needs the files that it replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakedex.errors import CorruptFile, InvalidInput
from lakedex.filegroup import BaseFile, FileSliceId, Visibility, parse_data_file
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, Timeline, instant_key

DataFile = tuple[str, str]
"""Partition path and file name."""


def newest_completed(timeline: Timeline) -> Instant | None:
    """The write that completed last: the table as of its completion is the table as it is."""
    return max(timeline.write_instants(), key=timeline.change_time, default=None)


def completed_after(timeline: Timeline, target: Instant) -> list[Instant]:
    """The writes that completed after another one, in the order of their completion."""
    done = timeline.change_time(target)
    found = [each for each in timeline.write_instants() if timeline.change_time(each) > done]
    return sorted(found, key=timeline.change_time)


def is_overtaken(timeline: Timeline, target: Instant) -> bool:
    """Whether the table as of a commit is another one than it was when the commit completed."""
    done = timeline.change_time(target)
    return any(
        (each > target) != (timeline.change_time(each) > done) for each in timeline.write_instants()
    )


def as_completed(snapshot: Snapshot, target: Instant) -> Visibility:
    """What a reader saw when a write of the active timeline had just completed."""
    timeline, done = snapshot.timeline, snapshot.timeline.change_time(target)

    def is_visible(time: str) -> bool:
        found = timeline.find(time)
        if found is None:
            known = timeline.is_committed_write(time)
            return known and instant_key(time) <= instant_key(target.requested_time)
        return found.is_completed and found.action.is_write and timeline.change_time(found) <= done

    replaced = {
        FileSliceId(partition, file_id)
        for each in timeline.write_instants()
        if each.action is Action.REPLACECOMMIT and is_visible(each.requested_time)
        for partition, ids in timeline.commit_summary(each).replaced_file_ids.items()
        for file_id in ids
    }
    return replace(snapshot.visibility, is_visible=is_visible, replaced=frozenset(replaced))


def require_whole(snapshot: Snapshot, target: Instant) -> None:
    """Refuse a commit whose table cannot be made again, as files of that time are gone.

    Raises:
        InvalidInput: a write that began before it and completed after it has taken their place,
            and a clean removed them.
    """
    for each in completed_after(snapshot.timeline, target):
        gone = missing_before(snapshot, each) if each < target else None
        if gone is not None:
            raise InvalidInput(
                f"the table as it was at {target.requested_time} cannot be kept or restored: "
                f"{each.action.value} {each.requested_time}, which completed after it, took the "
                f"place of {gone}, and a clean removed that; take a later commit"
            )


def missing_before(snapshot: Snapshot, write: Instant) -> str | None:
    """A file that a completed write took the place of and that is gone; None if all are there."""
    left = _Left.load(snapshot, write)
    planned = list(_planned(snapshot.timeline, write))
    try:
        metadata = snapshot.timeline.commit_metadata(write)
    except CorruptFile:
        return _may_be_missing(snapshot.timeline, write)
    gone = [name for partition, name in planned if (partition, name) not in left.files]
    for partition, stats in metadata.partition_to_stats.items():
        for stat in stats:
            group = FileSliceId(partition, stat.file_id or "")
            if stat.prev_base_file and (partition, stat.prev_base_file) not in left.files:
                gone.append(stat.prev_base_file)
            elif metadata.compacted:
                gone += [] if planned or group in left.groups else [group.file_id]
            elif stat.prev_commit not in (None, "null") and not stat.log_files:
                gone += [] if group in left.older else [group.file_id]
    gone += [
        file_id
        for partition, ids in metadata.replaced_file_ids.items()
        for file_id in ids
        if FileSliceId(partition, file_id) not in left.groups
    ]
    return gone[0] if gone else None


def _may_be_missing(timeline: Timeline, write: Instant) -> str | None:
    """Of a write that cannot be read, whether a clean since may have removed anything."""
    done = timeline.change_time(write)
    cleans = [each for each in timeline.completed() if each.action is Action.CLEAN]
    return "a file" if any(timeline.change_time(each) > done for each in cleans) else None


@dataclass(frozen=True, slots=True)
class _Left:
    """What there is besides the files of a write."""

    files: frozenset[DataFile]
    groups: frozenset[FileSliceId]
    older: frozenset[FileSliceId]
    """The groups that have a base file of an earlier write."""

    @classmethod
    def load(cls, snapshot: Snapshot, write: Instant) -> _Left:
        files: set[DataFile] = set()
        groups: set[FileSliceId] = set()
        older: set[FileSliceId] = set()
        time = instant_key(write.requested_time)
        for partition, listed in snapshot.listing.files.items():
            for name, size in listed:
                parsed = parse_data_file(name, size)
                if parsed is None or parsed.instant_time == write.requested_time:
                    continue
                group = FileSliceId(partition, parsed.file_id)
                files.add((partition, name))
                groups.add(group)
                if isinstance(parsed, BaseFile) and instant_key(parsed.instant_time) < time:
                    older.add(group)
        return cls(frozenset(files), frozenset(groups), frozenset(older))


def _planned(timeline: Timeline, write: Instant) -> Iterator[DataFile]:
    """The files that the plan of a compaction or clustering names."""
    time = write.requested_time
    action = timeline.requested_action(time)
    if action is Action.COMPACTION:
        for operation in timeline.compaction_plan(time).operations:
            names = (operation.data_file, *operation.log_files)
            yield from ((operation.partition_path, name) for name in names if name)
    elif action is Action.CLUSTERING:
        plan = timeline.requested_replace(time).clustering
        for group in plan.groups if plan is not None else ():
            for part in group.slices:
                names = (part.data_file, *part.log_files)
                yield from ((part.partition_path, name) for name in names if name)
