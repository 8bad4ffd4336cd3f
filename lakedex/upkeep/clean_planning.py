"""Which files a clean may remove.

A version of a file group goes when no reader as of a retained instant needs it: all versions stay
from the one on that was the newest just before the earliest retained instant, or, where versions
are counted, so many of the newest. Groups that were replaced before the earliest retained instant
go altogether. The newest version of a group that is still there always stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.upkeep_options import CleaningOptions, CleaningPolicy
from lakedex.filegroup import FileSlice, FileSliceId, all_versions, parse_data_file
from lakedex.index.metadata_table import FILES_PAYLOAD, MetadataTable
from lakedex.index.metadata_table.records import partition_key
from lakedex.table import Snapshot
from lakedex.timeline import Action, CommitMetadata, Instant, Timeline, instant_key
from lakedex.timeline.clean_plan import SAVEPOINTS_KEY, CleanPlan
from lakedex.upkeep.needed_files import needed_files
from lakedex.upkeep.overtaking import Place
from lakedex.upkeep.retained import Look, clean_outcome, earliest_retained, last_clean

_WRITERS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)
Listed = dict[str, list[tuple[str, int]]]


def plan_clean(
    snapshot: Snapshot, options: CleaningOptions, now_ms: int, seen: Look | None = None
) -> CleanPlan:
    """The plan of a clean of the newest snapshot; an empty one when there is nothing to do.

    `seen` is an earlier look that found nothing, or nothing that is still there.
    """
    timeline = snapshot.timeline
    newest = timeline.last_completed
    by_versions = options.policy is CleaningPolicy.VERSIONS
    earliest = None if by_versions else earliest_retained(timeline, options, now_ms)
    nothing = CleanPlan(options.policy.value, earliest, "")
    if newest is None or (earliest is None and not by_versions):
        return nothing
    partitions = _touched(timeline, earliest, seen) if options.incremental and earliest else None
    found = listed(snapshot, partitions)
    needed = needed_files(snapshot, found)
    replaced = _replaced(timeline, earliest)
    files: dict[str, tuple[str, ...]] = {}
    empty = []
    for partition in sorted(found):
        rules = _Rules(options, earliest, replaced, needed)
        groups = all_versions(partition, found[partition], snapshot.visibility)
        gone = sorted(name for versions in groups.values() for name in rules.removable(versions))
        if gone:
            files[partition] = tuple(gone)
        data = [name for name, _ in found[partition] if parse_data_file(name, 0) is not None]
        if partition and len(gone) == len(data):
            empty.append(partition)
    # A writer that goes on may be about to put a file there.
    dropped = () if timeline.pending_of(*_WRITERS) else tuple(empty)
    savepoints = ",".join(sorted(timeline.savepoints()))
    return CleanPlan(
        policy=options.policy.value,
        earliest=earliest,
        last_completed=newest.requested_time,
        files=files,
        partitions=dropped,
        extra={SAVEPOINTS_KEY: savepoints} if savepoints else {},
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    options: CleaningOptions
    earliest: Instant | None
    replaced: frozenset[FileSliceId]
    needed: frozenset[Place]

    def removable(self, versions: Sequence[FileSlice]) -> Iterable[str]:
        """The names of all files of a group that may go."""
        for version in self._old(versions):
            places = [(version.partition, name) for name in version.file_names]
            if not self.needed.intersection(places):
                yield from version.file_names

    def _old(self, versions: Sequence[FileSlice]) -> Sequence[FileSlice]:
        if versions[0].id in self.replaced:
            return versions
        if self.earliest is None:
            return versions[: max(0, len(versions) - self.options.versions)]
        limit = instant_key(self.earliest.requested_time)
        before = sum(instant_key(version.base_instant) < limit for version in versions)
        return versions[: max(0, before - 1)]


def _replaced(timeline: Timeline, earliest: Instant | None) -> frozenset[FileSliceId]:
    """The groups that were replaced before the earliest retained instant, or at all."""
    found: set[FileSliceId] = set()
    for instant in timeline.write_instants():
        if instant.action is Action.REPLACECOMMIT and (earliest is None or instant < earliest):
            for partition, ids in timeline.commit_summary(instant).replaced_file_ids.items():
                found.update(FileSliceId(partition, file_id) for file_id in ids)
    return frozenset(found)


def _touched(timeline: Timeline, earliest: Instant, seen: Look | None) -> set[str] | None:
    """The partitions that may have got old versions since the last look; None means all."""
    look = _later(seen, _last_look(timeline))
    if look is None or not look.savepoints <= set(timeline.savepoints()):
        return None
    first, done = instant_key(look.earliest), instant_key(look.at)
    partitions: set[str] = set()
    for instant in timeline.write_instants():
        is_late = instant_key(instant.completion_time or "") > done
        if instant < earliest and (instant_key(instant.requested_time) >= first or is_late):
            partitions |= _rewritten(timeline.commit_metadata(instant))
    return partitions


def _last_look(timeline: Timeline) -> Look | None:
    last = last_clean(timeline)
    if last is None:
        return None
    outcome = clean_outcome(timeline, last)
    if not outcome.earliest:
        return None
    return Look(outcome.earliest, last.requested_time, outcome.savepoints)


def _later(one: Look | None, other: Look | None) -> Look | None:
    found = [each for each in (one, other) if each is not None]
    return max(found, key=lambda each: (instant_key(each.at), each.earliest), default=None)


def _rewritten(metadata: CommitMetadata) -> set[str]:
    """The partitions in which a commit left an older version of a file group behind."""
    found = set(metadata.replaced_file_ids)
    for partition, stats in metadata.partition_to_stats.items():
        if metadata.compacted or any(
            not stat.log_files and stat.prev_commit not in (None, "null") for stat in stats
        ):
            found.add(partition)
    return found


def listed(snapshot: Snapshot, partitions: Collection[str] | None) -> Listed:
    """The data files of some partitions, or of all, with their sizes."""
    if partitions is None:
        return snapshot.listing.files
    if not partitions:
        return {}
    if snapshot.metadata is None:
        return {path: _on_store(snapshot, path) for path in partitions}
    return _in_metadata(snapshot.metadata, partitions)


def _on_store(snapshot: Snapshot, partition: str) -> list[tuple[str, int]]:
    found = snapshot.storage.list(partition)
    names = ((info.path.rpartition("/")[2], info.size_bytes) for info in found)
    return [(name, size) for name, size in names if parse_data_file(name, size) is not None]


def _in_metadata(metadata: MetadataTable, partitions: Collection[str]) -> Listed:
    by_key: Mapping[str, str] = {partition_key(path): path for path in partitions}
    records = metadata.lookup("files", pa.array(list(by_key), pa.string()))
    found: Listed = {}
    maps = records[FILES_PAYLOAD].to_pylist()
    for key, entries in zip(records["key"].to_pylist(), maps, strict=True):
        found[by_key[key]] = [(name, info["size"]) for name, info in entries or ()]
    return found
