"""Bitmap indexes in the list of a table's indexes."""

from __future__ import annotations

from lakedex.config import TableConfig
from lakedex.index.bitmap.definitions import KIND, bitmap_definitions
from lakedex.index.bitmap.store import list_runs
from lakedex.index.catalog import IndexInfo
from lakedex.storage.protocol import Storage


def list_bitmaps(storage: Storage, config: TableConfig) -> list[IndexInfo]:
    """The bitmap indexes of a table; their file groups are their runs."""
    found = []
    for name, each in bitmap_definitions(config).items():
        runs = list_runs(storage, each)
        size = sum(run.size_bytes for run in runs)
        found.append(
            IndexInfo(name, KIND, each.source_fields, each.function, "live", len(runs), size)
        )
    return found
