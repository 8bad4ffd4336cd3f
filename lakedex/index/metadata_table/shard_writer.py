"""Workers that write the file groups of a partition from notes that tasks have spilled.

Notes come in buckets: a bucket holds whole shards, so the tasks of different buckets write
different files. Of the notes of a key in one file group an entry wins over deletes, whichever comes
first: notes of different files come in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import keys as names
from lakedex.errors import InvalidInput
from lakedex.format.spill import Segment, read_segments
from lakedex.index.metadata_table.group_files import (
    TOKEN,
    GroupChange,
    GroupFile,
    write_base,
    write_log,
    write_while_pending,
)
from lakedex.index.metadata_table.hashing import java_hashes, shard_numbers
from lakedex.index.written import KeyNote
from lakedex.schema.field_paths import flat
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_ValuesOf = Callable[[pa.Array], pa.Array]

FEW_NOTES: Final = 25_000

ENTRY_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("value", pa.large_binary()),
    ]
)
"""Rows of entries that are encoded already; `partition` is that of the data."""


@dataclass(frozen=True)
class NotedRecords:
    """Records of a partition that workers make of notes, as they grow with the rows of a write."""

    notes: Sequence[KeyNote]
    write: Callable[[ShardJob, ShardTask], list[GroupFile]]
    """The worker."""
    buckets: int = 1
    """The bucket of a key is its shard (its number among the file groups) modulo this."""
    shards: int = 0
    """By how many file groups the notes were put into buckets; 0 if that cannot change."""
    few: int = FEW_NOTES
    """So many notes are not worth a job."""
    time: str | None = None
    """The instant that the records say they are from; that of the write if None."""

    @property
    def rows(self) -> int:
        """How many notes there are."""
        return sum(note.segment.rows for note in self.notes)


@dataclass(frozen=True)
class ShardJob:
    """What all tasks of one write of an index know."""

    address: StorageAddress
    partition: str
    instant: str
    pending_path: str
    """The inflight file of the instant: once it is gone, nobody wants the files any more."""
    groups: Mapping[str, Sequence[str]]
    """File ids in order, by data partition; by `""` where all data shares the groups."""
    is_partitioned: bool
    buckets: int
    as_base: bool
    instant_ms: int = 0
    """The time that entries made of notes say they are from."""
    is_late: bool = False
    """Whether the instant is complete already; only `pending_path` tells who waits for files."""
    may_outlive: bool = True
    """Whether an attempt at a task may go on after the instant has ended."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """The rows of one bucket."""

    bucket: int
    segments: Sequence[Segment] = field(default_factory=tuple)


def note_tasks(notes: Sequence[KeyNote]) -> list[ShardTask]:
    """One task for each bucket that has notes."""
    by_bucket: dict[int, list[Segment]] = {}
    for note in notes:
        by_bucket.setdefault(note.bucket, []).append(note.segment)
    return [ShardTask(bucket, tuple(by_bucket[bucket])) for bucket in sorted(by_bucket)]


def write_entries(job: ShardJob, task: ShardTask) -> list[GroupFile]:
    """Write the files of one bucket from encoded entries (`ENTRY_SCHEMA`)."""
    entries = read_segments(job.address.open(), task.segments)
    if entries is None or not len(entries):
        return []
    values = flat(entries["value"])
    nothing = np.zeros(len(entries), dtype=np.bool_)
    return write_rows(job, task.bucket, entries, nothing, values.take)


def write_rows(
    job: ShardJob, bucket: int, rows: pa.Table, deleted: _Mask, values_of: _ValuesOf
) -> list[GroupFile]:
    """Write the files of one bucket from rows with a key and the partition path of its data.

    Args:
        job: What all tasks know.
        bucket: The bucket.
        rows: The keys, in any order.
        deleted: Which of them are deletes.
        values_of: The records of some rows, by their numbers.
    """
    keys = flat(rows["key"])
    numbers, file_ids = _group_numbers(job, bucket, keys, rows["partition"], deleted)
    return write_groups(job, bucket, _changes(keys, numbers, file_ids, deleted, values_of))


def write_groups(job: ShardJob, bucket: int, changes: Iterable[GroupChange]) -> list[GroupFile]:
    """Write the files of groups while the instant pends; a base file only where it has records."""
    storage = job.address.open().sub(names.METADATA_TABLE_FOLDER)
    written = []
    for change in changes:
        if job.as_base and not len(change.keys):
            continue
        publish = partial(_publish, storage, job, bucket, change)
        if not job.may_outlive:
            written.append(publish())
            continue
        written.append(
            write_while_pending(
                storage, job.instant, job.pending_path, publish, is_late=job.is_late
            )
        )
    return written


def _publish(storage: Storage, job: ShardJob, bucket: int, change: GroupChange) -> GroupFile:
    if job.as_base:
        return write_base(storage, job.partition, job.instant, change)
    # The groups of a new data partition have their first log of this very instant.
    token = f"{bucket}-1-0" if job.is_partitioned else TOKEN
    return write_log(storage, job.partition, job.instant, change, token=token)


def _group_numbers(
    job: ShardJob, bucket: int, keys: pa.Array, partitions: pa.ChunkedArray, deleted: _Mask
) -> tuple[_Ints, list[str]]:
    """The number of each key's group, -1 for none, and the file ids by those numbers."""
    hashes = java_hashes(keys)
    if not job.is_partitioned:
        ids = list(job.groups[""])
        shards = shard_numbers(hashes, len(ids)).astype(np.int64)
        check_bucket(job, shards, bucket)
        return shards, ids
    encoded = pc.dictionary_encode(flat(partitions))
    code = encoded.indices.to_numpy().astype(np.int64)
    per_partition = [job.groups.get(path, ()) for path in encoded.dictionary.to_pylist()]
    counts = np.array([len(found) for found in per_partition], np.int64)
    starts = np.cumsum(counts) - counts
    homeless = counts[code] == 0
    if (homeless & ~deleted).any():
        path = encoded.dictionary[int(code[homeless & ~deleted][0])].as_py()
        raise InvalidInput(f"{job.partition} has no file groups for the partition {path!r}")
    shards = shard_numbers(hashes, np.maximum(counts[code], 1)).astype(np.int64)
    if job.as_base:
        check_bucket(job, shards, bucket)
    numbers = np.where(homeless, -1, starts[code] + shards)
    return numbers, [file_id for found in per_partition for file_id in found]


