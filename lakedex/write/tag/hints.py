"""What the metadata table says of the record keys in base files, as workers are told.

A hint only ever rules a file out. Where there is none, the file's own footer is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.filegroup import FileSlice
from lakedex.format.bloom import BloomFilter
from lakedex.format.spill import Segment, read_segments
from lakedex.storage.protocol import Storage

FILTERS = pa.schema(
    [pa.field("slice", pa.int64()), pa.field("type", pa.string()), pa.field("text", pa.binary())]
)
"""Spilled filters: the number of a task's slice, and the filter of its base file."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Bounds of the record keys in a base file; None bounds nothing."""

    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class LookupTask:
    """File slices in which one worker looks for keys, with hints of their base files."""

    slices: tuple[FileSlice, ...]
    ranges: tuple[KeyRange, ...]
    """One for each slice."""
    filters: tuple[Segment, ...] = ()
    """Spilled, as they can be far larger than all else in a task."""


@dataclass(frozen=True)
class TaskFilters:
    """The filters of a task, read when the first of them is asked for."""

    storage: Storage
    segments: tuple[Segment, ...] = field(default=())

    def of(self, number: int) -> BloomFilter | None:
        """The filter of a slice's base file; None where there is none that can be read."""
        row = self._rows.get(number)
        if row is None:
            return None
        text, code = self._table["text"][row].as_py(), self._table["type"][row].as_py()
        try:
            return BloomFilter.decode(text or b"", type_code=code, path="bloom_filters")
        except LakedexError:
            # A filter that cannot be understood rules nothing out.
            return None

    @cached_property
    def _table(self) -> pa.Table:
        found = read_segments(self.storage, self.segments)
        return FILTERS.empty_table() if found is None else found

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {number: row for row, number in enumerate(self._table["slice"].to_pylist())}
