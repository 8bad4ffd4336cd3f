"""The partitions of the metadata table: names, file ids, record types, payloads and changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from lakedex.errors import InvalidInput

_NO_KEYS = pa.array([], pa.string())
_NO_VALUES = pa.array([], pa.large_binary())


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


@dataclass(frozen=True)
class Change:
    """New records with their keys, and keys that go away; a key that does both stays.

    Example:
        >>> change = Change(pa.array(["k1"]), pa.array([b"v"], pa.large_binary()))
        >>> len(change.keys), len(change.deletes), change.is_empty
        (1, 0, False)
    """

    keys: pa.Array = field(default_factory=lambda: _NO_KEYS)
    """Record keys (string), each once, in any order."""
    values: pa.Array = field(default_factory=lambda: _NO_VALUES)
    """The records of the keys, in Avro binary (large_binary)."""
    deletes: pa.Array = field(default_factory=lambda: _NO_KEYS)
    """Keys that are no longer there."""
    hashed: pa.Array | None = None
    """What places each key in a file group, where that is not the key itself."""
    deleted_hashed: pa.Array | None = None
    """The same for the deleted keys."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not len(self.keys) and not len(self.deletes)

    @classmethod
    def joined(cls, parts: Sequence[Change]) -> Change:
        """All parts in one, for partitions that place keys by themselves."""
        if not parts:
            return cls()
        return cls(
            pa.concat_arrays([part.keys for part in parts]),
            pa.concat_arrays([part.values for part in parts]),
            pa.concat_arrays([part.deletes for part in parts]),
        )
