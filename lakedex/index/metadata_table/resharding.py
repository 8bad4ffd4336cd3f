"""Another number of file groups for the record index, made from the index itself.

A key's file group follows from the number of groups, so all entries are laid out anew, in the same
folder. They are first spilled while the index still serves. Then the index is taken out of the
table's properties, built again from the spilled entries, and put back. A note beside the table says
where the entries are, so that whoever finds the work cut short can end it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from lakedex.config import TableConfig, TimelineZone
from lakedex.config import keys as names
from lakedex.engine import Engine
from lakedex.errors import CorruptFile, FileMissing, IndexUnusable, InvalidInput
from lakedex.format.spill import Segment
from lakedex.index.definition_files import load_definitions
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.index.metadata_table.deltacommit import RECORD_INDEX
from lakedex.index.metadata_table.entry_spilling import SpillJob, spill_entries
from lakedex.index.metadata_table.instants import (
    MetadataStore,
    NextTime,
    is_ahead,
    shares_of_groups,
)
from lakedex.index.written import KeyNote
from lakedex.storage.address import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import (
    Timeline,
    from_epoch_ms,
    load_table_config,
    to_epoch_ms,
    update_properties,
)

FOLDER = f"{names.META_FOLDER}/.lakedex"
NOTE_PATH = f"{FOLDER}/record_index_reshard.json"
_BUCKET_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Reshard:
    """A layout of the record index in the making."""

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
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Reshard:
        """The layout that a note tells of.

        Raises:
            CorruptFile: it is no such note.
        """
        try:
            tree = json.loads(data)
            notes = tuple(
                KeyNote(int(note["bucket"]), Segment(**note["segment"])) for note in tree["notes"]
            )
            return cls(
                file_groups=int(tree["file_groups"]),
                is_partitioned=bool(tree["is_partitioned"]),
                data_partitions=tuple(map(str, tree["data_partitions"])),
                buckets=int(tree["buckets"]),
                scratch=str(tree["scratch"]),
                newest=str(tree["newest"]),
                notes=notes,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFile(NOTE_PATH, 0, expected="a note of resharding", actual=error) from None


def reshard_record_index(
    address: StorageAddress, engine: Engine, new_count: int, *, next_time: NextTime
) -> None:
    """Give the record index another number of file groups; the data is not read.

    The caller holds the table's lock. In a partitioned record index every data partition gets that
    many.

    Raises:
        IndexUnusable: the table has no record index, or a write is being taken back.
        InvalidInput: there must be at least one file group.
    """
    if new_count < 1:
        raise InvalidInput(f"a record index needs at least one file group, not {new_count}")
    table = address.open()
    config = load_table_config(table)
    if RECORD_INDEX not in config.metadata_partitions:
        raise IndexUnusable(f"the table {config.name} has no record index")
    _clear(table)
    reshard = _spill(address, engine, config, new_count)
    table.create(NOTE_PATH, reshard.encode())
    _set_registered(table, config, registered=False)
    _rebuild(address, engine, reshard, next_time)


def unfinished_reshard(table: Storage) -> Reshard | None:
    """The resharding that was cut short while the table had no record index; None without one."""
    try:
        data = table.read(NOTE_PATH)
    except FileMissing:
        return None
    if RECORD_INDEX in load_table_config(table).metadata_partitions:
        return None
    return Reshard.decode(data)


def finish_resharding(address: StorageAddress, engine: Engine, *, next_time: NextTime) -> bool:
    """End a resharding that was cut short; answer whether there was one.

    The caller holds the table's lock, and calls this before it writes.

    Raises:
        IndexUnusable: others wrote to the table meanwhile, so the record index has to be built
            again from the data; `forget_resharding` then removes what is left of the old one.
    """
    table = address.open()
    reshard = unfinished_reshard(table)
    if reshard is None:
        _clear(table)
        return False
    config = load_table_config(table)
    if _newest(Timeline.load(table, config)) != reshard.newest:
        raise IndexUnusable("the record index was being resharded, and the table changed since")
    _rebuild(address, engine, reshard, next_time)
    return True


def forget_resharding(address: StorageAddress) -> None:
    """Remove what a resharding left beside the table."""
    _clear(address.open())


def _spill(address: StorageAddress, engine: Engine, config: TableConfig, new_count: int) -> Reshard:
    table = address.open()
    data = Timeline.load(table, config)
    store = MetadataStore.open(address)
    if is_ahead(store.timeline, data):
        raise IndexUnusable("a write that did not complete has to be taken back first")
    definition = load_definitions(table, config).get(RECORD_INDEX)
    is_partitioned = definition is not None and definition.is_partitioned
    slices = store.slices(RECORD_INDEX, data)
    paths: dict[str, str] = {}
    if is_partitioned:
        groups = store.groups_by_data_partition(RECORD_INDEX)
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
    answers = engine.map("read the record index", partial(spill_entries, job), shares)
    return Reshard(
        file_groups=new_count,
        is_partitioned=is_partitioned,
        data_partitions=tuple(sorted(set(paths.values()))),
        buckets=buckets,
        scratch=scratch,
        newest=_newest(data),
        notes=tuple(note for answer in answers for note in answer),
    )


def _rebuild(
    address: StorageAddress, engine: Engine, reshard: Reshard, next_time: NextTime
) -> None:
    table = address.open()
    config = load_table_config(table)
    plan = PartitionPlan(
        reshard.file_groups,
        is_partitioned=reshard.is_partitioned,
        data_partitions=reshard.data_partitions,
        key_notes=reshard.notes,
        note_buckets=reshard.buckets,
        notes_are_entries=True,
    )
    create_metadata_table(
        address,
        engine,
        config,
        {RECORD_INDEX: plan},
        next_time=next_time,
        late_time=lambda: _known_time(address, config) or next_time(),
    )
    _set_registered(table, config, registered=True)
    _clear(table)


def _set_registered(table: Storage, config: TableConfig, *, registered: bool) -> None:
    others = [name for name in config.metadata_partitions if name != RECORD_INDEX]
    listed: Sequence[str] = [*others, RECORD_INDEX] if registered else others
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


def _clear(table: Storage) -> None:
    """Remove spilled entries, then the note."""
    for name in table.folders(FOLDER):
        if name.startswith("reshard-"):
            table.delete_folder(f"{FOLDER}/{name}")
    table.delete(NOTE_PATH)
