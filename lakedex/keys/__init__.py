"""Record keys and partition paths: from column values to strings and back."""

from lakedex.keys.generator import RecordKeyFormat
from lakedex.keys.partition_path import (
    PartitionLayout,
    PartitionValue,
    escape_path_value,
    unescape_path_value,
)

__all__ = [
    "PartitionLayout",
    "PartitionValue",
    "RecordKeyFormat",
    "escape_path_value",
    "unescape_path_value",
]
