"""The second stage: each bucket's rows are reduced to one a key, tagged and put out by target."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.spill import Segment, SpillWriter
from lakedex.storage.protocol import Storage
from lakedex.write.facts import TableFacts
from lakedex.write.parts import TaggedPart, placed_nowhere, put_out
from lakedex.write.rows import KEY, LIVE
from lakedex.write.tag.bucket import tag_bucket
from lakedex.write.tag.duplicates import deduplicate, has_repeated_keys
from lakedex.write.tag.places import row_of_place
from lakedex.write.tag.portions import PORTION_BYTES, portions_of
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
        rows = _tag(task, bucket, rows)
        found += pc.sum(rows[LIVE]).as_py() or 0
        if task.plan is not None and not task.reduce:
            has_repeats = has_repeats or has_repeated_keys(rows, per_partition=task.per_partition)
        if held + rows.nbytes > PORTION_BYTES and tagged:
            parts += put_out(writer, pa.concat_tables(tagged))
            tagged, held = [], 0
        tagged.append(rows)
        held += rows.nbytes
    if tagged:
        parts += put_out(writer, pa.concat_tables(tagged))
    writer.finish()
    return TagAnswer(tuple(parts), looked_up, found, has_repeats)


def _portions(
    task: TagTask, storage: Storage, writer: SpillWriter
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of all buckets, each time with the number of their bucket."""
    for bucket, segments in task.buckets:
        for rows in portions_of(storage, writer, segments):
            yield bucket, rows


def _tag(task: TagTask, bucket: int, rows: pa.Table) -> pa.Table:
    if task.plan is not None and task.existing == "update":
        return tag_bucket(task.facts, task.plan, bucket, rows)
    if task.plan is not None:
        return _new_rows(task, task.plan, bucket, rows)
    return placed_nowhere(rows)


def _new_rows(task: TagTask, plan: TagPlan, bucket: int, rows: pa.Table) -> pa.Table:
    """The rows whose keys are not in the table; a new key may stand in several of them."""
    # Versions do not count: a record that is there stays, wherever and however old it is.
    in_place = replace(plan, update_partition_path=False)
    one_a_key = deduplicate(rows, (), per_partition=task.per_partition)
    tagged = tag_bucket(task.facts, in_place, bucket, one_a_key)
    known = tagged.filter(tagged[LIVE])
    if task.existing == "fail" and known.num_rows:
        key = known[KEY][0].as_py()
        raise InvalidInput(f"the key {key!r} is in the table already; insert only new keys")
    if one_a_key.num_rows == rows.num_rows:
        return tagged.filter(pc.invert(tagged[LIVE]))
    of_known = row_of_place(rows, known, per_partition=task.per_partition)
    return placed_nowhere(rows.filter(pa.array(of_known < 0)))


def split_buckets(
    buckets: Sequence[Sequence[Segment]], tasks: int
) -> list[tuple[tuple[int, tuple[Segment, ...]], ...]]:
    """The buckets that have rows, shared out to at most so many tasks."""
    filled = [(number, tuple(segments)) for number, segments in enumerate(buckets) if segments]
    filled.sort(key=lambda entry: -sum(segment.rows for segment in entry[1]))
    shares = [filled[at::tasks] for at in range(max(1, tasks))]
    return [tuple(share) for share in shares if share]
