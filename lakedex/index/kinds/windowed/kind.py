"""The windowed record index as a kind of index."""

from __future__ import annotations

from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import StoredTable
from lakedex.index.kinds.windowed.state import NAME, list_windowed
from lakedex.index.metadata_kind import MetadataIndexKind


class WindowedKind(MetadataIndexKind):
    """The windowed record index as a kind of index."""

    kind = NAME
    partition = None
    is_creatable = False

    def outside_metadata(self, table: StoredTable) -> list[IndexInfo]:
        """The windowed record index of a table, if it has one."""
        return list_windowed(table.storage, table.timeline.is_committed_write)
