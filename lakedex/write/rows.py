"""The form of rows on their way through a write.

Columns: the record key, the partition path, a mark for deletes that are not conditional, then the
table's own columns in order. Tagging appends four more, and spills the rows so that those of each
file group are one segment (`TaggedPart`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.spill import Segment, SpillWriter, rows_by_number

KEY: Final = "_hoodie_record_key"
PARTITION: Final = "_hoodie_partition_path"
DELETE: Final = "__lakedex_delete"
"""True: the key goes away whatever its ordering value; other columns may be null."""
FILE_ID: Final = "__lakedex_file_id"
"""The file group that holds the key's place; null for one that has none yet."""
LIVE: Final = "__lakedex_live"
"""Whether the key is in the table now; False for a place whose record was deleted by a log."""
TWICE: Final = "__lakedex_twice"
"""Whether the file group is known to hold the key more than once, as after a plain insert."""
ELSEWHERE: Final = "__lakedex_elsewhere"
"""Whether other file groups are known to hold the key too, which are written with this one."""
TARGET: Final = "__lakedex_target"
"""The file group that a row goes to, where a bucket says so; it is not put out with the rows."""

LEADING = (
    pa.field(KEY, pa.string()),
    pa.field(PARTITION, pa.string()),
    pa.field(DELETE, pa.bool_()),
)
TAGS = (
    pa.field(FILE_ID, pa.string()),
    pa.field(LIVE, pa.bool_()),
    pa.field(TWICE, pa.bool_()),
    pa.field(ELSEWHERE, pa.bool_()),
)


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


def tagged_as_new(rows: pa.Table) -> pa.Table:
    """Rows that are all new, without those that delete."""
    no = pa.repeat(pa.scalar(value=False), rows.num_rows)
    nowhere = [pa.nulls(rows.num_rows, pa.string()), no, no, no]
    for field, values in zip(TAGS, nowhere, strict=True):
        rows = rows.append_column(field, values)
    # A delete of a key that is nowhere changes nothing.
    return rows.filter(pc.invert(rows[DELETE]))


def spill_by_target(writer: SpillWriter, rows: pa.Table) -> Iterator[TaggedPart]:
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
