"""Engines of bucket indexes: from the hash of a key to its bucket and its file group.

A file id is a function of the partition, the bucket and its generation, so that whoever makes a
file group for a bucket, at whatever attempt, makes the same one. A generation ends when a write
replaces the file group: its file id is not used again.

    SIMPLE                 bucket = hash mod n; the file id begins with the bucket, in 8 digits
    CONSISTENT_HASHING     a ring of ranges; the ring names the file groups
    EXTENDIBLE_HASHING     the same, of ranges that are prefixes of the hash, found by a directory

It imports only what executors need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.errors import CorruptFile, IndexUnusable
from lakedex.filegroup import FileSlice
from lakedex.index.kinds.bucket.hashes import Hashes, HashKeys, list_hashes, ring_hashes
from lakedex.index.kinds.bucket.hashing_metadata import REMEDY, HashingMetadata
from lakedex.index.kinds.bucket.partition_counts import PartitionCounts, load_partition_counts
from lakedex.index.kinds.bucket.ring import (
    FIRST_INSTANT,
    GROUP_SUFFIX,
    Directory,
    HashRing,
    even_ring,
    name_uuid,
    prefix_ring,
    ring_positions,
)
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Timeline
from lakedex.timeline.instant_time import instant_key

Positions = npt.NDArray[np.int64]
_DIGITS: Final = 8
_MOST_MARKED_A_ROW: Final = 32
"""Sorting the buckets of a few rows costs less than a mark for each bucket."""
_FIRST_RINGS: Final[Mapping[BucketEngineType, Callable[[str, int], HashRing]]] = {
    BucketEngineType.CONSISTENT_HASHING: even_ring,
    BucketEngineType.EXTENDIBLE_HASHING: prefix_ring,
}


class PartitionBuckets(ABC):
    """The buckets of one partition; it travels to workers."""

    @abstractmethod
    def hashes(self, keys: HashKeys) -> Hashes:
        """The hash of each record, as the engine computes it."""

    @abstractmethod
    def numbers(self, hashes: Hashes) -> Positions:
        """The bucket of each hash."""

    @abstractmethod
    def file_id(self, number: int) -> str:
        """The file group of a bucket, whether it is there or not."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many buckets there are."""

    @abstractmethod
    def group_names(self, numbers: Positions) -> pa.Array:
        """The file groups of some buckets; as `file_id` for all of them."""

    @abstractmethod
    def numbers_of(self, file_ids: Collection[str]) -> Positions:
        """The buckets of file groups, in order; those of no bucket are left out."""

    @property
    def for_workers(self) -> PartitionBuckets:
        """The same buckets in as few bytes as workers need."""
        return self

    def hit(self, hashes: Hashes) -> tuple[Positions, Positions]:
        """The buckets of some hashes, each once and in order, and the place of each hash's."""
        numbers = self.numbers(hashes)
        if self.count > _MOST_MARKED_A_ROW * len(hashes):
            return np.unique(numbers, return_inverse=True)
        is_hit = np.zeros(self.count, dtype=np.bool_)
        is_hit[numbers] = True
        places = np.cumsum(is_hit) - 1
        return np.flatnonzero(is_hit), places[numbers]

    def file_ids(self, keys: HashKeys) -> pa.Array:
        """The file group of each record."""
        numbers, places = self.hit(self.hashes(keys))
        return self.group_names(numbers).take(pa.array(places))


