"""Finds keys of a write in file slices: the SIMPLE and BLOOM indexes and their global forms.

A worker reads the keys of its slices once and matches them with the keys of the write. The keys
of a slice are those of its base file and of its log files; a key of the base file that a log
deleted is there without being live, since a writer that looks at base files only would find it.
"""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

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
from lakedex.format.spill import Segment, SpillWriter
from lakedex.write.context import WriteContext
from lakedex.write.tag.bucket_groups import BucketPlan
from lakedex.write.tag.hints import KeyRange, LookupTask, TaskFilters
from lakedex.write.tag.incoming import Incoming, incoming_keys
from lakedex.write.tag.places import PLACES, Positions, mask_of, positions_of

_BLOOMS = (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
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
        if index in _BLOOMS:
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
    return pa.table(columns, schema=PLACES), incoming.bucket[at[hits]]


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
