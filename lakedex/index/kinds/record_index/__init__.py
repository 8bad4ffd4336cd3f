"""The record index: record key to file group, for the whole table or per partition."""

from lakedex.index.kinds.record_index.completeness import (
    check_seconds,
    live_entries,
    row_count,
    row_count_seconds,
    why_incomplete,
)
from lakedex.index.kinds.record_index.lookup import (
    RecordIndex,
    asked_keys,
    locate,
    locate_seconds,
    record_keys,
)

__all__ = [
    "RecordIndex",
    "asked_keys",
    "check_seconds",
    "live_entries",
    "locate",
    "locate_seconds",
    "record_keys",
    "row_count",
    "row_count_seconds",
    "why_incomplete",
]
