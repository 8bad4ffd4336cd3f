"""The second stage: each bucket's rows are reduced to one a key, tagged and put out by target."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup.ordering import ordering_of
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.metadata_table.hashing import java_hashes
from lakedex.merge import Entries, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext
from lakedex.write.rows import DELETE, KEY, LIVE, TaggedPart, spill_by_target, tagged_as_new
from lakedex.write.tag.bucket_index import BucketPlan, add_by_bucket, tag_by_bucket
from lakedex.write.tag.locations import key_codes, mask_of, row_of_location
from lakedex.write.tag.tag_rows import TagPlan, tag_bucket


@dataclass(frozen=True)
class TagTask:
    """Some buckets to tag."""

    facts: WriteContext
    plan: TagPlan | None
    """None where keys are not looked up: every row is new, or a bucket says where it goes."""
    buckets: tuple[tuple[int, tuple[Segment, ...]], ...]
    reduce: bool
    """Whether rows of one key are reduced to one."""
    per_partition: bool
    """Whether one key may stand in several partitions."""
    existing: str
    """For rows whose key is there already: `update`, `drop`, `fail`, or `none` to keep both."""
    by_bucket: BucketPlan | None = None
    """The buckets of a bucket index."""


@dataclass(frozen=True)
class TagAnswer:
    """What tagging some buckets came to."""

    parts: tuple[TaggedPart, ...]
    looked_up: int
    found: int
    has_repeats: bool = False
    """Whether a key that was looked up and not found stands in several rows."""


def tag_stage(task: TagTask) -> TagAnswer:
    """Tag the rows of some buckets; the worker of the second stage."""
    storage = task.facts.address.open()
    writer = SpillWriter(
        storage, f"{task.facts.scratch}/tagged-{uuid.uuid4().hex}", holds_small=True
    )
    parts: list[TaggedPart] = []
    tagged: list[pa.Table] = []
    looked_up = found = held = 0
    has_repeats = False
    for bucket, stored in _portions(task, storage, writer):
        rows = stored
        if task.reduce:
            ordering = task.facts.read_context().ordering_fields
            rows = deduplicate(rows, ordering, per_partition=task.per_partition)
        looked_up += rows.num_rows
        rows = _tag(task, storage, bucket, rows)
        found += pc.sum(rows[LIVE]).as_py() or 0
        if task.plan is not None and not task.reduce:
            has_repeats = has_repeats or has_repeated_keys(rows, per_partition=task.per_partition)
        if held + rows.nbytes > PORTION_BYTES and tagged:
            parts += spill_by_target(writer, pa.concat_tables(tagged))
            tagged, held = [], 0
        tagged.append(rows)
        held += rows.nbytes
    if tagged:
        parts += spill_by_target(writer, pa.concat_tables(tagged))
    writer.finish()
    return TagAnswer(tuple(parts), looked_up, found, has_repeats)


def _portions(
    task: TagTask, storage: Storage, writer: SpillWriter
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of all buckets, each time with the number of their bucket."""
    for bucket, segments in task.buckets:
        for rows in portions_of(storage, writer, segments):
            yield bucket, rows


def _tag(task: TagTask, storage: Storage, bucket: int, rows: pa.Table) -> pa.Table:
    if task.plan is None and task.by_bucket is None:
        return tagged_as_new(rows)
    if task.existing == "update":
        return _changes(task, storage, bucket, rows)
    if task.existing == "none" and task.by_bucket is not None:
        return add_by_bucket(task.by_bucket, rows)
    return _new_rows(task, storage, bucket, rows)


def _changes(task: TagTask, storage: Storage, bucket: int, rows: pa.Table) -> pa.Table:
    """The rows, one for each key, with the places of their keys."""
    if task.by_bucket is not None:
        return tag_by_bucket(storage, task.by_bucket, bucket, rows)
    if task.plan is None:
        return tagged_as_new(rows)
    return tag_bucket(task.facts, task.plan, bucket, rows)


def _new_rows(task: TagTask, storage: Storage, bucket: int, rows: pa.Table) -> pa.Table:
    """The rows whose keys are not in the table; a new key may stand in several of them."""
    in_place = task
    if task.plan is not None:
        # Versions do not count: a record that is there stays, wherever and however old it is.
        in_place = replace(task, plan=replace(task.plan, update_partition_path=False))
    one_a_key = deduplicate(rows, (), per_partition=task.per_partition)
    tagged = _changes(in_place, storage, bucket, one_a_key)
    known = tagged.filter(tagged[LIVE])
    if task.existing == "fail" and known.num_rows:
        key = known[KEY][0].as_py()
        raise InvalidInput(f"the key {key!r} is in the table already; insert only new keys")
    if one_a_key.num_rows == rows.num_rows:
        return tagged.filter(pc.invert(tagged[LIVE]))
    of_known = row_of_location(rows, known, per_partition=task.per_partition)
    new = rows.filter(pa.array(of_known < 0))
    return tagged_as_new(new) if task.by_bucket is None else add_by_bucket(task.by_bucket, new)


