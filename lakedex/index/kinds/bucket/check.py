"""Verifies a bucket index: every row is in the file group of its bucket.

A bucket has one live file group, so that no key can be in two of a partition. The nodes of a ring
have different values, as reading it checks; so they share out all hash values, each once.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, IndexUnusable, LakedexError
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.index.kinds.bucket.engine import (
    PartitionBuckets,
    RingBuckets,
    RingEngine,
    SimpleBuckets,
    SimpleEngine,
    bucket_number,
)
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER, REMEDY, SUFFIX
from lakedex.index.kinds.bucket.lookup import shown_in
from lakedex.index.kinds.bucket.presence import resized_engine
from lakedex.index.kinds.bucket.ring import FIRST_INSTANT, HashRing, NodeTag
from lakedex.index.kinds.bucket.table import (
    BucketSource,
    BucketTable,
    ParametersUndecided,
    load_bucket_table,
)
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.storage import split
from lakedex.storage.paths import join
from lakedex.timeline.instant_time import instant_key

_NAMED: Final = 20
"""So many versions are named in a note."""
_Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class BucketCheck(Check):
    """Computes the bucket of every row."""

    fields: tuple[str, ...] = ()
    buckets: Mapping[str, PartitionBuckets] = field(default_factory=dict)
    """Those of each partition whose buckets are known."""
    numbers: Mapping[int, int] = field(default_factory=dict)
    """The bucket of each slice that has one, by its number."""
    _astray: dict[int, list[tuple[pa.Array, _Numbers]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By slice the keys that are in a wrong bucket, and the bucket of each."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Compare the bucket of each row with that of its slice."""
        if slice_number not in self.numbers:
            return
        buckets = self.buckets[self.subject.slices[slice_number].partition]
        keys = self.subject.read.record_keys(rows)
        computed = buckets.numbers(buckets.hashes(hash_keys(keys, self.fields)))
        wrong = np.flatnonzero(computed != self.numbers[slice_number])
        with self._lock:
            self.count(len(keys))
            if len(wrong):
                found = (keys.take(pa.array(wrong)), computed[wrong])
                self._astray[slice_number].append(found)

    def finish(self) -> None:
        """Report the rows that are in wrong buckets, and say of which the bucket has one too."""
        by_bucket = {
            (self.subject.slices[number].partition, bucket): number
            for number, bucket in self.numbers.items()
        }
        known: dict[int, pa.Array] = {}
        for number in sorted(self._astray):
            current = self.subject.slices[number]
            for keys, buckets in self._astray[number]:
                rivals = [by_bucket.get((current.partition, each)) for each in buckets.tolist()]
                for each in {rival for rival in rivals if rival is not None} - known.keys():
                    known[each] = self._keys_of(self.subject.slices[each])
                self._report(current, keys, buckets, [self._twice(known, r) for r in rivals])

    def _report(
        self,
        current: FileSlice,
        keys: pa.Array,
        buckets: _Numbers,
        rivals: Sequence[pa.Array | None],
    ) -> None:
        own = bucket_name(self.buckets[current.partition], self._number_of(current))

        def describe(row: int) -> tuple[str, str, FileSliceId]:
            key = keys[row]
            right = bucket_name(self.buckets[current.partition], int(buckets[row]))
            detail = f"its bucket is {right}, and its row is in {own}: {_path(current)}"
            rival = rivals[row]
            if rival is not None and pc.index(rival, key.cast(rival.type)).as_py() >= 0:
                detail += "; its bucket has a row of the key too"
            return key.as_py(), detail, current.id

        self.subject.findings.add_all(self.name, ProblemKind.WRONG, range(len(keys)), describe)

    def _number_of(self, current: FileSlice) -> int:
        return self.numbers[self.subject.slices.places[current.id]]

    def _keys_of(self, current: FileSlice) -> pa.Array:
        try:
            stored = stored_keys(self.subject.read, current)
        except LakedexError:
            return pa.nulls(0, pa.string())  # who reads the data says what is wrong with it
        return stored.keys.filter(pa.array(stored.live))

    @staticmethod
    def _twice(known: Mapping[int, pa.Array], rival: int | None) -> pa.Array | None:
        return None if rival is None else known[rival]


def start(name: str, subject: Subject) -> Check:
    """The check of the bucket index; what is wrong with the index itself is reported at once.

    Raises:
        CorruptFile: the numbers of buckets by partition cannot be read.
        IndexUnusable: the parameters of the index contradict the table.
    """
    table = subject.table
    check = BucketCheck(name, subject, row_columns=frozenset(subject.key_columns))
    source = BucketSource(table.read, table.timeline, lambda: table.slices, table.own())
    try:
        found = load_bucket_table(source, shown_in(table) or resized_engine(table.timeline))
    except ParametersUndecided as error:
        check.note(str(error))
        return check
    by_partition: dict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(subject.slices):
        by_partition[each.partition].append(number)
    check.fields = found.options.fields
    if isinstance(found.engine, SimpleEngine):
        check.buckets, check.numbers = _start_simple(check, found.engine, by_partition)
    else:
        check.buckets, check.numbers = _start_rings(check, found, by_partition)
    return check


