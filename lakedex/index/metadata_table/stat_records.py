"""Statistics records: column ranges of files and of partitions, as the metadata table has them.

A partition's record is only ever widened by later commits (its bounds are not tight), so that two
writers cannot overwrite each other's ranges. After all file groups of a partition were replaced it
starts anew, with tight bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.index.metadata_table.change import Change
from lakedex.index.metadata_table.hashing import file_name_id, name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.index.metadata_table.partitions import STATS_PAYLOAD, RecordType
from lakedex.index.metadata_table.stat_bounds import notes, outermost, stored_bounds
from lakedex.index.written import FileStatistics

_COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed")
_NULL_ORDINAL = 1
"""The type of a file that holds no values at all."""


def column_stats_change(
    statistics: FileStatistics,
    removed: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    *,
    note: str | None = None,
    always_typed: bool = False,
    anew: Container[str] = (),
) -> Change:
    """The ranges of new files, and the keys of removed files in all columns that have ranges.

    Ranges of columns that come `anew` take the place of any that were there before.

    `note` stands beside the bounds where their type leaves room for one. `always_typed` gives a
    file without rows the type of the others: Hudi cannot merge two types in expression indexes.
    """
    ends = _EndOfKeys()
    ranges = [
        _ranges(
            column,
            stats,
            [ends.of(*place) for place in _places(stats)],
            RecordType.COLUMN_STATS,
            [column in anew] * len(stats),
            note,
            always_typed=always_typed,
        )
        for column, stats in statistics.items()
        if len(stats)
    ]
    parts = _encoded(RecordType.COLUMN_STATS, ranges)
    gone = [ends.of(partition, name) for partition, files in removed.items() for name in files]
    if gone:
        known = dict.fromkeys((*columns, *statistics))
        keys = [name_id(column) + end for column in known for end in gone]
        parts.append(Change(deletes=pa.array(keys, pa.string())))
    return Change.joined(parts)


def partition_stats_change(
    statistics: FileStatistics,
    columns: Sequence[str],
    *,
    overwritten: Iterable[str] = (),
    dropped: Iterable[str] = (),
    young: Container[str] = (),
    end_of: Callable[[str], str] = partition_id,
    note: str | None = None,
) -> Change:
    """The ranges that new files add to their partitions.

    `end_of` gives what follows the column in the key of a partition. `note` stands beside the
    bounds; whoever joins two records keeps it only where both have it.

    Rows of files that lack a `young` column have a null there, so one null is added to it. A
    partition that gets no values of a column, as by a log of deletes, is left as it is: Hudi
    cannot merge a record without a type.
    """
    anew = set(overwritten)
    ranges: list[_Ranges] = []
    written: set[tuple[str, str]] = set()
    for column, stats in statistics.items():
        if not len(stats):
            continue
        summed = _by_partition(stats, one_null=column in young)
        if not len(summed):
            continue
        paths = summed["partition"].to_pylist()
        ends = [end_of(path) for path in paths]
        tight = [path in anew for path in paths]
        ranges.append(_ranges(column, summed, ends, RecordType.PARTITION_STATS, tight, note))
        written.update((column, path) for path in paths)
    # Of a partition that starts anew no older range may stay, not even of a column it lacks now.
    gone = [
        name_id(column) + end_of(path)
        for path in sorted(anew | set(dropped))
        for column in dict.fromkeys((*columns, *statistics))
        if (column, path) not in written
    ]
    deletes = Change(deletes=pa.array(gone, pa.string()))
    return Change.joined([*_encoded(RecordType.PARTITION_STATS, ranges), deletes])


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


def anything_change(retyped: Mapping[str, pa.DataType], partitions: Sequence[str]) -> Change:
    """Ranges that hold every value and nulls, in place of those of columns that got a new type.

    Readers cannot put ranges of two types together; these take the place of the older ones.
    """
    ranges = []
    for column, kind in retyped.items():
        low, high = outermost(kind)
        count = len(partitions)
        stats = pa.table(
            {
                "file": pa.array(partitions, pa.string()),
                "minimum": pa.repeat(low, count),
                "maximum": pa.repeat(high, count),
                "value_count": pa.repeat(pa.scalar(2, pa.int64()), count),
                "null_count": pa.repeat(pa.scalar(1, pa.int64()), count),
                "total_size": pa.repeat(pa.scalar(0, pa.int64()), count),
                "total_uncompressed": pa.repeat(pa.scalar(0, pa.int64()), count),
            }
        )
        ends = [partition_id(path) for path in partitions]
        tight = [True] * count
        ranges.append(_ranges(column, stats, ends, RecordType.PARTITION_STATS, tight))
    return Change.joined(_encoded(RecordType.PARTITION_STATS, ranges))


def _by_partition(stats: pa.Table, *, one_null: bool) -> pa.Table:
    """One row for each partition that has values; the path stands for the file name."""
    low, high = outermost(stats["minimum"].type)
    has_values = pc.less(stats["null_count"], stats["value_count"])
    columns = {"partition": stats["partition"]}
    for name, instead in (("minimum", low), ("maximum", high)):
        # Readers widen what they know, and a bound that is missing would not widen it at all.
        unknown = pc.and_(pc.is_null(stats[name]), has_values)
        columns[name] = pc.if_else(unknown, instead, stats[name])
    columns |= {name: stats[name] for name in _COUNTS}
    sums = [(name, "sum") for name in _COUNTS]
    summed = (
        pa.table(columns)
        .group_by("partition", use_threads=False)
        .aggregate([("minimum", "min"), ("maximum", "max"), *sums])
    )
    found = {
        "partition": summed["partition"],
        "file": summed["partition"],
        "minimum": summed["minimum_min"],
        "maximum": summed["maximum_max"],
    }
    sums_of = {name: summed[f"{name}_sum"] for name in _COUNTS}
    has_rows = pc.greater(sums_of["value_count"], 0)
    if one_null:
        for name in ("value_count", "null_count"):
            sums_of[name] = pc.add(sums_of[name], 1)
    return pa.table(found | sums_of).filter(has_rows)


class _Ranges(NamedTuple):
    """The ranges of one column, not yet encoded."""

    keys: list[str]
    payload: pa.StructArray


def _ranges(
    column: str,
    stats: pa.Table,
    ends: Sequence[str],
    kind: RecordType,
    tight: Sequence[bool],
    note: str | None = None,
    *,
    always_typed: bool = False,
) -> _Ranges:
    start = name_id(column)
    payload = _payload(column, stats, kind, tight, note, always_typed=always_typed)
    return _Ranges([start + end for end in ends], payload)


def _encoded(kind: RecordType, ranges: Iterable[_Ranges]) -> list[Change]:
    """Columns whose bounds are stored alike are encoded together.

    A commit has few files and many columns, and encoding costs by the call, not by the record.
    """
    alike: dict[pa.DataType, list[_Ranges]] = {}
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
