"""What kinds of index need to repair single entries, or files of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakedex.filegroup import FileSlice
from lakedex.format.spill import SpillWriter
from lakedex.index.contract import StoredTable
from lakedex.index.definitions import IndexDefinition
from lakedex.index.written import KeyNote
from lakedex.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class RepairedTable:
    """The table whose indexes are repaired."""

    storage: Storage
    scratch: str
    """A folder for spill files."""
    definitions: Mapping[str, IndexDefinition]

    def spilled(self, rows: pa.Table) -> KeyNote:
        """Rows in a spill file, as tasks pass them to a commit."""
        writer = SpillWriter(self.storage, f"{self.scratch}/repair-{uuid.uuid4().hex}")
        segment = writer.add(rows.combine_chunks())
        writer.finish()
        return KeyNote(0, segment)


@dataclass(frozen=True, slots=True)
class FilesRepaired:
    """A table with its lock held, an index of which has files outside of the metadata table."""

    table: StoredTable
    versions: Callable[[str], Mapping[str, Sequence[FileSlice]]]
    """All versions of the file groups of a partition that the store still has, by file id."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Options of the caller, which may say what nothing else does."""


@dataclass(frozen=True, slots=True)
class FilesMade:
    """What became of such files."""

    made: tuple[str, ...] = ()
    """The paths of those that were made again."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Why others could not be, by their paths."""
