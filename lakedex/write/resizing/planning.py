"""From the buckets of a table to the changes that a resize makes.

The keys of buckets that are too large are read, by workers, for the hashes by which their records
are divided. That takes its time, so it is done before the table is locked; `still_holds` says under
the lock what of it is still true.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from lakedex.config.bucket_options import BucketEngineType, BucketOptions, ResizeOptions
from lakedex.engine import Engine
from lakedex.errors import CorruptFile, InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId, ReadContext, read_slice
from lakedex.filegroup.context import RECORD_KEY
from lakedex.index.kinds.bucket.engine import RingEngine, bucket_engine
from lakedex.index.kinds.bucket.hashes import Hashes, hash_keys, ring_hashes
from lakedex.index.kinds.bucket.resize import (
    POLICIES,
    BucketSize,
    PlannedChange,
    PolicyName,
    PrefixPolicy,
    ResizeLimits,
    ResizePolicy,
    within_bounds,
)
from lakedex.index.kinds.bucket.ring import (
    NODES_KEY,
    PARTITION_KEY,
    SEQUENCE_KEY,
    HashNode,
    HashRing,
    NodeTag,
    nodes_of_plan,
)
from lakedex.table import Snapshot
from lakedex.timeline.plans import ClusteringGroup
from lakedex.txn.conflicts import clustered_groups, pending_groups
from lakedex.write.context import WriteContext

_LOG_SHARE: Final = 0.35
"""Of the bytes of a log file so much is left in a base file, by Hudi's experience."""
_SAMPLED: Final = 1 << 16
"""So many hashes tell the quantiles of a bucket well enough."""


@dataclass(frozen=True, slots=True)
class ResizeBounds:
    """How much one schedule takes on: bytes count first, then partitions."""

    most_bytes: int = 2 << 30
    most_partitions: int = 1_000


@dataclass(frozen=True, slots=True)
class BucketResize:
    """Buckets of a partition that become others."""

    partition: str
    sequence: int
    """That of the ring which it changes."""
    slices: tuple[FileSlice, ...]
    """The file slices of the buckets; empty buckets have none."""
    children: tuple[HashNode, ...]
    planned_logs: frozenset[str] = frozenset()
    """The log files that the buckets had when the change was planned."""

    @property
    def outputs(self) -> tuple[HashNode, ...]:
        """The buckets that take the rows."""
        return tuple(node for node in self.children if node.tag is not NodeTag.DELETE)

    def extra(self) -> dict[str, str]:
        """What a group of a plan says of it, as Hudi reads it."""
        nodes = [
            {"value": node.value, "fileIdPrefix": node.prefix or None, "tag": node.tag.value}
            for node in self.children
        ]
        return {
            PARTITION_KEY: self.partition,
            SEQUENCE_KEY: str(self.sequence),
            NODES_KEY: json.dumps(nodes, indent=2),
        }


@dataclass(frozen=True)
class RingTable:
    """The buckets of a table whose number follows their sizes."""

    options: BucketOptions
    engine: RingEngine

    @classmethod
    def of(cls, options: BucketOptions | None, snapshot: Snapshot) -> RingTable:
        """The buckets of a table, as a snapshot shows them.

        Raises:
            InvalidInput: it has none, or a fixed number of them; the message says what to do.
        """
        name = snapshot.config.name
        if options is None:
            raise InvalidInput(f"table {name} has no bucket index to resize")
        engine = bucket_engine(options, snapshot.storage, snapshot.timeline)
        if not isinstance(engine, RingEngine):
            raise InvalidInput(
                f"table {name} has a fixed number of buckets ({options.engine.value}), which only "
                "a rescale changes: name the new number"
            )
        return cls(options, engine)

    def ring(self, snapshot: Snapshot, partition: str) -> HashRing:
        """The present ring of a partition, checked against its file groups."""
        own = [each for each in snapshot.slices if each.partition == partition]
        return self.engine.buckets(partition, own).ring


def named_policy(name: str, engine: BucketEngineType) -> ResizePolicy:
    """The policy of a name, as the engine takes it: buckets of prefixes have one of their own."""
    if engine is BucketEngineType.EXTENDIBLE_HASHING:
        return PrefixPolicy()
    return POLICIES[PolicyName(name)]


def resize_limits(max_file_size: int, options: ResizeOptions) -> ResizeLimits:
    """When buckets are split and merged, as options say it.

    Example:
        >>> resize_limits(1000, ResizeOptions(most=8)).split_above
        2000
    """
    limits = ResizeLimits.of(
        max_file_size, split=options.split_threshold, merge=options.merge_threshold
    )
    return replace(limits, least=options.least or limits.least, most=options.most or limits.most)


