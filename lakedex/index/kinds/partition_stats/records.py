"""The records of partition stats: the range of a column in all files of a partition.

A record is only ever widened by later commits (its bounds are not tight), so that two writers
cannot overwrite each other's ranges. After all file groups of a partition were replaced the record
starts again, with tight bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.column_stats.records import (
    NAME,
    ColumnRecords,
    column_records,
    encoded_records,
    stat_columns,
)
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.index.metadata_table.partitions import Change, RecordType
from lakedex.index.metadata_table.stat_values import outermost
from lakedex.index.written import CommitChanges, FileStatistics, WholeColumn

_COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed")


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> Change:
    """The ranges of all partitions whose files or columns a commit changes."""
    del name, instant
    columns = stat_columns(definitions)
    statistics: FileStatistics = changes.notes.get(NAME, {})
    partitions = {*changes.known_partitions, *changes.added}
    apart = {*changes.retyped_columns, *changes.whole_columns}
    ranges = partition_stats_change(
        {column: stats for column, stats in statistics.items() if column not in apart},
        [column for column in columns if column not in apart],
        overwritten=changes.overwritten_partitions,
        dropped=changes.dropped_partitions,
        young=changes.young_columns,
    )
    retyped = {
        column: kind for column, kind in changes.retyped_columns.items() if column in columns
    }
    whole = (_whole(changes, column, each) for column, each in changes.whole_columns.items())
    return Change.joined([ranges, *whole, anything_change(retyped, sorted(partitions))])


def _whole(changes: CommitChanges, column: str, whole: WholeColumn) -> Change:
    """The ranges of all partitions, of a column that had none."""
    is_open = {*whole.open_partitions}
    known = {*changes.known_partitions, *changes.added} - is_open
    stats = changes.notes.get(NAME, {}).get(column)
    statistics = {}
    if stats is not None:
        is_known = pc.is_in(stats["partition"], value_set=pa.array(sorted(known), pa.string()))
        statistics = {column: stats.filter(is_known)}
    ranges = partition_stats_change(
        statistics,
        [column],
        overwritten=sorted(known),
        dropped=changes.dropped_partitions,
        young=changes.young_columns,
    )
    anything = anything_change({column: whole.type}, sorted(is_open))
    return Change.joined([ranges, anything])


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
    new = set(overwritten)
    ranges: list[ColumnRecords] = []
    written: set[tuple[str, str]] = set()
    for column, stats in statistics.items():
        if not len(stats):
            continue
        summed = _by_partition(stats, one_null=column in young)
        if not len(summed):
            continue
        paths = summed["partition"].to_pylist()
        ends = [end_of(path) for path in paths]
        tight = [path in new for path in paths]
        ranges.append(column_records(column, summed, ends, RecordType.PARTITION_STATS, tight, note))
        written.update((column, path) for path in paths)
    # Of a partition that starts again no older range may stay, not even of a column it lacks now.
    gone = [
        name_id(column) + end_of(path)
        for path in sorted(new | set(dropped))
        for column in dict.fromkeys((*columns, *statistics))
        if (column, path) not in written
    ]
    deletes = Change(deletes=pa.array(gone, pa.string()))
    return Change.joined([*encoded_records(RecordType.PARTITION_STATS, ranges), deletes])


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
        ranges.append(column_records(column, stats, ends, RecordType.PARTITION_STATS, tight))
    return Change.joined(encoded_records(RecordType.PARTITION_STATS, ranges))


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
