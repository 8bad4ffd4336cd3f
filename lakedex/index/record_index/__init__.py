"""The record index: record key to file group, for the whole table or per partition."""

from lakedex.index.record_index.completeness import live_entries, row_count, why_incomplete
from lakedex.index.record_index.lookup import RecordIndex, locate, record_keys

__all__ = [
    "RecordIndex",
    "live_entries",
    "locate",
    "record_keys",
    "row_count",
    "why_incomplete",
]
