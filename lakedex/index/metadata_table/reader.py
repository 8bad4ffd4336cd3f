"""The metadata table of a data table: its partitions read, looked up and merged.

It is a merge-on-read table of its own below `.hoodie/metadata`, with HFiles for base files. Its
deltacommits complete before those of the data table, so a block whose data instant is pending,
or newer than the snapshot of the data table that is being read, stays invisible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.keys import PARTITION_METAFILE
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput
from lakedex.filegroup.names import BaseFile, LogFile
from lakedex.filegroup.slices import FileSlice, Visibility, latest_slices
from lakedex.format.hfile import KeyRange
from lakedex.format.logfile import LogBlock
from lakedex.index.metadata_table.exactness import NotedFiles
from lakedex.index.metadata_table.file_cache import KEPT_FILES, MOST_FILE_BYTES
from lakedex.index.metadata_table.group_reader import (
    CellFile,
    GroupReader,
    RawCells,
    Selection,
    decode_cells,
    record_schema,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.instants import FIRST_TIMES, files_by_partition, may_be_of_data
from lakedex.index.metadata_table.merging import merge_batches
from lakedex.index.metadata_table.partitions import (
    FILES_PAYLOAD,
    RECORD_INDEX_PAYLOAD,
    STATS_PAYLOAD,
    Kind,
    MetadataPartition,
    metadata_partition,
    no_groups,
)
from lakedex.storage import Storage, split
from lakedex.storage.protocol import FileList
from lakedex.timeline import Action, Timeline, instant_key, load_table_config
from lakedex.timeline.container import HAS_FASTAVRO
from lakedex.timeline.properties_file import PROPERTIES_PATH

FOLDER = ".hoodie/metadata"
_FEW_CELLS = 4_096
"""Decoding costs as much for one cell as for so many, so groups wait until they have them."""
_OF_EVERY_COMMIT = (Kind.FILES, Kind.PARTITION_STATS)
"""A lost entry of these hides files; of other indexes a file without an entry is read."""
_MOST_NOT_WRITTEN = 4_096
_MOST_STAMPS = 256
_MOST_CONFIGS = 256
_CONFIGS: dict[tuple[str, str], TableConfig] = {}
"""By root of a metadata table and version of the file: its properties."""
_NOT_WRITTEN: set[tuple[str, str, str]] = set()
"""Root of a metadata table, partition and instant: commits that had nothing to say there."""
_WHOLE_BASES: set[tuple[str, str, int]] = set()
"""Root of a metadata table, path and size of base files that are as their commits wrote them."""
_BUILD_TIME = re.compile(rf"_({FIRST_TIMES}[0-9]{{3}})\.")
"""In the name of a file that a build made when the metadata table was young or had no commit."""
_MOST_GROUPS = 256
"""Of partitions with more file groups sizes are not compared: a commit would take long to read."""
Shards = npt.NDArray[np.int32]
PlaceKeys = Callable[[str, pa.Array, int], Shards | None]
"""The file groups of keys of a partition among so many; None where that is not known."""


class MetadataTable:
    """The metadata table as one snapshot of its data table sees it."""

    def __init__(
        self,
        table: Storage,
        data_timeline: Timeline,
        place: PlaceKeys = lambda *_: None,
        *,
        timeline: Timeline | None = None,
        listed: Mapping[str, FileList] | None = None,
    ) -> None:
        """Open the metadata table of the table at `table`; raises if there is none.

        With `place` base files are checked for keys of their own file group. `timeline` is the
        metadata table's own timeline and `listed` the files of its partitions, where the caller has
        loaded them.
        """
        self._table = table
        if timeline is None:
            storage = table.sub(FOLDER)
            timeline = Timeline.load(storage, load_table_config(storage))
        self._storage = timeline.storage
        self._timeline = timeline
        self._data_timeline = data_timeline
        self._pin = _newest_time(data_timeline)
        self._listed = listed
        self._groups: dict[str, list[FileSlice]] = {}
        self._stamps: dict[str, str] = {}
        self._exact: dict[str, bool] = {}
        self._checked: set[str] = set()
        self._readers: dict[tuple[str, str], GroupReader] = {}
        self._place = place
        self._own: set[tuple[str, str]] = set()

    @classmethod
    def list_whole(
        cls, table: Storage, data_timeline: Timeline, place: PlaceKeys = lambda *_: None
    ) -> MetadataTable:
        """The metadata table with the files of all partitions: one listing, timeline included."""
        storage = table.sub(FOLDER)
        files = storage.list_recursive()
        config = _config_of(storage, files)
        own = (info for info in files if split(info.path)[0] == config.timeline_folder)
        timeline = Timeline.of_listing(storage, config, own)
        listed = files_by_partition(files)
        return cls(table, data_timeline, place, timeline=timeline, listed=listed)

    @classmethod
    def empty(cls, data_timeline: Timeline) -> MetadataTable:
        """What stands for the metadata table of a table that has none."""
        storage = data_timeline.storage
        own = Timeline(storage.sub(FOLDER), data_timeline.config, ())
        return cls(storage, data_timeline, timeline=own, listed={})

    @property
    def storage(self) -> Storage:
        """Where the metadata table lies."""
        return self._storage

    @property
    def timeline(self) -> Timeline:
        """The metadata table's own timeline."""
        return self._timeline

    @property
    def listed(self) -> Mapping[str, FileList] | None:
        """The files of all partitions, where they were listed together."""
        return self._listed

    def list_all(self) -> None:
        """List all partitions with one request: a write needs the file groups of each."""
        if self._listed is None:
            self._listed = files_by_partition(self._storage.list_recursive())

    def groups(self, partition: str) -> list[FileSlice]:
        """The file groups of a partition, ordered by file id.

        Raises:
            IndexUnusable: the partition is being removed, and some of its groups may be gone.
        """
        if partition not in self._groups:
            described = metadata_partition(partition)
            if self._listed is None:
                listed = self._storage.list(partition)
            else:
                listed = self._listed.get(partition, [])
            self._stamps.update((info.path, info.stamp) for info in listed)
            files = [(info.path.rpartition("/")[2], info.size_bytes) for info in listed]
            if files and PARTITION_METAFILE not in dict(files):
                self._check_not_dropped(partition)
            visibility = Visibility(
                is_visible=self.is_visible,
                completion_time=self._timeline.completion_time_or_self,
                logs_name_own_instant=self._timeline.config.timeline_layout > 1,
            )
            self._groups[partition] = [
                group
                for group in latest_slices(partition, files, visibility)
                if group.file_id.startswith(described.file_id_prefix)
            ]
        return self._groups[partition]

    def has_hidden_build(self, partition: str) -> bool:
        """Whether files lie there of a build that is not complete on the timeline."""
        self.groups(partition)
        prefix = f"{partition}/"
        paths = (path for path in self._stamps if path.startswith(prefix))
        times = {found[1] for path in paths if (found := _BUILD_TIME.search(path)) is not None}
        return not all(map(self.is_visible, times))

    def _check_not_dropped(self, partition: str) -> None:
        """Raise if a partition without a metafile was dropped after this snapshot was taken.

        A drop takes the name out of the properties, then removes the metafile, then the groups:
        with some of them gone, keys would be looked up in the wrong group. Hudi writes no metafile
        into an index that it built without any entry, so its absence alone says nothing.
        """
        if partition not in load_table_config(self._table).metadata_partitions:
            raise IndexUnusable(f"{FOLDER}/{partition} is being removed")

    def is_visible(self, instant_time: str) -> bool:
        """Whether cells written at that instant count for this snapshot."""
        if not self._timeline.is_committed_write(instant_time):
            return False
        if self._data_timeline.is_pending(instant_time):
            return False
        if instant_time[: len(self._pin)] <= self._pin:
            return True
        return self._data_timeline.is_completed(instant_time)

    def has_every_row(self, partition: str) -> bool:
        """Whether an index of keys has the entry of every row for sure, as its writers note it."""
        if partition not in self._exact:
            noted = NotedFiles(self._timeline, self._data_timeline, self.is_visible, self.groups)
            self._exact[partition] = partition in noted.exact([partition])
        return self._exact[partition]

    def scan(self, partition: str) -> pa.Table:
        """The whole merged content: `key`, `type` and the payload columns."""
        return self._read(partition, dict.fromkeys(self._file_ids(partition), Selection()))

    def lookup(self, partition: str, keys: pa.Array, shards: Shards | None = None) -> pa.Table:
        """The records of the given keys; keys that are not there give none.

        `shards` says which file group each key lies in where that is not the hash of the key.
        """
        file_ids = self._file_ids(partition)
        keys = keys.cast(pa.string())
        places = shards_of(keys, len(file_ids)) if shards is None else shards
        selections = {}
        for shard in np.unique(places).tolist():
            selections[file_ids[shard]] = Selection(keys=keys.filter(pa.array(places == shard)))
        return self._read(partition, selections)

    def lookup_in(self, partition: str, file_id: str, keys: pa.Array) -> pa.Table:
        """The records of the given keys in one file group."""
        return self._read(partition, {file_id: Selection(keys=keys)})

    def scan_prefixes(
        self, partition: str, prefixes: Sequence[str], shards: Sequence[int] | None = None
    ) -> pa.Table:
        """The records whose keys start with one of the prefixes, from all groups or some."""
        wanted = Selection(prefixes=tuple(prefixes))
        return self._read(partition, dict.fromkeys(self._chosen(partition, shards), wanted))

    def scan_ranges(
        self,
        partition: str,
        ranges: Sequence[KeyRange],
        shards: Sequence[int] | None = None,
        *,
        with_places: bool = False,
    ) -> pa.Table:
        """The records whose keys lie in ranges that ascend and do not overlap.

        Args:
            partition: The partition.
            ranges: The ranges.
            shards: The numbers of the groups to look into; all, if not told.
            with_places: Whether records get the payload of the record index, too, as those of a
                covering index have it.
        """
        wanted = Selection(ranges=tuple(ranges))
        selections = dict.fromkeys(self._chosen(partition, shards), wanted)
        return self._read(partition, selections, with_places=with_places)

    def count_between(
        self, partition: str, ranges: Sequence[KeyRange], shards: Sequence[int] | None = None
    ) -> int:
        """About how many records `scan_ranges` would give; reads no records."""
        chosen = self._chosen(partition, shards)
        readers = (self.group_reader(partition, file_id) for file_id in chosen)
        return sum(reader.count_between(ranges) for reader in readers)

    def cell_count(self, partition: str, shards: Sequence[int] | None = None) -> int:
        """How many records the groups have, or some of them, those of log files beside the base."""
        chosen = self._chosen(partition, shards)
        return sum(self.group_reader(partition, file_id).cell_count() for file_id in chosen)

    def _chosen(self, partition: str, shards: Sequence[int] | None) -> list[str]:
        file_ids = self._file_ids(partition)
        return file_ids if shards is None else [file_ids[shard] for shard in sorted(set(shards))]

    def group_reader(self, partition: str, file_id: str) -> GroupReader:
        """The reader of one file group; kept, so that footers are read once."""
        place = (partition, file_id)
        if place not in self._readers:
            group = next((g for g in self.groups(partition) if g.file_id == file_id), None)
            if group is None:
                raise InvalidInput(f"metadata partition {partition} has no file group {file_id}")
            described = metadata_partition(partition)
            self._readers[place] = GroupReader(
                self._storage, described, group, self.is_visible, self._open_kept
            )
        return self._readers[place]

    def is_at_hand(self, group: FileSlice, file: BaseFile | LogFile) -> bool:
        """Whether a file of a group is in memory, so that it is not read from the store."""
        path = group.path_of(file.name)
        stamp = self._stamps.get(path, "")
        return KEPT_FILES.has(self._storage.root, path, file.size_bytes, stamp)

    def small_stamps(self, partition: str) -> dict[str, str]:
        """What tells the versions of small files of a partition apart, by path; of the first."""
        found: dict[str, str] = {}
        for group in self.groups(partition):
            files = (*((group.base,) if group.base else ()), *group.logs)
            for file in files:
                path = group.path_of(file.name)
                if file.size_bytes <= MOST_FILE_BYTES and len(found) < _MOST_STAMPS:
                    found[path] = self._stamps.get(path, "")
        return found

    def read_anew(self) -> None:
        """Read from the store from now on, for those who want to know what is there."""
        KEPT_FILES.forget(self._storage.root)
        self._readers.clear()
        self._checked.clear()

    def _open_kept(self, path: str, size: int) -> CellFile | None:
        return KEPT_FILES.open(self._storage, path, size, self._stamps.get(path, ""))

    def _file_ids(self, partition: str) -> list[str]:
        file_ids = [group.file_id for group in self.groups(partition)]
        if not file_ids:
            raise IndexUnusable(no_groups(partition))
        return file_ids

    def _check_blocks(self, partition: str) -> None:
        """Refuse a partition that every commit writes to, where the block of one is gone.

        Workers without fastavro cannot read what a commit wrote, and leave it to the driver.

        Raises:
            CorruptFile: it names the log file.
        """
        if not HAS_FASTAVRO or partition in self._checked:
            return
        groups = self.groups(partition)
        seen = {group.base_instant for group in groups}
        begin = ""
        for group in groups:
            self._check_base(group)
            reader = self.group_reader(partition, group.file_id)
            self._check_counted(reader)
            blocks = reader.log_blocks
            seen.update(_block_times(blocks))
            begin = max(begin, self._first_change(group, blocks))
        for each in self._timeline.completed():
            time = each.requested_time
            done = instant_key(each.completion_time or time)
            if (
                time in seen
                or done <= begin
                or not may_be_of_data(each, self._timeline)
                or not self.is_visible(time)
                or (self._storage.root, partition, time) in _NOT_WRITTEN
            ):
                continue
            stats = self._timeline.commit_metadata(each).partition_to_stats.get(partition)
            if stats:
                path = f"{FOLDER}/{stats[0].path}"
                raise CorruptFile(path, 0, expected=f"the entries of {time}", actual="none")
            if len(_NOT_WRITTEN) < _MOST_NOT_WRITTEN:
                _NOT_WRITTEN.add((self._storage.root, partition, time))
        self._checked.add(partition)

    def _check_own(self, partition: str, file_id: str, reader: GroupReader) -> None:
        """Refuse a base file that is not the one that its commit wrote for its file group.

        Raises:
            CorruptFile: it names the base file.
        """
        if (partition, file_id) in self._own:
            return
        groups = self.groups(partition)
        shard = next(number for number, each in enumerate(groups) if each.file_id == file_id)
        if len(groups) <= _MOST_GROUPS:
            self._check_base(groups[shard])
        reader.check_shard(shard, lambda keys: self._place(partition, keys, len(groups)))
        self._own.add((partition, file_id))

    def _check_base(self, group: FileSlice) -> None:
        """Refuse a base file of another size than its commit wrote, such as an older copy.

        Workers without fastavro cannot read what a commit wrote, and leave it to the driver.

        Raises:
            CorruptFile: it names the base file.
        """
        if group.base is None or not HAS_FASTAVRO:
            return
        path, size = group.path_of(group.base.name), group.base.size_bytes
        instant = self._timeline.find(group.base_instant)
        known = (self._storage.root, path, size)
        if instant is None or not instant.is_completed or known in _WHOLE_BASES:
            return
        for stat in self._timeline.commit_metadata(instant).stats():
            # A build beside writers does not know the size when it commits, and writes 0.
            if stat.path == path and stat.file_size_bytes and stat.file_size_bytes != size:
                raise CorruptFile(
                    f"{FOLDER}/{path}",
                    0,
                    expected=f"{stat.file_size_bytes} bytes, as {group.base_instant} wrote",
                    actual=f"{size} bytes",
                )
        if len(_WHOLE_BASES) < _MOST_NOT_WRITTEN:
            _WHOLE_BASES.add(known)

    def _check_counted(self, reader: GroupReader) -> None:
        """Refuse a file group with a block of a completed commit that does not count.

        A commit completes in the metadata table first, so its instant there was lost.

        Raises:
            CorruptFile: it names the log file and the instant.
        """
        for time, path in reader.blocks_by_time().items():
            if self._data_timeline.is_completed(time) and not self._timeline.is_committed_write(
                time
            ):
                raise CorruptFile(
                    f"{FOLDER}/{path}",
                    0,
                    expected=f"blocks of completed instants of {FOLDER}",
                    actual=f"one of {time}",
                )

    def _first_change(self, group: FileSlice, blocks: Iterable[LogBlock]) -> str:
        """The time after which every commit has a block of its own in a file group.

        What was completed before is in the base file of a compaction or in the block of a log
        compaction, which leaves out blocks without records, or it was written to an index that the
        first file replaced.
        """
        times = [block.instant_time for block in blocks if block.compacted_times]
        first = self._timeline.find(group.base_instant)
        is_build = first is not None and first.action is Action.DELTACOMMIT
        built = first.completion_time if first is not None and is_build else None
        return max(map(instant_key, (*times, built or group.base_instant)))

    def _read(
        self, partition: str, selections: dict[str, Selection], *, with_places: bool = False
    ) -> pa.Table:
        described: MetadataPartition = metadata_partition(partition)
        if with_places:
            described = replace(described, payloads=(*described.payloads, RECORD_INDEX_PAYLOAD))
        if described.kind in _OF_EVERY_COMMIT:
            self._check_blocks(partition)
        schema = record_schema(described)
        merged: list[pa.Table] = []
        waiting: list[list[RawCells]] = []
        # The maps of `files` are put together from whole arrays, not from parts of a larger one.
        most = 0 if FILES_PAYLOAD in described.payloads else _FEW_CELLS
        for file_id, selection in selections.items():
            reader = self.group_reader(partition, file_id)
            self._check_own(partition, file_id, reader)
            waiting.append(reader.cells(selection))
            if _cell_count(waiting) > most:
                merged += _merged(described, schema, waiting)
                waiting = []
        merged += _merged(described, schema, waiting)
        return pa.concat_tables(merged) if merged else merge_batches(described, schema, [])


