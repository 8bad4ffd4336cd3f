"""The records of column stats: the range of a column in a file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.hashing import file_name_id, name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.index.metadata_table.partitions import STATS_PAYLOAD, Change, RecordType
from lakedex.index.metadata_table.stat_values import notes, stored_bounds
from lakedex.index.written import CommitChanges, FileStatistics

NAME: Final = "column_stats"
_NULL_ORDINAL = 1
"""The type of a file that holds no values at all."""


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> Change:
    """The ranges of the files that a commit adds, and the keys of those that it removes."""
    del name, instant
    statistics: FileStatistics = changes.notes.get(NAME, {})
    replaced = statistics if changes.replaces_ranges else changes.whole_columns
    return column_stats_change(
        statistics, changes.removed, stat_columns(definitions), replaced=replaced
    )


def stat_columns(definitions: Mapping[str, IndexDefinition]) -> tuple[str, ...]:
    """The columns that have ranges; none without column stats."""
    definition = definitions.get(NAME)
    return definition.source_fields if definition is not None else ()


def column_stats_change(
    statistics: FileStatistics,
    removed: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    *,
    note: str | None = None,
    always_typed: bool = False,
    replaced: Container[str] = (),
) -> Change:
    """The ranges of new files, and the keys of removed files in all columns that have ranges.

    Ranges of `replaced` columns take the place of those that the index has of the same files.

    `note` stands beside the bounds where their type leaves room for one. `always_typed` gives a
    file without rows the type of the others: Hudi cannot merge two types in expression indexes.
    """
    ends = _EndOfKeys()
    ranges = [
        column_records(
            column,
            stats,
            [ends.of(*place) for place in _places(stats)],
            RecordType.COLUMN_STATS,
            [column in replaced] * len(stats),
            note,
            always_typed=always_typed,
        )
        for column, stats in statistics.items()
        if len(stats)
    ]
    parts = encoded_records(RecordType.COLUMN_STATS, ranges)
    gone = [ends.of(partition, name) for partition, files in removed.items() for name in files]
    if gone:
        known = dict.fromkeys((*columns, *statistics))
        keys = [name_id(column) + end for column in known for end in gone]
        parts.append(Change(deletes=pa.array(keys, pa.string())))
    return Change.joined(parts)


class _EndOfKeys:
    """The part of a key that tells the file; the same for all columns, so it is hashed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, partition: str, name: str) -> str:
        place = (partition, name)
        if place not in self._known:
            self._known[place] = partition_id(partition) + file_name_id(name)
        return self._known[place]


def _places(stats: pa.Table) -> Iterable[tuple[str, str]]:
    return zip(stats["partition"].to_pylist(), stats["file"].to_pylist(), strict=True)


class ColumnRecords(NamedTuple):
    """The ranges of one column, not yet encoded."""

    keys: list[str]
    payload: pa.StructArray


def column_records(
    column: str,
    stats: pa.Table,
    ends: Sequence[str],
    kind: RecordType,
    tight: Sequence[bool],
    note: str | None = None,
    *,
    always_typed: bool = False,
) -> ColumnRecords:
    """The records of a column, not yet encoded.

    Args:
        column: Its name.
        stats: Its ranges, in the form of `FileStatistics`.
        ends: What follows the column in the keys.
        kind: Of files or of partitions.
        tight: Whether the ranges are those of rows that are there, and no wider.
        note: Stands beside the bounds where their type leaves room for one.
        always_typed: Whether a file without rows has the type of the others.
    """
    start = name_id(column)
    payload = _payload(column, stats, kind, tight, note, always_typed=always_typed)
    return ColumnRecords([start + end for end in ends], payload)


def encoded_records(kind: RecordType, ranges: Iterable[ColumnRecords]) -> list[Change]:
    """Columns whose bounds are stored alike are encoded together.

    A commit has few files and many columns, and encoding costs by the call, not by the record.
    """
    alike: dict[pa.DataType, list[ColumnRecords]] = {}
    for each in ranges:
        alike.setdefault(each.payload.type, []).append(each)
    changes = []
    for group in alike.values():
        keys = pa.array([key for each in group for key in each.keys], pa.string())
        batch = pa.record_batch(
            {
                "key": pa.repeat("", len(keys)),
                "type": pa.repeat(pa.scalar(kind.value, pa.int32()), len(keys)),
                STATS_PAYLOAD: pa.concat_arrays([each.payload for each in group]),
            }
        )
        changes.append(Change(keys, encode_records(METADATA_RECORD, batch).as_binary()))
    return changes


def _payload(
    column: str,
    stats: pa.Table,
    kind: RecordType,
    tight: Sequence[bool],
    note: str | None,
    *,
    always_typed: bool,
) -> pa.StructArray:
    count = len(stats)
    minimum, maximum = _flat(stats["minimum"]), _flat(stats["maximum"])
    bounds = stored_bounds(column, minimum, maximum)
    empty = pc.equal(_flat(stats["value_count"]), 0)
    untyped = bounds.ordinal if always_typed else _NULL_ORDINAL
    ordinals = pc.if_else(
        empty, pa.scalar(untyped, pa.int32()), pa.scalar(bounds.ordinal, pa.int32())
    )
    info = pa.repeat(pa.scalar(bounds.info, pa.string()), count)
    if kind is RecordType.COLUMN_STATS:
        # Of a partition other writers join ranges that know nothing of NaN.
        info = notes(bounds, minimum, maximum)
    if note is not None and bounds.info is None:
        info = pa.repeat(pa.scalar(note), count)
    value_type = pa.StructArray.from_arrays([ordinals, info], ["typeOrdinal", "additionalInfo"])
    columns = {
        "fileName": _flat(stats["file"]),
        "columnName": pa.repeat(column, count),
        "minValue": bounds.minimum,
        "maxValue": bounds.maximum,
        "valueCount": _flat(stats["value_count"]),
        "nullCount": _flat(stats["null_count"]),
        "totalSize": _flat(stats["total_size"]),
        "totalUncompressedSize": _flat(stats["total_uncompressed"]),
        "isDeleted": pa.repeat(pa.scalar(value=False), count),
        "isTightBound": pa.array(tight, pa.bool_()),
        "valueType": value_type,
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