@dataclass(frozen=True)
class SimpleBuckets(PartitionBuckets):
    """Buckets of the engine SIMPLE.

    Example:
        >>> SimpleBuckets("p", 4, {1: "00000001-6ddb-4dff-83ee-36af5292a301-0"}).file_id(1)
        '00000001-6ddb-4dff-83ee-36af5292a301-0'
        >>> SimpleBuckets("p", 4).file_id(1) == SimpleBuckets("p", 4).file_id(1)
        True
    """

    partition: str
    total: int
    present: Mapping[int, str] = field(default_factory=dict)
    """The file groups that are there."""
    generations: Mapping[int, str] = field(default_factory=dict)
    """What replaced the first file group of a bucket, where something did."""
    generation: str = ""
    """The same for all buckets of a partition that a write replaces."""

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return self.total

    def hashes(self, keys: HashKeys) -> Hashes:
        """Java's hash of the list of hash keys."""
        return list_hashes(keys)

    def numbers(self, hashes: Hashes) -> Positions:
        """The remainders."""
        return (hashes % np.uint32(self.total)).astype(np.int64)

    def file_id(self, number: int) -> str:
        """The file group of a bucket."""
        known = self._known(number)
        return known or simple_file_id(self.partition, number, self._generation(number))

    def group_names(self, numbers: Positions) -> pa.Array:
        """The file groups of some buckets."""
        wanted = numbers.tolist()
        names = pa.array([self._known(number) for number in wanted], pa.string())
        if not names.null_count:
            return names
        tails: dict[str, str] = {}
        for number in wanted:
            generation = self._generation(number)
            if generation not in tails:
                tails[generation] = _simple_tail(self.partition, generation)
        ends = pa.array([tails[self._generation(number)] for number in wanted], pa.string())
        digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=_DIGITS, padding="0")
        return pc.coalesce(names, pc.binary_join_element_wise(digits, ends, ""))

    def numbers_of(self, file_ids: Collection[str]) -> Positions:
        """The buckets of file groups that are there."""
        if not file_ids:
            return np.empty(0, dtype=np.int64)
        found = sorted(number for number, each in self.present.items() if each in file_ids)
        return np.array(found, dtype=np.int64)

    def _known(self, number: int) -> str | None:
        return None if self.generation else self.present.get(number)

    def _generation(self, number: int) -> str:
        return self.generation or self.generations.get(number, "")


@dataclass(frozen=True)
class RingBuckets(PartitionBuckets):
    """Buckets of a ring."""

    ring: HashRing
    is_of_prefixes: bool = False

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return len(self.ring.nodes)

    def hashes(self, keys: HashKeys) -> Hashes:
        """xxHash32 of the hash keys."""
        return ring_hashes(keys)

    def numbers(self, hashes: Hashes) -> Positions:
        """The nodes that own the hashes."""
        return self.for_workers.numbers(hashes)

    def file_id(self, number: int) -> str:
        """The file group of a node."""
        return self.ring.nodes[number].file_id

    def group_names(self, numbers: Positions) -> pa.Array:
        """The file groups of some nodes."""
        return self.for_workers.group_names(numbers)

    def numbers_of(self, file_ids: Collection[str]) -> Positions:
        """The nodes of file groups."""
        return self.for_workers.numbers_of(file_ids)

    @cached_property
    def for_workers(self) -> RangeBuckets:
        """The ranges without their nodes."""
        directory = Directory.of(self.ring) if self.is_of_prefixes else None
        return RangeBuckets(
            self.ring.values, pa.array([node.prefix for node in self.ring.nodes]), directory
        )


@dataclass(frozen=True, eq=False)
class RangeBuckets(PartitionBuckets):
    """Buckets of a ring as workers need them: a node is an object, and a ring may have many.

    Example:
        >>> buckets = RingBuckets(even_ring("c=c1", 4)).for_workers
        >>> buckets.numbers(np.array([536870912, 536870913], dtype=np.uint32)).tolist()
        [0, 1]
        >>> buckets.file_id(0)
        '0fc23cdb-2778-367b-b4cb-a5fe650a3679-0'
    """

    values: Hashes
    """The last hash value of each bucket."""
    prefixes: pa.Array
    """Their file ids without `-0`."""
    directory: Directory | None = None
    """What finds the bucket of a hash value sooner, if there is one."""

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return len(self.values)

    def hashes(self, keys: HashKeys) -> Hashes:
        """xxHash32 of the hash keys."""
        return ring_hashes(keys)

    def numbers(self, hashes: Hashes) -> Positions:
        """The buckets that own the hashes."""
        if self.directory is not None:
            return self.directory.positions(hashes)
        return ring_positions(self.values, hashes)

    def file_id(self, number: int) -> str:
        """The file group of a bucket."""
        return f"{self.prefixes[number].as_py()}{GROUP_SUFFIX}"

    def group_names(self, numbers: Positions) -> pa.Array:
        """The file groups of some buckets."""
        return pc.binary_join_element_wise(self.prefixes.take(pa.array(numbers)), GROUP_SUFFIX, "")

    def numbers_of(self, file_ids: Collection[str]) -> Positions:
        """The buckets of file groups."""
        names = pc.binary_join_element_wise(self.prefixes, GROUP_SUFFIX, "")
        is_wanted = pc.is_in(names, value_set=pa.array(list(file_ids), pa.string()))
        return np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))


