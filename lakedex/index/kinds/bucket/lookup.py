"""The bucket index as a pruner: from the hash keys in a predicate to the buckets that hold them.

Nothing is read but the parameters of the index and the rings. A file group that is no bucket is
kept, and so is every file group of a partition whose ring cannot be read. The file group of a node
never changes its range, so that a ring is right about the file groups that it names, whether it is
the newest one or not.

Where a predicate limits the hash fields of a composite key and leaves a text field of it open, the
keys of the file groups that would be left out are read once: see `keys_of_predicate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lakedex.config.bucket_options import SINCE, BucketEngineType, BucketProperties
from lakedex.errors import IndexUnusable, LakedexError
from lakedex.filegroup import Amount, FileSlice, FileSliceId, Slices
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.index.contract import Answer, IndexedTable, Mask, Question, Stage
from lakedex.index.cost import Estimate, round_trip_seconds
from lakedex.index.kinds.bucket.engine import RingEngine, SimpleEngine, bucket_number
from lakedex.index.kinds.bucket.hashes import hash_keys, list_hashes, ring_hashes
from lakedex.index.kinds.bucket.predicate_keys import PredicateKeys, keys_of_predicate, names_keys
from lakedex.index.kinds.bucket.presence import shown_engine
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.index.kinds.bucket.table import BucketSource, BucketTable, load_bucket_table

NAME: Final = "bucket"
_KEPT: Final = "bucket_index"
_NOT_NAMED: Final = "the predicate has no = or IN on fields of the record key"
_PARAMETERS_S: Final = 0.3e-3
_SAMPLE_S: Final = 4e-3
"""Reading keys of a few small file slices."""
_RING_S: Final = 0.3e-3
_KEY_S: Final = 2e-6
_SLICE_S: Final = 1e-6
_STORED_KEYS_S: Final = 0.7e-3
_STORED_BYTE_S: Final = 1 / 450e6
_SAMPLE_REQUESTS: Final = 6
_RING_REQUESTS: Final = 2


@dataclass
class BucketIndex:
    """What is known of the bucket index of a snapshot."""

    table: BucketTable | None = None
    problem: str | None = None
    """Why the index cannot be used."""
    rings: dict[str, HashRing | str] = field(default_factory=dict)
    """By partition, or why there is none."""
    plain: dict[FileSliceId, bool] = field(default_factory=dict)
    """Whether each key of a slice has as many hash keys as there are hash fields."""

    @property
    def is_loaded(self) -> bool:
        """Whether the parameters are known, or known to be missing."""
        return self.table is not None or self.problem is not None


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Which of some slices may hold the keys, and which of them are no buckets."""

    candidates: Mask
    covered: Mask
    reasons: tuple[str, ...] = ()


class BucketLookup:
    """Prunes by `=` and IN on the hash fields."""

    kind = NAME
    stage = Stage.KEYS
    describes_files = True

    def names(self, table: IndexedTable) -> list[str]:
        """The bucket index, if the table has one."""
        return [NAME] if shown_in(table) is not None else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Hashing the keys, and reading what is not known yet."""
        del name
        table = question.table
        index = index_of(table)
        if index.problem is not None:
            return index.problem
        if not names_keys(question.predicate, table.read):
            return _NOT_NAMED
        if index.table is None:
            once = _loading_seconds(table, question.partitions)
            fields = table.read.config.record_key_fields
            whole = keys_of_predicate(question.predicate, table.read, fields)
            known = isinstance(whole, PredicateKeys) and not whole.needs_plain_keys
            most_left = len(whole) * len(question.partitions) if known else None
            return Estimate(once, most_left, once)
        needed = _needed_keys(index.table, question)
        if isinstance(needed, str):
            return needed
        once = _rings_seconds(index, table, question.partitions)
        if needed.needs_plain_keys:
            once += _plain_seconds(index, question.slices)
        seconds = once + _KEY_S * len(needed) + _SLICE_S * len(question.slices)
        return Estimate(seconds, len(needed) * len(question.partitions), once)

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The file groups of the buckets that hold the keys."""
        del name
        index = load_index(question.table)
        if index.table is None:
            return str(index.problem)
        needed = _needed_keys(index.table, question)
        if isinstance(needed, str):
            return needed
        found = _find(index, index.table, needed, question)
        candidates = found.candidates
        reasons = list(found.reasons)
        if needed.needs_plain_keys:
            others = _with_other_keys(index, index.table, question, found.covered & ~candidates)
            if others.any():
                count = int(np.count_nonzero(others))
                reasons.append(f"{count} with keys that name a hash field twice are read")
            candidates = candidates | others
        left = int(np.count_nonzero(candidates & found.covered))
        keys = "1 key" if len(needed) == 1 else f"{len(needed):,} keys"
        text = f"{keys} asked, in {left} of {int(np.count_nonzero(found.covered))} buckets"
        return Answer(candidates, found.covered, "; ".join([text, *reasons]))


