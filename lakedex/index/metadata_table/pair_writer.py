"""The worker that writes the file groups of a secondary index from pairs that came and went.

Pairs come in buckets as key notes do. All records of such an index are alike: what counts is the
key. A pair that one file lost and another one got, as when a record moves, is in the index already
and stays there: nothing is written for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.format.spill import read_segments
from lakedex.index.metadata_table.group_files import GroupChange, GroupFile
from lakedex.index.metadata_table.hashing import shard_numbers
from lakedex.index.metadata_table.partitions import SECONDARY_PAYLOAD, RecordType
from lakedex.index.metadata_table.shard_writer import (
    ShardJob,
    ShardTask,
    check_bucket,
    flat,
    write_groups,
)

PAIR_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("hash", pa.int32()),
        pa.field("is_delete", pa.bool_()),
    ]
)
"""Rows of pairs: the key in the index, the hash that places it, and whether it went."""

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def write_pairs(job: ShardJob, task: ShardTask) -> list[GroupFile]:
    """Write the files of one bucket from pairs (`PAIR_SCHEMA`)."""
    pairs = read_segments(job.address.open(), task.segments)
    if pairs is None or not len(pairs):
        return []
    ids = job.groups[""]
    shards = shard_numbers(flat(pairs["hash"]).to_numpy(), len(ids)).astype(np.int64)
    check_bucket(job, shards, task.bucket)
    deleted = flat(pairs["is_delete"]).to_numpy(zero_copy_only=False).astype(np.bool_)
    changes = _changes(flat(pairs["key"]), shards, deleted)
    own = (
        GroupChange(ids[number], came, pair_records(len(came)), went)
        for number, came, went in changes
    )
    return write_groups(job, task.bucket, own)


def _changes(
    keys: pa.Array, shards: _Ints, deleted: _Mask
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    """The number of each group that changes, with the keys that come and go, sorted."""
    by_shard = np.argsort(shards, kind="stable")
    found, starts = np.unique(shards[by_shard], return_index=True)
    bounds = [*starts.tolist(), len(shards)]
    for number, start, stop in zip(found.tolist(), bounds[:-1], bounds[1:], strict=True):
        rows = by_shard[start:stop]
        own = keys.take(pa.array(rows))
        order = pc.sort_indices(own.cast(pa.large_binary())).to_numpy()
        own = own.take(pa.array(order))
        came, went = _outcome(own, deleted[rows[order]])
        if len(came) or len(went):
            yield number, own.take(pa.array(came)), own.take(pa.array(went))


def _outcome(keys: pa.Array, deleted: _Mask) -> tuple[_Ints, _Ints]:
    """Of sorted keys the rows of those that only came and of those that only went, each once."""
    repeated = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    if not repeated.any():
        return np.flatnonzero(~deleted), np.flatnonzero(deleted)
    first = np.flatnonzero(np.concatenate(([True], ~repeated)))
    gone = np.logical_or.reduceat(deleted, first)
    came = np.logical_or.reduceat(~deleted, first)
    return first[came & ~gone], first[gone & ~came]


def pair_records(count: int) -> pa.Array:
    """The records of so many pairs; they are all alike."""
    return pa.repeat(pa.scalar(_record(), pa.large_binary()), count)


@lru_cache(maxsize=1)
def _record() -> bytes:
    """The one record that all pairs have."""
    payload = pa.StructArray.from_arrays([pa.array([False])], ["isDeleted"])
    kind = pa.array([RecordType.SECONDARY_INDEX.value], pa.int32())
    batch = pa.record_batch({"key": pa.array([""]), "type": kind, SECONDARY_PAYLOAD: payload})
    data: bytes = encode_records(METADATA_RECORD, batch).as_binary()[0].as_py()
    return data
