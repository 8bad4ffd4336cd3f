"""Which buckets of a ring are split or merged, and into which ranges.

A bucket above `split_above` bytes is split; adjacent small buckets are merged, also across the end
of the ring. A `ResizePolicy` decides; what it decides is pure, so that it can be tried without a
table:

    RecordsPolicy      splits where the records are halved, several ways at once; merges up to half
                       of the target
    MiddlePolicy       Hudi's: two ways, at the middle of the range; its rule of merging
    PrefixPolicy       extendible hashing: halves of a prefix, and merges of buddies

A plan of any of them has the form of Hudi's: the children of a group of buckets, with tags.
"""

from __future__ import annotations

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final

import numpy as np

from lakedex.errors import InvalidInput
from lakedex.index.kinds.bucket.hashes import HASH_MASK, Hashes
from lakedex.index.kinds.bucket.ring import HashNode, HashRing, NodeTag, local_depths

_SPACE: Final = HASH_MASK + 1
_FILL: Final = 0.75
"""Children of a split are made so large, relative to the target, that both they and what grows
out of them before the next split are near it."""
_MOST_WAYS: Final = 256
_MOST_BUCKETS: Final = 1_000_000
_MOST_LEVELS: Final = 8
"""So many bits a split of extendible hashing adds to a prefix at once."""
_LEAST_RECORDS: Final = 4
"""Children of fewer records are not made: a file without any rows has a size of its own."""


@dataclass(frozen=True, slots=True)
class ResizeLimits:
    """From which size on buckets are split or merged, and how many there may be.

    Example:
        >>> limits = ResizeLimits.of(1000, split=2.0, merge=0.2)
        >>> limits.split_above, limits.merge_below
        (2000, 200)
    """

    target_bytes: int
    """How large the base file of a bucket is meant to be."""
    split_above: int
    merge_below: int
    least: int = 1
    """The fewest buckets of a partition."""
    most: int = _MOST_BUCKETS
    """The most buckets of a partition."""

    @classmethod
    def of(
        cls,
        target_bytes: int,
        *,
        split: float,
        merge: float,
        least: int = 1,
        most: int = _MOST_BUCKETS,
    ) -> ResizeLimits:
        """The limits of Hudi's options, whose thresholds are shares of the file size.

        Raises:
            InvalidInput: what is split would be merged again, or the bounds are empty.
        """
        if not 0 <= merge < split:
            raise InvalidInput(
                f"buckets are merged below {merge} and split above {split} of the file size; the "
                "first must be the smaller one"
            )
        if not 1 <= least <= most:
            raise InvalidInput(f"a partition cannot have {least} to {most} buckets")
        return cls(target_bytes, int(target_bytes * split), int(target_bytes * merge), least, most)


@dataclass(frozen=True, slots=True)
class BucketSize:
    """A bucket of a ring as a policy sees it."""

    number: int
    size_bytes: int
    """About the bytes of its rows in a base file."""
    is_free: bool = True
    """Whether no pending compaction or clustering has it."""


@dataclass(frozen=True, slots=True)
class BucketChange:
    """Buckets that become others."""

    numbers: tuple[int, ...]
    """The nodes of the ring, in its order; a merge may go across its end."""
    children: tuple[HashNode, ...]
    """The new nodes, and those that go away, as a plan names them."""

    @property
    def is_split(self) -> bool:
        """Whether one bucket becomes several."""
        return len(self.numbers) == 1

    @property
    def outputs(self) -> tuple[HashNode, ...]:
        """The buckets that take the rows."""
        return tuple(node for node in self.children if node.tag is not NodeTag.DELETE)


HashesOf = Callable[[int], Hashes]
"""The hashes of the keys of a bucket, by its number in the ring."""


