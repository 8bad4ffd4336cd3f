"""One commit of the data table put into its metadata table, as a deltacommit of the same instant.

It completes before the data table's instant does; until then readers pass its blocks over. What a
commit writes to an index is a matter of its kind (`MetadataIndexKind.records`); here the records of
all indexes become one instant of the metadata table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakedex.config import TableConfig
from lakedex.engine import Engine, LocalEngine
from lakedex.errors import AlreadyExists, CommitConflict, IndexUnusable, UnsupportedFeature
from lakedex.index.definitions import IndexDefinition, load_definitions
from lakedex.index.metadata_table.group_files import (
    GroupFile,
    group_id,
    split_change,
    write_first_log,
    write_log,
)
from lakedex.index.metadata_table.instants import (
    MetadataStore,
    NextTime,
    log_stat,
    require_version,
)
from lakedex.index.metadata_table.partitions import Change, metadata_partition
from lakedex.index.metadata_table.shard_writer import NotedRecords, ShardJob, note_tasks
from lakedex.index.registry import find_metadata_kind, metadata_kind
from lakedex.index.written import CommitChanges
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Instant, State, Timeline, load_table_config, to_epoch_ms

_MOST_MOVED_NOTES = 2_000_000
"""So many keys a task holds in memory without harm."""
_OPERATION = "UPSERT_PREPPED"
_Groups = Mapping[str, Sequence[str]]
"""File ids in order, by data partition; by `""` where all data shares the groups."""


@dataclass(frozen=True)
class ExactRule:
    """By what a commit knows which indexes of keys have the entry of every row after it."""

    data: Timeline
    """The data table's timeline just before the commit."""
    after: Callable[[frozenset[str], Mapping[str, int]], frozenset[str]]
    """From those that had it before, and the number of entries that each gets, to those after."""


@dataclass(frozen=True)
class LoadedTable:
    """A table as the holder of its lock has read it."""

    config: TableConfig
    definitions: Mapping[str, IndexDefinition]
    store: MetadataStore

    @classmethod
    def load(cls, address: StorageAddress) -> LoadedTable:
        """The table at an address, as it is now."""
        table = address.open()
        config = load_table_config(table)
        definitions = load_definitions(table, config)
        _check(config, definitions)
        return cls(config, definitions, MetadataStore.at(table))


def commit_changes(  # noqa: PLR0913 - most have a default
    address: StorageAddress,
    engine: Engine,
    instant: str,
    changes: CommitChanges,
    *,
    next_time: NextTime,
    new_partition_groups: int = 1,
    building: Mapping[str, IndexDefinition | None] | None = None,
    exact: ExactRule | None = None,
    loaded: LoadedTable | None = None,
) -> Instant:
    """Bring every index that the table has up to date with one commit.

    The caller holds the table's lock, and the instant pends in the data table. What an earlier
    attempt of the same instant left behind is removed first.

    Args:
        address: Where the data table lies.
        engine: Runs the workers that write record and secondary indexes.
        instant: The instant of the data table.
        changes: What it did.
        next_time: Gives times that grow, for the completion.
        new_partition_groups: How many file groups a partitioned record index gets for the first
            data partition; later partitions get as many as the smallest one has.
        building: Partitions in the making that get the changes too, with their definitions.
        exact: Which indexes have the entry of every row; readers count where nothing is said.
        loaded: The table, where the caller has read it since it took the lock.

    Returns:
        The completed instant of the metadata table.

    Raises:
        UnsupportedFeature: the table has an index that is not kept up to date; nothing is written.
        IndexUnusable: the table has no metadata table, or it lacks file groups.
        AlreadyExists: the metadata table has this instant as completed.
        CommitConflict: the record index was resharded, and the write is too large to be moved.
    """
    loaded = loaded or LoadedTable.load(address)
    config, store = loaded.config, loaded.store
    _check(config, loaded.definitions)
    made = {name: known for name, known in (building or {}).items() if known is not None}
    definitions = {**loaded.definitions, **made}
    names = list(dict.fromkeys((*config.metadata_partitions, *(building or ()))))
    _make_way(store, instant)
    before: frozenset[str] = frozenset()
    if exact is not None:
        of_keys = [name for name in config.metadata_partitions if metadata_kind(name).is_of_keys]
        before = store.exact(exact.data, of_keys)
    commit = _Commit(address, engine, config, definitions, store, instant)
    groups = {name: commit.groups(name) for name in names}
    pending = store.begin(instant, Action.DELTACOMMIT)
    files: list[GroupFile] = []
    for name in names:
        own = groups[name]
        if commit.is_partitioned(name):
            first, own = commit.open_groups(name, own, changes.added, new_partition_groups)
            files += first
        files += commit.write(name, own, pending, commit.records(name, changes))
    completed = Instant(instant, Action.DELTACOMMIT, State.COMPLETED, next_time())
    note = _exact_note(store.with_files(files), completed, exact, before, files)
    store.complete(completed, (log_stat(file, instant) for file in files), _OPERATION, note)
    return completed