def _start_simple(
    check: BucketCheck, engine: SimpleEngine, by_partition: Mapping[str, list[int]]
) -> tuple[dict[str, PartitionBuckets], dict[int, int]]:
    slices = check.subject.slices
    counts = engine.counts.counts([*by_partition])
    buckets: dict[str, PartitionBuckets] = {}
    numbers: dict[int, int] = {}
    for partition, own in by_partition.items():
        count = counts[partition]
        buckets[partition] = SimpleBuckets(partition, count)
        first: dict[int, FileSlice] = {}
        for at in own:
            number = bucket_number(slices[at].file_id)
            if number is None or number >= count:
                detail = f"it is none of the {count} buckets of partition {partition!r}"
                check.problem(ProblemKind.EXTRA, _path(slices[at]), detail, slices[at].id)
                continue
            numbers[at] = number
            other = first.setdefault(number, slices[at])
            if other is not slices[at]:
                detail = f"bucket {number} has two file groups; the other one is {other.file_id}"
                check.problem(ProblemKind.DUPLICATE, _path(slices[at]), detail, slices[at].id)
    return buckets, numbers


def _start_rings(
    check: BucketCheck, found: BucketTable, by_partition: Mapping[str, list[int]]
) -> tuple[dict[str, PartitionBuckets], dict[int, int]]:
    assert isinstance(found.engine, RingEngine)
    slices = check.subject.slices
    buckets: dict[str, PartitionBuckets] = {}
    numbers: dict[int, int] = {}
    outdated: list[str] = []
    left: list[str] = []
    for partition, own in by_partition.items():
        ring = _checked_ring(check, found, partition)
        if ring is None:
            continue
        older, incomplete = _other_versions(check, ring)
        outdated += older
        left += incomplete
        buckets[partition] = RingBuckets(ring)
        places = {node.file_id: number for number, node in enumerate(ring.nodes)}
        for at in own:
            if slices[at].file_id in places:
                numbers[at] = places[slices[at].file_id]
                continue
            path = found.engine.metadata.path(partition, ring.instant)
            detail = f"it is no bucket of the ring in {path}; {REMEDY}"
            check.problem(ProblemKind.EXTRA, _path(slices[at]), detail, slices[at].id)
    _note_versions(check, outdated, "outdated hashing metadata")
    _note_versions(check, left, "hashing metadata of writes that did not complete")
    return buckets, numbers


def _checked_ring(check: BucketCheck, found: BucketTable, partition: str) -> HashRing | None:
    """The ring of a partition; what is wrong with it is reported."""
    assert isinstance(found.engine, RingEngine)
    folder, place = join(FOLDER, partition), FileSliceId(partition, "")
    try:
        ring = found.engine.metadata.load(partition)
    except IndexUnusable as error:
        check.problem(ProblemKind.MISSING, folder, str(error), place)
        return None
    except CorruptFile as error:
        detail = f"partition {partition!r}: {error}"
        check.problem(ProblemKind.UNREADABLE, error.path, detail, place)
        return None
    if ring is None:
        path = found.engine.metadata.path(partition, FIRST_INSTANT)
        detail = f"partition {partition!r} has file groups and no hashing metadata; {REMEDY}"
        check.problem(ProblemKind.MISSING, path, detail, place)
        return None
    for node in ring.nodes:
        if node.tag is not NodeTag.NORMAL:
            detail = f"node {node.value} is tagged {node.tag.value}, as in the plan of a resize"
            check.problem(ProblemKind.WRONG, folder, f"{detail}; {REMEDY}", place)
    return ring


def _other_versions(check: BucketCheck, ring: HashRing) -> tuple[list[str], list[str]]:
    """The versions of a ring that are outdated, and those of writes that did not complete."""
    folder = join(FOLDER, ring.partition)
    names = (split(info.path)[1] for info in check.subject.storage.list(folder))
    instants = sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    newest = instant_key(ring.instant)
    outdated = [each for each in instants if instant_key(each) < newest]
    timeline = check.subject.timeline
    left = [
        each for each in instants if instant_key(each) > newest and not timeline.is_pending(each)
    ]
    paths = [[f"{folder}/{each}{SUFFIX}" for each in versions] for versions in (outdated, left)]
    return paths[0], paths[1]


def _note_versions(check: BucketCheck, paths: Sequence[str], what: str) -> None:
    if paths:
        rest = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        check.note(f"{what}: {', '.join(paths[:_NAMED])}{rest}")


def bucket_name(buckets: PartitionBuckets, number: int) -> str:
    """A bucket as people read it: its number, or the last hash value of its range.

    Example:
        >>> bucket_name(SimpleBuckets("p", 4), 3)
        '3'
    """
    if isinstance(buckets, RingBuckets):
        return f"that of hash value {buckets.ring.nodes[number].value}"
    return str(number)


def _path(current: FileSlice) -> str:
    return current.path_of(current.file_id)