HashSampler: TypeAlias = Callable[[Sequence[FileSlice]], list[Hashes]]
"""Reads the hashes of the keys of some file slices, each in order."""


@dataclass(frozen=True)
class DueResizes:
    """The changes that are due in some partitions."""

    taken: tuple[tuple[PlannedChange, BucketResize], ...]
    """As many as one schedule takes on."""
    waiting: Mapping[str, frozenset[int]]
    """By partition the other buckets that are too large, or would be merged."""


def find_resizes(
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    table: RingTable,
    limits: ResizeLimits,
    *,
    partitions: Sequence[str],
    bounds: ResizeBounds,
    policy: ResizePolicy,
) -> list[BucketResize]:
    """The changes that are due in some partitions, as many as one schedule takes on.

    Partitions that a pending clustering is at work on are left alone, and so are buckets that a
    pending compaction has.

    """

    def sample(slices: Sequence[FileSlice]) -> list[Hashes]:
        tasks = [_HashTask(facts, table.options.fields, each) for each in slices]
        return engine.map("read the keys of large buckets", sample_hashes, tasks)

    rings = ring_partitions(snapshot, table, unchanged_partitions(snapshot, partitions))
    due = due_resizes(rings, limits, sample, bounds=bounds, policy=policy)
    return [resize for _, resize in due.taken]


def due_resizes(
    rings: Mapping[str, RingPartition],
    limits: ResizeLimits,
    sample: HashSampler,
    *,
    bounds: ResizeBounds,
    policy: ResizePolicy,
) -> DueResizes:
    """The changes of some partitions, which no pending clustering is at work on."""
    too_large = list(_too_large(rings.values(), policy, limits))
    large = _bounded(too_large, bounds)
    hashes: dict[tuple[str, int], Hashes] = {}
    if policy.needs_hashes and large:
        slices = [rings[partition].slices[number] for partition, number in large]
        hashes = dict(zip(large, sample(slices), strict=True))
    found = []
    for partition, own in rings.items():
        sizes = own.sizes_without([n for p, n in large if p == partition], policy, limits)
        sampled = {number: each for (name, number), each in hashes.items() if name == partition}
        for change in policy.changes(own.ring, sizes, limits, sampled.__getitem__):
            slices = [own.slices[n] for n in change.numbers if n in own.slices]
            if slices:
                resize = BucketResize(partition, own.ring.sequence, tuple(slices), change.children)
                found.append((PlannedChange(partition, change, base_bytes(slices)), resize))
    resizes = {id(planned): (planned, resize) for planned, resize in found}
    taken = within_bounds(
        [planned for planned, _ in found], bounds.most_bytes, bounds.most_partitions
    )
    chosen = {id(each) for each in taken}
    waiting: dict[str, set[int]] = defaultdict(set)
    for _, partition, number in too_large:
        if (partition, number) not in large:
            waiting[partition].add(number)
    for planned, _ in found:
        if id(planned) not in chosen:
            waiting[planned.partition].update(planned.change.numbers)
    return DueResizes(
        tuple(resizes[id(each)] for each in taken),
        {partition: frozenset(numbers) for partition, numbers in waiting.items()},
    )


def still_holds(snapshot: Snapshot, table: RingTable, found: BucketResize) -> BucketResize | None:
    """A change with the file slices as they are now; None where the partition is another one."""
    if not unchanged_partitions(snapshot, [found.partition]):
        return None
    now = ring_partitions(snapshot, table, [found.partition])[found.partition]
    if now.ring.sequence != found.sequence:
        return None
    slices = {each.id: each for each in now.slices.values()}
    closed = pending_groups(snapshot.timeline)
    if any(each.id not in slices or each.id in closed for each in found.slices):
        return None
    own = tuple(slices[each.id] for each in found.slices)
    return BucketResize(found.partition, found.sequence, own, found.children)


def resize_of_group(group: ClusteringGroup, slices: Iterable[FileSlice], plan: str) -> BucketResize:
    """The change that a group of a plan describes, whoever planned it.

    Raises:
        CorruptFile: the group does not describe one.
    """
    extra = group.extra or {}
    missing = {PARTITION_KEY, SEQUENCE_KEY, NODES_KEY} - extra.keys()
    if missing or not extra[SEQUENCE_KEY].isdigit():
        raise CorruptFile(plan, 0, expected="the children of a bucket", actual=str(extra)[:200])
    nodes = nodes_of_plan(extra[NODES_KEY], path=plan)
    kept = [node for node in nodes if node.tag is not NodeTag.DELETE]
    if not kept or not all(node.prefix for node in kept):
        raise CorruptFile(plan, 0, expected="buckets that take the rows", actual=str(nodes)[:200])
    logs = frozenset(name for each in group.slices for name in each.log_files)
    return BucketResize(
        extra[PARTITION_KEY], int(extra[SEQUENCE_KEY]), tuple(slices), tuple(nodes), logs
    )


