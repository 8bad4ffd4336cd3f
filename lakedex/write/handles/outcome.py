"""What came of one file group."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakedex.index.maintenance import ChangedRows, ColumnSizes, FileRows
from lakedex.index.written import BloomText
from lakedex.write.handles.incoming import Incoming
from lakedex.write.handles.work import WrittenFile


@dataclass(frozen=True)
class Outcome:
    """A written file with its rows, and the keys that came and left."""

    file: WrittenFile
    rows: pa.Table
    sizes: ColumnSizes
    added: pa.Array
    gone: pa.Array
    bloom: BloomText | None = None
    changed: ChangedRows | None = None
    """The rows for indexes of rows; None where there are none, or they have to be read yet."""
    unread: Incoming | None = None
    """The rows for indexes of rows, where it has to be read what they replace."""
    named: tuple[Outcome, ...] = ()
    """The log files that a virtual one names."""

    @property
    def file_rows(self) -> FileRows:
        """The file as indexes of files see it."""
        file = self.file
        return FileRows(
            file.partition, file.name, file.size, self.rows, self.sizes, bloom=self.bloom
        )
