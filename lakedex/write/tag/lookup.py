"""Finds keys of a write in file slices: the SIMPLE and BLOOM indexes and their global forms.

A worker reads the keys of its slices once and matches them with the keys of the write. The keys
of a slice are those of its base file and of its log files; a key of the base file that a log
deleted is there without being live, since a writer that looks at base files only would find it.

The metadata table's statistics and bloom filters of record keys go to the workers as hints. A hint
can only exclude a file. Without a hint the worker reads the footer of the file.
"""

from __future__ import annotations

import bisect
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.write_index import WriteIndex
from lakedex.errors import LakedexError
from lakedex.filegroup import RECORD_KEY, FileSlice, ReadContext
from lakedex.filegroup.log_changes import block_keys, slice_blocks
from lakedex.filegroup.stored_keys import StoredKeys, stored_keys
from lakedex.format.bloom import BloomFilter, bloom_hashes
from lakedex.format.logfile import BlockKind
from lakedex.format.parquet.footer import ParquetFooter, read_footer
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.metadata_table import BLOOM_PAYLOAD, STATS_PAYLOAD, Kind, MetadataTable
from lakedex.index.metadata_table.keys import bloom_key, column_stats_key, column_stats_prefix
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.table.snapshot import Snapshot
from lakedex.write.context import WriteContext
from lakedex.write.tag.bucket_index import BucketPlan
from lakedex.write.tag.locations import (
    LOCATIONS,
    Incoming,
    Positions,
    incoming_keys,
    mask_of,
    positions_of,
)

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


