"""From the buckets of a table to the changes that a resize makes.

The keys of buckets that are too large are read, by workers, for the hashes by which their records
are divided. That takes its time, so it is done before the table is locked; `still_holds` says under
the lock what of it is still true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.engine import Engine
from lakedex.errors import CorruptFile, InvalidInput
from lakedex.filegroup import FileSlice, ReadContext, read_slice
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
from lakedex.index.kinds.bucket.ring import HashNode, HashRing, NodeTag, nodes_of_plan
from lakedex.table import Snapshot
from lakedex.timeline.clustering_plan import ClusteringGroup
from lakedex.txn.conflicts import clustered_groups, pending_groups
from lakedex.write.context import WriteContext

PARTITION_KEY: Final = "clustering.group.partition"
SEQUENCE_KEY: Final = "clustering.group.sequence.no"
NODES_KEY: Final = "clustering.group.child.node"
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
    rings = {each: _Partition.of(snapshot, table, each) for each in _free(snapshot, partitions)}
    large = _bounded(_too_large(rings.values(), policy, limits), bounds)
    hashes: dict[tuple[str, int], Hashes] = {}
    if policy.needs_hashes:
        hashes = _sampled(engine, facts, table, rings, large)
    found = []
    for partition, own in rings.items():
        sizes = own.sizes_without([n for p, n in large if p == partition], policy, limits)
        sampled = {number: each for (name, number), each in hashes.items() if name == partition}
        for change in policy.changes(own.ring, sizes, limits, sampled.__getitem__):
            slices = [own.slices[n] for n in change.numbers if n in own.slices]
            if slices:
                resize = BucketResize(partition, own.ring.sequence, tuple(slices), change.children)
                found.append((PlannedChange(partition, change, _bytes(slices)), resize))
    resizes = {id(planned): resize for planned, resize in found}
    taken = within_bounds(
        [planned for planned, _ in found], bounds.most_bytes, bounds.most_partitions
    )
    return [resizes[id(each)] for each in taken]


def still_holds(snapshot: Snapshot, table: RingTable, found: BucketResize) -> BucketResize | None:
    """A change with the file slices as they are now; None where the partition is another one."""
    if not _free(snapshot, [found.partition]):
        return None
    now = _Partition.of(snapshot, table, found.partition)
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
class _Partition:
    """The buckets of a partition with their file slices."""

    name: str
    ring: HashRing
    slices: Mapping[int, FileSlice]
    sizes: tuple[BucketSize, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, table: RingTable, partition: str) -> _Partition:
        own = [each for each in snapshot.slices if each.partition == partition]
        ring = table.engine.buckets(partition, own).ring
        numbers = {node.file_id: number for number, node in enumerate(ring.nodes)}
        slices = {numbers[each.file_id]: each for each in own}
        closed = pending_groups(snapshot.timeline)
        sizes = tuple(
            BucketSize(number, _bytes([slices[number]]), is_free=slices[number].id not in closed)
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


def _free(snapshot: Snapshot, partitions: Iterable[str]) -> list[str]:
    """The partitions that no pending clustering is at work on.

    Two versions of a ring count in the order of their instants, so that of two resizes at once the
    later one would hide what the other did.
    """
    held = {each.partition for each in clustered_groups(snapshot.timeline)}
    return [each for each in partitions if each not in held]


def _bytes(slices: Iterable[FileSlice]) -> int:
    """About the bytes of the rows of some slices in base files."""
    total = 0.0
    for each in slices:
        base = each.base.size_bytes if each.base is not None else 0
        total += base + (each.size_bytes - base) * _LOG_SHARE
    return int(total)


def _too_large(
    partitions: Iterable[_Partition], policy: ResizePolicy, limits: ResizeLimits
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


def _sampled(
    engine: Engine,
    facts: WriteContext,
    table: RingTable,
    rings: Mapping[str, _Partition],
    large: Sequence[tuple[str, int]],
) -> dict[tuple[str, int], Hashes]:
    tasks = [
        _HashTask(facts, table.options.fields, rings[partition].slices[number])
        for partition, number in large
    ]
    answers = engine.map("read the keys of large buckets", sample_hashes, tasks)
    return dict(zip(large, answers, strict=True))


def sample_hashes(task: _HashTask) -> Hashes:
    """The hashes of the keys of a bucket in order, evenly thinned out where they are many."""
    context: ReadContext = task.facts.read_context()
    parts = [
        ring_hashes(hash_keys(context.record_keys(rows), task.fields))
        for rows in read_slice(context, task.slice, [RECORD_KEY])
    ]
    hashes = np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint32)
    step = max(1, -(-len(hashes) // _SAMPLED))
    return hashes[step // 2 :: step]
