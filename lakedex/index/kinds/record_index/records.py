"""The records of the record index: the place of a key, encoded once for each place."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.format.spill import read_segments
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.group_files import GroupFile
from lakedex.index.metadata_table.partitions import (
    RECORD_INDEX_PAYLOAD,
    SECONDARY_PAYLOAD,
    RecordType,
)
from lakedex.index.metadata_table.shard_writer import (
    NotedRecords,
    ShardJob,
    ShardTask,
    write_rows,
)
from lakedex.index.written import CommitChanges

_FILE_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?")
_AS_UUID, _AS_TEXT = 0, 1
_MISSING = -1


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> NotedRecords:
    """The keys that a commit adds to file groups and takes from them."""
    del name, instant, definitions
    return NotedRecords(
        changes.key_notes, write_notes, changes.note_buckets, shards=changes.note_shards
    )


def write_notes(job: ShardJob, task: ShardTask) -> list[GroupFile]:
    """Write the files of one bucket from key notes (`NOTE_SCHEMA`); a key that moved has two."""
    table = job.address.open()
    notes = read_segments(table, task.segments)
    if notes is None or not len(notes):
        return []
    values, places = location_values(notes["partition"], notes["file_id"], job.instant_ms)
    deleted = notes["is_delete"].combine_chunks().to_numpy(zero_copy_only=False).astype(np.bool_)
    return write_rows(
        job,
        task.bucket,
        notes,
        deleted,
        lambda rows: values.take(pa.array(places[rows.to_numpy()])),
    )


def location_values(
    partitions: pa.ChunkedArray,
    file_ids: pa.ChunkedArray,
    instant_ms: int,
    *,
    kind: RecordType = RecordType.RECORD_INDEX,
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The records of all distinct places, and which of them each row has.

    Example:
        >>> one = pa.chunked_array([["p=1", "p=1"]])
        >>> ids = pa.chunked_array([["d5f9a2c5-6d0b-4219-9edc-1bc2e2d22082-0"] * 2])
        >>> values, numbers = location_values(one, ids, 1794767405287)
        >>> len(values), numbers.tolist()
        (1, [0, 0])
    """
    folders, folder_of = _encoded(partitions)
    ids, id_of = _encoded(file_ids)
    pairs, numbers = np.unique(folder_of * max(1, len(ids)) + id_of, return_inverse=True)
    folder_names = [folders[pair] for pair in (pairs // max(1, len(ids))).tolist()]
    names = [ids[pair] for pair in (pairs % max(1, len(ids))).tolist()]
    values = encode_locations(folder_names, names, instant_ms, kind=kind)
    return values, numbers.reshape(-1).astype(np.int64)


def encode_locations(
    partitions: Sequence[str],
    file_ids: Sequence[str],
    instant_ms: int,
    *,
    kind: RecordType = RecordType.RECORD_INDEX,
) -> pa.Array:
    """One record for each partition path and file id, of the record index or a covering one."""
    halves = [_split(file_id) for file_id in file_ids]
    count = len(halves)
    columns = {
        "partitionName": pa.array(partitions, pa.string()),
        "fileIdHighBits": pa.array([half[0] for half in halves], pa.int64()),
        "fileIdLowBits": pa.array([half[1] for half in halves], pa.int64()),
        "fileIndex": pa.array([half[2] for half in halves], pa.int32()),
        "fileId": pa.array([half[3] for half in halves], pa.string()),
        "instantTime": pa.repeat(pa.scalar(instant_ms, pa.int64()), count),
        "fileIdEncoding": pa.array(
            [_AS_TEXT if half[3] else _AS_UUID for half in halves], pa.int32()
        ),
    }
    payload = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    kinds = pa.repeat(pa.scalar(kind.value, pa.int32()), count)
    record = {"key": pa.repeat("", count), "type": kinds, RECORD_INDEX_PAYLOAD: payload}
    if kind is RecordType.SECONDARY_INDEX:
        alive = pa.repeat(pa.scalar(value=False), count)
        record[SECONDARY_PAYLOAD] = pa.StructArray.from_arrays([alive], ["isDeleted"])
    return encode_records(METADATA_RECORD, pa.record_batch(record)).as_binary()


def _split(file_id: str) -> tuple[int, int, int, str]:
    """The halves of a file id's UUID, the number behind it, and the text where it is no UUID."""
    match = _FILE_ID.fullmatch(file_id)
    if match is None:
        return _MISSING, _MISSING, _MISSING, file_id
    number = uuid.UUID(match[1]).int
    high, low = np.array([number >> 64, number & (2**64 - 1)], np.uint64).view(np.int64).tolist()
    return high, low, _MISSING if match[2] is None else int(match[2]), ""


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    whole = pc.dictionary_encode(column.combine_chunks())
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.combine_chunks()
    return whole.dictionary.to_pylist(), whole.indices.to_numpy().astype(np.int64)