def shown_in(table: IndexedTable) -> BucketEngineType | None:
    """The engine that the files of a snapshot show; found out once for a snapshot."""
    if NAME not in table.facts:
        table.facts[NAME] = _shown(table)
    found: BucketEngineType | None = table.facts[NAME]
    return found


def index_of(table: IndexedTable) -> BucketIndex:
    """What is known so far of the bucket index of a snapshot."""
    found: BucketIndex = table.kept.setdefault(_KEPT, BucketIndex())
    return found


def load_index(table: IndexedTable) -> BucketIndex:
    """The bucket index of a snapshot, with its parameters or the reason why there are none."""
    index = index_of(table)
    if index.is_loaded:
        return index
    try:
        kept = table.own()
        _check_seen(table, kept)
        source = BucketSource(table.read, table.timeline, lambda: table.slices, kept)
        index.table = load_bucket_table(source, shown_in(table))
    except LakedexError as error:
        index.problem = f"its parameters are not known: {error}"
    return index


def bucket_ring(index: BucketIndex, engine: RingEngine, partition: str) -> HashRing | str:
    """The ring of a partition, or why there is none."""
    if partition not in index.rings:
        try:
            ring = engine.metadata.load(partition)
            index.rings[partition] = ring or f"partition {partition!r} has no hashing metadata"
        except LakedexError as error:
            index.rings[partition] = str(error)
    return index.rings[partition]


def _shown(table: IndexedTable) -> BucketEngineType | None:
    read = table.read
    try:
        return shown_engine(read.storage, read.config, table.timeline, table.slices, table.own)
    except LakedexError:
        return None  # where not even a folder can be listed, nothing is pruned


def _check_seen(table: IndexedTable, kept: Mapping[str, str]) -> None:
    """Refuse numbers that are younger than the snapshot.

    Raises:
        IndexUnusable: naming the instant since which they count.
    """
    since = kept.get(SINCE)
    if since and not table.timeline.is_committed_write(since):
        raise IndexUnusable(f"its number of buckets changed at {since}, which is not in view")


def _needed_keys(table: BucketTable, question: Question) -> PredicateKeys | str:
    if NAME not in question.found:
        fields = table.options.fields
        question.found[NAME] = keys_of_predicate(question.predicate, question.table.read, fields)
    found: PredicateKeys | str = question.found[NAME]
    return found


def _find(
    index: BucketIndex, table: BucketTable, needed: PredicateKeys, question: Question
) -> _Buckets:
    if isinstance(table.engine, SimpleEngine):
        return _find_simple(table.engine, needed, question)
    assert isinstance(table.engine, RingEngine)
    return _find_in_rings(index, table.engine, needed, question)


