"""What a record index that does not exist would take and bring: advice, size, what-if.

Bloom filters of record keys answer the same predicates, so that what-if is about both kinds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, FileSlice, read_slice
from lakedex.index.advice import (
    Demand,
    HypotheticalIndex,
    Sampled,
    Suggestion,
    WhatIfQuery,
    Workload,
)
from lakedex.index.contract import NEWEST_ONLY
from lakedex.index.kinds.record_index.lookup import record_keys
from lakedex.index.kinds.record_index.records import location_values
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.size_estimate import (
    SampledTable,
    SizeEstimate,
    files_with_any,
    rows_of_slices,
    spread_slices,
    stored_bytes,
)

_KIND = "record_index"
_SLICES = 12
_MOST_GROUPS = 16
"""Of so many file groups at most a sample is encoded."""


def advise(workload: Workload) -> Iterator[Suggestion | str]:
    """The index, or why not."""
    demand = workload.key_demand()
    if demand is not None and not workload.is_live(_KIND):
        yield from workload.guarded(_suggestion, demand)


def _suggestion(workload: Workload, demand: Demand) -> Suggestion | str:
    left = demand.left(demand.values_a_scan, 1.0, workload.files)
    if not demand.pays(left):
        return workload.too_little(demand, left, "the record index")
    size = workload.size_of(_KIND)
    return Suggestion(
        index=_KIND,
        kind=_KIND,
        columns=workload.key_columns,
        queries=demand.scans,
        files_saved=demand.saved(left),
        size_bytes=size.size_bytes,
        bytes_per_change=size.bytes_per_change,
        build_seconds=size.seconds,
        reason=f"{demand}; a key is in one file",
    )


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
    values, numbers = location_values(partitions, files, 0)
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


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """An index of record keys."""
    del columns, schema
    return HypotheticalKeys(kind.kind, kind.describes_files)


@dataclass(frozen=True, slots=True)
class HypotheticalKeys:
    """A record index, or bloom filters of record keys."""

    kind: str
    describes_files: bool
    """Whether it describes base files: then it serves older snapshots, and keeps log files."""
    lookups: int = 1

    @property
    def name(self) -> str:
        """The kind, as tables have it once."""
        return self.kind

    def why_not(self, query: WhatIfQuery) -> str | None:
        """They answer `=` and IN on the record key."""
        if query.is_live(self.kind):
            return "the table has it already"
        keys = record_keys(query.predicate, query.read)
        if isinstance(keys, str):
            return keys
        is_located = self.describes_files or query.is_latest
        return None if is_located else NEWEST_ONLY

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices that hold one of the keys; a filter says nothing about log files."""
        keys = record_keys(query.predicate, query.read)
        values = pa.array([] if isinstance(keys, str) else keys, pa.string())
        keep = np.zeros(len(slices), dtype=np.bool_)
        for number, rows in enumerate(rows_of_slices(query.read, slices, [RECORD_KEY])):
            keep[number] = bool(pc.any(pc.is_in(rows[RECORD_KEY], value_set=values)).as_py())
        typical = float(len(values))
        if self.describes_files:
            logged = np.array([bool(each.logs) for each in slices], dtype=np.bool_)
            keep |= logged
            typical += int(logged.sum()) / share
        reason = f"{len(values)} keys asked"
        return Sampled(keep, typical if share < 1 else None, reason)
