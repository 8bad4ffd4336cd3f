"""Loads and range queries side by side with Delta, Iceberg and plain Parquet on PySpark 3.5.

Every engine loads the same rows into one file for each partition of the table, from frames of few
and of many partitions, in a process of its own; lakedex builds its listing, column and partition
stats and record index. Engines take turns, and medians of the rounds count. The loaded table stays
open, and is queried for a hundredth of its rows: by a column that grows from file to file, and by
one whose values lie anywhere, so that all files are read.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench_write import rides, write_load
from children import answer_of
from report import Figure, run

ENGINES = ("parquet", "delta", "iceberg", "lakedex")
SIZES = {True: [(20_000, 10)], False: [(300_000, 100), (1_000_000, 200)]}
"""Rows and partitions of the table, quick or not."""
FRAMES = {True: (8,), False: (8, 100, 200)}
ROUNDS = {True: 1, False: 3}
QUERIES = 40
SHARE = 0.01
MOST_OF = {"parquet": 1.5, "delta": 1.0, "iceberg": 1.0}
"""What a load may take, in terms of another engine's."""
MOST_OF_ICEBERG = 1.0


def prepare(folder: Path, rows: int, parts: int) -> None:
    """Rows in the order of their partitions, and what is queried of them."""
    rng = np.random.default_rng(7)
    numbers = np.arange(rows)
    table = rides(numbers, parts, 1, rng)
    part = np.char.add("p", np.char.zfill((numbers * parts // rows).astype(str), 4))
    at = table.schema.get_field_index("part")
    write_load(folder / "load", table.set_column(at, "part", pa.array(part)))
    ordered, anywhere = [], []
    for _ in range(QUERIES):
        first = int(rng.random() * (1 - SHARE) * rows)
        ids = (f"ride-{number:010d}" for number in (first, first + int(SHARE * rows) - 1))
        ordered.append("id BETWEEN '{}' AND '{}'".format(*ids))
        low = rng.random() * 99
        anywhere.append(f"fare BETWEEN {low} AND {low + 100 * SHARE}")
    queries = {"in the order of files": ordered, "in no order": anywhere}
    (folder / "ranges.json").write_text(json.dumps(queries))


def measured(engine: str, data: Path, partitions: int) -> dict:
    with tempfile.TemporaryDirectory() as work:
        return answer_of("measure.py", engine, data, work, partitions=partitions)


def measure(quick: bool) -> Iterator[Figure]:
    for rows, parts in SIZES[quick]:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            prepare(data, rows, parts)
            for count in FRAMES[quick]:
                rounds = [
                    {name: measured(name, data, count) for name in ENGINES}
                    for _ in range(ROUNDS[quick])
                ]
                yield from figures(f"{rows:,} rows, frame of {count}", rounds)


def figures(where: str, rounds: list[dict[str, dict]]) -> Iterator[Figure]:
    """Loads, queries and memory of all engines, and how ours compare."""
    for found in rounds:
        answers = [[answer["rows"], *_rows(answer)] for answer in found.values()]
        if any(answer != answers[0] for answer in answers):
            raise RuntimeError(f"engines disagree about the rows: {answers}")
    loads = {name: statistics.median(each[name]["load"] for each in rounds) for name in ENGINES}
    for name, seconds in loads.items():
        yield Figure(f"{where}: load, {name}", seconds, "s")
    for name, most in MOST_OF.items():
        yield Figure(f"{where}: load, beside {name}", loads["lakedex"] / loads[name], "times", most)
    for kind in rounds[0]["lakedex"]["ranges"]:
        times = {
            name: statistics.median(each[name]["ranges"][kind]["ms"] for each in rounds)
            for name in ENGINES
        }
        for name, taken in times.items():
            yield Figure(f"{where}: range {kind}, {name}", taken, "ms")
        ratio = times["lakedex"] / times["iceberg"]
        yield Figure(f"{where}: range {kind}, beside iceberg", ratio, "times", MOST_OF_ICEBERG)
    for name in ENGINES:
        peak = statistics.median(each[name]["peak_bytes"] for each in rounds)
        yield Figure(f"{where}: peak memory, {name}", peak / 2**20, "MiB")
    steps = rounds[-1]["lakedex"]["load_steps"]
    for step, seconds in steps.items():
        yield Figure(f"{where}: load, lakedex, {step}", seconds, "s")


def _rows(answer: dict) -> list[object]:
    return [each["rows"] for each in answer["ranges"].values()]


if __name__ == "__main__":
    run(measure)
