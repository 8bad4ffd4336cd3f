"""The metadata table for its writers: its timeline, its file groups, and instants in the making.

All of it is done by one process at a time, the one that holds the lock of the data table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakedex.config import TableConfig
from lakedex.config import keys as names
from lakedex.errors import IndexUnusable, UnsupportedFeature
from lakedex.filegroup.names import parse_data_file
from lakedex.filegroup.slices import FileSlice, Visibility, latest_slices
from lakedex.format.avro import METADATA_RECORD_SCHEMA_WITHOUT_META
from lakedex.index.metadata_table.exactness import NotedFiles, exact_note
from lakedex.index.metadata_table.group_files import GroupFile
from lakedex.index.metadata_table.partitions import metadata_partition, no_groups
from lakedex.keys import unescape_path_value
from lakedex.storage.open import StorageAddress
from lakedex.storage.paths import split
from lakedex.storage.protocol import FileInfo, FileList, Storage
from lakedex.timeline import (
    Action,
    CommitMetadata,
    CompactionOperation,
    Instant,
    State,
    Timeline,
    WriteStat,
    encode_commit_metadata,
    file_name,
    load_table_config,
    write_instant,
)
from lakedex.timeline.instant_time import MILLIS_DIGITS

NextTime = Callable[[], str]
FIRST_TIMES = "00000000000000"
"""The instants that build partitions start with this; three digits count them."""
_WRITABLE_VERSION = 9
_OWN_PARTS = 5
"""A file id with a data partition: `record-index-<partition>-<number>-0`."""


@dataclass(frozen=True)
class MetadataStore:
    """A metadata table as its writer sees it."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    listed: Mapping[str, FileList] | None = None
    """The files of all partitions, if they were listed and no other process adds any."""

    @classmethod
    def open(cls, address: StorageAddress) -> MetadataStore:
        """The metadata table of the data table at an address, as it is now."""
        return cls.at(address.open())

    @classmethod
    def at(cls, table: Storage) -> MetadataStore:
        """The metadata table of the data table at the root of a storage, as it is now."""
        storage = table.sub(names.METADATA_TABLE_FOLDER)
        config = load_table_config(storage)
        return cls(storage, config, Timeline.load(storage, config))

    def path_of(self, instant: Instant) -> str:
        """The path of an instant's file."""
        name = file_name(instant, self.config.timeline_layout)
        return f"{self.config.timeline_folder}/{name}"

    def begin(self, time: str, action: Action, plan: bytes = b"") -> str:
        """Write an instant's requested and inflight file; answer the path of the second."""
        write_instant(self.storage, self.config, Instant(time, action, State.REQUESTED), plan)
        inflight = Instant(time, action, State.INFLIGHT)
        return write_instant(self.storage, self.config, inflight, b"")

    def complete(
        self,
        instant: Instant,
        files: Iterable[WriteStat],
        operation: str,
        said: Mapping[str, str] | None = None,
    ) -> None:
        """Write the completed file of an instant that wrote these files, and says this."""
        by_partition: dict[str, list[WriteStat]] = defaultdict(list)
        for stat in files:
            by_partition[stat.partition_path or ""].append(stat)
        metadata = CommitMetadata(
            {name: tuple(stats) for name, stats in by_partition.items()},
            {"schema": METADATA_RECORD_SCHEMA_WITHOUT_META, **(said or {})},
            operation_type=operation,
            compacted=instant.action is Action.COMPACTION,
            version=1,
        )
        data = encode_commit_metadata(metadata, action=instant.action)
        write_instant(self.storage, self.config, instant, data)

    def discard(self, time: str, action: Action) -> None:
        """Remove a pending instant with all files that it wrote."""
        for partition in self.partitions():
            for name in self.files_of(partition):
                parsed = parse_data_file(name, 0)
                if parsed is not None and parsed.instant_time == time:
                    self.storage.delete(f"{partition}/{name}")
            self.storage.remove_leftovers(partition)
        self.forget(time, action)

    def forget(self, time: str, action: Action) -> None:
        """Remove the timeline files of a pending instant."""
        for state in (State.INFLIGHT, State.REQUESTED):
            self.storage.delete(self.path_of(Instant(time, action, state)))

    def with_files(self, files: Iterable[GroupFile]) -> MetadataStore:
        """The same with the files that its writer has added."""
        if self.listed is None:
            return self
        listed = {name: list(found) for name, found in self.listed.items()}
        for file in files:
            info = FileInfo(f"{file.partition}/{file.name}", file.size, 0)
            listed.setdefault(file.partition, []).append(info)
        return replace(self, listed=listed)

    def _list(self, partition: str) -> FileList:
        if self.listed is not None:
            return self.listed.get(partition, [])
        return self.storage.list(partition)

    def partitions(self) -> list[str]:
        """The folders of partitions, registered or not."""
        return [name for name in self.storage.folders("") if name != names.META_FOLDER]

    def files_of(self, partition: str) -> list[str]:
        """The names of all files of a partition."""
        return [split(info.path)[1] for info in self._list(partition)]

    def group_ids(self, partition: str) -> list[str]:
        """The file ids of a partition's committed file groups, in order of their numbers."""
        prefix = metadata_partition(partition).file_id_prefix
        found = set()
        for name in self.files_of(partition):
            parsed = parse_data_file(name, 0)
            if (
                parsed is not None
                and parsed.file_id.startswith(prefix)
                and self.timeline.is_committed_write(parsed.instant_time)
            ):
                found.add(parsed.file_id)
        return sorted(found)

    def slices(
        self, partition: str, data: Timeline, after: Instant | None = None
    ) -> list[FileSlice]:
        """The newest slices of a partition's file groups, as far as the data table is complete.

        With `after` as they are when that instant is complete too, in both tables.
        """
        timeline = self.timeline
        ends = {} if after is None else {after.requested_time: after.completion_time or ""}
        visibility = Visibility(
            is_visible=lambda time: (
                time in ends or (timeline.is_committed_write(time) and not data.is_pending(time))
            ),
            completion_time=lambda time: ends.get(time) or timeline.completion_time_or_self(time),
            logs_name_own_instant=True,
        )
        prefix = metadata_partition(partition).file_id_prefix
        files = [(split(info.path)[1], info.size_bytes) for info in self._list(partition)]
        found = latest_slices(partition, files, visibility)
        return [group for group in found if group.file_id.startswith(prefix)]

    def exact(self, data: Timeline, names: Iterable[str]) -> frozenset[str]:
        """Those of some indexes of keys of which is noted that they have every row."""
        noted = NotedFiles(
            self.timeline,
            data,
            lambda time: self.timeline.is_committed_write(time) and not data.is_pending(time),
            lambda name: self.slices(name, data),
        )
        return noted.exact(names)

    def exact_note(self, data: Timeline, names: Iterable[str], after: Instant) -> dict[str, str]:
        """What an instant that is about to complete says of indexes that have every row."""
        return exact_note({name: self.slices(name, data, after) for name in names})

    def shared_groups(self, partition: str) -> list[str]:
        """The file ids of a partition whose groups hold the keys of all data.

        Raises:
            IndexUnusable: there are none.
        """
        found = self.group_ids(partition)
        if not found:
            raise IndexUnusable(no_groups(partition))
        return found

    def groups_by_data_partition(self, partition: str) -> dict[str, tuple[str, ...]]:
        """The file ids of a record index that has groups of its own for each data partition."""
        found: dict[str, list[str]] = defaultdict(list)
        for file_id in self.group_ids(partition):
            parts = file_id.split("-")
            if len(parts) == _OWN_PARTS:
                found[unescape_path_value(parts[2])].append(file_id)
        return {path: tuple(ids) for path, ids in found.items()}


