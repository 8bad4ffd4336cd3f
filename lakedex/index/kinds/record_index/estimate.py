"""What a record index would take: made of a few slices, scaled to all."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, read_slice
from lakedex.index.kinds.record_index.records import place_values
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.sampling import files_with_any, spread_slices
from lakedex.index.size_estimate import SampledTable, SizeEstimate, stored_bytes

_SLICES = 12
_MOST_GROUPS = 16
"""Of so many file groups at most a sample is encoded."""


def estimate(table: SampledTable, columns: tuple[str, ...]) -> SizeEstimate | None:
    """What a record index would take; None for a table without rows."""
    del columns
    started = time.perf_counter()
    chosen = spread_slices(table.slices, _SLICES)
    keys: list[pa.Array] = []
    places: list[tuple[str, str, int]] = []
    for each in chosen:
        parts = read_slice(table.read, each, [RECORD_KEY])
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
    rows = round(count * len(table.slices) / len(chosen))
    scale = rows / count
    groups = table.groups_for(rows)
    sorted_keys, sorted_values = whole.take(pa.array(order)), values.take(pa.array(numbers[order]))
    fixed, each_bytes = _bytes_in_groups(sorted_keys, sorted_values, groups)
    size = round(files_with_any(rows, 1.0, groups) * fixed + rows * each_bytes)
    return SizeEstimate(
        rows=rows,
        size_bytes=size,
        bytes_per_change=each_bytes,
        seconds=(time.perf_counter() - started) * scale,
        files_per_value=1.0,
        values=rows,
        file_groups=groups,
        sampled_rows=count,
    )


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
