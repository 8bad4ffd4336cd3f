"""Partition stats as a kind of index."""

from __future__ import annotations

from lakedex.config import write_option_names as options_of
from lakedex.index.file_groups import IndexedRows
from lakedex.index.kinds.column_stats.collect import maintained
from lakedex.index.kinds.partition_stats.lookup import PartitionStatsIndex
from lakedex.index.maintenance import MaintainedIndex, MaintainRequest
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class PartitionStatsKind(PartitionStatsIndex, MetadataIndexKind):
    """Partition stats as a kind of index."""

    partition = Kind.PARTITION_STATS
    switches = (options_of.PARTITION_STATS,)
    is_creatable = False
    build_order = 4

    def maintained(self, name: str, request: MaintainRequest) -> MaintainedIndex | None:
        """The columns that have ranges: records are made of what is noted for column stats."""
        return maintained(name, request)

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say."""
        return size.options.partition_stats_groups
