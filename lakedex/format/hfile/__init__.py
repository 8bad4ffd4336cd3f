"""HFile: sorted key-value files, the base files and log blocks of the metadata table.

`HFileReader` scans a file or looks up many keys, prefixes or ranges at once, and reads only the
blocks that it needs. `write_hfile` creates a file from two Arrow columns.
"""

from __future__ import annotations

from lakedex.format.hfile.data_blocks import Cells, ReadCounters
from lakedex.format.hfile.reader import HFileReader, KeyRange, after_prefix, prefix_ranges
from lakedex.format.hfile.trailer import Codec
from lakedex.format.hfile.writer import MAX_KEY_BYTES, HFileBuilder, HFileOptions, write_hfile

__all__ = [
    "MAX_KEY_BYTES",
    "Cells",
    "Codec",
    "HFileBuilder",
    "HFileOptions",
    "HFileReader",
    "KeyRange",
    "ReadCounters",
    "after_prefix",
    "prefix_ranges",
    "write_hfile",
]
