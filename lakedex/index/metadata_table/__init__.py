"""The metadata table: where every index but the bucket index is stored.

Names are brought when they are first used: workers that write shards do without the timeline.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {"MetadataTable": "lakedex.index.metadata_table.reader"}


def __getattr__(name: str) -> object:
    """Bring a public name from the module that defines it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "lakedex.index.metadata_table.partitions")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
