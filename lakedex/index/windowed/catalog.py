"""A windowed record index in the list of a table's indexes."""

from __future__ import annotations

from collections.abc import Callable

from lakedex.index.catalog import IndexInfo
from lakedex.index.windowed.store import NAME, open_window
from lakedex.storage.protocol import Storage


def list_windowed(storage: Storage, is_committed: Callable[[str], bool]) -> list[IndexInfo]:
    """The windowed record index of a table, if it has one."""
    stored = open_window(storage, is_committed)
    if stored.state is None:
        return []
    return [
        IndexInfo(
            name=NAME,
            kind=NAME,
            columns=(),
            function="",
            state="live",
            file_groups=len(stored.state.groups),
            size_bytes=stored.size_bytes,
        )
    ]