def files_by_partition(listed: Iterable[FileInfo]) -> dict[str, FileList]:
    """The files of all partitions, of a listing of a whole metadata table."""
    found: dict[str, FileList] = defaultdict(list)
    for info in listed:
        folder, _, rest = info.path.partition("/")
        if folder != names.META_FOLDER and "/" not in rest:
            found[folder].append(info)
    return dict(found)


def is_ahead(metadata: Timeline, data: Timeline) -> bool:
    """Whether log files are there that do not count yet, but may come to.

    What is merged meanwhile would leave them out, and they would be passed over for ever.
    """
    if metadata.pending_of(Action.LOGCOMPACTION):
        return True
    return any(data.is_pending(each.requested_time) for each in metadata.write_instants())


def may_be_of_data(instant: Instant, metadata: Timeline) -> bool:
    """Whether an instant of a metadata table may be a commit of its data table.

    Such an instant is completed in both tables under one time, and has an entry in every partition
    that each commit writes to. A log compaction completes as deltacommit, too, under a time of its
    own; builds of the first partitions and, in tables of version 6, operations of the metadata
    table itself have times that no instant of a data table has.
    """
    time = instant.requested_time
    return (
        instant.is_completed
        and instant.action is Action.DELTACOMMIT
        and not time.startswith(FIRST_TIMES)
        and len(time) <= MILLIS_DIGITS
        and metadata.requested_action(time) is not Action.LOGCOMPACTION
    )


def require_version(config: TableConfig) -> None:
    """Refuse to write the metadata table of a table of an older version.

    Raises:
        UnsupportedFeature: it names the version.
    """
    if config.version != _WRITABLE_VERSION:
        raise UnsupportedFeature("writing a metadata table", table_version=config.version)


def log_stat(file: GroupFile, instant: str) -> WriteStat:
    """The write stat of a log file."""
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition}/{file.name}",
        partition_path=file.partition,
        prev_commit=instant,
        num_writes=file.records,
        num_inserts=file.records,
        num_updates=0,
        num_deletes=file.deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        file_size_bytes=file.size,
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(file.name,),
    )


def base_stat(file: GroupFile, previous: str | None = None) -> WriteStat:
    """The write stat of a base file; `previous` is the instant of the base file before it."""
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition}/{file.name}",
        partition_path=file.partition,
        prev_commit=previous or "null",
        num_writes=file.records,
        num_inserts=0 if previous else file.records,
        num_updates=0,
        num_deletes=file.deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        file_size_bytes=file.size,
    )


def shares_of_groups(slices: Sequence[FileSlice], parallelism: int) -> list[tuple[FileSlice, ...]]:
    """The groups in a few shares of about the same number of bytes."""
    count = max(1, min(len(slices), parallelism))
    shares: list[list[FileSlice]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in sorted(slices, key=lambda each: each.size_bytes, reverse=True):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(group)
        sizes[smallest] += group.size_bytes
    return [tuple(share) for share in shares]


def planned_operation(group: FileSlice) -> CompactionOperation:
    """A file group as the plan of a compaction, of its log blocks too, names it."""
    return CompactionOperation(
        file_id=group.file_id,
        partition_path=group.partition,
        base_instant_time=group.base_instant,
        data_file=group.base.name if group.base else None,
        log_files=tuple(log.name for log in group.logs),
    )