class BucketEngine(ABC):
    """The buckets of a table, as the driver knows them."""

    @abstractmethod
    def buckets(self, partition: str, slices: Iterable[FileSlice]) -> PartitionBuckets:
        """The buckets of a partition with these file slices.

        Raises:
            CorruptFile: its hashing metadata cannot be read.
            IndexUnusable: its file groups are not those of its buckets.
        """

    @abstractmethod
    def created(self, partition: str, slices: Iterable[FileSlice]) -> PartitionBuckets:
        """The same for a write, which makes hashing metadata where a partition has none yet."""

    @abstractmethod
    def replaced(
        self, partition: str, slices: Iterable[FileSlice], instant: str
    ) -> PartitionBuckets:
        """The buckets of a partition once the write of an instant has replaced its file groups."""


@dataclass(frozen=True)
class SimpleEngine(BucketEngine):
    """The engine SIMPLE: a fixed number of buckets, which may differ by partition."""

    options: BucketOptions
    timeline: Timeline
    counts: PartitionCounts

    def buckets(self, partition: str, slices: Iterable[FileSlice]) -> SimpleBuckets:
        """The buckets, with the file groups that are there."""
        count = self.counts.count(partition)
        present: dict[int, str] = {}
        for each in slices:
            number = bucket_number(each.file_id)
            if number is None or number >= count:
                raise IndexUnusable(
                    f"the file group {each.file_id} of partition {partition!r} is none of its "
                    f"{count} buckets"
                )
            if number in present:
                raise IndexUnusable(
                    f"bucket {number} of partition {partition!r} has two file groups, "
                    f"{present[number]} and {each.file_id}"
                )
            present[number] = each.file_id
        return SimpleBuckets(partition, count, present, self._generations.get(partition, {}))

    def created(self, partition: str, slices: Iterable[FileSlice]) -> SimpleBuckets:
        """The same, as there is nothing to make."""
        return self.buckets(partition, slices)

    def replaced(self, partition: str, slices: Iterable[FileSlice], instant: str) -> SimpleBuckets:
        """The same buckets with other file groups."""
        del slices
        return SimpleBuckets(partition, self.counts.count(partition), generation=instant)

    @cached_property
    def _generations(self) -> Mapping[str, Mapping[int, str]]:
        """The instants that last replaced the file group of a bucket, by partition and bucket."""
        found: dict[str, dict[int, str]] = {}
        for partition, replaced in _replacements(self.timeline).items():
            for file_id, instant in replaced.items():
                number = bucket_number(file_id)
                if number is not None:
                    found.setdefault(partition, {})[number] = instant
        return found


