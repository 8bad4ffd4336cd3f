"""The partition stats index: which partitions cannot hold a value.

A partition's range is put together from the ranges of its files, and a file whose statistics were
left out (strings beyond some length) does not widen it. So text and binary columns are not
judged by it; the column stats of the single files say where a range is missing.

Column stats tell more. Up to about a thousand files, reading their entries takes as long as reading
those of the partitions, so this index leaves the predicate to them; for many files it is asked
first, and only the files of the partitions left are looked up. Where column stats give no answer
(switched off, unreadable, too dear), it is asked after all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import write_option_names as options_of
from lakedex.errors import LakedexError
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr
from lakedex.index.contract import (
    ALREADY_LOCATED,
    NEWEST_ONLY,
    Answer,
    IndexedTable,
    Question,
    Stage,
)
from lakedex.index.cost import Estimate, lookup_seconds
from lakedex.index.file_bounds import bounds_seconds
from lakedex.index.kinds.column_stats.collect import maintained
from lakedex.index.kinds.column_stats.kind import PARTITION as FILE_STATS
from lakedex.index.kinds.column_stats.kind import indexed_columns
from lakedex.index.maintenance import MaintainedIndex, MaintainRequest
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import STATS_PAYLOAD, Kind
from lakedex.index.metadata_table.keys import column_stats_prefix
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.index.size_estimate import IndexedRows

PARTITION = "partition_stats"
_FINER = f"{FILE_STATS} tell more at a similar cost"
_FEW_SLICES = 1_000
"""The records of so many files are read in the time of any read at all."""
_MUCH_DEARER = 4
"""Ranges of files are read as well, so partitions go first only where files cost so much more."""


class PartitionStatsKind(MetadataIndexKind):
    """Prunes whole partitions by comparisons, IN and IS NULL."""

    kind = "partition_stats"
    stage = Stage.PARTITIONS
    describes_files = True
    partition = Kind.PARTITION_STATS
    switches = (options_of.PARTITION_STATS,)
    is_creatable = False
    build_order = 4

    def names(self, table: IndexedTable) -> list[str]:
        """The partition stats index, if the table has one."""
        return [PARTITION] if table.is_live(PARTITION) else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Looking up one record for each column and partition."""
        columns = _readable_columns(question)
        if isinstance(columns, str):
            return columns
        if question.located.issuperset(column.name for column in columns):
            return ALREADY_LOCATED
        metadata, partitions = question.table.metadata, len(question.partitions)
        seconds = len(columns) * lookup_seconds(metadata, name, partitions)
        if not _saves_reading_files(question, columns, seconds) and question.leave_to(FILE_STATS):
            return _FINER
        return Estimate(seconds)

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices of the partitions whose ranges allow the predicate."""
        table = question.table
        columns = _readable_columns(question)
        if isinstance(columns, str):
            return columns
        partitions = question.partitions
        bounds: dict[Expr, ColumnBounds] = {
            column: _partition_bounds(table, name, column, partitions) for column in columns
        }
        keep = may_match(question.predicate, bounds, len(partitions), time_zone=table.time_zone)
        kept = {path for path, keeps in zip(partitions, keep.tolist(), strict=True) if keeps}
        mask = question.slices.in_partitions(kept)
        names = ", ".join(column.name for column in columns)
        reason = f"ranges of {names} in {len(partitions)} partitions"
        return Answer(mask, np.ones(len(mask), dtype=np.bool_), reason)

    def maintained(self, name: str, request: MaintainRequest) -> MaintainedIndex | None:
        """The columns that have ranges: records are made of what is noted for column stats."""
        return maintained(name, request)

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say."""
        return size.options.partition_stats_groups


def _saves_reading_files(question: Question, columns: Sequence[Column], seconds: float) -> bool:
    """Whether ranges of files cost so much more that whole partitions are worth asking first."""
    if len(question.slices) <= _FEW_SLICES or not question.table.is_asked(FILE_STATS):
        return False
    try:
        finer = sum(bounds_seconds(question, FILE_STATS, each.name) for each in columns)
    except LakedexError:
        return False  # the planner finds out as well, and asks again without it
    return finer >= _MUCH_DEARER * seconds


def _readable_columns(question: Question) -> list[Column] | str:
    if not question.table.is_latest:
        return NEWEST_ONLY
    if question.table.read.history is not None:
        return "columns were renamed or dropped, and its records do not tell which they mean"
    columns = [column for column in indexed_columns(question) if not _is_text(column.type)]
    return columns or "it is only used for columns that are neither text nor binary"


def _partition_bounds(
    table: IndexedTable, name: str, column: Column, partitions: Sequence[str]
) -> ColumnBounds:
    keys = pa.array([column_stats_prefix(column.name, path) for path in partitions], pa.string())
    records = table.metadata.lookup(name, keys)
    place = pc.index_in(keys, value_set=records["key"].combine_chunks())
    values = stat_values(records[STATS_PAYLOAD].combine_chunks(), column.type).take(place)
    # Files from before the column was added are not counted although their rows are null, so
    # the counts only tell that every value is null, never that none is.
    all_null = (values.value_count > 0) & (values.null_count == values.value_count)
    return ColumnBounds(
        column.type,
        values.minimum,
        values.maximum,
        np.where(all_null, values.null_count, -1),
        np.where(all_null, values.value_count, -1),
        place.is_valid().to_numpy(zero_copy_only=False),
    )


def _is_text(data_type: pa.DataType | None) -> bool:
    return data_type is None or bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))
