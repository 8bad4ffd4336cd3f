"""The bucket index of a table that exists: engine, number of buckets, hash fields.

Nothing in the table's own properties says them in a table of Hudi's. In this order count

1. what the table keeps for its writers, as every writer of lakedex leaves it;
2. `hoodie.properties`, where a catalog left its table properties;
3. the hashing metadata: of a ring the number of buckets of its first version, the numbers of
   buckets by partition;
4. the data. Of the engine SIMPLE, the hash of a key less its bucket is a multiple of the number of
   buckets n. So n divides the greatest common divisor of these differences, and is larger than
   every bucket of the table. Once no smaller divisor is, n is that divisor for sure. The hash
   fields are the record key fields; of a composite key they may be some of them, and what the
   others would give has no such divisor.

Of a ring, the hash fields are those by which keys belong to the file groups that they are in. Where
the data leave more than one possibility nothing is taken for granted: the error names the option
that says it, and a value that is given is compared with the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.bucket_options import (
    COUNT,
    ENGINE,
    EXPRESSIONS,
    HASH_FIELD,
    REGEX_RULE,
    BucketEngineType,
    BucketOptions,
    BucketProperties,
)
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput
from lakedex.filegroup import RECORD_KEY, FileSlice, ReadContext, Slices, read_slice
from lakedex.index.kinds.bucket.engine import (
    BucketEngine,
    PartitionBuckets,
    RingEngine,
    SimpleEngine,
    bucket_engine,
    bucket_number,
)
from lakedex.index.kinds.bucket.hashes import hash_keys, list_hashes
from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata
from lakedex.index.kinds.bucket.partition_counts import PartitionCounts, load_partition_counts
from lakedex.timeline import Timeline

_MOST_SLICES: Final = 64
"""So many file slices are read at most, the smallest first."""
_MOST_FIELDS: Final = 6
"""Of keys with more fields only all of them, each one and each pair are tried as hash fields."""
_ROWS: Final = 4096
"""So many keys of a file slice are read."""
_ENOUGH_KEYS: Final = 64
"""So many keys confirm parameters that are known: others would go with none of them."""


class ParametersUndecided(IndexUnusable):
    """The table has too few keys to tell its parameters; a writer has to give one of them."""


@dataclass(frozen=True)
class BucketSource:
    """Where the bucket index of a table is looked for."""

    read: ReadContext
    timeline: Timeline
    slices: Callable[[], Slices]
    """The file slices of the newest snapshot; not listed unless they are needed."""
    kept: Mapping[str, str]
    """What the table keeps for its writers."""


@dataclass(frozen=True)
class BucketTable:
    """The bucket index of a table, with the engine that computes its buckets."""

    options: BucketOptions
    engine: BucketEngine
    evidence: str
    """Where the parameters come from, in words."""


def load_bucket_table(
    source: BucketSource,
    shown: BucketEngineType | None,
    given: Mapping[str, str] | None = None,
) -> BucketTable:
    """The bucket index of a table that has one.

    Args:
        source: The table.
        shown: The engine that its files and folders show, CONSISTENT_HASHING for any ring; None
            for a table without files.
        given: The options of a writer, which may say what nothing else does.

    Raises:
        CorruptFile: hashing metadata or a data file cannot be read.
        IndexUnusable: the number of buckets or the hash fields cannot be found out; the message
            names the option that says them.
        InvalidInput: an option says something else than the table.
    """
    wanted = BucketProperties.of(given or {})
    config = source.read.config
    known = _merged(BucketProperties.of(source.kept), BucketProperties.of(config.raw))
    known = replace(known, engine=_engine(known.engine, shown, config.name))
    known = _with_stored(source, known)
    _check_given(known, wanted)
    evidence = "the settings of the table"
    if known.count is None or known.fields is None:
        search = _search(source, _merged(known, wanted))
        known = search.run()
        evidence = f"{search.keys_read} keys" if search.keys_read else "the hashing metadata"
    options = BucketOptions(
        known.engine or BucketEngineType.SIMPLE,
        known.count or 1,
        _in_key_order(known.fields or (), config.record_key_fields),
        known.expressions or "",
        known.rule or REGEX_RULE,
    )
    return BucketTable(
        options, bucket_engine(options, source.read.storage, source.timeline), evidence
    )


def bucket_counts(table: BucketTable, partitions: Sequence[str]) -> dict[str, int]:
    """How many buckets some partitions have; a partition without a ring has none yet.

    Raises:
        CorruptFile: the hashing metadata of one cannot be read.
        IndexUnusable: no version of them counts.
    """
    engine = table.engine
    if isinstance(engine, SimpleEngine):
        return engine.counts.counts(partitions)
    assert isinstance(engine, RingEngine)
    rings = {each: engine.metadata.load(each) for each in partitions}
    return {each: 0 if ring is None else len(ring.nodes) for each, ring in rings.items()}


def _search(source: BucketSource, known: BucketProperties) -> _Search:
    is_simple = known.engine is BucketEngineType.SIMPLE
    return _SimpleSearch(source, known) if is_simple else _RingSearch(source, known)


def _merged(first: BucketProperties, second: BucketProperties) -> BucketProperties:
    """The parameters of both; the first ones count where both say something."""
    return BucketProperties(
        is_bucket=first.is_bucket or second.is_bucket,
        engine=first.engine or second.engine,
        count=first.count or second.count,
        fields=first.fields or second.fields,
        expressions=first.expressions or second.expressions,
        rule=first.rule or second.rule,
    )


def _engine(
    known: BucketEngineType | None, shown: BucketEngineType | None, table: str
) -> BucketEngineType:
    """The engine that the table keeps, if its files do not contradict it."""
    engine = known or shown
    if engine is None:
        raise IndexUnusable(f"nothing says the engine of table {table}: give {ENGINE}")
    is_simple = BucketEngineType.SIMPLE
    if shown is not None and (engine is is_simple) is not (shown is is_simple):
        raise IndexUnusable(
            f"table {table} keeps {ENGINE}={engine.value}, and its files are those of the engine "
            f"{shown.value}"
        )
    return engine


def _with_stored(source: BucketSource, known: BucketProperties) -> BucketProperties:
    """The parameters with the numbers of buckets that the folder of the bucket index has."""
    storage, timeline = source.read.storage, source.timeline
    if known.engine is BucketEngineType.SIMPLE:
        stored = load_partition_counts(storage, timeline, source.kept)
        if stored is None:
            return known
        return replace(
            known, count=stored.default, expressions=stored.expressions, rule=stored.rule
        )
    if known.count is not None:
        return known
    metadata = HashingMetadata(storage, timeline)
    for partition in reversed(metadata.partitions()):
        try:
            ring = metadata.load(partition)
        except (CorruptFile, IndexUnusable):
            continue  # who needs the ring of that partition says what is wrong with it
        if ring is not None:
            return replace(known, count=ring.first_count)
    return known


def _check_given(known: BucketProperties, wanted: BucketProperties) -> None:
    """Refuse options that differ from what the table says.

    Raises:
        InvalidInput: naming the option and both values.
    """
    fields = tuple(
        None if each.fields is None else ",".join(sorted(each.fields)) for each in (known, wanted)
    )
    pairs = (
        (ENGINE, known.engine and known.engine.value, wanted.engine and wanted.engine.value),
        (COUNT, known.count, wanted.count),
        (HASH_FIELD, *fields),
        (EXPRESSIONS, known.expressions, wanted.expressions),
    )
    for name, own, other in pairs:
        if own is not None and other is not None and own != other:
            raise InvalidInput(
                f"{name}={other} is not that of the table, which is {own}: leave the option out"
            )


def _in_key_order(fields: Sequence[str], key_fields: Sequence[str]) -> tuple[str, ...]:
    others = [name for name in fields if name not in key_fields]
    if key_fields and others:
        raise InvalidInput(
            f"{HASH_FIELD}={','.join(fields)}: {others[0]!r} is no record key field "
            f"({', '.join(key_fields)})"
        )
    return tuple(name for name in key_fields if name in fields)


@dataclass
class _Candidate:
    """Hash fields that the table may have, and what its keys say of them so far."""

    fields: tuple[str, ...]
    divisor: int = 0
    """The greatest common divisor of hash less bucket, of the engine SIMPLE."""
    is_refuted: bool = False


class _Search(ABC):
    """Finds the parameters that only the keys of a table say."""

    def __init__(self, source: BucketSource, known: BucketProperties) -> None:
        key_fields = source.read.config.record_key_fields
        self.source = source
        self.known = known
        fields = [_in_key_order(known.fields, key_fields)] if known.fields else _subsets(key_fields)
        self.candidates = [_Candidate(each) for each in fields]
        self.keys_read = 0

    def run(self) -> BucketProperties:
        """The parameters.

        Raises:
            IndexUnusable: the keys contradict them, or leave more than one possibility.
        """
        while not self.is_decided:
            sample = next(self._samples, None)
            if sample is None:
                if self.is_plausible:
                    break
                raise self._undecided()
            file_slice, keys = sample
            self.keys_read += len(keys)
            for each in self.candidates:
                self.note(each, file_slice, keys)
            self.candidates = [each for each in self.candidates if not each.is_refuted]
            if not self.candidates:
                raise self._refuted()
        return replace(self.known, count=self.count, fields=self.candidates[0].fields)

    @property
    @abstractmethod
    def is_decided(self) -> bool:
        """Whether one possibility is left."""

    @property
    def is_plausible(self) -> bool:
        """Whether all that there is to read agrees with parameters that are known."""
        return self.known.count is not None and len(self.candidates) == 1

    @property
    def count(self) -> int:
        """The number of buckets, once it is decided."""
        if self.known.count is None:
            raise self._undecided()
        return self.known.count

    @abstractmethod
    def note(self, candidate: _Candidate, file_slice: FileSlice, keys: pa.Array) -> None:
        """Take note of the record keys of a file slice."""

    @cached_property
    def _samples(self) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Record keys of some file slices, the smallest ones first."""
        read = self.source.read
        smallest = sorted(self.source.slices(), key=lambda each: (each.size_bytes, each.id))
        for each in smallest[:_MOST_SLICES]:
            for rows in read_slice(read, each, [RECORD_KEY], batch_rows=_ROWS):
                if rows.num_rows:
                    yield each, read.record_keys(rows)
                    break

    def _refuted(self) -> IndexUnusable:
        said = [
            f"{name}={value}"
            for name, value in (
                (COUNT, self.known.count),
                (HASH_FIELD, self.known.fields and ",".join(self.known.fields)),
            )
            if value
        ]
        return IndexUnusable(
            f"the keys of table {self.source.read.config.name} are not in the buckets of "
            f"{' and '.join(said) or 'any number of buckets, or any hash fields'}; its other "
            "writers know these options, and verify names what is in a wrong bucket"
        )

    def _undecided(self) -> IndexUnusable:
        missing = [COUNT] if self.known.count is None else []
        missing += [HASH_FIELD] if len(self.candidates) > 1 else []
        return ParametersUndecided(
            f"{self.keys_read} keys of table {self.source.read.config.name} do not tell the "
            f"parameters of its bucket index; give {' and '.join(missing)} as its other writers do"
        )


