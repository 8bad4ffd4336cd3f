"""Indexes that describe single data files, stored beside the metadata table.

Hudi does not know these kinds, so that their entries are files of lakedex's own. An index is a set
of immutable runs (`run.py`); a run describes some data files completely. A data file of a given
name and size never changes, so that an entry stays right whatever becomes of commits: rollback and
restore have nothing to undo. A file that no run describes, such as one of another engine, is read.
"""

from lakedex.index.file_index.kind import (
    EntryIndexKind,
    FileIndex,
    FileIndexKind,
    FileIndexQuery,
    IndexRequest,
    UnavailableKind,
    serialize_kinds_with,
)

__all__ = [
    "EntryIndexKind",
    "FileIndex",
    "FileIndexKind",
    "FileIndexQuery",
    "IndexRequest",
    "UnavailableKind",
    "serialize_kinds_with",
]
