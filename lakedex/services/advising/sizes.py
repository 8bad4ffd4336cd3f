"""What indexes that a table has once would take: made of a few slices, scaled to all."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, read_slice
from lakedex.index.metadata_table.record_values import place_values
from lakedex.index.metadata_table.stat_records import column_stats_change
from lakedex.services.index_estimating import groups_for, spread_slices, stored_bytes
from lakedex.table import Snapshot
from lakedex.write.build_ranges import StoredRanges

_SLICES = 12
_PROBES = 64


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
    fixed, each_bytes = stored_bytes(
        whole.take(pa.array(order)), values.take(pa.array(numbers[order]))
    )
    rows = round(count * len(snapshot.slices) / len(chosen))
    scale = rows / count
    size = round(groups_for(snapshot, rows) * fixed + rows * each_bytes)
    return Cost(size, each_bytes, (time.perf_counter() - started) * scale)


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
    share = _overlap(known, _values(snapshot, column))
    return StatsCost(cost, share * len(snapshot.slices))


def _values(snapshot: Snapshot, column: str) -> pa.ChunkedArray:
    """A few values of the column, from the middles of slices."""
    parts = [
        rows.slice(rows.num_rows // 2, 1)
        for each in spread_slices(snapshot.slices, _SLICES)
        for rows in read_slice(snapshot.read_context, each, [column])
    ]
    return pa.concat_tables(parts)[column].drop_null()


def _overlap(stats: pa.Table, values: pa.ChunkedArray) -> float:
    """The share of files whose range holds a value, in the mean of some values."""
    low, high = stats["minimum"].combine_chunks(), stats["maximum"].combine_chunks()
    held = [
        int(pc.sum(pc.and_(pc.less_equal(low, each), pc.greater_equal(high, each))).as_py() or 0)
        for each in values
    ]
    return float(np.mean(held)) / len(stats) if held else 1.0