class _SimpleSearch(_Search):
    """That of the engine SIMPLE."""

    def __init__(self, source: BucketSource, known: BucketProperties) -> None:
        super().__init__(source, known)
        self.counts = None
        if known.count is not None:
            self.counts = PartitionCounts(
                known.expressions or "", known.count, known.rule or REGEX_RULE
            )
        self.highest = -1
        for each in source.slices():
            number = _number_of(each)
            self.highest = max(self.highest, number)
            if self.counts and number >= self.counts.count(each.partition):
                raise self._refuted()

    @property
    def is_decided(self) -> bool:
        """Whether keys are in the known buckets, or in those of one number only."""
        if self.counts is None and all(each.divisor == 1 for each in self.candidates):
            return True  # there is one bucket, and hash fields make no difference
        if len(self.candidates) > 1:
            return False
        if self.counts is not None:
            return self.keys_read >= _ENOUGH_KEYS
        divisor = self.candidates[0].divisor
        return divisor > 0 and _largest_proper_divisor(divisor) <= self.highest

    @property
    def count(self) -> int:
        """The known one, or the only divisor that is larger than every bucket."""
        return self.known.count or self.candidates[0].divisor

    def note(self, candidate: _Candidate, file_slice: FileSlice, keys: pa.Array) -> None:
        """The hashes of the keys, less their bucket, are multiples of the number of buckets."""
        hashes = list_hashes(hash_keys(keys, candidate.fields)).astype(np.int64)
        above = hashes - _number_of(file_slice)
        candidate.divisor = math.gcd(candidate.divisor, int(np.gcd.reduce(above)))
        if self.counts is None:
            candidate.is_refuted = 0 < candidate.divisor <= self.highest
        elif (above % self.counts.count(file_slice.partition)).any():
            candidate.is_refuted = True