def split_buckets(
    buckets: Sequence[Sequence[Segment]], tasks: int
) -> list[tuple[tuple[int, tuple[Segment, ...]], ...]]:
    """The buckets that have rows, shared out to at most so many tasks."""
    filled = [(number, tuple(segments)) for number, segments in enumerate(buckets) if segments]
    filled.sort(key=lambda entry: -sum(segment.rows for segment in entry[1]))
    shares = [filled[at::tasks] for at in range(max(1, tasks))]
    return [tuple(share) for share in shares if share]


def has_repeated_keys(rows: pa.Table, *, per_partition: bool) -> bool:
    """Whether a key stands in several rows; per partition, in several of one partition.

    Example:
        >>> from lakedex.write.rows import KEY, PARTITION
        >>> rows = pa.table({KEY: ["a", "b", "a"], PARTITION: ["p", "p", "q"]})
        >>> [has_repeated_keys(rows, per_partition=each) for each in (False, True)]
        [True, False]
    """
    return len(np.unique(key_codes(rows, per_partition=per_partition))) < rows.num_rows


def deduplicate(rows: pa.Table, ordering: Sequence[str], *, per_partition: bool) -> pa.Table:
    """The winning row of each key, in the order in which they came.

    The largest ordering value wins as it does between stored versions (no value counts as the
    lowest, NaN as the highest), of equal ones the last. A delete that is not conditional wins
    over every value. Without ordering columns the last row wins, whatever it is.

    Args:
        rows: Rows in the form of `lakedex.write.rows`.
        ordering: The ordering columns.
        per_partition: Whether a key may stand once in each partition.

    Example:
        >>> from lakedex.write.rows import KEY, PARTITION
        >>> rows = pa.table({KEY: ["a", "b", "a"], PARTITION: ["p", "p", "q"],
        ...                  DELETE: [False] * 3, "v": [2, 1, 1]})
        >>> deduplicate(rows, ["v"], per_partition=False)["v"].to_pylist()
        [2, 1]
        >>> deduplicate(rows, [], per_partition=True).num_rows
        3
    """
    codes = key_codes(rows, per_partition=per_partition)
    counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(counts[2]) == len(codes):
        return rows
    keep = counts[2][counts[1]] == 1
    doubtful = np.flatnonzero(~keep)
    chosen = rows.take(pa.array(doubtful))
    values = ordering_of(chosen, ordering)
    if values:
        deletes = pa.array(mask_of(chosen[DELETE]).astype(np.int8))
        values.insert(0, deletes)
    no = np.zeros(len(doubtful), dtype=np.bool_)
    entries = Entries(pa.array(codes[doubtful]), tuple(map(flat, values)), no, no, no)
    keep[doubtful[newest_per_key(entries).positions]] = True
    return rows.filter(pa.array(keep))


PORTION_BYTES = 256 << 20
_GOLDEN = np.uint32(2_654_435_769)
_HALF = np.uint32(16)


def portions_of(
    storage: Storage, writer: SpillWriter, segments: Sequence[Segment]
) -> Iterator[pa.Table]:
    """The rows of segments, all rows of a key together.

    Args:
        storage: Where they lie.
        writer: Takes the rows of buckets that are split.
        segments: The segments of one bucket.
    """
    count = -(-sum(segment.raw_bytes for segment in segments) // PORTION_BYTES)
    shares = [list(segments)] if count <= 1 else _split(storage, writer, segments, count)
    for share in shares:
        rows = read_segments(storage, share)
        if rows is not None:
            yield rows


def _split(
    storage: Storage, writer: SpillWriter, segments: Sequence[Segment], count: int
) -> list[list[Segment]]:
    shares: list[list[Segment]] = [[] for _ in range(count)]
    for segment in segments:
        rows = read_segments(storage, [segment])
        if rows is None:
            continue
        for number, part in writer.add_by_number(rows, _numbers(flat(rows[KEY]), count)):
            shares[number].append(part)
    writer.finish()
    return shares


def _numbers(keys: pa.Array, count: int) -> npt.NDArray[np.uint32]:
    """The portion of each key. Hashes of one bucket are alike in their lower bits only."""
    mixed: npt.NDArray[np.uint32] = java_hashes(keys).view(np.uint32) * _GOLDEN >> _HALF
    return mixed % np.uint32(count)
