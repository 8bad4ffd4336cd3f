"""What came of one file group."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import FileSliceId
from lakedex.index.written import BloomText
from lakedex.write.handles.incoming import Incoming
from lakedex.write.handles.work import ColumnSizes, WrittenFile


@dataclass(frozen=True)
class ChangedRows:
    """Rows that a write changed: their record keys and the columns of secondary indexes."""

    before: pa.Table
    after: pa.Table
    others: pa.Table | None = None
    """Rows that stayed, of keys that stand in `before` too."""
    place: FileSliceId | None = None
    """The file group that they are in, where all of them are in one."""


@dataclass(frozen=True)
class Outcome:
    """A written file, what indexes are told of its rows, and the keys that came and left."""

    file: WrittenFile
    rows: pa.Table
    sizes: ColumnSizes
    added: pa.Array
    gone: pa.Array
    bloom: BloomText | None = None
    changed: ChangedRows | None = None
    """What secondary indexes are told; None where there are none, or it is to be read yet."""
    unread: Incoming | None = None
    """Rows that secondary indexes are told of, once what they replace was read."""
