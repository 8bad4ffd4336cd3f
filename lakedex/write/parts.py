"""Rows that know where they go, put out so that each target's are together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.spill import Segment, SpillWriter, rows_by_number
from lakedex.write.rows import DELETE, FILE_ID, LIVE, PARTITION, TAGS, TARGET, TWICE


@dataclass(frozen=True, slots=True)
class CopyOf:
    """Where the second copy of rows goes that are in a bucket under resize.

    That is a log file, which will lie on top of the base file that the resize is about to write.
    """

    resize: str
    """The instant of the resize, which stands in the name of the log file."""
    version: int
    """The number of the log file among those of its file group."""


@dataclass(frozen=True)
class TaggedPart:
    """Rows of one target: a file group, or (`file_id` None) any new one of a partition."""

    partition: str
    file_id: str | None
    segment: Segment
    needs_base: bool = False
    """Whether a log file cannot say it: a row comes back to a group whose logs deleted it, or is of
    a key that the group holds twice."""
    copy: CopyOf | None = None
    """Of a second copy of rows that are written to their present file group, too."""


def placed_nowhere(rows: pa.Table) -> pa.Table:
    """Rows that are all new, without those that delete."""
    no = pa.repeat(pa.scalar(value=False), rows.num_rows)
    nowhere = [pa.nulls(rows.num_rows, pa.string()), no, no, no]
    for field, values in zip(TAGS, nowhere, strict=True):
        rows = rows.append_column(field, values)
    # A delete of a key that is nowhere changes nothing.
    return rows.filter(pc.invert(rows[DELETE]))


def put_out(writer: SpillWriter, rows: pa.Table) -> Iterator[TaggedPart]:
    """One segment for each target."""
    if not rows.num_rows:
        return
    partitions = rows[PARTITION].combine_chunks().dictionary_encode()
    has_target = TARGET in rows.column_names
    groups = rows[TARGET if has_target else FILE_ID]
    groups = groups.combine_chunks().fill_null("").dictionary_encode()
    if has_target:
        rows = rows.drop_columns([TARGET])
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
    # A new row of a bucket has no place in its file group yet.
    if not pc.all(pc.or_(part[LIVE], pc.is_null(part[FILE_ID]))).as_py():
        return True
    # A change in a log is used up by the first row that has its key.
    return bool(pc.any(part[TWICE]).as_py())
