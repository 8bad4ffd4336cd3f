"""What the metadata table says of the record keys in base files, as workers are told.

A hint only ever rules a file out. Where there is none, the file's own footer is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.filegroup import RECORD_KEY, FileSlice
from lakedex.format.bloom import BloomFilter
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.metadata_table import BLOOM_PAYLOAD, STATS_PAYLOAD, Kind, MetadataTable
from lakedex.index.metadata_table.keys import bloom_key, column_stats_key, column_stats_prefix
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.table.snapshot import Snapshot
from lakedex.write.tag.places import mask_of

_STATS, _BLOOMS = Kind.COLUMN_STATS.value, Kind.BLOOM_FILTERS.value
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


log = logging.getLogger("lakedex")

_FEW_PARTITIONS = 64
"""Up to so many partitions are looked up one by one; more are read with the whole column."""
_FILTERS_AT_ONCE = 256
"""Hudi's default filter has 431 kB, so that these fit in memory."""
_MOST_FILTER_BYTES = 64 << 20
"""More than this is not read by one process; workers then read footers, all at a time."""


def with_hints(
    snapshot: Snapshot, tasks: Sequence[LookupTask], writer: SpillWriter
) -> list[LookupTask]:
    """The tasks with all that live metadata partitions say of their base files.

    Args:
        snapshot: The table as the write found it.
        tasks: The slices that keys are looked for in.
        writer: Where filters are spilled to; it is finished here.
    """
    hinted = list(tasks)
    metadata = snapshot.metadata
    if metadata is None:
        return hinted
    live = snapshot.config.metadata_partitions
    if _STATS in live:
        hinted = _or_as_before(_ranged, metadata, hinted)
    if _BLOOMS in live and _is_affordable(metadata, snapshot, hinted):

        def filtered(metadata: MetadataTable, tasks: list[LookupTask]) -> list[LookupTask]:
            return _filtered(metadata, tasks, writer)

        hinted = _or_as_before(filtered, metadata, hinted)
    return hinted


def _or_as_before(
    read: Callable[[MetadataTable, list[LookupTask]], list[LookupTask]],
    metadata: MetadataTable,
    before: list[LookupTask],
) -> list[LookupTask]:
    try:
        return read(metadata, before)
    except LakedexError as error:
        log.warning("an index could not be read, so footers are read instead: %s", error)
        return before


def _ranged(metadata: MetadataTable, tasks: list[LookupTask]) -> list[LookupTask]:
    places = [_place(file_slice) for task in tasks for file_slice in task.slices]
    partitions = sorted({partition for partition, _ in places})
    prefixes = [column_stats_prefix(RECORD_KEY)]
    if len(partitions) <= _FEW_PARTITIONS:
        prefixes = [column_stats_prefix(RECORD_KEY, partition) for partition in partitions]
    records = metadata.scan_prefixes(_STATS, prefixes)
    wanted = pa.array([column_stats_key(RECORD_KEY, *place) for place in places], pa.string())
    stats = flat(records[STATS_PAYLOAD]).take(pc.index_in(wanted, value_set=flat(records["key"])))
    values = stat_values(stats, pa.string())
    names = pa.array([name for _, name in places], pa.string())
    believed = (
        mask_of(pc.equal(pc.struct_field(stats, "fileName"), names))
        & mask_of(pc.equal(pc.struct_field(stats, "columnName"), RECORD_KEY))
        & (values.null_count == 0)
        & (values.value_count > 0)
    )
    bounds = zip(values.minimum.to_pylist(), values.maximum.to_pylist(), strict=True)
    ranges = iter(
        KeyRange(*pair) if known else KeyRange()
        for pair, known in zip(bounds, believed.tolist(), strict=True)
    )
    return [replace(task, ranges=tuple(next(ranges) for _ in task.slices)) for task in tasks]


def _filtered(
    metadata: MetadataTable, tasks: list[LookupTask], writer: SpillWriter
) -> list[LookupTask]:
    # In the order of the keys, so that neighbours are read from the same blocks.
    wanted = sorted(
        (bloom_key(*_place(file_slice)), owner, number)
        for owner, task in enumerate(tasks)
        for number, file_slice in enumerate(task.slices)
        if file_slice.base is not None
    )
    spilled: list[list[Segment]] = [[] for _ in tasks]
    for start in range(0, len(wanted), _FILTERS_AT_ONCE):
        part = wanted[start : start + _FILTERS_AT_ONCE]
        keys = pa.array([key for key, _, _ in part], pa.string())
        records = metadata.lookup(_BLOOMS, keys)
        row_of = {key: row for row, key in enumerate(records["key"].to_pylist())}
        payload = flat(records[BLOOM_PAYLOAD])
        by_task: dict[int, tuple[list[int], list[int]]] = {}
        for key, owner, number in part:
            if key in row_of:
                numbers, rows = by_task.setdefault(owner, ([], []))
                numbers.append(number)
                rows.append(row_of[key])
        for owner, (numbers, rows) in by_task.items():
            chosen = payload.take(pa.array(rows))
            filters = [pc.struct_field(chosen, name) for name in ("type", "bloomFilter")]
            table = pa.table([pa.array(numbers, pa.int64()), *filters], schema=FILTERS)
            spilled[owner].append(writer.add(table))
    writer.finish()
    return [replace(task, filters=tuple(found)) for task, found in zip(tasks, spilled, strict=True)]


def _is_affordable(
    metadata: MetadataTable, snapshot: Snapshot, tasks: Sequence[LookupTask]
) -> bool:
    """Whether the filters in question, by their share in all, are few enough."""
    stored = sum(group.size_bytes for group in metadata.groups(_BLOOMS))
    asked = sum(len(task.slices) for task in tasks)
    return stored * asked <= _MOST_FILTER_BYTES * len(snapshot.slices)


def _place(file_slice: FileSlice) -> tuple[str, str]:
    """The partition and the base file's name; without a base file one that no entry has."""
    return file_slice.partition, file_slice.base.name if file_slice.base is not None else ""
