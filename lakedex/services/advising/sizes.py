"""What indexes that a table has once would take: made of a few slices, scaled to all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, FileSlice, read_slice
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.record_values import place_values
from lakedex.index.metadata_table.stat_records import column_stats_change
from lakedex.index.sampling import files_with_any, spread_slices
from lakedex.services.index_estimating import groups_for, stored_bytes
from lakedex.table import Snapshot
from lakedex.write.build_ranges import StoredRanges

_SLICES = 12
_PROBES = 64
_VALUES_A_SLICE = 4
_MOST_GROUPS = 16
"""Of so many file groups at most a sample is encoded."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an index takes."""

    size_bytes: int
    bytes_per_change: float
    build_seconds: float


def record_index_cost(snapshot: Snapshot) -> Cost | None:
    """What a record index would take; None for a table without rows."""
    started = time.perf_counter()
    chosen = spread_slices(snapshot.slices, _SLICES)
    keys: list[pa.Array] = []
    places: list[tuple[str, str, int]] = []
    for each in chosen:
        parts = read_slice(snapshot.read_context, each, [RECORD_KEY])
        own = [chunk for part in parts for chunk in part[RECORD_KEY].chunks]
        keys += own
        places.append((each.partition, each.file_id, sum(map(len, own))))
    count = sum(rows for *_, rows in places)
    if not count:
        return None
    partitions, files = (
        pa.chunked_array([pa.repeat(place[at], place[2]) for place in places if place[2]])
        for at in (0, 1)
    )
    values, numbers = place_values(partitions, files, 0)
    whole = pa.concat_arrays(keys)
    order = pc.sort_indices(whole.cast(pa.large_binary())).to_numpy()
    rows = round(count * len(snapshot.slices) / len(chosen))
    scale = rows / count
    groups = groups_for(snapshot, rows)
    sorted_keys, sorted_values = whole.take(pa.array(order)), values.take(pa.array(numbers[order]))
    fixed, each_bytes = _bytes_in_groups(sorted_keys, sorted_values, groups)
    size = round(files_with_any(rows, 1.0, groups) * fixed + rows * each_bytes)
    return Cost(size, each_bytes, (time.perf_counter() - started) * scale)


def _bytes_in_groups(keys: pa.Array, values: pa.Array, groups: int) -> tuple[float, float]:
    """What a file group takes by itself, and each of some records when their keys choose theirs.

    Keys of one data file are in all groups, so that the groups repeat the name of the file.
    """
    shards = shards_of(keys, groups)
    taken = [np.flatnonzero(shards == shard) for shard in np.unique(shards)[:_MOST_GROUPS]]
    sizes = [
        (*stored_bytes(keys.take(pa.array(at)), values.take(pa.array(at))), len(at) - 1)
        for at in taken
    ]
    fixed = sum(alone for alone, *_ in sizes) / len(sizes)
    more = sum(count for *_, count in sizes)
    return fixed, sum(each * count for _, each, count in sizes) / max(1, more)


@dataclass(frozen=True, slots=True)
class StatsCost:
    """What ranges of one column would take, and how many files a value leaves."""

    cost: Cost
    files_a_value: float


def column_stats_cost(snapshot: Snapshot, column: str) -> StatsCost | None:
    """What ranges of a column would take and bring; None where files have no range of it."""
    started = time.perf_counter()
    chosen = spread_slices(snapshot.slices, _PROBES)
    ranges = StoredRanges(snapshot.read_context, [column])
    for each in chosen:
        ranges.add(each)
    stats = ranges.tables().get(column)
    if stats is None or not len(stats):
        return None
    known = stats.filter(pc.is_valid(stats["minimum"]))
    if not len(known):
        return None
    change = column_stats_change({column: stats}, {}, [column])
    order = pc.sort_indices(change.keys.cast(pa.large_binary()))
    fixed, each_bytes = stored_bytes(change.keys.take(order), change.values.take(order))
    scale = len(snapshot.slices) / len(chosen)
    cost = Cost(
        round(fixed + scale * len(stats) * each_bytes),
        each_bytes,
        (time.perf_counter() - started) * scale,
    )
    values = _values(snapshot, spread_slices(tuple(chosen), _SLICES), column)
    return StatsCost(cost, _files_a_value(known, values, len(snapshot.slices)))


def _values(snapshot: Snapshot, slices: Sequence[FileSlice], column: str) -> pa.ChunkedArray:
    """Some values of the column, from all over some slices."""
    parts = [
        rows.take(np.linspace(0, rows.num_rows - 1, _VALUES_A_SLICE).astype(np.int64))
        for each in slices
        for rows in read_slice(snapshot.read_context, each, [column])
        if rows.num_rows
    ]
    nothing = snapshot.read_context.target([column]).empty_table()
    return pa.concat_tables([nothing, *parts])[column].drop_null()


def _files_a_value(stats: pa.Table, values: pa.ChunkedArray, files: int) -> float:
    """How many files have a range that holds a value, in the mean of some values.

    The ranges are those of a sample, which has the file that a value is of: one file is sure, and
    the others are as many as in the sample.
    """
    if not len(values):
        return float(files)
    low, high = stats["minimum"].combine_chunks(), stats["maximum"].combine_chunks()
    held = [
        int(pc.sum(pc.and_(pc.less_equal(low, each), pc.greater_equal(high, each))).as_py() or 0)
        for each in values
    ]
    others = max(0.0, float(np.mean(held)) - 1) / max(1, len(stats) - 1)
    return min(float(files), 1 + others * (files - 1))