def commit_removal(
    address: StorageAddress,
    instant: str,
    removed: Mapping[str, Sequence[str]],
    dropped: Sequence[str],
    *,
    next_time: NextTime,
    building: Mapping[str, IndexDefinition | None] | None = None,
) -> None:
    """Take files that are gone out of the metadata table; a second call changes nothing.

    It is a deltacommit of the clean's instant, completed before the clean itself. Indexes of rows
    are not touched: old versions of files have no entries there. Entries of expression indexes go
    from the file groups of these indexes (case B67).

    The caller holds the table's lock, and the instant pends in the data table.

    Args:
        address: Where the data table lies.
        instant: The instant of the clean.
        removed: The names of the files, by partition path.
        dropped: Partitions that are gone altogether.
        next_time: Gives times that grow, for the completion.
        building: Partitions in the making, with their definitions.
    """
    table = address.open()
    config = load_table_config(table)
    if not config.metadata_enabled:
        return
    require_version(config)
    definitions = load_definitions(table, config)
    definitions |= {name: known for name, known in (building or {}).items() if known is not None}
    store = MetadataStore.open(address)
    known = store.timeline.find(instant)
    if known is not None and known.is_completed:
        return
    _make_way(store, instant)
    changes = CommitChanges(removed=removed, dropped_partitions=dropped)
    commit = _Commit(address, LocalEngine(1), config, definitions, store, instant)
    pending = store.begin(instant, Action.DELTACOMMIT)
    files: list[GroupFile] = []
    for name in dict.fromkeys((*config.metadata_partitions, *(building or ()))):
        if metadata_kind(name).can_maintain(name, definitions):
            change = commit.records(name, changes)
            if isinstance(change, Change) and not change.is_empty:
                files += commit.write(name, commit.groups(name), pending, change)
    completed = Instant(instant, Action.DELTACOMMIT, State.COMPLETED, next_time())
    store.complete(completed, (log_stat(file, instant) for file in files), _OPERATION)


