"""Lays out the rows of partitions in ranges of one order, each range for one new file.

    sample -> spread, and the writer of a file sorts what it is given

The driver sees names and counts only. A range is about as large as the others whatever the rows
are: their keys divide rows that are equal in the order.

The rows are in file slices or in spill files (`Part`). A spilled row has the form that the writer
of its file group expects. Rows of a file slice keep their meta columns, by which the writer
recognises them as unchanged.
"""

from __future__ import annotations

import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice, ReadContext, read_slice
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.write.context import WriteContext
from lakedex.write.layout.order import Ints, RowOrder
from lakedex.write.layout.ranges import Boxes, Ranges


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one partition."""

    partition: str
    source: FileSlice | Segment

    @property
    def size_bytes(self) -> int:
        """About how much there is to read."""
        source = self.source
        return source.length if isinstance(source, Segment) else source.size_bytes

    @property
    def name(self) -> str:
        """A name that no other part of the table has."""
        source = self.source
        if isinstance(source, Segment):
            return f"{source.path} {source.offset}"
        return f"{source.partition} {source.file_id}"


def read_part(
    context: ReadContext, part: Part, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a part, with all columns unless some are named."""
    if isinstance(part.source, Segment):
        rows = read_segments(context.storage, [part.source], columns)
        if rows is not None:
            yield rows
        return
    yield from read_slice(context, part.source, columns or context.schema.names)


_SAMPLED_A_FILE = 300
_LEAST_SAMPLE = 5_000
_MOST_SAMPLE = 500_000
_TASKS_PER_CORE = 2
_TASK_BYTES = 256 << 20
_LITTLE_BYTES = 4 << 20
"""The driver looks through so little sooner than it starts a job."""


class Numbering(Protocol):
    """Says which of the new files each row goes to."""

    def numbers(self, rows: pa.Table) -> Ints:
        """The number of each row; the rows have their meta columns."""


@dataclass(frozen=True, slots=True)
class Unarranged:
    """The rows of one partition before."""

    parts: tuple[Part, ...]
    rows: int
    """About how many there are."""
    files: int
    """Into how many files they shall go."""

    @property
    def sampled_share(self) -> float:
        """The share of rows that tells the ranges well enough."""
        wanted = min(_MOST_SAMPLE, max(_LEAST_SAMPLE, _SAMPLED_A_FILE * self.files))
        return min(1.0, wanted / max(self.rows, 1))


@dataclass(frozen=True, slots=True)
class Arranged:
    """The rows of one new file."""

    partition: str
    segments: tuple[Segment, ...]


def arrange(
    engine: Engine, facts: WriteContext, order: RowOrder, partitions: Mapping[str, Unarranged]
) -> list[Arranged]:
    """The rows of partitions by file, in the order of the ranges."""
    cuts = {path: Cut(unarranged.files) for path, unarranged in partitions.items()}
    for path, sample in _samples(engine, facts, order, partitions).items():
        cuts[path] = Cut(partitions[path].files, sample)
    parts = [part for unarranged in partitions.values() for part in unarranged.parts]
    tasks = []
    for share in _shares(engine, parts):
        own = {part.partition: cuts[part.partition] for part in share}
        tasks.append(SpreadTask(facts, order, share, own))
    answers = engine.map("lay out the rows", spread_rows, tasks)
    files: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for spread in chain.from_iterable(answers):
        files[spread.partition, spread.number].append(spread.segment)
    return [
        Arranged(partition, tuple(segments)) for (partition, _), segments in sorted(files.items())
    ]


def fit(
    engine: Engine,
    facts: WriteContext,
    order: RowOrder,
    parts: Sequence[Part],
    boxes: Mapping[str, Boxes],
) -> list[SpreadRows]:
    """The rows of partitions by the box that holds them."""
    return spread(engine, facts, order, parts, boxes, "fit the rows into small files")


def spread(
    engine: Engine,
    facts: WriteContext,
    order: RowOrder,
    parts: Sequence[Part],
    numberings: Mapping[str, Numbering],
    label: str,
) -> list[SpreadRows]:
    """The rows of partitions by the number that the numbering of the partition gives them."""
    tasks = []
    for share in _shares(engine, parts):
        own = {part.partition: numberings[part.partition] for part in share}
        tasks.append(SpreadTask(facts, order, share, own))
    is_little = sum(part.size_bytes for part in parts) <= _LITTLE_BYTES
    run = engine.map_small if is_little else engine.map
    return list(chain.from_iterable(run(label, spread_rows, tasks)))


