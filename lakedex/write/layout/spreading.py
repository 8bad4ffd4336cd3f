"""Puts the rows of partitions into spill files by the range that they belong to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from lakedex.filegroup import ReadContext
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.write.facts import TableFacts
from lakedex.write.layout.boxes import Boxes
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.parts import Part, read_part
from lakedex.write.layout.ranges import Ranges
from lakedex.write.layout.ranks import Ints

_PIECE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Cut:
    """How a partition is cut: into how many ranges, by which sample."""

    ranges: int
    sample: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class SpreadTask:
    """Parts to spread, and how their partitions are cut: into ranges, or by boxes."""

    facts: TableFacts
    order: RowOrder
    parts: tuple[Part, ...]
    cuts: Mapping[str, Cut | Boxes]


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


def _ranges(context: ReadContext, order: RowOrder, cut: Cut | Boxes) -> Ranges | Boxes | None:
    if isinstance(cut, Boxes):
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
