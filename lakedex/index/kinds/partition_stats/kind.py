"""Partition stats as a kind of index."""

from __future__ import annotations

from lakedex.config import write_option_names as options_of
from lakedex.index.kinds.partition_stats.lookup import PartitionStatsIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class PartitionStatsKind(PartitionStatsIndex, MetadataIndexKind):
    """Partition stats as a kind of index."""

    partition = Kind.PARTITION_STATS
    switches = (options_of.PARTITION_STATS,)
    is_creatable = False
