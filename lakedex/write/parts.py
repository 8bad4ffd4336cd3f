"""Rows that know where they go, put out so that each target's are together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.spill import Segment, SpillWriter
from lakedex.write.rows import FILE_ID, LIVE, PARTITION, TAGS


@dataclass(frozen=True)
class TaggedPart:
    """Rows of one target: those of a file group, or (`file_id` None) new ones of a partition."""

    partition: str
    file_id: str | None
    segment: Segment
    revives: bool = False
    """Whether a row comes back to a group whose log files deleted it."""


def placed_nowhere(rows: pa.Table) -> pa.Table:
    """Rows that are all new."""
    nowhere = [
        pa.nulls(rows.num_rows, pa.string()),
        pa.repeat(pa.scalar(value=False), rows.num_rows),
    ]
    for field, values in zip(TAGS, nowhere, strict=True):
        rows = rows.append_column(field, values)
    return rows


def put_out(writer: SpillWriter, rows: pa.Table) -> Iterator[TaggedPart]:
    """One segment for each target."""
    if not rows.num_rows:
        return
    partitions = rows[PARTITION].combine_chunks().dictionary_encode()
    groups = rows[FILE_ID].combine_chunks().fill_null("").dictionary_encode()
    target = (
        partitions.indices.to_numpy().astype(np.int64) * len(groups.dictionary)
        + groups.indices.to_numpy()
    )
    order = np.argsort(target, kind="stable")
    rows = rows.take(pa.array(order)).combine_chunks()
    present, starts, counts = np.unique(target[order], return_index=True, return_counts=True)
    names = partitions.dictionary.to_pylist()
    ids = groups.dictionary.to_pylist()
    for number, start, count in zip(
        present.tolist(), starts.tolist(), counts.tolist(), strict=True
    ):
        part = rows.slice(start, count)
        partition, group = divmod(number, len(ids))
        file_id = ids[group] or None
        revives = file_id is not None and not pc.all(part[LIVE]).as_py()
        yield TaggedPart(names[partition], file_id, writer.add(part), revives)
