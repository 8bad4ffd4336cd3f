"""The records of an expression index: ranges of files and partitions, or filters of base files."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bloom_filters.collect import blooms_change
from lakedex.index.kinds.column_stats.records import column_stats_change
from lakedex.index.kinds.partition_stats.records import partition_stats_change
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.index.metadata_table.partitions import PARTITION_STAT_MARK, Change
from lakedex.index.metadata_table.stat_values import outermost, zone_note
from lakedex.index.written import CommitChanges, ExpressionNotes, FileStatistics

_BLOOM = "bloom_filters"


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> Change:
    """What a commit does to an expression index, of ranges or of filters."""
    definition = definitions[name]
    notes: ExpressionNotes = changes.notes.get(name, ExpressionNotes())
    if definition.index_type == _BLOOM:
        return blooms_change(notes.blooms, changes.removed, instant)
    column = definition.source_fields[0]
    statistics = {} if notes.statistics is None else {column: notes.statistics}
    note = None if notes.zone is None else zone_note(notes.zone)
    files = column_stats_change(
        statistics,
        changes.removed,
        [column],
        note=note,
        always_typed=True,
        replaced=statistics if changes.replaces_ranges else (),
    )
    if definition.is_own:
        # Other engines write files of a partition without a word to this index.
        return files
    top = column.partition(".")[0]
    partitions = partition_stats_change(
        _widened(column, notes, statistics),
        [column],
        overwritten=changes.overwritten_partitions,
        dropped=changes.dropped_partitions,
        young={column} if top in changes.young_columns else (),
        end_of=partition_end,
        note=note,
    )
    return Change.joined([files, partitions])


def _widened(column: str, notes: ExpressionNotes, known: FileStatistics) -> FileStatistics:
    """The ranges of files, with one of every value where a file tells nothing."""
    if not notes.open_partitions or notes.type is None:
        return known
    low, high = outermost(notes.type)
    count = len(notes.open_partitions)
    numbers = {"value_count": 2, "null_count": 1, "total_size": 0, "total_uncompressed": 0}
    columns = {
        "partition": pa.array(notes.open_partitions, pa.string()),
        "file": pa.array(notes.open_partitions, pa.string()),
        "minimum": pa.repeat(low, count),
        "maximum": pa.repeat(high, count),
    }
    columns |= {
        name: pa.repeat(pa.scalar(value, pa.int64()), count) for name, value in numbers.items()
    }
    open_ended = pa.table(columns)
    if column not in known:
        return {column: open_ended}
    return {column: pa.concat_tables([known[column], open_ended])}


def partition_end(partition: str) -> str:
    """What follows the column in the key of a partition's record.

    Example:
        >>> name_id("ts") + partition_end("p=p1")
        'oyTjviKHuhI=2CMHrhWVE9w=uQZe3qIrnTg='
    """
    return name_id(PARTITION_STAT_MARK) + partition_id(partition)
