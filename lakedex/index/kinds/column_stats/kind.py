"""Column stats as a kind of index."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from lakedex.config import write_option_names as options_of
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_groups import USUAL_STAT_GROUPS, IndexedRows, stat_groups_for
from lakedex.index.kinds.column_stats.lookup import ColumnStatsIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.request import NewIndex


class ColumnStatsKind(ColumnStatsIndex, MetadataIndexKind):
    """Column stats as a kind of index."""

    partition = Kind.COLUMN_STATS
    build_order = 1
    usual_file_groups = USUAL_STAT_GROUPS
    has_stat_columns = True
    collects = True
    is_suggested = True
    switches = (options_of.COLUMN_STATS,)
    choices = (options_of.COLUMN_STATS_COLUMNS, options_of.COLUMN_STATS_MOST_COLUMNS)
    derived = ("partition_stats",)
    aliases = ("col_stats",)

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say, or by the number of columns and files."""
        chosen = size.options.column_stats_groups
        return chosen or stat_groups_for(size.stat_columns, size.files)

    def definition_of_table(
        self,
        known: IndexDefinition | None,
        *,
        is_new: bool,
        stat_columns: tuple[str, ...],
        is_partitioned: bool,
    ) -> IndexDefinition | None:
        """With the columns; what the version says of the records that are there stays true."""
        del is_partitioned
        if not stat_columns:
            return known
        if known is None or is_new:
            known = IndexDefinition(self.kind, self.kind, self.kind, (), version=2)
        return replace(known, source_fields=stat_columns)

    def range_key(
        self, column: str, live: Collection[str], definitions: Mapping[str, IndexDefinition]
    ) -> tuple[str, str] | None:
        """Where the column has ranges."""
        known = definitions.get(self.kind)
        is_live = self.kind in live and known is not None and column in known.source_fields
        return (self.kind, column) if is_live else None

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """Statistics of the columns that the plan names."""
        options = {options_of.COLUMN_STATS.name: "true"}
        if definition is not None:
            options[options_of.COLUMN_STATS_COLUMNS.name] = ",".join(definition.source_fields)
        return NewIndex(options)