class ResizePolicy(ABC):
    """Decides which buckets of a ring are split and merged.

    One of another package extends this class and is given to `schedule_resize`.
    """

    needs_hashes: bool = False
    """Whether `changes` asks for the hashes of the keys of buckets that are too large."""

    @abstractmethod
    def changes(
        self,
        ring: HashRing,
        sizes: Sequence[BucketSize],
        limits: ResizeLimits,
        hashes: HashesOf,
    ) -> list[BucketChange]:
        """The changes of one partition; no bucket is in two of them.

        Args:
            ring: The present ring.
            sizes: Its buckets in order, empty ones too.
            limits: When to split and merge.
            hashes: The hashes of the keys of a bucket.
        """

    def too_large(self, sizes: Sequence[BucketSize], limits: ResizeLimits) -> list[BucketSize]:
        """The buckets that are to be split, the largest first."""
        found = [each for each in sizes if each.is_free and each.size_bytes > limits.split_above]
        return sorted(found, key=lambda each: (-each.size_bytes, each.number))


class RecordsPolicy(ResizePolicy):
    """Splits a bucket so that its children have equally many records; lakedex's default."""

    needs_hashes = True

    def changes(
        self,
        ring: HashRing,
        sizes: Sequence[BucketSize],
        limits: ResizeLimits,
        hashes: HashesOf,
    ) -> list[BucketChange]:
        """Splits into as many children as fit the target, then merges of what is left."""
        found: list[BucketChange] = []
        room = limits.most - len(ring.nodes)
        for each in self.too_large(sizes, limits):
            stored = hashes(each.number)
            ways = _ways(each.size_bytes, limits.target_bytes)
            ways = min(ways, room + 1, len(stored) // _LEAST_RECORDS)
            if ways < 2:
                continue
            begin, value = ring.ranges()[each.number]
            points = split_points(stored, begin, value, ways)
            if points:
                found.append(split_of(ring, each.number, points))
                room -= len(points)
        return found + _merges(
            ring, _without(sizes, found), limits, _removable(ring, found, limits)
        )


class MiddlePolicy(ResizePolicy):
    """Hudi's policy: halves of a range, and merges of small neighbours."""

    def changes(
        self,
        ring: HashRing,
        sizes: Sequence[BucketSize],
        limits: ResizeLimits,
        hashes: HashesOf,
    ) -> list[BucketChange]:
        """Splits in two, then merges of what is left."""
        del hashes
        found: list[BucketChange] = []
        room = limits.most - len(ring.nodes)
        for each in self.too_large(sizes, limits):
            begin, value = ring.ranges()[each.number]
            if len(found) < room and begin != value:
                found.append(split_of(ring, each.number, [ring.split_at(each.number)]))
        small = replace(limits, target_bytes=2 * limits.merge_below)
        return found + _merges(ring, _without(sizes, found), small, _removable(ring, found, limits))


class PrefixPolicy(ResizePolicy):
    """Extendible hashing: a split adds bits to the prefix of a bucket, a merge takes one away."""

    needs_hashes = True

    def changes(
        self,
        ring: HashRing,
        sizes: Sequence[BucketSize],
        limits: ResizeLimits,
        hashes: HashesOf,
    ) -> list[BucketChange]:
        """Splits at prefixes until each part is small enough, then merges of buddies.

        Raises:
            InvalidInput: a bucket of the ring is no prefix.
        """
        depths = local_depths(ring)
        found: list[BucketChange] = []
        room = limits.most - len(ring.nodes)
        for each in self.too_large(sizes, limits):
            begin, value = ring.ranges()[each.number]
            stored = np.sort(hashes(each.number))
            wanted = limits.split_above * len(stored) // each.size_bytes
            points = _prefix_points(stored, begin, value, wanted, room)
            if points:
                found.append(split_of(ring, each.number, points))
                room -= len(points)
        left = {each.number: each for each in _without(sizes, found) if each.is_free}
        least = _removable(ring, found, limits)
        return found + list(_buddies(ring, depths, left, limits, least))


class PolicyName(Enum):
    """The policies by their names in options."""

    RECORDS = "records"
    MIDDLE = "middle"


POLICIES: Final[Mapping[PolicyName, ResizePolicy]] = {
    PolicyName.RECORDS: RecordsPolicy(),
    PolicyName.MIDDLE: MiddlePolicy(),
}


def rescaled_count(sizes: Sequence[int], limits: ResizeLimits) -> int | None:
    """How many buckets a partition with a fixed number of them should have; None for as many.

    One number is right for all buckets, so that their mean size decides, by the limits from which a
    bucket of a ring would be split or merged. A power of two, so that partitions of about one size
    get the same number.

    Args:
        sizes: About the bytes of each bucket in a base file, empty ones included.
        limits: When buckets are split and merged.

    Example:
        >>> limits = ResizeLimits.of(1000, split=2.0, merge=0.2)
        >>> rescaled_count([3000] * 4, limits), rescaled_count([1500] * 4, limits)
        (16, None)
        >>> rescaled_count([100] * 16, limits)
        2
    """
    count, total = len(sizes), sum(sizes)
    mean = total / max(1, count)
    if not total or limits.merge_below <= mean <= limits.split_above:
        return None
    wanted = total / max(1, int(limits.target_bytes * _FILL))
    found = 2 ** max(0, round(math.log2(wanted)))
    found = min(max(found, limits.least), limits.most)
    is_better = found > count if mean > limits.split_above else found < count
    return found if is_better else None


def split_points(hashes: Hashes, begin: int, value: int, ways: int) -> list[int]:
    """The last hash values of all children but the last, which have equally many records.

    Fewer, or none, where too many records have one hash value.

    Args:
        hashes: The hashes of the records of the bucket.
        begin: The first hash value of the bucket, which may be above its last one.
        value: Its last hash value.
        ways: How many children are wanted.

    Example:
        >>> split_points(np.array([1, 2, 3, 900], dtype=np.uint32), 0, 1000, 2)
        [2]
        >>> split_points(np.array([7, 7, 7], dtype=np.uint32), 0, 1000, 2)
        []
    """
    turned = (hashes.astype(np.int64) - begin) % _SPACE
    values, counts = np.unique(turned, return_counts=True)
    if len(values) < 2:
        return []
    below = np.cumsum(counts)[:-1]
    shares = below[-1:] + counts[-1:]
    wanted = shares * np.arange(1, ways) / ways
    # Of two places beside a share the nearer one; the last value stays in the last child.
    at = np.searchsorted(below, wanted).clip(0, len(below) - 1)
    lower = np.maximum(at - 1, 0)
    nearer = np.where(wanted - below[lower] <= np.abs(below[at] - wanted), lower, at)
    points = np.unique(values[:-1][nearer])
    last = (value - begin) % _SPACE
    return [int((point + begin) % _SPACE) for point in points if point < last]


def split_of(ring: HashRing, number: int, points: Iterable[int]) -> BucketChange:
    """The split of a bucket at hash values, which are the last ones of its lower children."""
    values = [*points, ring.nodes[number].value]
    return BucketChange((number,), tuple(_child(value) for value in values))


def merge_of(ring: HashRing, numbers: Sequence[int]) -> BucketChange:
    """The merge of adjacent buckets into the last of them.

    Raises:
        InvalidInput: they are not adjacent.
    """
    count = len(ring.nodes)
    if any((one + 1) % count != other for one, other in pairwise(numbers)):
        raise InvalidInput(f"the buckets {list(numbers)} of a ring of {count} are not adjacent")
    gone = [HashNode(ring.nodes[each].value, "", NodeTag.DELETE) for each in numbers[:-1]]
    return BucketChange(tuple(numbers), (*gone, _child(ring.nodes[numbers[-1]].value)))


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change with its partition and about how many bytes it reads."""

    partition: str
    change: BucketChange
    size_bytes: int


def within_bounds(
    changes: Iterable[PlannedChange], most_bytes: int, most_partitions: int
) -> list[PlannedChange]:
    """As many changes as one schedule takes on: bounded by bytes first, then by partitions.

    Splits go first, the largest of them at the front; one change is always taken.

    Example:
        >>> split = BucketChange((0,), ())
        >>> some = [PlannedChange(name, split, size) for name, size in [("a", 5), ("b", 9)]]
        >>> [each.partition for each in within_bounds(some, 10, 5)]
        ['b']
    """
    taken: list[PlannedChange] = []
    left, partitions = most_bytes, set[str]()
    for each in sorted(changes, key=_urgency):
        is_new = each.partition not in partitions
        if taken and (each.size_bytes > left or (is_new and len(partitions) >= most_partitions)):
            continue
        taken.append(each)
        partitions.add(each.partition)
        left -= each.size_bytes
    return taken


def _urgency(each: PlannedChange) -> tuple[bool, int, str, tuple[int, ...]]:
    return (not each.change.is_split, -each.size_bytes, each.partition, each.change.numbers)


def _ways(size_bytes: int, target_bytes: int) -> int:
    return max(2, min(_MOST_WAYS, -(-size_bytes // max(1, int(target_bytes * _FILL)))))


def _child(value: int) -> HashNode:
    # A plan is on the timeline before any file, so that all who run it write the same groups.
    return HashNode(value, str(uuid.uuid4()), NodeTag.REPLACE)


def _without(sizes: Sequence[BucketSize], changes: Iterable[BucketChange]) -> list[BucketSize]:
    """The buckets with those of some changes no longer free."""
    taken = {number for change in changes for number in change.numbers}
    return [replace(each, is_free=False) if each.number in taken else each for each in sizes]


def _removable(ring: HashRing, splits: Sequence[BucketChange], limits: ResizeLimits) -> int:
    """How many buckets merges may take away."""
    added = sum(len(change.outputs) - 1 for change in splits)
    return max(0, len(ring.nodes) + added - limits.least)


def _merges(
    ring: HashRing, sizes: Sequence[BucketSize], limits: ResizeLimits, removable: int
) -> list[BucketChange]:
    """Merges of each small bucket with its neighbours, while they fit the target together."""
    count = len(ring.nodes)
    by_number = {each.number: each for each in sizes}
    free = {each.number for each in sizes if each.is_free}
    found: list[BucketChange] = []
    small = [each for each in sizes if each.is_free and each.size_bytes < limits.merge_below]
    for each in sorted(small, key=lambda each: (each.size_bytes, each.number)):
        if each.number not in free:
            continue
        run, total = [each.number], each.size_bytes
        free.remove(each.number)
        while total < limits.target_bytes // 2 and len(run) <= removable:
            beside = {(run[0] - 1) % count, (run[-1] + 1) % count} & free
            fitting = [n for n in beside if total + by_number[n].size_bytes <= limits.target_bytes]
            if not fitting:
                break
            chosen = min(fitting, key=lambda n: (by_number[n].size_bytes, n))
            is_after = (run[-1] + 1) % count == chosen
            run = [*run, chosen] if is_after else [chosen, *run]
            total += by_number[chosen].size_bytes
            free.remove(chosen)
        if len(run) > 1:
            found.append(merge_of(ring, run))
            removable -= len(run) - 1
    return found


def _prefix_points(stored: Hashes, begin: int, value: int, wanted: int, room: int) -> list[int]:
    """Where to divide a prefix so that no part has more than the wanted number of records.

    The parts with most records are halved first, while there is room for more buckets.
    """
    parts = [(begin, value, 0)]
    points: list[int] = []
    while len(points) < room:
        counted = [
            (_count(stored, first, last), first, last, level) for first, last, level in parts
        ]
        can = [each for each in counted if each[1] < each[2] and each[3] < _MOST_LEVELS]
        records, first, last, level = max(can, default=(0, 0, 0, 0))
        if records <= wanted or records < 2 * _LEAST_RECORDS:
            break
        middle = (first + last) // 2
        parts.remove((first, last, level))
        parts += [(first, middle, level + 1), (middle + 1, last, level + 1)]
        points.append(middle)
    return sorted(points)


def _count(stored: Hashes, first: int, last: int) -> int:
    ends = np.searchsorted(stored, np.array([first, last + 1], dtype=np.int64))
    return int(ends[1] - ends[0])


def _buddies(
    ring: HashRing,
    depths: Sequence[int],
    free: Mapping[int, BucketSize],
    limits: ResizeLimits,
    removable: int,
) -> Iterator[BucketChange]:
    """Merges of small buckets that share all bits of their prefix but the last."""
    for number in range(len(ring.nodes) - 1):
        depth = depths[number]
        is_pair = depth == depths[number + 1] and depth > 0
        width = _SPACE >> depth
        is_left = ring.ranges()[number][0] % (2 * width) == 0
        if not (is_pair and is_left and {number, number + 1} <= free.keys() and removable):
            continue
        pair = [free[number].size_bytes, free[number + 1].size_bytes]
        if min(pair) < limits.merge_below and sum(pair) <= limits.target_bytes:
            yield merge_of(ring, [number, number + 1])
            removable -= 1
