"""Rows that are to be laid out, where they are now: in a file slice, or in a spill file.

A spilled row has the form that the writer of its file group expects. Rows of a file slice keep
their meta columns, by which the writer knows that they are no news.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import FileSlice, ReadContext, read_slice
from lakedex.format.spill import Segment, read_segments


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one partition."""

    partition: str
    source: FileSlice | Segment

    @property
    def size_bytes(self) -> int:
        """About how much there is to read."""
        source = self.source
        return source.length if isinstance(source, Segment) else source.size_bytes

    @property
    def name(self) -> str:
        """A name that no other part of the table has."""
        source = self.source
        if isinstance(source, Segment):
            return f"{source.path} {source.offset}"
        return f"{source.partition} {source.file_id}"


def read_part(
    context: ReadContext, part: Part, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a part, with all columns unless some are named."""
    if isinstance(part.source, Segment):
        rows = read_segments(context.storage, [part.source], columns)
        if rows is not None:
            yield rows
        return
    yield from read_slice(context, part.source, columns or context.schema.names)
