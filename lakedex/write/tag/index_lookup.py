"""Record locations from the record index (global or partitioned), or from a windowed one.

The driver determines the file groups of the index and its committed instants. Workers read no
timeline, only the blocks of the groups to which their keys hash.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSlice
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.kinds.windowed.lookup import Found, WindowAccess, find_keys, read_groups
from lakedex.index.metadata_table.file_cache import KEPT_FILES
from lakedex.index.metadata_table.group_reader import (
    CellFile,
    GroupReader,
    Selection,
    record_schema,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import file_ids
from lakedex.index.metadata_table.merging import merge_batches
from lakedex.index.metadata_table.partitions import RECORD_INDEX_PAYLOAD, metadata_partition
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.context import WriteContext
from lakedex.write.rows import KEY, PARTITION
from lakedex.write.tag.locations import LOCATIONS, Positions, incoming_keys

FOLDER = ".hoodie/metadata"
RECORD_INDEX = "record_index"
_RAW_FILE_ID = 1
"""The `fileIdEncoding` of file ids that are no UUIDs and are stored as text."""


@dataclass(frozen=True, slots=True)
class VisibleInstants:
    """Which instants of the metadata table count for the snapshot that a write began with."""

    committed: CommittedInstants
    refused: frozenset[str]
    """Committed in the metadata table, but pending or later in the data table."""

    def __call__(self, instant_time: str) -> bool:
        """Whether log blocks of this instant count."""
        return instant_time not in self.refused and self.committed(instant_time)


@dataclass(frozen=True)
class RecordIndexAccess:
    """Where the record index lies: its file groups by shard."""

    visible: VisibleInstants
    groups: tuple[FileSlice, ...] = ()
    """The groups of an index over the whole table."""
    by_partition: Mapping[str, tuple[FileSlice, ...]] = field(default_factory=dict)
    """The groups of an index per partition; only of partitions that the write touches."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """What tells the version of a small file, by path: such files stay in memory."""

    @property
    def size_bytes(self) -> int:
        """The size of all its groups."""
        own = (*self.groups, *chain.from_iterable(self.by_partition.values()))
        return sum(group.size_bytes for group in own)


def record_locations(storage: Storage, access: RecordIndexAccess, rows: pa.Table) -> pa.Table:
    """The places of the rows' keys; in an index per partition those in the row's partition."""
    described = metadata_partition(RECORD_INDEX)
    schema = record_schema(described)
    folder = storage.sub(FOLDER)
    found = [LOCATIONS.empty_table()]
    for groups, shard, keys in _asked(access, rows):
        reader = GroupReader(
            folder, described, groups[shard], access.visible, partial(_whole, folder, access)
        )
        reader.check_shard(shard, partial(shards_of, shard_count=len(groups)))
        batches = reader.batches(Selection(keys=keys))
        found.append(_places(merge_batches(described, schema, batches)))
    return pa.concat_tables(found)


def _whole(folder: Storage, access: RecordIndexAccess, path: str, size: int) -> CellFile | None:
    """A small file, read with one request; None for a larger one, of which parts are read."""
    return KEPT_FILES.open(folder, path, size, access.stamps.get(path, ""))


def _asked(
    access: RecordIndexAccess, rows: pa.Table
) -> Iterator[tuple[tuple[FileSlice, ...], int, pa.Array]]:
    """The groups to look up, as numbers among their kind, each with its keys."""
    if access.groups:
        yield from _by_shard(access.groups, flat(rows[KEY]))
        return
    for partition, groups in access.by_partition.items():
        own = rows.filter(pc.equal(rows[PARTITION], partition))
        yield from _by_shard(groups, flat(own[KEY]))


def _by_shard(
    groups: tuple[FileSlice, ...], keys: pa.Array
) -> Iterator[tuple[tuple[FileSlice, ...], int, pa.Array]]:
    if not len(keys) or not groups:
        return
    shards = shards_of(keys, len(groups))
    for shard in np.unique(shards).tolist():
        yield groups, shard, keys.filter(pa.array(shards == shard))


def _places(records: pa.Table) -> pa.Table:
    """Record index entries as places; file ids are spelled once for each distinct one."""
    payload = flat(records[RECORD_INDEX_PAYLOAD])
    columns = {name: pc.struct_field(payload, name) for name in _ID_PARTS}
    codes = np.zeros(len(payload), dtype=np.int64)
    for values in columns.values():
        encoded = values.fill_null(_missing(values.type)).dictionary_encode()
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Numbered anew each time, so that the products stay small.
        codes = np.unique(codes, return_inverse=True)[1]
    first = np.unique(codes, return_index=True)[1]
    names = _spelled(pa.table(columns).take(pa.array(first)))
    partitions = pc.struct_field(payload, "partitionName").fill_null("")
    live, twice = (pa.repeat(pa.scalar(value=each), len(payload)) for each in (True, False))
    spelled = pa.array(names, pa.string()).take(pa.array(codes))
    return pa.table([flat(records["key"]), partitions, spelled, live, twice], schema=LOCATIONS)


_ID_PARTS = ("fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")


def _missing(data_type: pa.DataType) -> pa.Scalar:
    return pa.scalar("" if pa.types.is_string(data_type) else -1, data_type)


def _spelled(ids: pa.Table) -> list[str]:
    named = file_ids(*(_numbers(ids[name]) for name in _ID_PARTS[:3]))
    raw = ids["fileId"].to_pylist()
    encodings = ids["fileIdEncoding"].to_pylist()
    return [
        (text or "") if encoding == _RAW_FILE_ID else name
        for name, text, encoding in zip(named, raw, encodings, strict=True)
    ]


def _numbers(values: pa.ChunkedArray) -> Positions:
    return values.fill_null(-1).to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True)
class BucketLocations:
    """What the index says of the keys of one bucket."""

    places: Segment
    rest: Segment | None
    """Keys (with their partitions) that may lie where the index does not know; None for none."""


def windowed_locations(storage: Storage, access: WindowAccess, keys: pa.Array) -> pa.Table:
    """Where keys lie in the slices that the index covers."""
    groups = read_groups(storage, access.groups)
    return _as_locations(keys, groups, find_keys(storage, access.runs, groups, keys))


def look_up_window(
    facts: WriteContext, access: WindowAccess, segments: Sequence[Segment]
) -> BucketLocations:
    """Ask the index for the keys of one bucket before any file is looked through.

    A key is unique in the table here, so that one which the index finds is nowhere else.
    """
    storage = facts.address.open()
    groups = read_groups(storage, access.groups)
    writer = SpillWriter(storage, f"{facts.scratch}/asked-{uuid.uuid4().hex}")
    places = [LOCATIONS.empty_table()]
    rest = []
    for incoming in incoming_keys(storage, [segments]):
        found = find_keys(storage, access.runs, groups, incoming.keys)
        places.append(_as_locations(incoming.keys, groups, found))
        is_open = np.ones(len(incoming.keys), dtype=np.bool_)
        is_open[found.query[found.is_live]] = False
        names = pa.table({KEY: incoming.keys, PARTITION: incoming.partitions})
        rest.append(names.filter(pa.array(is_open)))
    left = pa.concat_tables(rest)
    answer = BucketLocations(
        writer.add(pa.concat_tables(places)), writer.add(left) if left.num_rows else None
    )
    writer.finish()
    return answer


def _as_locations(keys: pa.Array, groups: pa.Table, found: Found) -> pa.Table:
    at = pa.array(found.group)
    columns = [
        keys.take(pa.array(found.query)),
        flat(groups["partition"].take(at)),
        flat(groups["file_id"].take(at)),
        pa.array(found.is_live),
        pa.repeat(pa.scalar(value=False), len(at)),
    ]
    return pa.table(columns, schema=LOCATIONS)
