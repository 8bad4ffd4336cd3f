"""The active timeline of a table: one listing of its folder, in memory.

An instant is known by its requested time and the action it completes as; of the files of one
instant the furthest state counts. A timeline never changes: reload it to see what happened
since. Time travel goes by requested time, as in Hudi; incremental reading goes by completion
time where the layout has one.

`CommittedInstants` is the part of a timeline that workers need. `newest_note` and its neighbours
read the commit metadata of the newest writes. `write_instant` creates the file of an instant, which
is never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from lakedex.config.table_config import TableConfig
from lakedex.errors import CorruptFile, FileMissing, InvalidInput
from lakedex.storage.paths import split
from lakedex.storage.protocol import FileInfo, Storage
from lakedex.timeline.archived import ArchivedTimeline
from lakedex.timeline.clustering_plan import RequestedReplace
from lakedex.timeline.commit_metadata import (
    CommitMetadata,
    decode_commit_metadata,
    written_file_ids,
)
from lakedex.timeline.instant import Action, Instant, State, file_name, parse_instant_file
from lakedex.timeline.instant_time import (
    MILLIS_DIGITS,
    QueryTime,
    from_epoch_ms,
    instant_key,
    next_instant_time,
    parse_query_time,
)
from lakedex.timeline.plans import CompactionPlan

_FILE_TIME = re.compile(rb"_([0-9]{17})\.(?:parquet|log\.)")
_SMALL_BYTES = 64 << 10
_MOST_CONTENTS = 16
"""So many small commits are kept, as several parts of a write read different fields of them."""
EARLIEST = ("earliest", "0", "00", "000")
"""What users write for the beginning of a table."""


class Timeline:
    """The instants of a table, in order of requested time.

    Views that `as_of` makes share the metadata that was read already.
    """

    __slots__ = (
        "_archived",
        "_by_time",
        "_contents",
        "_files",
        "_metadata",
        "_planned",
        "_summaries",
        "config",
        "first_active",
        "instants",
        "limit",
        "storage",
    )

    def __init__(self, storage: Storage, config: TableConfig, files: Iterable[Instant]) -> None:
        """A timeline of these files; `load` is the usual way to get one."""
        self.storage = storage
        self.config = config
        self.limit: str | None = None
        listed = self._files = tuple(files)
        self._planned = {
            instant.requested_time: instant.action
            for instant in listed
            if not instant.is_completed and instant.action is not Action.SAVEPOINT
        }
        self.instants: tuple[Instant, ...] = _latest_states(listed)
        self._by_time = _by_time(self.instants)
        self.first_active: Instant | None = _first_active(self.instants)
        self._metadata: dict[str, CommitMetadata] = {}
        self._summaries: dict[str, CommitMetadata] = {}
        self._contents: dict[str, bytes] = {}
        self._archived: ArchivedTimeline = ArchivedTimeline.load(storage, config)

    @classmethod
    def load(
        cls, storage: Storage, config: TableConfig, *, before: Timeline | None = None
    ) -> Timeline:
        """The active timeline of the table at the root of the storage: one listing.

        What `before`, an earlier state of the same timeline, has read of its commits is not read
        again.
        """
        timeline = cls.of_listing(storage, config, storage.list(config.timeline_folder))
        if before is not None:
            timeline._keep_contents(before)
        return timeline

    @classmethod
    def of_listing(
        cls, storage: Storage, config: TableConfig, listed: Iterable[FileInfo]
    ) -> Timeline:
        """The active timeline by a listing of its folder."""
        names = (split(info.path)[1] for info in listed)
        parsed = (parse_instant_file(name, config.timeline_layout) for name in names)
        return cls(storage, config, (instant for instant in parsed if instant is not None))

    def with_instants(self, *instants: Instant) -> Timeline:
        """The timeline with some instant files more."""
        timeline = Timeline(self.storage, self.config, (*self._files, *instants))
        timeline._keep_contents(self)
        return timeline

    def differs_from(self, other: Timeline, *, aside: str | None = None) -> bool:
        """Whether the two list different files, those of the instant `aside` not counted."""
        own, others = (
            {each for each in timeline._files if each.requested_time != aside}
            for timeline in (self, other)
        )
        return own != others

    def _keep_contents(self, before: Timeline) -> None:
        """Take over what was read of commits, which do not change once they are complete."""
        same = {
            time
            for time, instant in self._by_time.items()
            if instant.is_completed and before._by_time.get(time) == instant
        }
        for name in ("_metadata", "_summaries", "_contents"):
            known = getattr(before, name)
            getattr(self, name).update((time, known[time]) for time in same & known.keys())

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def __bool__(self) -> bool:
        return True  # also of a table to which nothing was written yet

    def __repr__(self) -> str:
        lines = (f"  {i.requested_time} {i.action.value} {i.state.name.lower()}" for i in self)
        return "\n".join([f"Timeline of {len(self)} active instants", *lines])

    @property
    def archived(self) -> ArchivedTimeline:
        """The instants that left the active timeline; read when first asked."""
        return self._archived

    def completed(self) -> tuple[Instant, ...]:
        """The completed instants of every action."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    def pending(self) -> tuple[Instant, ...]:
        """The instants that were requested or begun, and not completed."""
        return tuple(instant for instant in self.instants if not instant.is_completed)

    def write_instants(self) -> tuple[Instant, ...]:
        """Completed commits, deltacommits and replacecommits, compaction and clustering too."""
        return tuple(
            instant for instant in self.instants if instant.is_completed and instant.action.is_write
        )

    def writes_after(self, instant: Instant) -> list[Instant]:
        """The completed writes that began or completed after a completed one, in order of times."""
        done = instant_key(instant.completion_time or instant.requested_time)
        return [
            each
            for each in self.write_instants()
            if each > instant or instant_key(each.completion_time or each.requested_time) > done
        ]

    def pending_of(self, *actions: Action) -> tuple[Instant, ...]:
        """The pending instants of these actions, as for pending compactions."""
        return tuple(instant for instant in self.pending() if instant.action in actions)

    def savepoints(self) -> tuple[str, ...]:
        """The requested times of the commits that a completed savepoint keeps."""
        return tuple(
            instant.requested_time
            for instant in self.completed()
            if instant.action is Action.SAVEPOINT
        )

    @property
    def last_completed(self) -> Instant | None:
        """The write instant with the greatest requested time, which a snapshot is read at."""
        return next(reversed(self.write_instants()), None)

    def find(self, requested_time: str) -> Instant | None:
        """The active instant of this requested time, savepoints left aside."""
        return self._by_time.get(requested_time)

    def requested_action(self, requested_time: str) -> Action | None:
        """The action under which an instant was requested: `compaction` for its `commit`."""
        planned = self._planned.get(requested_time)
        instant = self._by_time.get(requested_time)
        return planned or (None if instant is None else instant.action)

    def is_completed(self, requested_time: str) -> bool:
        """Whether the active timeline has this instant as completed."""
        instant = self._by_time.get(requested_time)
        return instant is not None and instant.is_completed

    def is_pending(self, requested_time: str) -> bool:
        """Whether the active timeline has this instant as requested or inflight."""
        instant = self._by_time.get(requested_time)
        return instant is not None and not instant.is_completed

    def is_committed_write(self, requested_time: str) -> bool:
        """Whether files and log blocks of this instant are visible.

        They are when it is a completed write, or when it is older than the active timeline:
        only completed instants are archived, and the files of others are rolled back first.
        """
        if self.limit is not None and instant_key(requested_time) > self.limit:
            return False
        instant = self._by_time.get(requested_time)
        if instant is not None:
            return instant.is_completed and instant.action.is_write
        first = self.first_active
        return first is not None and instant_key(requested_time) < instant_key(first.requested_time)

    def has_completed(self, requested_time: str) -> bool:
        """Whether an instant completed, be it active or archived.

        Unlike `is_committed_write` this takes no old instant on trust: the archive is asked.
        """
        instant = self._by_time.get(requested_time)
        if instant is not None:
            return instant.is_completed
        first = self.first_active
        if first is None or instant_key(requested_time) > instant_key(first.requested_time):
            return False
        return self._archived.find(requested_time) is not None

    def completion_time(self, requested_time: str) -> str | None:
        """When an instant completed, from the active timeline, else from the archive.

        `None` while it pends, when it is unknown, and always in layout 1.
        """
        instant = self._by_time.get(requested_time)
        if instant is not None:
            return instant.completion_time
        first = self.first_active
        if self.config.timeline_layout == 1 or first is None:
            return None
        if instant_key(requested_time) >= instant_key(first.requested_time):
            return None
        return self._archived.completion_time(requested_time)

    def completion_time_or_self(self, requested_time: str) -> str:
        """The completion time, or the requested time where none is known."""
        return self.completion_time(requested_time) or requested_time

    def as_of(self, time: QueryTime) -> Timeline:
        """The timeline up to and including a requested time, or a time that a user wrote.

        Raises:
            InvalidInput: the text is not a time.
        """
        limit = parse_query_time(time, self.config.timezone)
        kept = (i for i in self.instants if instant_key(i.requested_time) <= limit)
        view = Timeline(self.storage, self.config, kept)
        view.limit = limit if self.limit is None else min(limit, self.limit)
        view.first_active = self.first_active
        view._planned = self._planned
        view._metadata = self._metadata
        view._summaries = self._summaries
        view._contents = self._contents
        view._archived = self._archived
        return view

    def between(
        self,
        begin: QueryTime | None,
        end: QueryTime | None = None,
        *,
        archived: bool = True,
        as_requested: bool = False,
    ) -> tuple[Instant, ...]:
        """Completed writes after `begin` and up to `end`, archived ones too, in that order.

        By completion time in layout 2, by requested time in layout 1 or `as_requested`. `None`
        (or Hudi's `earliest`, `000`) is from the start, or up to the newest.

        Raises:
            InvalidInput: a text is not a time, or the end lies before the beginning.
        """
        zone = self.config.timezone
        low = None if begin is None or begin in EARLIEST else parse_query_time(begin, zone)
        high = None if end is None else parse_query_time(end, zone)
        if low is not None and high is not None and low > high:
            raise InvalidInput(f"changes cannot begin at {begin}, after their end at {end}")
        old = self._archived_writes(low) if archived else []
        found = {instant.requested_time: instant for instant in old}
        found |= {instant.requested_time: instant for instant in self.write_instants()}
        keyed = sorted(
            (instant_key(each.requested_time) if as_requested else self.change_time(each), each)
            for each in found.values()
        )
        return tuple(
            instant
            for key, instant in keyed
            if (low is None or key > low) and (high is None or key <= high)
        )

    def read(self, instant: Instant) -> bytes:
        """The bytes of an instant's file, also where it was archived since the listing.

        Raises:
            FileMissing: the instant was rolled back since the listing, or its plan archived.
        """
        path = self._path(instant)
        # A savepoint has the time of the commit that it keeps, and is never archived.
        if instant.is_completed and instant.action is not Action.SAVEPOINT:
            return self._completed_bytes(instant.requested_time, path)
        return self.storage.read(path)

    def commit_metadata(self, instant: Instant) -> CommitMetadata:
        """The commit metadata of a completed write, active or archived; read once.

        Raises:
            CorruptFile: the file does not hold commit metadata.
            InvalidInput: the instant is not a completed write.
        """
        if not (instant.is_completed and instant.action.is_write):
            raise InvalidInput(f"{instant.requested_time} is not a completed write")
        time = instant.requested_time
        if time not in self._metadata:
            path = self._path(instant)
            data = self._completed_bytes(time, path)
            self._check_own_files(instant, data, path)
            self._metadata[time] = decode_commit_metadata(data, path=path)
        return self._metadata[time]

    def commit_summary(self, instant: Instant) -> CommitMetadata:
        """The commit metadata of a completed write without the files that it wrote.

        Raises:
            CorruptFile: the file does not hold commit metadata.
        """
        time = instant.requested_time
        if time in self._metadata:
            return self._metadata[time]
        if time not in self._summaries:
            path = self._path(instant)
            data = self._completed_bytes(time, path)
            self._check_own_files(instant, data, path)
            self._summaries[time] = decode_commit_metadata(data, path=path, with_stats=False)
        return self._summaries[time]

    def written_file_ids(self, instant: Instant, most: int) -> tuple[str, ...]:
        """The ids of file groups that a completed write wrote to, by its first `most` files.

        Raises:
            CorruptFile: the file does not hold commit metadata.
        """
        time = instant.requested_time
        if time not in self._metadata:
            path = self._path(instant)
            data = self._completed_bytes(time, path)
            self._check_own_files(instant, data, path)
            found = written_file_ids(data, path=path, most=most)
            if found:
                if time not in self._summaries:  # which spares its next reader the file
                    summary = decode_commit_metadata(data, path=path, with_stats=False)
                    self._summaries[time] = summary
                return found
        stats = islice(self.commit_metadata(instant).stats(), most)
        return tuple(each.file_id for each in stats if each.file_id)

    def compaction_plan(self, requested_time: str) -> CompactionPlan:
        """The plan of an active compaction or log compaction, pending or completed.

        Raises:
            FileMissing: there is no such plan.
            CorruptFile: the requested file does not hold one.
        """
        action = self._planned.get(requested_time, Action.COMPACTION)
        path = self._path(Instant(requested_time, action, State.REQUESTED))
        return CompactionPlan.decode(self.storage.read(path), path=path)

    def requested_replace(self, requested_time: str) -> RequestedReplace:
        """The request of an active replacecommit or clustering, pending or completed.

        Raises:
            FileMissing: there is no such request.
            CorruptFile: the requested file does not hold one.
        """
        action = self._planned.get(requested_time, Action.REPLACECOMMIT)
        path = self._path(Instant(requested_time, action, State.REQUESTED))
        return RequestedReplace.decode(self.storage.read(path), path=path)

    def replaced_file_ids(self) -> Mapping[str, frozenset[str]]:
        """The file groups, by partition path, that completed replacecommits took away."""
        replaced: dict[str, set[str]] = {}
        for instant in self.write_instants():
            if instant.action is Action.REPLACECOMMIT:
                for path, ids in self.commit_summary(instant).replaced_file_ids.items():
                    replaced.setdefault(path, set()).update(ids)
        return {path: frozenset(ids) for path, ids in replaced.items()}

    def _check_own_files(self, instant: Instant, data: bytes, path: str) -> None:
        """Refuse the metadata of another commit: files are named by the commit that wrote them.

        Before version 8 log files were named by the base file that they belong to. A commit also
        names the files that it replaced, after the path of its first own file.

        Raises:
            CorruptFile: the file names data files that it wrote, and none of its own instant.
        """
        is_named = instant.action is not Action.DELTACOMMIT or self.config.made_with_layout_2
        first = _FILE_TIME.search(data) if is_named else None
        if first is None or first[1].decode() == instant.requested_time:
            return
        stats = decode_commit_metadata(data, path=path).stats()
        found = [_FILE_TIME.search(stat.path.encode()) for stat in stats if stat.path]
        times = {each[1].decode() for each in found if each is not None}
        if times and instant.requested_time not in times:
            raise CorruptFile(
                path,
                first.start(),
                expected=f"the files of {instant.requested_time}",
                actual=f"those of {min(times)}",
            )

    def _completed_bytes(self, time: str, path: str) -> bytes:
        """The completed file; it may have moved to the archive since the listing."""
        if time in self._contents:
            return self._contents[time]
        try:
            data = self.storage.read(path)
        except FileMissing:
            moved = time in self._by_time
            archive = ArchivedTimeline.load(self.storage, self.config) if moved else self._archived
            old = archive.metadata(time)
            if old is None:
                raise
            return old
        if len(data) <= _SMALL_BYTES and len(self._contents) < _MOST_CONTENTS:
            self._contents[time] = data
        return data

    def _path(self, instant: Instant) -> str:
        name = file_name(instant, self.config.timeline_layout)
        return f"{self.config.timeline_folder}/{name}"

    def change_time(self, instant: Instant) -> str:
        """What `between` orders instants by: when an instant completed; in layout 1, began."""
        if self.config.timeline_layout == 1:
            return instant_key(instant.requested_time)
        return instant_key(instant.completion_time or instant.requested_time)

    def _archived_writes(self, low: str | None) -> list[Instant]:
        """Archived writes that may lie after `low`.

        A long write may complete after younger ones were archived, so that in layout 2 the
        start of the active timeline does not tell whether the archive is needed.
        """
        first = self.first_active
        old_layout = self.config.timeline_layout == 1
        if old_layout and low and first and low >= instant_key(first.requested_time):
            return []
        return [
            instant
            for instant in self._archived.instants()
            if instant.action.is_write
            and (self.limit is None or instant_key(instant.requested_time) <= self.limit)
        ]


