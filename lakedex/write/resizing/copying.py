"""Rows for buckets under resize, once more for the buckets that take their place.

The log file of a new bucket has the instant of the resize in its name, as Hudi's dual writers have
it. Until the resize completes no reader sees it; then it lies on top of the base file that the
resize has written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.format.spill import SpillWriter, read_segments
from lakedex.index.kinds.bucket.engine import PartitionBuckets, RingBuckets
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.schema.field_paths import flat
from lakedex.write.context import WriteContext
from lakedex.write.resizing.pending import PendingRing
from lakedex.write.rows import FILE_ID, KEY, CopyOf, TaggedPart


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    fields: tuple[str, ...]
    parts: tuple[TaggedPart, ...]
    buckets: Mapping[str, PartitionBuckets]
    """The new buckets, by partition."""


def copy_parts(
    engine: Engine,
    facts: WriteContext,
    fields: tuple[str, ...],
    parts: Sequence[TaggedPart],
    resizes: Mapping[str, PendingRing],
) -> list[TaggedPart]:
    """The rows of some file groups for the buckets that a resize makes of them.

    Args:
        engine: Runs the workers.
        facts: The table.
        fields: The hash fields.
        parts: The rows, tagged with their present file groups.
        resizes: The pending resizes, by partition.
    """
    buckets = {name: RingBuckets(each.ring).for_workers for name, each in resizes.items()}
    count = max(1, min(len(parts), engine.parallelism))
    tasks = [_Task(facts, fields, tuple(parts[at::count]), buckets) for at in range(count)]
    answers = engine.map("copy rows of buckets under resize", _copied, tasks if parts else [])
    found = []
    for part in (each for answer in answers for each in answer):
        resize = resizes[part.partition]
        copy = CopyOf(resize.instant, resize.versions[part.file_id or ""] + 1)
        found.append(TaggedPart(part.partition, part.file_id, part.segment, copy=copy))
    return found


def _copied(task: _Task) -> list[TaggedPart]:
    storage = task.facts.address.open()
    prefix = f"{task.facts.scratch}/copied-{uuid.uuid4().hex}"
    writer = SpillWriter(storage, prefix, holds_small=True)
    found = []
    for part in task.parts:
        rows = read_segments(storage, [part.segment])
        if rows is None or not rows.num_rows:
            continue
        buckets = task.buckets[part.partition]
        keys = hash_keys(flat(rows[KEY]), task.fields)
        numbers = buckets.numbers(buckets.hashes(keys))
        at = rows.schema.get_field_index(FILE_ID)
        # A key that has its place in the present file group will have it in the new one.
        moved = pc.if_else(pc.is_valid(rows[FILE_ID]), buckets.file_ids(keys), None)
        rows = rows.set_column(at, rows.schema.field(at), moved.cast(pa.string()))
        for number, segment in writer.add_by_number(rows, numbers):
            found.append(TaggedPart(part.partition, buckets.file_id(number), segment))
    writer.finish()
    return found
