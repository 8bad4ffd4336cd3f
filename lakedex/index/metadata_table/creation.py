"""Making the metadata table, or one more partition of it.

Nothing that is made here counts before the data table's properties name it. So whatever lies in the
way and is not named there comes from an attempt that was cut short, and is removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakedex.config import TableConfig, format_properties, table_checksum
from lakedex.config import keys as names
from lakedex.config.keys import PARTITION_METAFILE
from lakedex.engine import Engine
from lakedex.errors import FileMissing, InvalidInput
from lakedex.filegroup.names import parse_data_file
from lakedex.index.metadata_table.group_files import (
    GroupChange,
    GroupFile,
    group_id,
    split_change,
    write_base,
    write_first_log,
    write_while_pending,
)
from lakedex.index.metadata_table.instants import (
    FIRST_TIMES,
    MetadataStore,
    NextTime,
    base_stat,
    log_stat,
    require_version,
)
from lakedex.index.metadata_table.partitions import Change, Kind, metadata_partition
from lakedex.index.metadata_table.shard_writer import NotedRecords, ShardJob, note_tasks
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Instant, State, to_epoch_ms

_MOST_FIRST_TIMES = 1000
_FILES = Kind.FILES.value
_PROPERTIES = f"{names.META_FOLDER}/{names.PROPERTIES_FILE}"
_OPERATION = "UPSERT_PREPPED"


@dataclass(frozen=True)
class PartitionPlan:
    """What a new partition of the metadata table is to hold."""

    file_groups: int
    """How many file groups it gets; for each data partition, if these have groups of their own."""
    records: Change | NotedRecords | None = None
    """The first records, or the notes of which workers make them."""
    is_partitioned: bool = False
    """Whether each data partition has groups of its own."""
    data_partitions: Sequence[str] = ()
    """The data partitions that it starts with, if these have groups of their own."""

    def groups(self, name: str) -> dict[str, list[str]]:
        """The file ids of the new partition, by data partition (`""` where that is all one)."""
        described = metadata_partition(name)
        numbers = range(self.file_groups)
        if not self.is_partitioned:
            return {"": [group_id(described, number) for number in numbers]}
        return {
            path: [group_id(described, number, path) for number in numbers]
            for path in self.data_partitions
        }


def create_metadata_table(
    address: StorageAddress,
    engine: Engine,
    config: TableConfig,
    plan: Mapping[str, PartitionPlan],
    *,
    next_time: NextTime,
    late_time: NextTime | None = None,
) -> dict[str, int]:
    """Make the metadata table with these partitions, or add them to the one that is there.

    The caller holds the table's lock, and names the partitions in the properties afterwards.

    Args:
        address: Where the data table lies.
        engine: Runs the workers that write records of rows.
        config: The properties of the data table.
        plan: The new partitions, in the order in which they are made.
        next_time: Gives times that grow, for completions.
        late_time: Gives the instant of a partition that is made when the first times are in the
            archive; one of `next_time`, which needs a write of the data table to follow.

    Returns:
        How many entries each of the partitions has.

    Raises:
        InvalidInput: a partition is there already, or `files` is missing in a new table.
        UnsupportedFeature: the table has an older version.
    """
    require_version(config)
    _check(config, plan)
    storage = address.open().sub(names.METADATA_TABLE_FOLDER)
    if not config.metadata_enabled:
        remove_metadata_table(address)
        storage.create(_PROPERTIES, _properties(config.name))
        _keep_folder(storage, f"{names.META_FOLDER}/timeline/history")
    entries = {}
    for name, wanted in plan.items():
        remove_partition(address, name)
        entries[name] = _build(
            address, engine, config, name, wanted, next_time, late_time or next_time
        )
    return entries


def remove_partition(address: StorageAddress, name: str) -> None:
    """Remove a partition of the metadata table, which the properties must no longer name."""
    remove_partition_of(address.open(), name)


def remove_partition_of(table: Storage, name: str) -> None:
    """The same for the data table at the root of a storage."""
    metadata_partition(name)
    storage = table.sub(names.METADATA_TABLE_FOLDER)
    if not storage.exists(_PROPERTIES):
        return
    store = MetadataStore.at(table)
    found = store.files_of(name)
    if not found:
        return
    parsed = (parse_data_file(file, 0) for file in found)
    times = {file.instant_time for file in parsed if file is not None}
    times = {time for time in times if time.startswith(FIRST_TIMES)} | built_at(storage, name)
    for time in times:
        # A build that was cut short: its instant would pend for ever.
        if store.timeline.is_pending(time):
            store.forget(time, Action.DELTACOMMIT)
    # Whoever lists the folder from here on can tell that it is not whole.
    storage.delete(f"{name}/{PARTITION_METAFILE}")
    storage.delete_folder(name)


def remove_metadata_table(address: StorageAddress) -> None:
    """Remove the whole metadata table; the properties must no longer name any partition."""
    storage = address.open().sub(names.METADATA_TABLE_FOLDER)
    # Without its properties it is no table any more, however much of it is left.
    storage.delete(_PROPERTIES)
    address.open().delete_folder(names.METADATA_TABLE_FOLDER)


def _check(config: TableConfig, plan: Mapping[str, PartitionPlan]) -> None:
    if not config.metadata_enabled and _FILES not in plan:
        raise InvalidInput(f"the metadata table of {config.name} needs a partition {_FILES}")
    for name, wanted in plan.items():
        metadata_partition(name)
        if name in config.metadata_partitions:
            raise InvalidInput(f"the table {config.name} has the index {name} already")
        if wanted.file_groups < 1:
            raise InvalidInput(f"{name} needs at least one file group, not {wanted.file_groups}")


def _build(
    address: StorageAddress,
    engine: Engine,
    config: TableConfig,
    name: str,
    plan: PartitionPlan,
    next_time: NextTime,
    late_time: NextTime,
) -> int:
    """Make one partition, by an instant of its own; answer how many entries it has."""
    store = MetadataStore.open(address)
    time = _first_time(store, late_time)
    # The metafile tells of the instant, should this be cut short.
    props = {"commitTime": time, "partitionDepth": "1"}
    metafile = format_properties(props, comment="partition metadata").encode("ascii")
    store.storage.create(f"{name}/{PARTITION_METAFILE}", metafile)
    pending = store.begin(time, Action.DELTACOMMIT)
    logs = [
        write_first_log(store.storage, name, file_id, time)
        for file_ids in plan.groups(name).values()
        for file_id in file_ids
    ]
    place = BasePlace(address, name, time, pending)
    bases = write_bases(engine, config, place, plan)
    stats = [log_stat(file, time) for file in logs] + [base_stat(file) for file in bases]
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, next_time())
    store.complete(completed, stats, _OPERATION)
    return sum(file.records for file in bases)


@dataclass(frozen=True)
class BasePlace:
    """Where the first records of a partition go."""

    address: StorageAddress
    partition: str
    instant: str
    """The instant of the metadata table that base files are named by."""
    pending_path: str
    """A file of the metadata table: once it is gone, nobody wants the base files any more."""
    is_late: bool = False
    """Whether the instant is complete before its files are there."""


def write_bases(
    engine: Engine, config: TableConfig, place: BasePlace, plan: PartitionPlan
) -> list[GroupFile]:
    """Write the first records of a partition as base files of the groups that get any."""
    name, groups = place.partition, plan.groups(place.partition)
    storage = place.address.open().sub(names.METADATA_TABLE_FOLDER)
    records = plan.records
    if records is None:
        return []
    if isinstance(records, Change):
        return [
            write_one_base(storage, place, own)
            for own in split_change(records, groups[""])
            if len(own.keys)
        ]
    job = ShardJob(
        address=place.address,
        partition=name,
        instant=place.instant,
        pending_path=place.pending_path,
        groups=groups,
        is_partitioned=plan.is_partitioned,
        buckets=records.buckets,
        as_base=True,
        instant_ms=to_epoch_ms(records.time or place.instant, config.timezone),
        is_late=place.is_late,
    )
    run = engine.map_small if records.rows <= records.few else engine.map
    tasks = note_tasks(records.notes)
    answers = run(f"build the index {name}", partial(records.write, job), tasks)
    return [file for answer in answers for file in answer]


def write_one_base(storage: Storage, place: BasePlace, own: GroupChange) -> GroupFile:
    """Write the base file of one group, in this process."""
    write = partial(write_base, storage, place.partition, place.instant, own)
    return write_while_pending(
        storage, place.instant, place.pending_path, write, is_late=place.is_late
    )


def _first_time(store: MetadataStore, late_time: NextTime) -> str:
    """The instant that builds a partition: the next of the first times.

    Once these have been archived, a new one would seem to be where the timeline begins, and what
    was archived would no longer count as committed. Then it is a time like any other.
    """
    used = [
        each.requested_time
        for each in store.timeline.instants
        if each.requested_time.startswith(FIRST_TIMES)
    ]
    if store.timeline.instants and not used:
        return late_time()
    number = 1 + max((int(time) for time in used), default=-1)
    return f"{FIRST_TIMES}{number:03d}" if number < _MOST_FIRST_TIMES else late_time()


def built_at(storage: Storage, name: str) -> set[str]:
    """The instant that a partition was built at, if its metafile is there; of a metadata table."""
    try:
        text = storage.read(f"{name}/{PARTITION_METAFILE}").decode("utf-8", "replace")
    except FileMissing:
        return set()
    lines = (line.partition("=") for line in text.splitlines())
    return {value.strip() for key, _, value in lines if key.strip() == "commitTime"}


def _properties(data_table: str) -> bytes:
    """The properties of the metadata table of a data table."""
    name = f"{data_table}_metadata"
    props = {
        names.TABLE_NAME: name,
        names.TABLE_TYPE: "MERGE_ON_READ",
        names.TABLE_VERSION: "9",
        names.TABLE_INITIAL_VERSION: "9",
        names.TIMELINE_LAYOUT_VERSION: "2",
        names.TIMELINE_PATH: "timeline",
        names.TIMELINE_HISTORY_PATH: "history",
        names.ARCHIVELOG_FOLDER: "history",
        names.DROP_PARTITION_COLUMNS: "false",
        names.BASE_FILE_FORMAT: "HFILE",
        names.RECORD_KEY_FIELDS: "key",
        names.POPULATE_META_FIELDS: "false",
        names.KEY_GENERATOR_TYPE: "HOODIE_TABLE_METADATA",
        names.PAYLOAD_CLASS: names.METADATA_PAYLOAD,
        names.MERGE_MODE: "CUSTOM",
        names.MERGE_STRATEGY_ID: names.PAYLOAD_STRATEGY_ID,
        names.TABLE_CHECKSUM: str(table_checksum(name, None)),
    }
    return format_properties(props, comment="Properties of the metadata table").encode("ascii")


def _keep_folder(storage: Storage, folder: str) -> None:
    """Make a folder, on stores that have empty ones."""
    storage.create(f"{folder}/.new", b"")
    storage.delete(f"{folder}/.new")
