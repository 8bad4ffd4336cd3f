"""The bucket index of a table: engine, number of buckets, hash fields, numbers by partition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

REGEX_RULE: Final = "REGEX"
"""Numbers of buckets by partition are said by regular expressions."""


class BucketEngineType(Enum):
    """How keys become buckets; the values are Hudi's names, but for the last one."""

    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"
    EXTENDIBLE_HASHING = "EXTENDIBLE_HASHING"


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """What decides on the bucket of a key."""

    engine: BucketEngineType
    count: int
    """The number of buckets of each partition, of a ring that of its first one."""
    fields: tuple[str, ...]
    """The hash fields."""
    expressions: str = ""
    """Numbers of buckets by partition: `pattern,number;pattern,number`."""
    rule: str = REGEX_RULE
