"""Whether the record index names the one and only place of every key.

The index holds one place per key. After plain inserts, or upserts through an index that looks at
one partition only, a key may stand in the table twice; the second copy is then not in the index
and a lookup would miss it. So the index prunes only where its writers note that it has every row
(`metadata_table/exactness.py`), or where it has as many entries as the table has rows: every key
has an entry, hence no key stands twice.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.filegroup import Amount, FileSlice, count_rows_of
from lakedex.filegroup.reading import base_row_count
from lakedex.index.contract import IndexedTable
from lakedex.index.cost import count_seconds, lookup_seconds, round_trip_seconds
from lakedex.index.file_bounds import slice_files
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.metadata_table.group_merge import live_count
from lakedex.index.metadata_table.hashing import name_id

PARTITION = "record_index"
_STATS_PARTITION = "column_stats"
_COUNTED_COLUMN = "_hoodie_commit_time"
"""A column that every row has, so that its value count is the row count."""
_FOOTER_S = 0.3e-3
"""Reading the footer of a base file."""
_MERGED_SLICE_S = 0.7e-3
_MERGED_BYTE_S = 1 / 450e6
"""Counting the rows of a slice with log files among many: only keys are read, and united."""


def why_incomplete(table: IndexedTable) -> str | None:
    """None when every row has its own entry, else what is wrong in words; found out once."""
    if "record_index_problem" not in table.kept:
        table.kept["record_index_problem"] = _find_problem(table)
    problem: str | None = table.kept["record_index_problem"]
    return problem


def check_seconds(table: IndexedTable) -> float:
    """What `why_incomplete` takes; nothing when it is known already."""
    if "record_index_problem" in table.kept or table.metadata.has_every_row(PARTITION):
        return 0.0
    return count_seconds(table.metadata, PARTITION) + row_count_seconds(table)


def row_count_seconds(table: IndexedTable) -> float:
    """What `row_count` takes; nothing when it is known already."""
    if "row_count" in table.kept:
        return 0.0
    if "row_count_seconds" not in table.kept:
        table.kept["row_count_seconds"] = _count_seconds(table)
    seconds: float = table.kept["row_count_seconds"]
    return seconds


def _count_seconds(table: IndexedTable) -> float:
    logged = [each for each in table.slices if each.logs]
    plain = len(table.slices) - len(logged)
    seconds = len(logged) * _MERGED_SLICE_S + Amount.of(logged).stored * _MERGED_BYTE_S
    return seconds + min(_footers_seconds(table, plain), _stats_seconds(table, plain))


def _footers_seconds(table: IndexedTable, files: int) -> float:
    return files * (_FOOTER_S + round_trip_seconds(table.read.storage))


def _stats_seconds(table: IndexedTable, files: int) -> float:
    """What looking up the row counts of so many base files takes; endless without statistics."""
    if not files or not table.is_asked(_STATS_PARTITION):
        return math.inf
    return lookup_seconds(table.metadata, _STATS_PARTITION, files)


def live_entries(table: IndexedTable, partition: str) -> int:
    """How many keys a partition of the metadata table holds, without decoding its records."""
    groups = table.metadata.groups(partition)
    readers = (table.metadata.group_reader(partition, group.file_id) for group in groups)
    return sum(live_count(reader) for reader in readers)


def row_count(table: IndexedTable) -> int:
    """How many rows the snapshot has: counted by statistics, log files merged where needed."""
    if "row_count" not in table.kept:
        plain = [file_slice for file_slice in table.slices if not file_slice.logs]
        logged = [file_slice for file_slice in table.slices if file_slice.logs]
        count = _plain_rows(table, plain)
        table.kept["row_count"] = count + count_rows_of(table.read, logged)
    found: int = table.kept["row_count"]
    return found


def _find_problem(table: IndexedTable) -> str | None:
    if table.read.has_virtual_keys:
        return "Hudi does not bring it up to date in a table without meta columns"
    try:
        if table.metadata.has_every_row(PARTITION):
            return None
        entries, rows = live_entries(table, PARTITION), row_count(table)
    except LakedexError as error:
        return f"its entries could not be counted: {error}"
    if entries == rows:
        return None
    return f"it has {entries} entries for {rows} rows, so a key may stand twice or be missing"


def _plain_rows(table: IndexedTable, slices: list[FileSlice]) -> int:
    counts = _counts_from_stats(table, slices)
    missing = np.flatnonzero(counts < 0).tolist()
    for position in missing:
        counts[position] = base_row_count(table.read, slices[position])
    return int(counts.sum())


def _counts_from_stats(
    table: IndexedTable, slices: list[FileSlice]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Row counts of base files from their statistics; -1 where footers tell sooner, or alone."""
    counts = np.full(len(slices), -1, dtype=np.int64)
    if _footers_seconds(table, len(slices)) <= _stats_seconds(table, len(slices)):
        return counts
    tails = slice_files(tuple(slices)).key_tails
    keys = pc.binary_join_element_wise(name_id(_COUNTED_COLUMN), tails, "")
    found = table.metadata.lookup(_STATS_PARTITION, keys)
    if len(found) == 0:
        return counts
    values = pc.struct_field(found[STATS_PAYLOAD].combine_chunks(), "valueCount")
    places = pc.index_in(keys, value_set=found["key"].combine_chunks())
    taken = values.take(places).fill_null(-1)
    return taken.to_numpy(zero_copy_only=False).astype(np.int64)
