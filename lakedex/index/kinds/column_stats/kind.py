"""Column stats as a kind of index."""

from __future__ import annotations

from lakedex.index.kinds.column_stats.lookup import ColumnStatsIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class ColumnStatsKind(ColumnStatsIndex, MetadataIndexKind):
    """Column stats as a kind of index."""

    partition = Kind.COLUMN_STATS
    aliases = ("col_stats",)
