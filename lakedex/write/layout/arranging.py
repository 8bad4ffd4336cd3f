"""Lays out the rows of partitions in ranges of one order, each range for one new file.

    sample -> spread, and the writer of a file sorts what it is given

The driver sees names and counts only. A range is about as large as the others whatever the rows
are: their keys divide rows that are equal in the order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from lakedex.engine import Engine
from lakedex.format.spill import Segment
from lakedex.write.facts import TableFacts
from lakedex.write.layout.boxes import Boxes
from lakedex.write.layout.order import RowOrder
from lakedex.write.layout.parts import Part
from lakedex.write.layout.sampling import SampleTask, take_sample
from lakedex.write.layout.spreading import Cut, SpreadRows, SpreadTask, spread_rows

_SAMPLED_A_FILE = 300
_LEAST_SAMPLE = 5_000
_MOST_SAMPLE = 500_000
_TASKS_PER_CORE = 2
_TASK_BYTES = 256 << 20
_LITTLE_BYTES = 4 << 20
"""The driver looks through so little sooner than it starts a job."""


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
    engine: Engine, facts: TableFacts, order: RowOrder, partitions: Mapping[str, Unarranged]
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
    facts: TableFacts,
    order: RowOrder,
    parts: Sequence[Part],
    boxes: Mapping[str, Boxes],
) -> list[SpreadRows]:
    """The rows of partitions by the box that holds them."""
    tasks = []
    for share in _shares(engine, parts):
        own = {part.partition: boxes[part.partition] for part in share}
        tasks.append(SpreadTask(facts, order, share, own))
    is_little = sum(part.size_bytes for part in parts) <= _LITTLE_BYTES
    run = engine.map_small if is_little else engine.map
    answers = run("fit the rows into small files", spread_rows, tasks)
    return list(chain.from_iterable(answers))


def _samples(
    engine: Engine, facts: TableFacts, order: RowOrder, partitions: Mapping[str, Unarranged]
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
