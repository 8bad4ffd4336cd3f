"""Another number of file groups for an index of keys, made from the index itself.

A key's file group follows from the number of groups, so all entries are laid out anew, in the same
folder. They are first spilled while the index still serves. Then the index is taken out of the
table's properties, built again from the spilled entries, and put back. A note beside the table says
where the entries are, so that whoever finds the work cut short can end it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import pyarrow as pa

from lakedex.config import TableConfig, TimelineZone
from lakedex.config import keys as names
from lakedex.engine import Engine
from lakedex.errors import CorruptFile, FileMissing, IndexUnusable, InvalidInput
from lakedex.filegroup.slices import FileSlice
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.definitions import load_definitions
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.index.metadata_table.group_merge import merged_records
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.instants import (
    MetadataStore,
    NextTime,
    is_ahead,
    shares_of_groups,
)
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.index.metadata_table.shard_writer import ENTRY_SCHEMA, NotedRecords, write_entries
from lakedex.index.written import KeyNote
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import (
    Timeline,
    from_epoch_ms,
    load_table_config,
    to_epoch_ms,
    update_properties,
)

FOLDER = f"{names.META_FOLDER}/.lakedex"
_BUCKET_BYTES = 32 << 20


def note_path(name: str) -> str:
    """The path of the note about the resharding of an index.

    Example:
        >>> note_path("record_index")
        '.hoodie/.lakedex/record_index_reshard.json'
    """
    return f"{FOLDER}/{name}_reshard.json"


@dataclass(frozen=True, slots=True)
class Reshard:
    """A layout of an index in the making."""

    name: str
    file_groups: int
    is_partitioned: bool
    data_partitions: tuple[str, ...]
    buckets: int
    scratch: str
    newest: str
    """The newest write of the data table that the entries know of."""
    notes: tuple[KeyNote, ...]

    def encode(self) -> bytes:
        """The note that is kept beside the table."""
        tree = asdict(self)
        del tree["name"]
        return json.dumps(tree).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> Reshard:
        """The layout that the note about an index describes.

        Raises:
            CorruptFile: it is no such note.
        """
        try:
            tree = json.loads(data)
            notes = tuple(
                KeyNote(int(note["bucket"]), Segment(**note["segment"])) for note in tree["notes"]
            )
            return cls(
                name,
                file_groups=int(tree["file_groups"]),
                is_partitioned=bool(tree["is_partitioned"]),
                data_partitions=tuple(map(str, tree["data_partitions"])),
                buckets=int(tree["buckets"]),
                scratch=str(tree["scratch"]),
                newest=str(tree["newest"]),
                notes=notes,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFile(
                note_path(name), 0, expected="a note of resharding", actual=error
            ) from None


def reshard_entries(
    address: StorageAddress, engine: Engine, name: str, new_count: int, *, next_time: NextTime
) -> None:
    """Give an index of keys another number of file groups; the data is not read.

    The caller holds the table's lock. In an index that data partitions have groups of their own in,
    every data partition gets that many.

    Raises:
        IndexUnusable: the table has no such index, or a write is being rolled back.
        InvalidInput: there must be at least one file group.
    """
    if new_count < 1:
        raise InvalidInput(f"a {_words(name)} needs at least one file group, not {new_count}")
    table = address.open()
    config = load_table_config(table)
    if name not in config.metadata_partitions:
        raise IndexUnusable(f"the table {config.name} has no {_words(name)}")
    forget_resharding(address, name)
    reshard = _spill(address, engine, config, name, new_count)
    table.create(note_path(name), reshard.encode())
    _set_registered(table, config, name, registered=False)
    _rebuild(address, engine, reshard, next_time)


def _words(name: str) -> str:
    return name.replace("_", " ")


def unfinished_reshard(table: Storage, name: str) -> Reshard | None:
    """The resharding that was cut short while the table was without the index; None if none was."""
    try:
        data = table.read(note_path(name))
    except FileMissing:
        return None
    if name in load_table_config(table).metadata_partitions:
        return None
    return Reshard.decode(name, data)


def finish_resharding(
    address: StorageAddress, engine: Engine, name: str, *, next_time: NextTime
) -> bool:
    """End a resharding that was cut short; answer whether there was one.

    The caller holds the table's lock, and calls this before it writes.

    Raises:
        IndexUnusable: others wrote to the table meanwhile, so the index has to be built again
            from the data; `forget_resharding` then removes what is left of the old one.
    """
    table = address.open()
    reshard = unfinished_reshard(table, name)
    if reshard is None:
        forget_resharding(address, name)
        return False
    config = load_table_config(table)
    if _newest(Timeline.load(table, config)) != reshard.newest:
        raise IndexUnusable(f"the {_words(name)} was being resharded, and the table changed since")
    _rebuild(address, engine, reshard, next_time)
    return True


def forget_resharding(address: StorageAddress, name: str) -> None:
    """Remove what a resharding left beside the table: spilled entries, then the note."""
    table = address.open()
    for folder in table.folders(FOLDER):
        if folder.startswith("reshard-"):
            table.delete_folder(f"{FOLDER}/{folder}")
    table.delete(note_path(name))


def _spill(
    address: StorageAddress, engine: Engine, config: TableConfig, name: str, new_count: int
) -> Reshard:
    table = address.open()
    data = Timeline.load(table, config)
    store = MetadataStore.open(address)
    if is_ahead(store.timeline, data):
        raise IndexUnusable("a write that did not complete has to be rolled back first")
    definition = load_definitions(table, config).get(name)
    is_partitioned = definition is not None and definition.is_partitioned
    slices = store.slices(name, data)
    paths: dict[str, str] = {}
    if is_partitioned:
        groups = store.groups_by_data_partition(name)
        paths = {file_id: path for path, ids in groups.items() for file_id in ids}
    total = sum(group.size_bytes for group in slices)
    buckets = min(new_count, max(engine.parallelism, -(-total // _BUCKET_BYTES)))
    scratch = f"{FOLDER}/reshard-{uuid.uuid4().hex}"
    job = SpillJob(
        address=address,
        scratch=scratch,
        committed=frozenset(log.instant_time for group in slices for log in group.logs),
        data_partitions=paths,
        shards=new_count,
        buckets=buckets,
    )
    shares = shares_of_groups(slices, engine.parallelism)
    answers = engine.map(f"read the index {name}", partial(spill_entries, job), shares)
    return Reshard(
        name,
        file_groups=new_count,
        is_partitioned=is_partitioned,
        data_partitions=tuple(sorted(set(paths.values()))),
        buckets=buckets,
        scratch=scratch,
        newest=_newest(data),
        notes=tuple(note for answer in answers for note in answer),
    )


@dataclass(frozen=True)
class SpillJob:
    """What all tasks of one resharding know."""

    address: StorageAddress
    scratch: str
    committed: frozenset[str]
    """The instants whose log blocks count."""
    data_partitions: Mapping[str, str]
    """The data partition of each file id, where groups have one."""
    shards: int
    buckets: int


def spill_entries(job: SpillJob, groups: Sequence[FileSlice]) -> list[KeyNote]:
    """Spill the entries of some file groups; another attempt writes other files."""
    table = job.address.open()
    metadata = table.sub(names.METADATA_TABLE_FOLDER)
    writer = SpillWriter(table, f"{job.scratch}/{uuid.uuid4().hex}")
    notes = []
    for group in groups:
        described = metadata_partition(group.partition)
        reader = GroupReader(metadata, described, group, job.committed.__contains__)
        path = job.data_partitions.get(group.file_id, "")
        for records in merged_records(described, reader):
            keys = records.keys.cast(pa.large_string()).cast(pa.string())
            rows = pa.table([keys, pa.repeat(path, len(keys)), records.values], schema=ENTRY_SCHEMA)
            buckets = shards_of(keys, job.shards) % job.buckets
            notes += [KeyNote(*put) for put in writer.add_by_number(rows, buckets)]
    writer.finish()
    return notes


def _rebuild(
    address: StorageAddress, engine: Engine, reshard: Reshard, next_time: NextTime
) -> None:
    table = address.open()
    config = load_table_config(table)
    plan = PartitionPlan(
        reshard.file_groups,
        NotedRecords(reshard.notes, write_entries, reshard.buckets),
        is_partitioned=reshard.is_partitioned,
        data_partitions=reshard.data_partitions,
    )
    create_metadata_table(
        address,
        engine,
        config,
        {reshard.name: plan},
        next_time=next_time,
        late_time=lambda: _known_time(address, config) or next_time(),
    )
    _set_registered(table, config, reshard.name, registered=True)
    forget_resharding(address, reshard.name)


def _set_registered(table: Storage, config: TableConfig, name: str, *, registered: bool) -> None:
    others = [each for each in config.metadata_partitions if each != name]
    listed: Sequence[str] = [*others, name] if registered else others
    update_properties(table, {names.METADATA_PARTITIONS: ",".join(sorted(listed))})


def _newest(data: Timeline) -> str:
    """The write that completed last."""
    times = [each.completion_time or each.requested_time for each in data.write_instants()]
    return max(times, default="")


def _known_time(address: StorageAddress, config: TableConfig) -> str | None:
    """A free time that whoever sees the newest write of the data table sees, and nobody else.

    No write follows a resharding: at a time after all of the data table the index would be unseen,
    and so would every write that needs it be refused.
    """
    data = Timeline.load(address.open(), config)
    used = {each.requested_time for each in MetadataStore.open(address).timeline.instants}
    # A write that goes on needs its own time in the metadata table.
    used |= {each.requested_time for each in data.pending()}
    done = [each for each in data.instants if each.is_completed]
    known = {each.requested_time for each in done}
    known |= {each.completion_time for each in done if each.completion_time}
    newest = max(known, default="")
    if not newest:
        return None
    before = max(known - {newest}, default="")
    time = newest
    while time > before and time in used:
        time = from_epoch_ms(to_epoch_ms(time, TimelineZone.UTC) - 1, TimelineZone.UTC)
    return time if time > before else None
