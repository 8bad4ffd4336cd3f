"""Files of metadata file groups: their names, their bytes, and how they are put in place.

A name is decided before the file is written, and the same records give the same bytes. So two
attempts of one task write the same file, and the one that comes second has nothing to do.

A task may outlive the instant that it writes for. The files of an instant that was rolled back are
not looked for again, and an old one would count as committed once younger ones were archived. So a
task checks its instant before it writes, and once more after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import AlreadyExists, InvalidInput, StorageError
from lakedex.filegroup.names import base_file_name, log_file_name
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import HFileOptions, write_hfile
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    empty_init_block,
    encode_block,
    encode_delete_content,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.partitions import Change, MetadataPartition
from lakedex.keys import escape_path_value
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline, load_table_config

TOKEN = "0-0-0"
EXTENSION = "hfile"
HFILE_OPTIONS = HFileOptions()
MIN_KEY, MAX_KEY = "minRecordKey", "maxRecordKey"
_MOST_GROUPS = 10_000


@dataclass(frozen=True, slots=True)
class GroupFile:
    """A file that was written into a metadata file group."""

    partition: str
    file_id: str
    name: str
    size: int
    records: int
    deletes: int = 0
    is_log: bool = True


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What one file group gets: records sorted by key, and deleted keys."""

    file_id: str
    keys: pa.Array
    values: pa.Array
    deletes: pa.Array


def group_id(partition: MetadataPartition, number: int, data_partition: str | None = None) -> str:
    """The file id of a file group.

    Example:
        >>> from lakedex.index.metadata_table.partitions import metadata_partition
        >>> group_id(metadata_partition("record_index"), 3)
        'record-index-0003-0'
        >>> group_id(metadata_partition("record_index"), 0, "day=2024-01-02")
        'record-index-day%3D2024%2D01%2D02-0000-0'
    """
    if not 0 <= number < _MOST_GROUPS:
        raise InvalidInput(f"{partition.name} cannot have a file group {number}")
    own = ""
    if data_partition is not None:
        own = escape_path_value(data_partition, for_file_name=True) + "-"
    return f"{partition.file_id_prefix}{own}{number:04d}-0"


def split_change(change: Change, file_ids: Sequence[str]) -> Iterator[GroupChange]:
    """The change of each file group that has one, by number of the group."""
    count = len(file_ids)
    keys, values, deletes = change.keys, change.values, change.deletes
    placed = keys if change.hashed is None else change.hashed
    gone_placed = deletes if change.deleted_hashed is None else change.deleted_hashed
    if len(deletes):
        gone = pc.invert(pc.is_in(deletes, keys))
        deletes, gone_placed = deletes.filter(gone), gone_placed.filter(gone)
    shards, gone_shards = shards_of(placed, count), shards_of(gone_placed, count)
    order = pc.sort_indices(keys.cast(pa.binary())).to_numpy()
    for shard in np.union1d(shards, gone_shards).tolist():
        rows = pa.array(order[shards[order] == shard])
        yield GroupChange(
            file_ids[shard],
            keys.take(rows),
            values.take(rows),
            deletes.filter(pa.array(gone_shards == shard)),
        )


def write_log(
    storage: Storage,
    partition: str,
    instant: str,
    change: GroupChange,
    *,
    token: str = TOKEN,
    replaces: Sequence[str] = (),
) -> GroupFile:
    """Write the change of a group as a log file: an HFile block, then a delete block.

    `replaces` are the instants whose blocks these stand for.
    """
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: METADATA_RECORD_SCHEMA}
    if replaces:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(replaces)
    blocks = []
    if len(change.keys):
        info = {"schema": METADATA_RECORD_SCHEMA.encode()}
        data = write_hfile(change.keys, change.values, file_info=info, options=HFILE_OPTIONS)
        blocks.append(encode_block(BlockKind.HFILE_DATA, header, data))
    if len(change.deletes):
        partitions = pa.repeat(partition, len(change.deletes))
        content = encode_delete_content(change.deletes, partitions, None)
        blocks.append(encode_block(BlockKind.DELETE, header, content))
    name = log_file_name(change.file_id, instant, 1, token)
    size = publish(storage, f"{partition}/{name}", b"".join(blocks))
    counts = len(change.keys), len(change.deletes)
    return GroupFile(partition, change.file_id, name, size, *counts)


def write_first_log(storage: Storage, partition: str, file_id: str, instant: str) -> GroupFile:
    """Write the log file without changes by which a file group comes to be."""
    name = log_file_name(file_id, instant, 1, TOKEN)
    size = publish(storage, f"{partition}/{name}", empty_init_block(instant))
    return GroupFile(partition, file_id, name, size, 0)


def write_base(storage: Storage, partition: str, instant: str, change: GroupChange) -> GroupFile:
    """Write the records of a group as its base file."""
    info = {"schema": METADATA_RECORD_SCHEMA.encode()}
    if len(change.keys):
        info[MIN_KEY] = change.keys[0].as_py().encode()
        info[MAX_KEY] = change.keys[-1].as_py().encode()
    data = write_hfile(change.keys, change.values, file_info=info, options=HFILE_OPTIONS)
    name = base_file_name(change.file_id, TOKEN, instant, EXTENSION)
    size = publish(storage, f"{partition}/{name}", data)
    return GroupFile(partition, change.file_id, name, size, len(change.keys), is_log=False)


def publish(storage: Storage, path: str, data: bytes | memoryview) -> int:
    """Create a file unless another attempt was first; answer its size."""
    try:
        storage.create(path, data)
    except AlreadyExists:
        return storage.size(path)
    return len(data)


def write_while_pending(
    storage: Storage,
    instant: str,
    pending_path: str,
    write: Callable[[], GroupFile],
    *,
    is_late: bool = False,
) -> GroupFile:
    """Write a file of an instant, and leave nothing behind when that was taken back meanwhile.

    Args:
        storage: The metadata table.
        instant: The instant.
        pending_path: Its inflight file: once it is gone, nobody waits for the file.
        write: Writes the file.
        is_late: Whether the instant was complete before, so that this says nothing of the file.

    Raises:
        StorageError: The instant does not pend any more.
    """
    if storage.exists(pending_path):
        file = write()
        if storage.exists(pending_path):
            return file
        # An instant that was archived has no such file either, and then this file is the table's.
        timeline = Timeline.load(storage, load_table_config(storage))
        if is_late or not timeline.has_completed(instant):
            storage.delete(f"{file.partition}/{file.name}")
    raise StorageError(f"{instant} is not pending any more in {storage.root}")