def _latest_states(files: Iterable[Instant]) -> tuple[Instant, ...]:
    """The furthest state of every instant, in order."""
    latest: dict[tuple[str, Action], Instant] = {}
    for instant in files:
        key = instant.requested_time, instant.action.completed
        known = latest.get(key)
        if known is None or instant.state.value > known.state.value:
            latest[key] = instant
    return tuple(sorted(latest.values()))


def _by_time(instants: Iterable[Instant]) -> dict[str, Instant]:
    """Instants by requested time; a write wins over another action of the same time."""
    found: dict[str, Instant] = {}
    for instant in instants:
        if instant.action is Action.SAVEPOINT:
            continue
        if instant.requested_time not in found or instant.action.is_write:
            found[instant.requested_time] = instant
    return found


def _first_active(instants: Iterable[Instant]) -> Instant | None:
    """The completed write that the active timeline begins with.

    Archiving may go past commits that a savepoint keeps and leave them in the active timeline,
    so these do not tell where it begins.
    """
    listed = list(instants)
    kept = {instant.requested_time for instant in listed if instant.action is Action.SAVEPOINT}
    writes = [instant for instant in listed if instant.is_completed and instant.action.is_write]
    unkept = (instant for instant in writes if instant.requested_time not in kept)
    return next(unkept, writes[0] if writes else None)


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """Answers as `Timeline.is_committed_write` does, and can be pickled.

    Example:
        >>> committed = CommittedInstants(frozenset({"20260102000000000"}), "20260102000000000")
        >>> committed("20260101000000000"), committed("20260103000000000")
        (True, False)
    """

    times: frozenset[str]
    first_active: str | None

    @classmethod
    def of(cls, timeline: Timeline) -> CommittedInstants:
        """What a timeline knows, as of its newest instant."""
        times = frozenset(instant.requested_time for instant in timeline.write_instants())
        first = timeline.first_active
        return cls(times, None if first is None else first.requested_time)

    def __call__(self, requested_time: str) -> bool:
        """Whether files and log blocks of this instant are visible."""
        if requested_time in self.times:
            return True
        first = self.first_active
        return first is not None and instant_key(requested_time) < instant_key(first)


