"""Pairs of column value and record key, and the records of a secondary index made of them.

A pair is encoded as the key that it has in the index. What a write did to some rows follows from
the pairs before and after it: those that came get an entry, those that went a tombstone, and a
value that stayed as it was costs nothing. Workers write the records from pairs in buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup import RECORD_KEY, FileSliceId
from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.format.hfile import MAX_KEY_BYTES
from lakedex.format.spill import read_segments
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.record_index.records import location_values
from lakedex.index.kinds.secondary.key_encoding import encoded
from lakedex.index.metadata_table.group_files import GroupChange, GroupFile
from lakedex.index.metadata_table.hashing import java_hashes, shard_numbers
from lakedex.index.metadata_table.keys import escaped_secondary, secondary_values
from lakedex.index.metadata_table.partitions import SECONDARY_PAYLOAD, RecordType
from lakedex.index.metadata_table.shard_writer import (
    NotedRecords,
    ShardJob,
    ShardTask,
    check_bucket,
    write_groups,
)
from lakedex.index.written import CommitChanges, PairNotes
from lakedex.schema.field_paths import flat, values_at

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
PREFIX: Final = "secondary_index_"


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
    values, places = location_values(
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


@dataclass(frozen=True, slots=True)
class SecondaryTarget:
    """A secondary index as the workers of a write know it."""

    name: str
    columns: tuple[str, ...]
    """Its columns, or fields of struct columns such as `home.city`."""
    shards: int
    """How many file groups it has."""
    buckets: int
    """Into how many buckets its pairs are put: a pair's bucket is its shard modulo this."""
    by_value: bool = True
    """Whether a pair's file group follows from the value alone, not from the whole key."""
    covers: bool = False
    """Whether entries name the file group of their rows."""
    is_async: bool = False
    """Whether the index says which file slices it covers, as writers do not maintain it."""

    @property
    def told(self) -> str:
        """The columns, for messages."""
        return ", ".join(self.columns)

    @classmethod
    def of(cls, definition: IndexDefinition, shards: int, buckets: int) -> SecondaryTarget:
        """The target that a definition describes."""
        columns, by_value = definition.source_fields, definition.is_placed_by_value
        buckets = min(shards, buckets)
        return cls(
            definition.name,
            columns,
            shards,
            buckets,
            by_value,
            covers=definition.is_covering,
            is_async=definition.is_async,
        )


def pair_rows(
    target: SecondaryTarget, rows: pa.Table, *, is_delete: bool, place: FileSliceId | None = None
) -> pa.Table:
    r"""The pairs of rows that have a record key and the index's columns, in `PAIR_SCHEMA`.

    Those of a covering index have the `place` of the rows, too (`PLACED_PAIR_SCHEMA`).

    Example:
        >>> target = SecondaryTarget("secondary_index_i", ("city",), 1, 1)
        >>> rows = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a$b", None]})
        >>> pair_rows(target, rows, is_delete=False)["key"].to_pylist()
        ['a\\$b$k1', '\x00$k2']
    """
    return _Pairs.of(target, rows).told(target, is_delete=is_delete, place=place)


def pair_changes(
    target: SecondaryTarget,
    before: pa.Table,
    after: pa.Table,
    others: pa.Table | None = None,
    place: FileSliceId | None = None,
) -> pa.Table:
    """What becomes of the pairs of some rows that a write changed.

    Args:
        target: The index.
        before: The rows as they were.
        after: The same rows as they are now; rows that went are missing, new ones are there.
        others: Rows that were not touched, though they have a record key in common with those.
        place: The file group that all of them are in.

    Example:
        >>> target = SecondaryTarget("secondary_index_i", ("city",), 1, 1)
        >>> old = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a", "b"]})
        >>> new = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a", "c"]})
        >>> pair_changes(target, old, new).select(["key", "is_delete"]).to_pylist()
        [{'key': 'c$k2', 'is_delete': False}, {'key': 'b$k2', 'is_delete': True}]
    """
    came, went = _Pairs.of(target, after), _Pairs.of(target, before)
    kept = came.keys
    if others is not None and others.num_rows:
        kept = pa.concat_arrays([kept, _Pairs.of(target, others).keys])
    fresh, gone = came.missing_in(went.keys), went.missing_in(kept)
    return pa.concat_tables(
        [fresh.told(target, is_delete=False, place=place), gone.told(target, is_delete=True)]
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs as they stand in the index, and their values alone."""

    keys: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, target: SecondaryTarget, rows: pa.Table) -> _Pairs:
        values = secondary_values([encoded(values_at(each, rows)) for each in target.columns])
        keys = escaped_secondary(flat(rows[RECORD_KEY]))
        joined = pc.binary_join_element_wise(values, keys, "")
        _check_lengths(target, joined)
        return cls(joined, values)

    def missing_in(self, others: pa.Array) -> _Pairs:
        """Those that are not among some others."""
        is_missing = pc.invert(pc.is_in(self.keys, value_set=others))
        return _Pairs(self.keys.filter(is_missing), self.values.filter(is_missing))

    def told(
        self, target: SecondaryTarget, *, is_delete: bool, place: FileSliceId | None = None
    ) -> pa.Table:
        """The pairs as workers hand them on; what decides on their file groups is made here."""
        count = len(self.keys)
        hashes = pa.array(java_hashes(self.values if target.by_value else self.keys), pa.int32())
        marks = pa.repeat(pa.scalar(is_delete), count)
        if not target.covers:
            return pa.Table.from_arrays([self.keys, hashes, marks], schema=PAIR_SCHEMA)
        where = (None, None) if place is None else (place.partition, place.file_id)
        places = [pa.repeat(pa.scalar(each, pa.string()), count) for each in where]
        return pa.Table.from_arrays([self.keys, hashes, marks, *places], schema=PLACED_PAIR_SCHEMA)


def _check_lengths(target: SecondaryTarget, keys: pa.Array) -> None:
    """Refuse values that no index file can hold, before anything is written to the index."""
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    if longest > MAX_KEY_BYTES:
        raise InvalidInput(
            f"a value of column {target.told!r} makes an entry of {longest} bytes in the index "
            f"{target.name}, which holds at most {MAX_KEY_BYTES}: shorten it, or drop the index"
        )
