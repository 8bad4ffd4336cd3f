"""How upserts of one size fare as the table grows ten times, and what a small one costs.

Merge-on-read with a record index: nearly flat is the goal. An upsert of 100 rows should cost
little more than the Spark jobs that it needs.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_write import measured, prepare
from report import Figure, run

PARTS = 100
BATCH = 20_000
SMALL = 100
FLAT = 1.5
ENGINES = {"lakedex": None, "lakedex-mor": FLAT}
"""What an upsert may cost on a table of ten times the rows."""


def upserts(engine: str, rows: int, batch: int) -> tuple[float, dict[str, float]]:
    """The median of the seconds of some upserts, and the steps of the last one."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), rows, PARTS, batch)
        answer = measured(engine, Path(folder))
        return statistics.median(answer["upserts"]), answer["steps"]


def measure(quick: bool) -> Iterator[Figure]:
    small, large = (30_000, 300_000) if quick else (300_000, 3_000_000)
    batch = BATCH // 10 if quick else BATCH
    for engine, goal in ENGINES.items():
        before, steps = upserts(engine, small, batch)
        after, later_steps = upserts(engine, large, batch)
        what = f"upsert of {batch:,} rows, {engine}"
        yield Figure(f"{what}, {small:,} rows", before, "s")
        yield Figure(f"{what}, {large:,} rows", after, "s")
        yield Figure(f"{what}, ten times the rows", after / before, "times", goal)
        for step, seconds in later_steps.items():
            more = seconds - steps.get(step, 0.0)
            yield Figure(f"{what}, ten times the rows add to {step}", more, "s")
        seconds, _ = upserts(engine, small, SMALL)
        yield Figure(f"upsert of {SMALL} rows, {engine}, {small:,} rows", seconds, "s", 2.0)


if __name__ == "__main__":
    run(measure)