def _config_of(storage: Storage, files: FileList) -> TableConfig:
    """The properties of a metadata table, which are read once for each version of their file."""
    stamps = (info.stamp for info in files if info.path == PROPERTIES_PATH)
    version = (storage.root, next(stamps, ""))
    if not version[1]:
        return load_table_config(storage)
    if version not in _CONFIGS:
        if len(_CONFIGS) >= _MOST_CONFIGS:
            _CONFIGS.clear()
        _CONFIGS[version] = load_table_config(storage)
    return _CONFIGS[version]


def _block_times(blocks: Iterable[LogBlock]) -> Iterator[str]:
    """The instants that log blocks are of, those included that were compacted into one."""
    for block in blocks:
        yield block.instant_time
        yield from block.compacted_times


def _cell_count(groups: Sequence[Sequence[RawCells]]) -> int:
    return sum(len(cells.keys) for group in groups for cells in group)


def _merged(
    partition: MetadataPartition, schema: pa.Schema, groups: Sequence[Sequence[RawCells]]
) -> list[pa.Table]:
    """The merged content of some groups; their values are decoded in one go."""
    if not groups:
        return []
    batches = decode_cells([cells for group in groups for cells in group], schema)
    if STATS_PAYLOAD in partition.payloads:
        # Their groups share no key, as those of a record index for each partition may.
        return [merge_batches(partition, schema, batches)]
    left = iter(batches)
    return [merge_batches(partition, schema, list(islice(left, len(each)))) for each in groups]


def _newest_time(timeline: Timeline) -> str:
    """The newest requested or completion time that a timeline knows."""
    times = [instant.requested_time for instant in timeline.instants]
    times += [instant.completion_time for instant in timeline.instants if instant.completion_time]
    return max(times, default="")