def _find_simple(engine: SimpleEngine, needed: PredicateKeys, question: Question) -> _Buckets:
    hashes = list_hashes(needed.keys)
    counts = engine.counts.counts(question.partitions)
    wanted = {
        count: frozenset(np.unique(hashes % np.uint32(count)).tolist())
        for count in set(counts.values())
    }
    numbers = [bucket_number(each.file_id) for each in question.slices]
    own = [counts[each.partition] for each in question.slices]
    covered = np.array(
        [number is not None and number < count for number, count in zip(numbers, own, strict=True)],
        dtype=np.bool_,
    )
    candidates = np.array(
        [number in wanted[count] for number, count in zip(numbers, own, strict=True)],
        dtype=np.bool_,
    )
    return _Buckets(candidates, covered, _unexpected(question.slices, covered))


def _find_in_rings(
    index: BucketIndex, engine: RingEngine, needed: PredicateKeys, question: Question
) -> _Buckets:
    hashes = ring_hashes(needed.keys)
    known: dict[str, frozenset[str]] = {}
    wanted: dict[str, frozenset[str]] = {}
    problems: list[str] = []
    for partition in question.partitions:
        ring = bucket_ring(index, engine, partition)
        if isinstance(ring, str):
            problems.append(ring)
            known[partition] = wanted[partition] = frozenset()
            continue
        numbers = np.unique(ring.positions(hashes)).tolist()
        known[partition] = frozenset(node.file_id for node in ring.nodes)
        wanted[partition] = frozenset(ring.nodes[number].file_id for number in numbers)
    slices = question.slices
    covered = np.array([each.file_id in known[each.partition] for each in slices], dtype=np.bool_)
    candidates = np.array(
        [each.file_id in wanted[each.partition] for each in slices], dtype=np.bool_
    )
    reasons = _unexpected(slices, covered)
    if problems:
        reasons = (f"{len(problems)} partitions are read whole, as {problems[0]}",)
    return _Buckets(candidates, covered, reasons)


def _unexpected(slices: Slices, covered: Mask) -> tuple[str, ...]:
    """What to say of file groups that are no buckets."""
    others = np.flatnonzero(~covered).tolist()
    if not others:
        return ()
    first = slices[others[0]].id
    return (f"{len(others)} file groups are read that are no buckets, such as {first.file_id}",)


def _with_other_keys(
    index: BucketIndex, table: BucketTable, question: Question, needed: Mask
) -> Mask:
    """Which of the slices have keys with more hash keys than there are hash fields."""
    found = np.zeros(len(question.slices), dtype=np.bool_)
    for place in np.flatnonzero(needed).tolist():
        each = question.slices[place]
        if each.id not in index.plain:
            index.plain[each.id] = _has_plain_keys(question.table, each, table.options.fields)
        found[place] = not index.plain[each.id]
    return found


def _has_plain_keys(table: IndexedTable, file_slice: FileSlice, fields: Sequence[str]) -> bool:
    keys = stored_keys(table.read, file_slice).keys
    return bool((hash_keys(keys, fields).counts == len(fields)).all())


def _loading_seconds(table: IndexedTable, partitions: Sequence[str]) -> float:
    """What reading the parameters takes, and the rings."""
    request = round_trip_seconds(table.read.storage)
    stated = BucketProperties.of(table.own())
    seconds = _PARAMETERS_S + request
    if stated.count is None or stated.fields is None:
        seconds += _SAMPLE_S + _SAMPLE_REQUESTS * request
    if shown_in(table) is not BucketEngineType.SIMPLE:
        seconds += len(partitions) * (_RING_S + _RING_REQUESTS * request)
    return seconds


def _rings_seconds(index: BucketIndex, table: IndexedTable, partitions: Sequence[str]) -> float:
    if index.table is None or not isinstance(index.table.engine, RingEngine):
        return 0.0
    missing = sum(each not in index.rings for each in partitions)
    return missing * (_RING_S + _RING_REQUESTS * round_trip_seconds(table.read.storage))


def _plain_seconds(index: BucketIndex, slices: Slices) -> float:
    missing = [each for each in slices if each.id not in index.plain]
    return len(missing) * _STORED_KEYS_S + Amount.of(missing).stored * _STORED_BYTE_S