class _RingSearch(_Search):
    """That of the engines with a ring: which hash fields lead to the file groups of the keys."""

    def __init__(self, source: BucketSource, known: BucketProperties) -> None:
        super().__init__(source, known)
        self.engine = bucket_engine(
            BucketOptions(known.engine or BucketEngineType.CONSISTENT_HASHING, 1, ()),
            source.read.storage,
            source.timeline,
        )
        self.buckets: dict[str, PartitionBuckets] = {}

    @property
    def is_decided(self) -> bool:
        """Whether one possibility is left."""
        return len(self.candidates) == 1

    def _undecided(self) -> IndexUnusable:
        if self.known.count is not None:
            return super()._undecided()
        return IndexUnusable(
            f"the hashing metadata of table {self.source.read.config.name} are missing, which say "
            f"its number of buckets; give {COUNT} as its other writers do, first of all to "
            f"`lakedex repair --option {COUNT}=...`"
        )

    def note(self, candidate: _Candidate, file_slice: FileSlice, keys: pa.Array) -> None:
        """The ring leads every key to its file group."""
        partition = file_slice.partition
        if partition not in self.buckets:
            own = [each for each in self.source.slices() if each.partition == partition]
            try:
                self.buckets[partition] = self.engine.buckets(partition, own)
            except (CorruptFile, IndexUnusable):
                return  # the keys of other partitions tell it
        places = self.buckets[partition].file_ids(hash_keys(keys, candidate.fields))
        candidate.is_refuted = not pc.all(pc.equal(places, file_slice.file_id)).as_py()


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """What the hash fields of a record key may be, all of them first."""
    count = len(names)
    sizes = range(count, 0, -1) if count <= _MOST_FIELDS else (count, 2, 1)
    return [each for size in sizes for each in combinations(names, size)] or [()]


def _number_of(file_slice: FileSlice) -> int:
    number = bucket_number(file_slice.file_id)
    if number is None:
        raise IndexUnusable(
            f"file group {file_slice.file_id} of partition {file_slice.partition!r} is no bucket: "
            "its name does not begin with a number"
        )
    return number


def _largest_proper_divisor(number: int) -> int:
    """The largest divisor of a number that is not the number itself; 0 for 1.

    Example:
        >>> [_largest_proper_divisor(each) for each in (1, 2, 7, 12, 961)]
        [0, 1, 1, 6, 31]
    """
    for each in range(2, math.isqrt(number) + 1):
        if number % each == 0:
            return number // each
    return 1 if number > 1 else 0
