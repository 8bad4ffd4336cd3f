"""The second stage: each bucket's rows are reduced to one a key, tagged and put out by target."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.spill import Segment, SpillWriter, read_segments, rows_by_number
from lakedex.write.facts import TableFacts
from lakedex.write.rows import DELETE, FILE_ID, KEY, LIVE, PARTITION, TAGS, TWICE
from lakedex.write.tag.bucket import tag_bucket
from lakedex.write.tag.duplicates import deduplicate
from lakedex.write.tag.tag_plan import TagPlan


@dataclass(frozen=True)
class TagTask:
    """Some buckets to tag."""

    facts: TableFacts
    plan: TagPlan | None
    """None where keys are not looked up: every row is new."""
    buckets: tuple[tuple[int, tuple[Segment, ...]], ...]
    reduce: bool
    """Whether rows of one key are reduced to one."""
    per_partition: bool
    """Whether one key may stand in several partitions."""
    existing: str
    """For rows whose key is there already: `update`, `drop`, `fail`, or `none` to keep both."""


@dataclass(frozen=True)
class TaggedPart:
    """Rows of one target: those of a file group, or (`file_id` None) new ones of a partition."""

    partition: str
    file_id: str | None
    segment: Segment
    needs_base: bool = False
    """Whether a log file cannot say it: a row comes back to a group whose logs deleted it, or a key
    goes away that the group holds twice."""


@dataclass(frozen=True)
class TagAnswer:
    """What tagging some buckets came to."""

    parts: tuple[TaggedPart, ...]
    looked_up: int
    found: int


def tag_stage(task: TagTask) -> TagAnswer:
    """Tag the rows of some buckets; the worker of the second stage."""
    storage = task.facts.address.open()
    writer = SpillWriter(storage, f"{task.facts.scratch}/tagged-{uuid.uuid4().hex}")
    tagged: list[pa.Table] = []
    looked_up = found = 0
    for bucket, segments in task.buckets:
        rows = read_segments(storage, segments)
        if rows is None:
            continue
        if task.reduce:
            ordering = task.facts.read_context().ordering_fields
            rows = deduplicate(rows, ordering, per_partition=task.per_partition)
        looked_up += rows.num_rows
        rows = _tag(task, bucket, rows)
        found += pc.sum(rows[LIVE]).as_py() or 0
        tagged.append(rows)
    parts = tuple(_put_out(writer, pa.concat_tables(tagged))) if tagged else ()
    writer.finish()
    return TagAnswer(parts, looked_up, found)


def _tag(task: TagTask, bucket: int, rows: pa.Table) -> pa.Table:
    if task.plan is not None and task.existing == "update":
        return tag_bucket(task.facts, task.plan, bucket, rows)
    if task.plan is not None:
        # Versions do not count: a record that is there stays, wherever and however old it is.
        in_place = replace(task.plan, update_partition_path=False)
        return _without_existing(tag_bucket(task.facts, in_place, bucket, rows), task.existing)
    no = pa.repeat(pa.scalar(value=False), rows.num_rows)
    nowhere = [pa.nulls(rows.num_rows, pa.string()), no, no]
    for field, values in zip(TAGS, nowhere, strict=True):
        rows = rows.append_column(field, values)
    # A delete of a key that is nowhere changes nothing.
    return rows.filter(pc.invert(rows[DELETE]))


def _without_existing(rows: pa.Table, existing: str) -> pa.Table:
    if existing == "fail" and pc.any(rows[LIVE]).as_py():
        key = rows.filter(rows[LIVE])[KEY][0].as_py()
        raise InvalidInput(f"the key {key!r} is in the table already; insert only new keys")
    return rows.filter(pc.invert(rows[LIVE]))


def _put_out(writer: SpillWriter, rows: pa.Table) -> Iterator[TaggedPart]:
    """One segment for each target."""
    if not rows.num_rows:
        return
    partitions = rows[PARTITION].combine_chunks().dictionary_encode()
    groups = rows[FILE_ID].combine_chunks().fill_null("").dictionary_encode()
    target = (
        partitions.indices.to_numpy().astype(np.int64) * len(groups.dictionary)
        + groups.indices.to_numpy()
    )
    names = partitions.dictionary.to_pylist()
    ids = groups.dictionary.to_pylist()
    for number, part in rows_by_number(rows, target):
        partition, group = divmod(number, len(ids))
        file_id = ids[group] or None
        needs_base = file_id is not None and _needs_base(part)
        yield TaggedPart(names[partition], file_id, writer.add(part), needs_base)


def _needs_base(part: pa.Table) -> bool:
    if not pc.all(part[LIVE]).as_py():
        return True
    # A delete in a log is used up by the first row that has its key.
    return bool(pc.any(pc.and_(part[DELETE], part[TWICE])).as_py())


def split_buckets(
    buckets: Sequence[Sequence[Segment]], tasks: int
) -> list[tuple[tuple[int, tuple[Segment, ...]], ...]]:
    """The buckets that have rows, shared out to at most so many tasks."""
    filled = [(number, tuple(segments)) for number, segments in enumerate(buckets) if segments]
    filled.sort(key=lambda entry: -sum(segment.rows for segment in entry[1]))
    shares = [filled[at::tasks] for at in range(max(1, tasks))]
    return [tuple(share) for share in shares if share]
