"""What a commit did to files and rows, in the form that indexes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakedex.format.spill import Segment
from lakedex.index.metadata_table.partitions import Change

NOTE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("is_delete", pa.bool_()),
    ]
)
"""Rows of a key note: a key is now in this file group, or (`is_delete`) no longer there.

For a record that moved there are two notes: a delete with the old place, an entry with the new.
"""


def note_rows(keys: pa.Array, partition: str, file_id: str, *, is_delete: bool) -> pa.Table:
    """Notes of keys that came to a file group or left it.

    Example:
        >>> note_rows(pa.array(["k"]), "p", "f-0", is_delete=False).to_pylist()
        [{'key': 'k', 'partition': 'p', 'file_id': 'f-0', 'is_delete': False}]
    """
    count = len(keys)
    columns = [
        keys.cast(pa.string()),
        pa.repeat(pa.scalar(partition, pa.string()), count),
        pa.repeat(pa.scalar(file_id, pa.string()), count),
        pa.repeat(pa.scalar(is_delete), count),
    ]
    return pa.Table.from_arrays(columns, schema=NOTE_SCHEMA)


FileStatistics = Mapping[str, pa.Table]
"""Column ranges of files: for each column a table with the columns

partition, file (its name), minimum, maximum (of the column's type), value_count (rows, nulls
included), null_count, total_size, total_uncompressed (int64 each).
"""


@dataclass(frozen=True, slots=True)
class KeyNote:
    """Key notes of one bucket: keys whose shard is `bucket` modulo the number of buckets."""

    bucket: int
    segment: Segment


@dataclass(frozen=True, slots=True)
class PairNotes:
    """Pairs of one secondary index that came and went, by bucket."""

    buckets: int
    notes: tuple[KeyNote, ...]


@dataclass(frozen=True, slots=True)
class BloomText:
    """The bloom filter of a new base file, as it stands in the footer."""

    partition: str
    file: str
    type_code: str
    text: str


@dataclass(frozen=True, slots=True)
class ExpressionNotes:
    """What new files hold of an indexed expression, in one of the two flavours."""

    statistics: pa.Table | None = None
    """Ranges of its values, in the form of `FileStatistics`."""
    blooms: tuple[BloomText, ...] = ()
    zone: str | None = None
    """The time zone that it was computed in, where that matters."""
    type: pa.DataType | None = None
    """The type of its values, where it has ranges."""
    open_partitions: tuple[str, ...] = ()
    """Partitions with files that nothing is said of, as those that do not have the column."""


@dataclass(frozen=True, slots=True)
class WholeColumn:
    """A column that comes to the statistics: the ranges of all files are among the new ones."""

    type: pa.DataType
    open_partitions: tuple[str, ...] = ()
    """Partitions with files that nothing is said of, as those that do not have the column."""


@dataclass(frozen=True)
class CommitChanges:
    """Everything that one commit changes in the metadata table."""

    added: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """New files with their sizes, by partition path (`""` in a table without partitions)."""
    removed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files that are gone (after a rollback, a clean), by partition path."""
    dropped_partitions: Sequence[str] = ()
    """Partitions that no longer exist at all."""
    overwritten_partitions: Sequence[str] = ()
    """Partitions whose old file groups were all replaced: their statistics start again."""
    young_columns: frozenset[str] = frozenset()
    """Columns that older files may lack, whose rows then have a null there."""
    retyped_columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Columns whose type this commit changes, with the new type."""
    known_partitions: Sequence[str] = ()
    """All partitions of the table, where a column is retyped or new to the statistics."""
    whole_columns: Mapping[str, WholeColumn] = field(default_factory=dict)
    """Columns that had no statistics before this commit."""
    replaces_ranges: bool = False
    """Whether the ranges of files take the place of what was said of the same files before."""
    key_notes: Sequence[KeyNote] = ()
    note_buckets: int = 1
    note_shards: int = 0
    """By how many file groups of a record index the notes were put into buckets; 0: unknown."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What tasks noted for each index (`index.maintenance`), by name."""
    made: Mapping[str, Change] = field(default_factory=dict)
    """What some partitions get instead of what is said above."""