def check_bucket(job: ShardJob, shards: _Ints, bucket: int) -> None:
    """Two tasks must not write one file."""
    if (shards % job.buckets != bucket).any():
        raise InvalidInput(
            f"keys of {job.partition} are not in the bucket of their file group: "
            "its number of file groups changed meanwhile"
        )


def _changes(
    keys: pa.Array, numbers: _Ints, file_ids: list[str], deleted: _Mask, values_of: _ValuesOf
) -> Iterator[GroupChange]:
    """The change of each group, by number."""
    by_group = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[by_group], return_index=True)
    bounds = [*starts.tolist(), len(numbers)]
    for number, start, stop in zip(found.tolist(), bounds[:-1], bounds[1:], strict=True):
        if number < 0:
            continue
        rows = by_group[start:stop]
        own = keys.take(pa.array(rows))
        order = pc.sort_indices(own.cast(pa.large_binary())).to_numpy()
        own, rows = own.take(pa.array(order)), rows[order]
        entries, gone = _winners(own, deleted[rows])
        yield GroupChange(
            file_ids[number],
            own.take(pa.array(entries)),
            values_of(pa.array(rows[entries])),
            own.take(pa.array(gone)),
        )


def _winners(keys: pa.Array, deleted: _Mask) -> tuple[_Ints, _Ints]:
    """Of sorted keys the rows of entries and those of deletes, one row for each key."""
    repeated = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    if not repeated.any():
        return np.flatnonzero(~deleted), np.flatnonzero(deleted)
    run = np.concatenate(([0], np.cumsum(~repeated)))
    entries = np.flatnonzero(~deleted)
    winner = np.full(int(run[-1]) + 1, -1, dtype=np.int64)
    winner[run[entries]] = entries
    first = np.flatnonzero(np.concatenate(([True], ~repeated)))
    return winner[winner >= 0], first[winner < 0]