_BLOOM_INDEXES = (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
_MOST_TASK_BYTES = 256 << 20
_FILE_COST_BYTES = 256 << 10
_TASKS_PER_SLOT = 3

Matches = tuple[tuple[int, Segment], ...]


def lookup_tasks(slices: Sequence[FileSlice], parallelism: int) -> list[LookupTask]:
    """The slices in tasks of about equal work, a few for each slot; without hints yet."""
    costs = [file_slice.size_bytes + _FILE_COST_BYTES for file_slice in slices]
    most = min(_MOST_TASK_BYTES, sum(costs) // (_TASKS_PER_SLOT * parallelism) + 1)
    tasks: list[list[FileSlice]] = []
    room = 0
    for file_slice, cost in zip(slices, costs, strict=True):
        if room <= 0:
            tasks.append([])
            room = most
        tasks[-1].append(file_slice)
        room -= cost
    return [LookupTask(tuple(task), (KeyRange(),) * len(task)) for task in tasks]


def find_matches(
    facts: WriteContext,
    index: WriteIndex,
    buckets: Sequence[Sequence[Segment]],
    task: LookupTask,
    *,
    plan: BucketPlan | None = None,
) -> Matches:
    """Where keys of the write stand in the slices: spilled places, by bucket.

    Args:
        facts: The table.
        index: How files are chosen in which a key may be.
        buckets: The spilled rows.
        task: The slices.
        plan: The buckets of a bucket index, which choose the files instead; keys that only logs
            have and delete are places then, too.
    """
    context = facts.read_context()
    slices, filters = task.slices, TaskFilters(context.storage, task.filters)
    spill = SpillWriter(
        context.storage, f"{facts.scratch}/places-{uuid.uuid4().hex}", holds_small=True
    )
    stored: dict[int, StoredKeys] = {}
    found: list[tuple[int, Segment]] = []
    for incoming in incoming_keys(context.storage, buckets):
        wanted: Sequence[int] = range(len(slices))
        if plan is not None:
            wanted = _hit(plan, incoming, slices)
        if index in _BLOOM_INDEXES:
            questions = KeyQuestions(incoming, per_partition=not index.is_global)
            wanted = [
                number
                for number in wanted
                if number in stored
                or _base_may_hold(context, task, number, filters, questions)
                or _logs_hold(context, slices[number], incoming)
            ]
        for number in wanted:
            if number not in stored:
                stored[number] = stored_keys(
                    context, slices[number], deleted_in_logs=plan is not None
                )
        places, owners = _matched(incoming, slices, {n: stored[n] for n in wanted})
        found += _spilled(spill, places, owners)
    spill.finish()
    return tuple(found)


def _hit(plan: BucketPlan, incoming: Incoming, slices: Sequence[FileSlice]) -> list[int]:
    """The numbers of the slices to whose bucket a key of the write belongs."""
    targets = plan.targets(incoming.keys, incoming.partitions)
    names = pc.binary_join_element_wise(incoming.partitions, targets.file_ids, "/")
    found = set(names.unique().to_pylist())
    return [
        number for number, each in enumerate(slices) if f"{each.partition}/{each.file_id}" in found
    ]


def _base_may_hold(
    context: ReadContext,
    task: LookupTask,
    number: int,
    filters: TaskFilters,
    questions: KeyQuestions,
) -> bool:
    """Asks the hints first; the footer is read only where they leave it open."""
    file_slice, bounds = task.slices[number], task.ranges[number]
    if file_slice.base is None:
        return False
    asked = questions.in_range(file_slice.partition, bounds.low, bounds.high)
    if not len(asked):
        return False
    bloom = filters.of(number)
    if bloom is not None:
        return questions.any_in(bloom, asked)
    path = file_slice.path_of(file_slice.base.name)
    source = context.storage.source(path, file_slice.base.size_bytes)
    return questions.may_hold(read_footer(source), file_slice.partition)


def _logs_hold(context: ReadContext, file_slice: FileSlice, incoming: Incoming) -> bool:
    """Whether records in the slice's logs have one of the keys."""
    if not file_slice.logs:
        return False
    target = context.target([RECORD_KEY])
    logged = [
        block_keys(context, block, target, file_slice.partition)
        for block in slice_blocks(context, file_slice)
        if block.kind is not BlockKind.DELETE
    ]
    return bool(mask_of(pc.is_in(_joined(logged), value_set=incoming.keys)).any())


def _matched(
    incoming: Incoming, slices: Sequence[FileSlice], stored: dict[int, StoredKeys]
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The places of incoming keys, and the bucket of each."""
    keys = pa.chunked_array([each.keys for each in stored.values()], pa.string())
    at = positions_of(pc.index_in(keys, value_set=incoming.keys))
    hits = np.flatnonzero(at >= 0)
    numbers = np.repeat(list(stored), [len(each.keys) for each in stored.values()])
    owners = pa.array(numbers[hits].astype(np.int64))
    live = np.concatenate([each.live for each in stored.values()] or [np.zeros(0, np.bool_)])
    columns = [
        incoming.keys.take(pa.array(at[hits])),
        pa.array([file_slice.partition for file_slice in slices], pa.string()).take(owners),
        pa.array([file_slice.file_id for file_slice in slices], pa.string()).take(owners),
        pa.array(live[hits]),
        # Each copy is a place of its own until they are put together.
        pa.repeat(pa.scalar(value=False), len(hits)),
    ]
    return pa.table(columns, schema=LOCATIONS), incoming.bucket[at[hits]]


def _spilled(
    spill: SpillWriter, places: pa.Table, owners: npt.NDArray[np.int64]
) -> list[tuple[int, Segment]]:
    return spill.add_by_number(places, owners)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.string())


_FIRST_HASHES = 8
"""A key that a filter lacks passes this many with a chance below one in 200."""
_NO_REMAINDER = 1 << 32
"""More bits than a hash can number, so that positions are the hashes themselves."""
_ODDLY_ORDERED = "[\ue000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class _SortedKeys:
    """Positions of keys: those that a range can bound, by their bytes, and the others."""

    ordered: Positions
    others: Positions


class KeyQuestions:
    """The keys of a write, ready to be asked of many files."""

    def __init__(self, incoming: Incoming, *, per_partition: bool) -> None:
        """Hash and sort the keys once; keys of one partition only concern its files, if asked."""
        self._keys = incoming.keys
        self._bytes = incoming.keys.cast(pa.binary())
        self._per_partition = per_partition
        self._hashes = np.empty((_FIRST_HASHES, len(self._keys)), dtype=np.uint32)
        for start, found in bloom_hashes(self._keys, _FIRST_HASHES, _NO_REMAINDER):
            self._hashes[:, start : start + found.shape[1]] = found
        self._groups = _sorted_groups(self._bytes, incoming, per_partition=per_partition)

    def may_hold(self, footer: ParquetFooter, partition: str) -> bool:
        """Whether the file may hold one of the keys; a file that says nothing may."""
        asked = self.in_range(partition, footer.min_key, footer.max_key)
        if not len(asked):
            return False
        try:
            bloom = footer.bloom
        except LakedexError:
            # A filter that cannot be read rules nothing out.
            return True
        return bloom is None or self.any_in(bloom, asked)

    def in_range(self, partition: str, low: str | None, high: str | None) -> Positions:
        """The keys that a file of the partition may hold; bounds that are None bound nothing."""
        group = self._groups.get(partition if self._per_partition else "")
        if group is None:
            return np.zeros(0, dtype=np.int64)
        first, last = self._range(group.ordered, low, high)
        return np.concatenate([group.ordered[first:last], group.others])

    def any_in(self, bloom: BloomFilter, asked: Positions) -> bool:
        """Whether a filter may hold one of the keys at the given positions."""
        passed = self._pass_first_hashes(bloom, asked)
        return bool(len(passed) and bloom.contains(self._keys.take(pa.array(passed))).any())

    def _range(self, ordered: Positions, low: str | None, high: str | None) -> tuple[int, int]:
        if low is None or high is None:
            return 0, len(ordered)

        def key_at(number: int) -> bytes:
            return bytes(self._bytes[int(ordered[number])].as_py())

        numbers = range(len(ordered))
        return (
            bisect.bisect_left(numbers, low.encode(), key=key_at),
            bisect.bisect_right(numbers, high.encode(), key=key_at),
        )

    def _pass_first_hashes(self, bloom: BloomFilter, asked: Positions) -> Positions:
        """Those of the keys that some row of the filter does not rule out at once."""
        passed = []
        for bits in bloom.rows:
            pending = asked
            for hashes in self._hashes[: bloom.hash_count]:
                at = hashes[pending] % np.uint32(bloom.bit_count)
                pending = pending[(bits[at >> 3] >> (at & 7).astype(np.uint8)) & 1 == 1]
            passed.append(pending)
        return np.concatenate(passed)


def _sorted_groups(
    keys: pa.Array, incoming: Incoming, *, per_partition: bool
) -> dict[str, _SortedKeys]:
    odd = mask_of(pc.match_substring_regex(incoming.keys, _ODDLY_ORDERED))
    if not per_partition:
        order = pc.sort_indices(keys).to_numpy().astype(np.int64)
        return {"": _split(order, odd)}
    encoded = incoming.partitions.dictionary_encode()
    columns = {"key": keys, "partition": encoded.indices}
    by_both = [("partition", "ascending"), ("key", "ascending")]
    order = pc.sort_indices(pa.table(columns), sort_keys=by_both).to_numpy().astype(np.int64)
    codes = encoded.indices.to_numpy()[order]
    names = encoded.dictionary.to_pylist()
    starts = np.searchsorted(codes, np.arange(len(names) + 1)).tolist()
    return {
        name: _split(order[starts[code] : starts[code + 1]], odd) for code, name in enumerate(names)
    }


def _split(order: Positions, odd: npt.NDArray[np.bool_]) -> _SortedKeys:
    is_odd = odd[order]
    return _SortedKeys(order[~is_odd], order[is_odd])
