"""Every `hoodie.*` key, typed: what a table's properties say, without touching storage."""

from __future__ import annotations

from lakedex.config.properties_text import (
    checksum_matches,
    decode_properties,
    format_properties,
    parse_properties,
    table_checksum,
)
from lakedex.config.table_config import MergeMode, TableConfig, TableType, TimelineZone

__all__ = [
    "MergeMode",
    "TableConfig",
    "TableType",
    "TimelineZone",
    "checksum_matches",
    "decode_properties",
    "format_properties",
    "parse_properties",
    "table_checksum",
]
