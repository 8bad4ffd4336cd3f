"""What kinds of index need to repair single entries."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakedex.format.spill import SpillWriter
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
