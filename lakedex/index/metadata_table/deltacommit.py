"""One commit of the data table put into its metadata table, as a deltacommit of the same instant.

It completes before the data table's instant does; until then readers pass its blocks over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakedex.config import TableConfig
from lakedex.engine import Engine
from lakedex.errors import AlreadyExists, CommitConflict, IndexUnusable
from lakedex.index.definition_files import load_definitions
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.change import Change
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
from lakedex.index.metadata_table.pair_writer import FEW_PAIRS, write_pairs
from lakedex.index.metadata_table.partitions import Kind, metadata_partition
from lakedex.index.metadata_table.records import RecordMaker, require_writable
from lakedex.index.metadata_table.shard_writer import (
    ShardJob,
    ShardTask,
    note_tasks,
    write_notes,
)
from lakedex.index.written import CommitChanges, KeyNote
from lakedex.storage.address import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Instant, State, Timeline, load_table_config, to_epoch_ms

RECORD_INDEX = Kind.RECORD_INDEX.value
_COLUMN_STATS = Kind.COLUMN_STATS.value
_FEW_NOTES = 25_000
_MOST_MOVED_NOTES = 2_000_000
"""So many keys a task holds in memory without harm."""
_OPERATION = "UPSERT_PREPPED"


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
    before = store.exact(exact.data, config.metadata_partitions) if exact else frozenset()
    groups = _groups(store, names, definitions)
    statistics = definitions.get(_COLUMN_STATS)
    columns = statistics.source_fields if statistics else ()
    maker = RecordMaker(changes, instant, columns, definitions)
    pending = store.begin(instant, Action.DELTACOMMIT)
    files: list[GroupFile] = []
    for name in names:
        if name == RECORD_INDEX:
            own = groups[name]
            if _is_partitioned(definitions):
                first, own = _open_groups(store, instant, own, changes, new_partition_groups)
                files += first
            buckets, notes = _notes_of_groups(changes, own, definitions)
            job = ShardJob(
                address=address,
                partition=name,
                instant=instant,
                pending_path=pending,
                groups=own,
                is_partitioned=_is_partitioned(definitions),
                buckets=buckets,
                as_base=False,
                instant_ms=to_epoch_ms(instant, config.timezone),
            )
            files += _written(engine, job, write_notes, notes)
        elif metadata_partition(name).kind is Kind.SECONDARY_INDEX:
            pairs = changes.pairs.get(name)
            if pairs is not None:
                job = ShardJob(
                    address=address,
                    partition=name,
                    instant=instant,
                    pending_path=pending,
                    groups=groups[name],
                    is_partitioned=False,
                    buckets=pairs.buckets,
                    as_base=False,
                )
                files += _written(engine, job, write_pairs, pairs.notes, few=FEW_PAIRS)
        else:
            change = changes.made[name] if name in changes.made else maker.change_of(name)
            files += write_change(store.storage, name, groups[name][""], instant, change)
    completed = Instant(instant, Action.DELTACOMMIT, State.COMPLETED, next_time())
    said = _said_of_exact(store.with_files(files), completed, exact, before, files)
    store.complete(completed, (log_stat(file, instant) for file in files), _OPERATION, said)
    return completed


def _notes_of_groups(
    changes: CommitChanges,
    groups: Mapping[str, Sequence[str]],
    definitions: Mapping[str, IndexDefinition],
) -> tuple[int, Sequence[KeyNote]]:
    """The key notes in buckets of file groups that no two tasks share, and the number of buckets.

    A write that began before the record index was resharded has its notes in buckets of other
    groups. One task then puts all of them into the groups that are there now.

    Raises:
        CommitConflict: they are too many for one task; nothing is written.
    """
    shards, notes = changes.note_shards, changes.key_notes
    is_moved = shards and not _is_partitioned(definitions) and shards != len(groups[""])
    if not is_moved or changes.note_buckets == 1:
        return changes.note_buckets, notes
    if sum(note.segment.rows for note in notes) > _MOST_MOVED_NOTES:
        raise CommitConflict(
            f"the record index was resharded from {shards} to {len(groups[''])} file groups "
            "meanwhile; write again"
        )
    return 1, [replace(note, bucket=0) for note in notes]


def _said_of_exact(
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


def _written(
    engine: Engine,
    job: ShardJob,
    work: Callable[[ShardJob, ShardTask], list[GroupFile]],
    notes: Sequence[KeyNote],
    *,
    few: int = _FEW_NOTES,
) -> list[GroupFile]:
    """The files that workers write from notes; few notes are not worth a job."""
    noted = sum(note.segment.rows for note in notes)
    run = engine.map_small if noted <= few else engine.map
    job = replace(job, may_outlive=engine.repeats_tasks)
    answers = run(f"write the index {job.partition}", partial(work, job), note_tasks(notes))
    return [file for answer in answers for file in answer]


def write_change(
    storage: Storage, partition: str, file_ids: Sequence[str], instant: str, change: Change
) -> list[GroupFile]:
    """Write a change as log files, one for each file group that it touches."""
    if change.is_empty:
        return []
    return [write_log(storage, partition, instant, own) for own in split_change(change, file_ids)]


def _check(config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> None:
    require_version(config)
    if not config.metadata_enabled:
        raise IndexUnusable(f"the table {config.name} has no metadata table")
    require_writable(config.metadata_partitions, definitions)


def _make_way(store: MetadataStore, instant: str) -> None:
    """Remove what an earlier attempt of the instant wrote."""
    known = store.timeline.find(instant)
    if known is None:
        return
    if known.is_completed:
        raise AlreadyExists(f"the metadata table has {instant} as completed already")
    store.discard(instant, store.timeline.requested_action(instant) or known.action)


def _is_partitioned(definitions: Mapping[str, IndexDefinition]) -> bool:
    definition = definitions.get(RECORD_INDEX)
    return definition is not None and definition.is_partitioned


def _groups(
    store: MetadataStore, names: Sequence[str], definitions: Mapping[str, IndexDefinition]
) -> dict[str, Mapping[str, Sequence[str]]]:
    """The file groups of every metadata partition, by data partition where they differ."""
    found: dict[str, Mapping[str, Sequence[str]]] = {}
    for name in names:
        if name == RECORD_INDEX and _is_partitioned(definitions):
            found[name] = store.groups_by_data_partition(name)
        else:
            found[name] = {"": store.shared_groups(name)}
    return found


def _open_groups(
    store: MetadataStore,
    instant: str,
    known: Mapping[str, Sequence[str]],
    changes: CommitChanges,
    fewest: int,
) -> tuple[list[GroupFile], dict[str, Sequence[str]]]:
    """Give data partitions that are new their file groups."""
    described = metadata_partition(RECORD_INDEX)
    count = min((len(ids) for ids in known.values()), default=fewest)
    groups = dict(known)
    files = []
    for path in changes.added:
        if path not in groups:
            groups[path] = [group_id(described, number, path) for number in range(count)]
            files += [
                write_first_log(store.storage, RECORD_INDEX, file_id, instant)
                for file_id in groups[path]
            ]
    return files, groups