_LOG_COMPACT = "LOG_COMPACT"


def newest_note(timeline: Timeline, name: str) -> str | None:
    """What the newest write says under a name; None when it says nothing.

    Compactions and clusterings move rows and neither add nor remove any, so the write before them
    is asked.
    """
    for instant in _newest_first(timeline):
        summary = timeline.commit_summary(instant)
        if name in summary.extra:
            return summary.extra[name]
        if not _moves_only(summary):
            return None
    return None


def newest_change(timeline: Timeline) -> str:
    """The time of the newest write that changed rows or columns, empty where there is none."""
    for instant in _newest_first(timeline):
        if not _moves_only(timeline.commit_summary(instant)):
            return instant.requested_time
    return ""


def newest_placing(timeline: Timeline) -> Instant | None:
    """The newest write that is no compaction: it changed rows, or the file groups that hold them.

    Compactions leave every row in its file group.
    """
    for instant in _newest_first(timeline):
        if not _is_compaction(timeline.commit_summary(instant)):
            return instant
    return None


def _newest_first(timeline: Timeline) -> list[Instant]:
    return sorted(
        timeline.write_instants(),
        key=lambda instant: instant_key(instant.completion_time or instant.requested_time),
        reverse=True,
    )


def _moves_only(summary: CommitMetadata) -> bool:
    return _is_compaction(summary) or summary.is_clustering


def _is_compaction(summary: CommitMetadata) -> bool:
    return summary.compacted or summary.operation_type == _LOG_COMPACT


def write_instant(storage: Storage, config: TableConfig, instant: Instant, data: bytes) -> str:
    """Create the file of an instant in its state and answer its path.

    Raises:
        AlreadyExists: another writer took the same instant time.
        InvalidInput: the times are not instant times.
    """
    path = f"{config.timeline_folder}/{file_name(instant, config.timeline_layout)}"
    storage.create(path, data)
    return path


def new_instant_time(timeline: Timeline, now_ms: int) -> str:
    """A time for a new instant: now, but after every time that the timeline has.

    Raises:
        InvalidInput: the moment cannot be written as an instant time.
    """
    now = from_epoch_ms(now_ms, timeline.config.timezone)
    used = [instant.requested_time for instant in timeline.instants]
    used += [
        instant.completion_time
        for instant in timeline.instants
        if instant.completion_time is not None
    ]
    newest = max((instant_key(time)[:MILLIS_DIGITS] for time in used), default="")
    return now if now > newest else next_instant_time(newest)
