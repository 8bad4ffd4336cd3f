"""Conflicts between a write and what was committed since it began.

Two writes exclude each other when they touch the same file group. A compaction changes no rows:
log files written meanwhile count for its new base file, as they complete later, but a base file
written meanwhile would be hidden by it. A clustering takes groups away, pending ones too.

A writer may look for conflicts before it writes a file group, too: another writer that lives has
marked it (`EarlyLook`). That spares work and decides nothing: the other write may still fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from lakedex.config import TableConfig, keys
from lakedex.errors import FileMissing
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.storage import Storage, split
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    Timeline,
    WriteStat,
    instant_key,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.txn.heartbeat import HeartbeatOptions, SignsOfLife
from lakedex.txn.markers import marked_files
from lakedex.txn.working_folders import MARKERS

Commit = tuple[Instant, CommitMetadata]

_PROPERTIES = (
    keys.TABLE_VERSION,
    keys.TABLE_TYPE,
    keys.RECORD_KEY_FIELDS,
    keys.PARTITION_FIELDS,
    *keys.ORDERING_FIELD_NAMES,
    keys.MERGE_MODE,
    keys.POPULATE_META_FIELDS,
    keys.CDC_ENABLED,
)
_LOG_COMPACT = "LOG_COMPACT"


def commits_since(before: Timeline, now: Timeline) -> tuple[Commit, ...]:
    """The writes that completed between two looks at a timeline, archived ones too."""
    known = {instant.requested_time for instant in before.write_instants()}
    found = [i for i in now.write_instants() if i.requested_time not in known]
    first, first_now = before.first_active, now.first_active
    if first is not None and first_now is not None and first != first_now:
        # Something was archived meanwhile; it may have come and gone between the two looks.
        seen = known | {instant.requested_time for instant in found}
        newest = max(i.completion_time or i.requested_time for i in before.write_instants())
        found += [i for i in now.between(newest) if i.requested_time not in seen]
    found.sort(key=lambda i: instant_key(i.completion_time or i.requested_time))
    return tuple((instant, now.commit_metadata(instant)) for instant in found)


def property_conflict(before: TableConfig, now: TableConfig) -> str | None:
    """The change of a table property that a write depends on, in words."""
    for key in _PROPERTIES:
        old, new = before.raw.get(key) or "", now.raw.get(key) or ""
        if old != new:
            return f"the table property {key} was changed from {old!r} to {new!r}"
    return index_conflict(before, now)


def index_conflict(before: TableConfig, now: TableConfig) -> str | None:
    """An index that came or went, in words.

    One that was in the making when a write began is no surprise to it. That the write kept that one
    up to date is for who commits it to see.
    """
    old, new = {*before.metadata_partitions}, {*now.metadata_partitions}
    if old <= new and new <= old.union(before.metadata_partitions_inflight):
        return None
    names = f"from {','.join(sorted(old))!r} to {','.join(sorted(new))!r}"
    return f"the table property {keys.METADATA_PARTITIONS} was changed {names}"


def restore_conflict(before: Timeline, now: Timeline) -> str | None:
    """A restore of the table to an earlier state, in words."""
    known = {i.requested_time for i in before.completed() if i.action is Action.RESTORE}
    for instant in now.instants:
        if instant.action is Action.RESTORE and instant.requested_time not in known:
            return f"the table is or was restored to an earlier state by {instant.requested_time}"
    return None


def is_copy_for(stat: WriteStat, resize: str) -> bool:
    """Whether a write gave a log file to a file group that a resize is about to make."""
    names = (parse_data_file(name, 0) for name in stat.log_files or ())
    return any(name is not None and name.instant_time == resize for name in names)


@dataclass(frozen=True, slots=True)
class CopiedGroups:
    """File groups that a resize of buckets and a write beside it may both change.

    The write puts its rows into log files of the present file group and of those that take its
    place. So neither hides what the other did.
    """

    written: Mapping[FileSliceId, str] = field(default_factory=dict)
    """Of a write: the present file groups whose rows it copied, by the instant of the resize."""
    resize: str = ""
    """Of a resize: its instant."""
    taken: Mapping[FileSliceId, frozenset[str]] = field(default_factory=dict)
    """The file groups that it takes away, with the file ids of those that take their place."""

    def joined(self, metadata: CommitMetadata) -> frozenset[FileSliceId]:
        """The file groups of a commit that are no conflict of the resize."""
        found: set[FileSliceId] = set()
        for partition, stats in metadata.partition_to_stats.items() if self.taken else ():
            copies = {stat.file_id or "" for stat in stats if is_copy_for(stat, self.resize)}
            found.update(FileSliceId(partition, file_id) for file_id in copies)
            for group, children in self.taken.items():
                if group.partition == partition and not copies.isdisjoint(children):
                    found.add(group)
        return frozenset(found)


_NO_COPIES = CopiedGroups()


def group_conflict(
    now: Timeline,
    commits: Collection[Commit],
    touched: Collection[FileSliceId],
    rewritten: Collection[FileSliceId],
    own: str | None = None,
    copies: CopiedGroups = _NO_COPIES,
) -> str | None:
    """A file group that both this write and another one changed, in words.

    Args:
        now: the timeline as it is.
        commits: the writes that completed since this one began.
        touched: the file groups that this write changes.
        rewritten: those of them that got a new base file.
        own: the time of this write, which may be a clustering itself.
        copies: the file groups that a resize and writes beside it may both change.
    """
    ours, ours_rewritten = frozenset(touched), frozenset(rewritten)
    for instant, metadata in commits:
        compacts = metadata.compacted or metadata.operation_type == _LOG_COMPACT
        shared = (ours_rewritten if compacts else ours).intersection(_groups_of(metadata))
        shared -= copies.joined(metadata)
        if shared:
            return _words(min(shared), f"{instant.action.value} {instant.requested_time}")
    return service_conflict(now, ours, ours_rewritten, own=own, copies=copies)


def service_conflict(
    now: Timeline,
    touched: Collection[FileSliceId],
    rewritten: Collection[FileSliceId],
    *,
    own: str | None = None,
    copies: CopiedGroups = _NO_COPIES,
) -> str | None:
    """A file group that a write changes and a pending compaction or clustering has, in words.

    Log files are welcome beside a compaction; only what gets a new base file or goes is in its way.
    """
    for instant in now.pending_of(Action.COMPACTION, Action.LOGCOMPACTION):
        shared = frozenset(rewritten).intersection(_compacted_groups(now, instant))
        if shared:
            return _words(min(shared), f"the pending compaction {instant.requested_time}")
    return clustering_conflict(now, touched, own=own, copies=copies)


def compaction_conflict(
    now: Timeline, commits: Collection[Commit], compacted: Collection[FileSliceId]
) -> str | None:
    """A file group of a compaction whose rows another write moved elsewhere, in words.

    Log files that came meanwhile count for the new base file. A base file that came may be hidden
    by it, and in a group that was replaced nobody would look for it or clean it away.
    """
    ours = frozenset(compacted)
    for instant, metadata in commits:
        shared = ours.intersection(_rewritten_groups(metadata))
        if shared:
            return _words(min(shared), f"{instant.action.value} {instant.requested_time}")
    return clustering_conflict(now, ours)


def clustering_conflict(
    now: Timeline,
    touched: Collection[FileSliceId],
    *,
    own: str | None = None,
    copies: CopiedGroups = _NO_COPIES,
) -> str | None:
    """A file group that a write changes and a pending clustering takes away, in words."""
    for instant in now.pending_of(Action.CLUSTERING, Action.REPLACECOMMIT):
        time = instant.requested_time
        shared = frozenset(touched).intersection(_clustered_groups(now, instant))
        shared = frozenset(each for each in shared if copies.written.get(each) != time)
        if shared and time != own:
            return _words(min(shared), f"the pending clustering {instant.requested_time}")
    return None


def pending_groups(timeline: Timeline) -> frozenset[FileSliceId]:
    """The file groups that a pending compaction or clustering is about to write anew."""
    pending = timeline.pending_of(Action.COMPACTION, Action.LOGCOMPACTION)
    found = frozenset(each for instant in pending for each in _compacted_groups(timeline, instant))
    return found | clustered_groups(timeline)


def clustered_groups(timeline: Timeline) -> frozenset[FileSliceId]:
    """The file groups that a pending clustering takes away."""
    pending = timeline.pending_of(Action.CLUSTERING, Action.REPLACECOMMIT)
    return frozenset(each for instant in pending for each in _clustered_groups(timeline, instant))


def _words(group: FileSliceId, other: str) -> str:
    place = f" of partition {group.partition}" if group.partition else ""
    return f"file group {group.file_id}{place} was changed by {other} too"


def _groups_of(metadata: CommitMetadata) -> Iterator[FileSliceId]:
    for partition, stats in metadata.partition_to_stats.items():
        for stat in stats:
            if stat.file_id:
                yield FileSliceId(partition, stat.file_id)
    for partition, file_ids in metadata.replaced_file_ids.items():
        for file_id in file_ids:
            yield FileSliceId(partition, file_id)


def _rewritten_groups(metadata: CommitMetadata) -> Iterator[FileSliceId]:
    """The groups that a write gave a new base file, or took away."""
    for partition, stats in metadata.partition_to_stats.items():
        for stat in stats:
            if stat.file_id and stat.path and not split(stat.path)[1].startswith("."):
                yield FileSliceId(partition, stat.file_id)
    for partition, file_ids in metadata.replaced_file_ids.items():
        for file_id in file_ids:
            yield FileSliceId(partition, file_id)


def _compacted_groups(timeline: Timeline, instant: Instant) -> Iterator[FileSliceId]:
    try:
        plan = timeline.compaction_plan(instant.requested_time)
    except FileMissing:
        return  # taken back since the timeline was read
    for operation in plan.operations:
        yield FileSliceId(operation.partition_path, operation.file_id)


def _clustered_groups(timeline: Timeline, instant: Instant) -> Iterator[FileSliceId]:
    try:
        plan = timeline.requested_replace(instant.requested_time).clustering
    except FileMissing:
        return  # the same
    for group in plan.groups if plan is not None else ():
        for part in group.slices:
            yield FileSliceId(part.partition_path, part.file_id)


_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, slots=True)
class EarlyLook:
    """How a writer looks for others that are at work on its file groups."""

    instant: str
    """Its own time."""
    heartbeat: HeartbeatOptions

    def conflict(
        self, storage: Storage, config: TableConfig, group: FileSliceId, *, rewrites: bool
    ) -> str | None:
        """The living writer that has marked a file of a group, in words.

        Log files are welcome beside a compaction, as they are when writes commit.

        Args:
            storage: Where the table lies.
            config: Its properties.
            group: The file group that is about to be written.
            rewrites: Whether it gets a new base file.
        """
        others = self._others(storage)
        if not others:
            return None  # nearly always, and for one listing
        pending = {each.requested_time: each for each in Timeline.load(storage, config).pending()}
        life: SignsOfLife | None = None
        for time in others:
            other = pending.get(time)
            if other is None or not _excludes(other, rewrites=rewrites):
                continue
            if group not in _marked_groups(storage, time):
                continue
            life = life or SignsOfLife.load(storage, self.heartbeat)
            if life.is_alive(time):
                place = f" of partition {group.partition}" if group.partition else ""
                return (
                    f"file group {group.file_id}{place} is being written by {other.action.value} "
                    f"{time}, whose writer lives"
                )
        return None

    def _others(self, storage: Storage) -> list[str]:
        found = storage.folders(MARKERS)
        return [each for each in found if is_instant_time(each) and each != self.instant]


def _excludes(other: Instant, *, rewrites: bool) -> bool:
    return rewrites or other.action not in _COMPACTIONS


def _marked_groups(storage: Storage, instant: str) -> set[FileSliceId]:
    found = set()
    for path in marked_files(storage, instant):
        folder, name = split(path)
        parsed = parse_data_file(name, 0)
        if parsed is not None:
            found.add(FileSliceId(folder, parsed.file_id))
    return found