@dataclass(frozen=True)
class RingPartition:
    """The buckets of a partition with their file slices."""

    name: str
    ring: HashRing
    slices: Mapping[int, FileSlice]
    """By the number of the bucket; empty buckets have none."""
    sizes: tuple[BucketSize, ...]

    @classmethod
    def of(
        cls,
        table: RingTable,
        partition: str,
        own: Sequence[FileSlice],
        closed: Collection[FileSliceId],
    ) -> RingPartition:
        """The buckets with some file slices, of which a pending service has closed some."""
        ring = table.engine.buckets(partition, own).ring
        numbers = {node.file_id: number for number, node in enumerate(ring.nodes)}
        slices = {numbers[each.file_id]: each for each in own}
        sizes = tuple(
            BucketSize(
                number, base_bytes([slices[number]]), is_free=slices[number].id not in closed
            )
            if number in slices
            else BucketSize(number, 0)
            for number in range(len(ring.nodes))
        )
        return cls(partition, ring, slices, sizes)

    def sizes_without(
        self, taken: Sequence[int], policy: ResizePolicy, limits: ResizeLimits
    ) -> list[BucketSize]:
        """The sizes, where buckets that this schedule has no room to split are not free."""
        left = {each.number for each in policy.too_large(self.sizes, limits)}.difference(taken)
        return [
            BucketSize(each.number, each.size_bytes, is_free=False) if each.number in left else each
            for each in self.sizes
        ]


def ring_partitions(
    snapshot: Snapshot, table: RingTable, partitions: Iterable[str]
) -> dict[str, RingPartition]:
    """The buckets of some partitions.

    Raises:
        CorruptFile: hashing metadata cannot be read.
        IndexUnusable: file groups are not those of the hashing metadata.
    """
    slices: dict[str, list[FileSlice]] = {each: [] for each in partitions}
    for each in snapshot.slices:
        if each.partition in slices:
            slices[each.partition].append(each)
    closed = pending_groups(snapshot.timeline)
    return {name: RingPartition.of(table, name, own, closed) for name, own in slices.items()}


def unchanged_partitions(snapshot: Snapshot, partitions: Iterable[str]) -> list[str]:
    """The partitions that no pending clustering is at work on.

    Two versions of a ring count in the order of their instants, so that of two resizes at once the
    later one would hide what the other did.
    """
    held = {each.partition for each in clustered_groups(snapshot.timeline)}
    return [each for each in partitions if each not in held]


def base_bytes(slices: Iterable[FileSlice]) -> int:
    """About the bytes of the rows of some slices in base files."""
    total = 0.0
    for each in slices:
        base = each.base.size_bytes if each.base is not None else 0
        total += base + (each.size_bytes - base) * _LOG_SHARE
    return int(total)


def _too_large(
    partitions: Iterable[RingPartition], policy: ResizePolicy, limits: ResizeLimits
) -> Iterator[tuple[int, str, int]]:
    for own in partitions:
        for each in policy.too_large(own.sizes, limits):
            yield each.size_bytes, own.name, each.number


def _bounded(large: Iterable[tuple[int, str, int]], bounds: ResizeBounds) -> list[tuple[str, int]]:
    """The largest buckets, as many as one schedule takes on; at least one."""
    taken: list[tuple[str, int]] = []
    left, partitions = bounds.most_bytes, set[str]()
    for size, partition, number in sorted(large, reverse=True):
        is_new = partition not in partitions
        if taken and (size > left or (is_new and len(partitions) >= bounds.most_partitions)):
            continue
        taken.append((partition, number))
        partitions.add(partition)
        left -= size
    return taken


@dataclass(frozen=True)
class _HashTask:
    facts: WriteContext
    fields: tuple[str, ...]
    slice: FileSlice


def sample_hashes(task: _HashTask) -> Hashes:
    """As `slice_hashes`, for a worker."""
    return slice_hashes(task.facts.read_context(), task.fields, task.slice)


def slice_hashes(context: ReadContext, fields: Sequence[str], file_slice: FileSlice) -> Hashes:
    """The hashes of the keys of a bucket in order, evenly thinned out where they are many."""
    parts = [
        ring_hashes(hash_keys(context.record_keys(rows), fields))
        for rows in read_slice(context, file_slice, [RECORD_KEY])
    ]
    hashes = np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint32)
    step = max(1, -(-len(hashes) // _SAMPLED))
    return hashes[step // 2 :: step]
