"""What came of one file group."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakedex.index.written import BloomText
from lakedex.write.handles.work import ColumnSizes, WrittenFile


@dataclass(frozen=True)
class Outcome:
    """A written file, what indexes are told of its rows, and the keys that came and left."""

    file: WrittenFile
    rows: pa.Table
    sizes: ColumnSizes
    added: pa.Array
    gone: pa.Array
    bloom: BloomText | None = None
