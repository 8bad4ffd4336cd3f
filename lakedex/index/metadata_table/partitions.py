"""The partitions of the metadata table: their names, file ids, record types and payloads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakedex.errors import InvalidInput


class Kind(Enum):
    """What a partition of the metadata table holds."""

    FILES = "files"
    COLUMN_STATS = "column_stats"
    PARTITION_STATS = "partition_stats"
    BLOOM_FILTERS = "bloom_filters"
    RECORD_INDEX = "record_index"
    SECONDARY_INDEX = "secondary_index"
    EXPRESSION_INDEX = "expr_index"


class RecordType(Enum):
    """The `type` field of a metadata record."""

    PARTITION_LIST = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


FILES_PAYLOAD = "filesystemMetadata"
BLOOM_PAYLOAD = "BloomFilterMetadata"
STATS_PAYLOAD = "ColumnStatsMetadata"
RECORD_INDEX_PAYLOAD = "recordIndexMetadata"
SECONDARY_PAYLOAD = "SecondaryIndexMetadata"

ALL_PARTITIONS_KEY = "__all_partitions__"
"""The key of the record that lists the partitions of the data table."""

NON_PARTITIONED_KEY = "."
"""How index keys spell the partition path of a table without partitions."""

PARTITION_STAT_MARK = "__partition_stat__"
"""Stands in for the partition in keys of partition-level records of an expression index."""

_FIXED: dict[Kind, tuple[str, tuple[str, ...]]] = {
    Kind.FILES: ("files-", (FILES_PAYLOAD,)),
    Kind.COLUMN_STATS: ("col-stats-", (STATS_PAYLOAD,)),
    Kind.PARTITION_STATS: ("partition-stats-", (STATS_PAYLOAD,)),
    Kind.BLOOM_FILTERS: ("bloom-filters-", (BLOOM_PAYLOAD,)),
    Kind.RECORD_INDEX: ("record-index-", (RECORD_INDEX_PAYLOAD,)),
}
_NAMED: dict[Kind, tuple[str, tuple[str, ...]]] = {
    Kind.SECONDARY_INDEX: ("secondary_index_", (SECONDARY_PAYLOAD,)),
    Kind.EXPRESSION_INDEX: ("expr_index_", (STATS_PAYLOAD, BLOOM_PAYLOAD)),
}


@dataclass(frozen=True, slots=True)
class MetadataPartition:
    """One partition of the metadata table."""

    name: str
    kind: Kind
    file_id_prefix: str
    payloads: tuple[str, ...]
    """The payload columns that its records may use."""


def metadata_partition(name: str) -> MetadataPartition:
    """What the partition of that name is.

    Example:
        >>> metadata_partition("secondary_index_idx_rider").file_id_prefix
        'secondary-index-idx-rider-'
    """
    for kind, (prefix, payloads) in _FIXED.items():
        if name == kind.value:
            return MetadataPartition(name, kind, prefix, payloads)
    for kind, (start, payloads) in _NAMED.items():
        if name.startswith(start) and len(name) > len(start):
            return MetadataPartition(name, kind, name.replace("_", "-") + "-", payloads)
    known = ", ".join([kind.value for kind in _FIXED] + [f"{s}<name>" for s, _ in _NAMED.values()])
    raise InvalidInput(f"no metadata partition is called {name!r}; known are {known}")


def no_groups(partition: str) -> str:
    """What is said of a partition that has no file groups, where there should be some."""
    return (
        f"metadata partition {partition} has no file groups in .hoodie/metadata/{partition}; "
        "`lakedex repair` builds it again"
    )