def _samples(
    engine: Engine, facts: WriteContext, order: RowOrder, partitions: Mapping[str, Unarranged]
) -> dict[str, tuple[Segment, ...]]:
    divided = [unarranged for unarranged in partitions.values() if unarranged.files > 1]
    shares = {part: each.sampled_share for each in divided for part in each.parts}
    answers = engine.map(
        "sample the rows",
        take_sample,
        [
            SampleTask(facts, order, tuple((part, shares[part]) for part in share))
            for share in _shares(engine, list(shares))
        ],
    )
    found: dict[str, list[Segment]] = defaultdict(list)
    for answer in answers:
        for partition, segment in answer.items():
            found[partition].append(segment)
    return {partition: tuple(segments) for partition, segments in found.items()}


def _shares(engine: Engine, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Parts as tasks of about the same size; those of one partition stay together."""
    total = sum(part.size_bytes for part in parts)
    tasks = max(engine.parallelism * _TASKS_PER_CORE, -(-total // _TASK_BYTES))
    ordered = sorted(parts, key=lambda part: (part.partition, part.name))
    shares: list[list[Part]] = [[] for _ in range(tasks)]
    before = 0
    for part in ordered:
        shares[min(tasks - 1, before * tasks // max(total, 1))].append(part)
        before += part.size_bytes
    return [tuple(share) for share in shares if share]


@dataclass(frozen=True)
class SampleTask:
    """Parts to take rows from, each with the share of its rows that is taken."""

    facts: WriteContext
    order: RowOrder
    parts: tuple[tuple[Part, float], ...]


def take_sample(task: SampleTask) -> dict[str, Segment]:
    """The sampled rows of each partition, with the columns of the order; a worker."""
    context = task.facts.read_context()
    taken: dict[str, list[pa.Table]] = defaultdict(list)
    for part, share in task.parts:
        # One part gives one sample, whoever takes it and however often.
        draw = np.random.default_rng(zlib.crc32(part.name.encode()))
        for rows in read_part(context, part, task.order.needed):
            is_taken = draw.random(len(rows)) < share
            taken[part.partition].append(rows.filter(pa.array(is_taken)))
    writer = SpillWriter(context.storage, f"{task.facts.scratch}/sample-{uuid.uuid4().hex}")
    found = {partition: writer.add(pa.concat_tables(tables)) for partition, tables in taken.items()}
    writer.finish()
    return found


_PIECE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Cut:
    """How a partition is cut: into how many ranges, by which sample."""

    ranges: int
    sample: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class SpreadTask:
    """Parts to spread, and how their partitions are cut: into ranges, or by what numbers rows."""

    facts: WriteContext
    order: RowOrder
    parts: tuple[Part, ...]
    cuts: Mapping[str, Cut | Numbering]


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Rows of one range of a partition."""

    partition: str
    number: int
    segment: Segment


def spread_rows(task: SpreadTask) -> tuple[SpreadRows, ...]:
    """Spill the rows of some parts by range; a worker."""
    context = task.facts.read_context()
    writer = SpillWriter(context.storage, f"{task.facts.scratch}/spread-{uuid.uuid4().hex}")
    found: list[SpreadRows] = []
    for partition, parts in groupby(task.parts, lambda part: part.partition):
        ranges = _ranges(context, task.order, task.cuts[partition])
        for piece in _pieces(context, parts):
            numbers = np.zeros(len(piece), np.int64) if ranges is None else ranges.numbers(piece)
            found += (
                SpreadRows(partition, number, writer.add(rows))
                for number, rows in _by_number(piece, numbers)
            )
    writer.finish()
    return tuple(found)


def _ranges(context: ReadContext, order: RowOrder, cut: Cut | Numbering) -> Numbering | None:
    if not isinstance(cut, Cut):
        return cut
    sample = read_segments(context.storage, cut.sample) if cut.ranges > 1 else None
    return None if sample is None else Ranges.of(order, sample, cut.ranges)


def _pieces(context: ReadContext, parts: Iterator[Part]) -> Iterator[pa.Table]:
    """The rows of parts put together, so that the ranges of each piece are worth a segment."""
    kept: list[pa.Table] = []
    size = 0
    for part in parts:
        for rows in read_part(context, part):
            kept.append(rows)
            size += rows.nbytes
            if size >= _PIECE_BYTES:
                yield pa.concat_tables(kept)
                kept, size = [], 0
    if kept:
        yield pa.concat_tables(kept)


def _by_number(rows: pa.Table, numbers: Ints) -> Iterator[tuple[int, pa.Table]]:
    order = np.argsort(numbers, kind="stable")
    sorted_rows = rows.take(pa.array(order)).combine_chunks()
    found, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    for number, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):
        yield number, sorted_rows.slice(start, count)
