"""What an index that does not exist would take, from a sample of file slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import FileSlice, ReadContext, Slices
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import write_hfile
from lakedex.index.metadata_table.group_files import HFILE_OPTIONS


@dataclass(frozen=True, slots=True)
class SampledTable:
    """A table of which a part is read to estimate an index."""

    read: ReadContext
    slices: Slices
    stored_rows: Callable[[], int]
    """About how many rows the table has."""
    groups_for: Callable[[int], int]
    """The file groups that an index of record keys gets for so many rows."""
    ranges: Callable[[Sequence[str], Sequence[FileSlice]], Mapping[str, pa.Table]]
    """Reads the ranges of some columns in the files of some slices."""
    growth: float = 1.0
    """How many times as many rows the table will have."""


@dataclass(frozen=True, slots=True)
class SizeEstimate:
    """What an index of a table would take, and what it would bring."""

    rows: int
    """The entries that it would have."""
    size_bytes: int
    bytes_per_change: float
    """What a write adds for a row whose value changes."""
    seconds: float
    """What one task after another takes to read the table and to make the entries."""
    files_per_value: float
    """How many file slices a lookup of one value reads, about."""
    values: int = 0
    """Different values, about, where they were counted."""
    file_groups: int = 0
    bytes_per_write: int = 0
    """What a write adds to all file groups together, however few rows it changes."""
    sampled_rows: int = 0


def stored_bytes(keys: pa.Array, values: pa.Array) -> tuple[float, float]:
    """What a file group with these records takes by itself, and what each record takes.

    Example:
        >>> from lakedex.index.kinds.secondary.records import pair_records
        >>> alone, each = stored_bytes(pa.array(["a", "b"]), pair_records(2))
        >>> alone > each > 0
        True
    """
    one, whole = encoded_size(keys[:1], values[:1]), encoded_size(keys, values)
    return float(one), (whole - one) / max(1, len(keys) - 1)


def encoded_size(keys: pa.Array, values: pa.Array) -> int:
    """The bytes of a base file with these records."""
    info = {"schema": METADATA_RECORD_SCHEMA.encode()}
    return len(write_hfile(keys, values, file_info=info, options=HFILE_OPTIONS))
