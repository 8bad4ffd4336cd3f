"""Takes a sample of the rows of partitions, by which their ranges are cut."""

from __future__ import annotations

import uuid
import zlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.format.spill import Segment, SpillWriter
from lakedex.write.facts import TableFacts
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.parts import Part, read_part


@dataclass(frozen=True)
class SampleTask:
    """Parts to take rows from, each with the share of its rows that is taken."""

    facts: TableFacts
    order: RowOrder
    parts: tuple[tuple[Part, float], ...]


def take_sample(task: SampleTask) -> dict[str, Segment]:
    """The sampled rows of each partition, with the columns of the order; a worker."""
    context = task.facts.read_context()
    taken: dict[str, list[pa.Table]] = defaultdict(list)
    for part, share in task.parts:
        # One part gives one sample, whoever takes it and however often.
        draw = np.random.default_rng(zlib.crc32(part.name.encode()))
        for rows in read_part(context, part, task.order.needed):
            is_taken = draw.random(len(rows)) < share
            taken[part.partition].append(rows.filter(pa.array(is_taken)))
    writer = SpillWriter(context.storage, f"{task.facts.scratch}/sample-{uuid.uuid4().hex}")
    found = {partition: writer.add(pa.concat_tables(tables)) for partition, tables in taken.items()}
    writer.finish()
    return found