@dataclass(frozen=True)
class _Commit:
    """What a commit writes, partition by partition."""

    address: StorageAddress
    engine: Engine
    config: TableConfig
    definitions: Mapping[str, IndexDefinition]
    store: MetadataStore
    instant: str

    def is_partitioned(self, name: str) -> bool:
        """Whether each data partition has its own file groups of an index."""
        definition = self.definitions.get(name)
        return definition is not None and definition.is_partitioned

    def groups(self, name: str) -> _Groups:
        """The file groups of a partition of the metadata table."""
        if self.is_partitioned(name):
            return self.store.groups_by_data_partition(name)
        return {"": self.store.shared_groups(name)}

    def open_groups(
        self, name: str, known: _Groups, paths: Collection[str], fewest: int
    ) -> tuple[list[GroupFile], _Groups]:
        """Give data partitions that are new their file groups."""
        described = metadata_partition(name)
        count = min((len(ids) for ids in known.values()), default=fewest)
        groups = dict(known)
        files = []
        for path in paths:
            if path not in groups:
                groups[path] = [group_id(described, number, path) for number in range(count)]
                files += [
                    write_first_log(self.store.storage, name, file_id, self.instant)
                    for file_id in groups[path]
                ]
        return files, groups

    def records(self, name: str, changes: CommitChanges) -> Change | NotedRecords:
        """What the commit writes to an index."""
        if name in changes.made:
            return changes.made[name]
        return metadata_kind(name).records(name, changes, self.instant, self.definitions)

    def write(
        self, name: str, groups: _Groups, pending: str, records: Change | NotedRecords
    ) -> list[GroupFile]:
        """Write the records of one partition."""
        if isinstance(records, Change):
            return write_change(self.store.storage, name, groups[""], self.instant, records)
        if not records.notes:
            return []
        is_partitioned = self.is_partitioned(name)
        if not is_partitioned:
            records = _in_buckets_of(name, records, len(groups[""]))
        job = ShardJob(
            address=self.address,
            partition=name,
            instant=self.instant,
            pending_path=pending,
            groups=groups,
            is_partitioned=is_partitioned,
            buckets=records.buckets,
            as_base=False,
            instant_ms=to_epoch_ms(records.time or self.instant, self.config.timezone),
            may_outlive=self.engine.repeats_tasks,
        )
        run = self.engine.map_small if records.rows <= records.few else self.engine.map
        work = partial(records.write, job)
        answers = run(f"write the index {name}", work, note_tasks(records.notes))
        return [file for answer in answers for file in answer]


def _in_buckets_of(name: str, records: NotedRecords, count: int) -> NotedRecords:
    """The notes in buckets of file groups that no two tasks share.

    A write that began before an index was resharded has its notes in buckets of other groups. One
    task then puts all of them into the groups that are there now.

    Raises:
        CommitConflict: they are too many for one task; nothing is written.
    """
    if not records.shards or records.shards == count or records.buckets == 1:
        return records
    if records.rows > _MOST_MOVED_NOTES:
        raise CommitConflict(
            f"the {name.replace('_', ' ')} was resharded from {records.shards} to {count} file "
            "groups meanwhile; write again"
        )
    notes = [replace(note, bucket=0) for note in records.notes]
    return replace(records, notes=notes, buckets=1)


def _exact_note(
    store: MetadataStore,
    completed: Instant,
    exact: ExactRule | None,
    before: frozenset[str],
    files: Sequence[GroupFile],
) -> dict[str, str]:
    if exact is None:
        return {}
    written: Counter[str] = Counter()
    for file in files:
        written[file.partition] += file.records
    return store.exact_note(exact.data, exact.after(before, written), completed)


def write_change(
    storage: Storage, partition: str, file_ids: Sequence[str], instant: str, change: Change
) -> list[GroupFile]:
    """Write a change as log files, one for each file group that it touches."""
    if change.is_empty:
        return []
    return [write_log(storage, partition, instant, own) for own in split_change(change, file_ids)]


def _check(config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> None:
    """Refuse a table that has an index which cannot be kept up to date."""
    require_version(config)
    if not config.metadata_enabled:
        raise IndexUnusable(f"the table {config.name} has no metadata table")
    for name in config.metadata_partitions:
        kind = find_metadata_kind(name)
        if kind is None or not kind.can_maintain(name, definitions):
            raise UnsupportedFeature(f"writing a table that has the index {name}")


def _make_way(store: MetadataStore, instant: str) -> None:
    """Remove what an earlier attempt of the instant wrote."""
    known = store.timeline.find(instant)
    if known is None:
        return
    if known.is_completed:
        raise AlreadyExists(f"the metadata table has {instant} as completed already")
    store.discard(instant, store.timeline.requested_action(instant) or known.action)