@dataclass(frozen=True)
class RingEngine(BucketEngine):
    """The engines CONSISTENT_HASHING and EXTENDIBLE_HASHING: a ring for each partition."""

    options: BucketOptions
    metadata: HashingMetadata

    def buckets(self, partition: str, slices: Iterable[FileSlice]) -> RingBuckets:
        """The present ring; the first one where there is none."""
        own = list(slices)
        ring = self.metadata.load(partition, own)
        if ring is None and own:
            raise IndexUnusable(
                f"partition {partition!r} has file groups and no hashing metadata "
                f"({self.metadata.path(partition, FIRST_INSTANT)} is missing); {REMEDY}"
            )
        return self.of_ring(ring or self.first(partition))

    def created(self, partition: str, slices: Iterable[FileSlice]) -> RingBuckets:
        """The present ring; the first one is stored where there is none.

        Hudi's writes that replace file groups, such as its drop of a partition, leave the ring as
        it was. Rows for a file group that was replaced would not be seen by anyone, so that its
        bucket gets another one.
        """
        own = list(slices)
        ring = self.metadata.load_or_create(self.first(partition), own)
        known = {each.file_id for each in own}
        replaced = _replacements(self.metadata.timeline).get(partition, {})
        gone = {
            file_id: instant
            for node in ring.nodes
            if (file_id := node.file_id) not in known and (instant := replaced.get(file_id))
        }
        if gone:
            ring = ring.with_new_groups(max(gone.values(), key=instant_key), gone)
            self.metadata.store(ring)
        return self.of_ring(ring)

    def replaced(self, partition: str, slices: Iterable[FileSlice], instant: str) -> RingBuckets:
        """The same ranges with other file groups; stored by the commit, as `ring` has it.

        Of hashing metadata that are lost or damaged nothing is needed: they are the first ones.
        """
        first = self.first(partition)
        try:
            ring = self.metadata.load_or_create(first, slices)
        except (CorruptFile, IndexUnusable):
            ring = first
        return self.of_ring(ring.with_new_groups(instant))

    def first(self, partition: str) -> HashRing:
        """The ring that a partition begins with."""
        return _FIRST_RINGS[self.options.engine](partition, self.options.count)

    def of_ring(self, ring: HashRing) -> RingBuckets:
        """The buckets of a ring, as a resize makes one."""
        return RingBuckets(ring, self.options.engine is BucketEngineType.EXTENDIBLE_HASHING)


def _replacements(timeline: Timeline) -> Mapping[str, Mapping[str, str]]:
    """The instants that replaced file groups, by partition and file group, oldest first."""
    found: dict[str, dict[str, str]] = {}
    for instant in timeline.write_instants():
        if instant.action is not Action.REPLACECOMMIT:
            continue
        replaced = timeline.commit_summary(instant).replaced_file_ids
        for partition, file_ids in replaced.items():
            found.setdefault(partition, {}).update(dict.fromkeys(file_ids, instant.requested_time))
    return found


def bucket_engine(options: BucketOptions, storage: Storage, timeline: Timeline) -> BucketEngine:
    """The engine of a table.

    Raises:
        CorruptFile: the numbers of buckets by partition cannot be read.
    """
    if options.engine is BucketEngineType.SIMPLE:
        stored = load_partition_counts(storage, timeline)
        own = PartitionCounts(options.expressions, options.count, options.rule)
        return SimpleEngine(options, timeline, stored or own)
    is_of_prefixes = options.engine is BucketEngineType.EXTENDIBLE_HASHING
    return RingEngine(options, HashingMetadata(storage, timeline, is_of_prefixes))


def simple_file_id(partition: str, number: int, generation: str = "") -> str:
    """The file id of a bucket of the engine SIMPLE.

    Example:
        >>> simple_file_id("p", 3)[:9], simple_file_id("p", 3, "2026") == simple_file_id("p", 3)
        ('00000003-', False)
    """
    return f"{number:0{_DIGITS}d}{_simple_tail(partition, generation)}"


def _simple_tail(partition: str, generation: str) -> str:
    """What the file ids of a partition's buckets have after the bucket."""
    return f"{name_uuid(f'buckets {generation} {partition}'.encode())[_DIGITS:]}{GROUP_SUFFIX}"


def bucket_number(file_id: str) -> int | None:
    """The bucket that a file id of the engine SIMPLE names; None for other file ids.

    Example:
        >>> bucket_number("00000003-6ddb-4dff-83ee-36af5292a301-0"), bucket_number("3f-0")
        (3, None)
    """
    digits = file_id[:_DIGITS]
    is_number = len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None
