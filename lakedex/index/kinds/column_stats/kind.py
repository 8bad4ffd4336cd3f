"""Column stats as a kind of index."""

from __future__ import annotations

from lakedex.config import write_option_names as options_of
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.column_stats.lookup import ColumnStatsIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.request import NewIndex


class ColumnStatsKind(ColumnStatsIndex, MetadataIndexKind):
    """Column stats as a kind of index."""

    partition = Kind.COLUMN_STATS
    is_suggested = True
    switches = (options_of.COLUMN_STATS,)
    choices = (options_of.COLUMN_STATS_COLUMNS, options_of.COLUMN_STATS_MOST_COLUMNS)
    derived = ("partition_stats",)
    aliases = ("col_stats",)

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """Statistics of the columns that the plan names."""
        options = {options_of.COLUMN_STATS.name: "true"}
        if definition is not None:
            options[options_of.COLUMN_STATS_COLUMNS.name] = ",".join(definition.source_fields)
        return NewIndex(options)
