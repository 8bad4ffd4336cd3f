"""How large an index that does not exist would be: bytes and file groups, by a sample of slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.config.metadata_options import IndexRoom, MetadataOptions
from lakedex.filegroup import FileSlice, ReadContext, Slices, read_slice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import write_hfile
from lakedex.index.metadata_table.group_files import HFILE_OPTIONS

Ints = npt.NDArray[np.int64]
USUAL_STAT_GROUPS: Final = 2
"""What Hudi gives column_stats, however large the table is."""
_COLUMNS_A_GROUP = 10
_LEAST_STATS_A_GROUP = 100_000
_MOST_STATS_A_GROUP = 1_000_000
_ENTRIES_A_SHARD = 500_000
_GROWTH = 4
_ENTRY_BYTES = 48
"""What an entry of the record index takes, by Hudi's estimate."""
_USUAL_ROOM = IndexRoom()


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


def spread_slices(slices: tuple[FileSlice, ...], most: int) -> list[FileSlice]:
    """Some slices, evenly from first to last."""
    count = min(len(slices), most)
    return [slices[at * len(slices) // count] for at in range(count)]


def files_per_value(seen: Ints, slices: int, files: int) -> float:
    """How many of all files hold a value, in the mean over the values.

    The values that no sampled slice has are estimated from those that one or two of them have, by
    Chao's lower bound for sampling without replacement; so the mean is rather too high where
    some values are much rarer than others. Never more than there are files.

    Args:
        seen: In how many of the sampled slices each value is.
        slices: How many were sampled.
        files: How many there are.

    Example:
        >>> round(files_per_value(np.full(500, 1), slices=10, files=100), 1)
        1.0
        >>> round(files_per_value(np.full(50, 10), slices=10, files=100))
        100
    """
    if not len(seen):
        return 1.0
    share = slices / files
    unseen = 0.0
    once, twice = int((seen == 1).sum()), int((seen == 2).sum())
    if slices < files and once:
        again = 2 * twice * slices / max(1, slices - 1)
        unseen = once**2 / (again + once * share / (1 - share))
    mean = float(seen.sum()) / share / (len(seen) + unseen)
    return round(min(max(1.0, mean), float(files)), 6)


def files_with_any(values: float, per_value: float, files: float) -> float:
    """How many of some files hold at least one of so many values that are spread independently.

    Example:
        >>> files_with_any(1, 3.0, 12), round(files_with_any(2, 3.0, 12), 2)
        (3.0, 5.25)
        >>> files_with_any(1_000, 3.0, 12) <= 12
        True
    """
    if files <= 0:
        return 0.0
    share = min(1.0, per_value / files)
    return files * (1 - (1 - share) ** values)


def rows_of_slices(
    context: ReadContext, slices: Sequence[FileSlice], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Some columns of each slice, log files merged."""
    nothing = context.target(columns).empty_table()
    for each in slices:
        parts = read_slice(context, each, columns)
        yield pa.concat_tables([nothing, *(part.select(columns) for part in parts)])


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """What a new index is to hold."""

    options: MetadataOptions
    rows: int
    """The rows that get an entry."""
    stat_columns: int
    files: int
    is_partitioned: bool = False
    """Whether each data partition has file groups of its own."""


def stat_groups_for(columns: int, files: int) -> int:
    """How many file groups column_stats get for a table of so many columns and files.

    RFC-27's rule is one for every ten columns. A group more is one more file to open for every
    lookup and to write in every commit, so it has to have enough entries; and none has too many.

    Example:
        >>> stat_groups_for(35, 100), stat_groups_for(35, 20_000), stat_groups_for(23, 286_603)
        (2, 4, 7)
    """
    entries = columns * files
    by_columns = min(-(-columns // _COLUMNS_A_GROUP), entries // _LEAST_STATS_A_GROUP)
    return max(USUAL_STAT_GROUPS, by_columns, -(-entries // _MOST_STATS_A_GROUP))


def shards_for(
    rows: int, least: int, most: int, *, partitioned: bool, room: IndexRoom = _USUAL_ROOM
) -> int:
    """How many file groups an index of keys gets: room to grow a few times before they are large.

    Example:
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False)
        8
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False, room=IndexRoom(1.5, 4_800_000))
        15
    """
    entries = _ENTRIES_A_SHARD
    if room.group_bytes is not None:
        entries = max(1, room.group_bytes // _ENTRY_BYTES)
    growth = _GROWTH if room.growth is None else room.growth
    wanted = 1 if partitioned else math.ceil(growth * rows / entries)
    return max(least, min(most, wanted))
