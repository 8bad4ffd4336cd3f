"""The records of a secondary index, which workers write from pairs that came and went.

Pairs come in buckets as key notes do. All records of such an index are alike: what counts is the
key. A pair that one file lost and another one got, as when a record moves, is in the index already
and stays there: nothing is written for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.format.spill import read_segments
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.record_index.records import place_values
from lakedex.index.metadata_table.group_files import GroupChange, GroupFile
from lakedex.index.metadata_table.hashing import shard_numbers
from lakedex.index.metadata_table.partitions import SECONDARY_PAYLOAD, RecordType
from lakedex.index.metadata_table.shard_writer import (
    NotedRecords,
    ShardJob,
    ShardTask,
    check_bucket,
    write_groups,
)
from lakedex.index.written import CommitChanges, PairNotes
from lakedex.schema.field_paths import flat

FEW_PAIRS = 200_000
"""Fewer are not worth a job: 50,000 pairs take some 30 ms, and a job takes 200 ms to start."""
PAIR_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("hash", pa.int32()),
        pa.field("is_delete", pa.bool_()),
    ]
)
"""Rows of pairs: the key in the index, the hash that places it, and whether it went."""
PLACED_PAIR_SCHEMA = pa.schema(
    [*PAIR_SCHEMA, pa.field("partition", pa.string()), pa.field("file_id", pa.string())]
)
"""The same for a covering index: with the partition path and file id of those that came."""

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> NotedRecords:
    """The pairs that a commit adds to the index and takes from it."""
    del instant, definitions
    pairs: PairNotes = changes.notes.get(name, PairNotes(1, ()))
    return NotedRecords(pairs.notes, write_pairs, pairs.buckets, few=FEW_PAIRS)


def write_pairs(job: ShardJob, task: ShardTask) -> list[GroupFile]:
    """Write the files of one bucket from pairs (`PAIR_SCHEMA`)."""
    pairs = read_segments(job.address.open(), task.segments)
    if pairs is None or not len(pairs):
        return []
    ids = job.groups[""]
    shards = shard_numbers(flat(pairs["hash"]).to_numpy(), len(ids)).astype(np.int64)
    check_bucket(job, shards, task.bucket)
    deleted = flat(pairs["is_delete"]).to_numpy(zero_copy_only=False).astype(np.bool_)
    is_placed = pairs.schema.names == PLACED_PAIR_SCHEMA.names
    keys = flat(pairs["key"])
    changes = _changes(keys, shards, deleted, moved_is_new=is_placed)
    values_of = _placed_values(pairs, deleted, job.instant_ms) if is_placed else _plain_values
    own = (
        GroupChange(ids[number], keys.take(came), values_of(came), keys.take(went))
        for number, came, went in changes
    )
    return write_groups(job, task.bucket, own)


def _plain_values(rows: pa.Array) -> pa.Array:
    return pair_records(len(rows))


def _placed_values(
    pairs: pa.Table, deleted: _Mask, instant_ms: int
) -> Callable[[pa.Array], pa.Array]:
    """The records of pairs by their rows, each with the place of its file group."""
    came = pairs.filter(pa.array(~deleted))
    values, places = place_values(
        came["partition"], came["file_id"], instant_ms, kind=RecordType.SECONDARY_INDEX
    )
    place_of = np.zeros(len(deleted), dtype=np.int64)
    place_of[~deleted] = places
    return lambda rows: values.take(pa.array(place_of[rows.to_numpy()]))


def _changes(
    keys: pa.Array, shards: _Ints, deleted: _Mask, *, moved_is_new: bool
) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    """The number of each group that changes, with the rows that come and go, by their keys.

    A pair that one file lost and another one got is new where entries name files.
    """
    by_shard = np.argsort(shards, kind="stable")
    found, starts = np.unique(shards[by_shard], return_index=True)
    bounds = [*starts.tolist(), len(shards)]
    for number, start, stop in zip(found.tolist(), bounds[:-1], bounds[1:], strict=True):
        rows = by_shard[start:stop]
        own = keys.take(pa.array(rows))
        order = pc.sort_indices(own.cast(pa.large_binary())).to_numpy()
        own = own.take(pa.array(order))
        rows = rows[order]
        came, went = _outcome(own, deleted[rows], moved_is_new=moved_is_new)
        if len(came) or len(went):
            yield number, pa.array(rows[came]), pa.array(rows[went])


def _outcome(keys: pa.Array, deleted: _Mask, *, moved_is_new: bool) -> tuple[_Ints, _Ints]:
    """Of sorted keys the rows of those that came and of those that only went, each once.

    What came and went is left out, unless it is new.
    """
    repeated = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    if not repeated.any():
        return np.flatnonzero(~deleted), np.flatnonzero(deleted)
    first = np.flatnonzero(np.concatenate(([True], ~repeated)))
    gone = np.logical_or.reduceat(deleted, first)
    came = np.logical_or.reduceat(~deleted, first)
    if not moved_is_new:
        return first[came & ~gone], first[gone & ~came]
    # Of equal keys any row that came tells the place.
    run = np.cumsum(np.concatenate(([True], ~repeated))) - 1
    arrived = np.full(len(first), -1, dtype=np.int64)
    arrived[run[~deleted]] = np.flatnonzero(~deleted)
    return arrived[came], first[gone & ~came]


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
