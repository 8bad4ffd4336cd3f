"""The metadata table: where every index but the bucket index is stored."""

from lakedex.index.metadata_table.partitions import (
    ALL_PARTITIONS_KEY,
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    NON_PARTITIONED_KEY,
    RECORD_INDEX_PAYLOAD,
    SECONDARY_PAYLOAD,
    STATS_PAYLOAD,
    Kind,
    MetadataPartition,
    RecordType,
    metadata_partition,
)
from lakedex.index.metadata_table.reader import MetadataTable

__all__ = [
    "ALL_PARTITIONS_KEY",
    "BLOOM_PAYLOAD",
    "FILES_PAYLOAD",
    "NON_PARTITIONED_KEY",
    "RECORD_INDEX_PAYLOAD",
    "SECONDARY_PAYLOAD",
    "STATS_PAYLOAD",
    "Kind",
    "MetadataPartition",
    "MetadataTable",
    "RecordType",
    "metadata_partition",
]
