"""From `spark.sql` to the list of files, for tables of many files and twenty columns.

The files are in the metadata table only: planning reads nothing else. Only the entries of the one
column that the predicate names may be read, which is checked. Hudi 1.2.0 plans the same queries on
the same tables and the same PySpark 3.5, where it can.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from children import answer_of
from report import Figure, run

from tests.support.table_builder import TableBuilder

COLUMNS = 20
ROWS_PER_FILE = 2
FILES_PER_PARTITION = 1_000
SIZES = {True: (200, 1_000), False: (1_000, 10_000, 100_000, 286_603)}
MOST_FOR_HUDI = 100_000
SPREAD = 1 << 40
RANGES = ((2, 0), (2, 1), (3, 0))
"""Columns, and what is added to the bound: a query that was asked before is not planned anew."""
FIRST_OF_A_COLUMN = (0, 3, 5)
"""The queries, by number, that speak of a column as the first ones."""


def build(path: Path, files: int) -> None:
    """A table of so many files; `c0` grows from file to file."""
    rng = np.random.default_rng(3)
    names = [f"c{number}" for number in range(COLUMNS)]
    schema = pa.schema(
        [("id", pa.string()), ("day", pa.string())] + [(n, pa.int64()) for n in names]
    )
    builder = TableBuilder(
        path,
        schema,
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=["column_stats", "partition_stats"],
    )
    count = files * ROWS_PER_FILE
    rows = {"id": np.char.add("k", np.arange(count).astype(str)), "c0": np.arange(count)}
    rows |= {name: rng.integers(0, SPREAD, count) for name in names[1:]}
    table = pa.table(rows)
    pieces = [
        (
            f"d{number // FILES_PER_PARTITION:04d}",
            table.slice(number * ROWS_PER_FILE, ROWS_PER_FILE),
        )
        for number in range(files)
    ]
    builder.commit(pieces, phantom_files=True)
    builder.finish()


def planned(engine: str, path: Path, files: int) -> dict:
    """Plan in a process of its own, on the PySpark 3.5 that Hudi needs."""
    middle = files * ROWS_PER_FILE // 2
    conditions = [f"c0 = {middle + number}" for number in range(3)]
    # Values of the other columns lie anywhere: partitions cannot be told apart by them.
    conditions += [f"c{column} < {SPREAD // 1000 + more}" for column, more in RANGES]
    return answer_of("measure_planning.py", engine, path, *conditions)


def check(answer: dict, files: int) -> None:
    """Only the entries of the one column that a predicate names may have been read."""
    *pruned, everything = answer["plans"]
    if everything["files"] != files or any(plan["files"] != 1 for plan in pruned[:3]):
        raise RuntimeError(f"{files} files: planned {answer['plans']}")
    most = files + -(-files // FILES_PER_PARTITION)
    for number, plan in enumerate(pruned):
        # What a column's entries say is kept, so only its first question has to read them.
        is_first = number in FIRST_OF_A_COLUMN
        if plan["columns"] > 1 or plan["entries"] > most or (is_first and not plan["entries"]):
            raise RuntimeError(f"{files} files: not the entries of one column were read: {plan}")


def measure(quick: bool) -> Iterator[Figure]:
    for files in SIZES[quick]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rides")
            build(path, files)
            found = {"lakedex": planned("lakedex", path, files)}
            check(found["lakedex"], files)
            if files <= MOST_FOR_HUDI:
                found["hudi"] = planned("hudi", path, files)
            held = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
        yield Figure(f"{files:,} files: metadata of {COLUMNS} columns", held / 2**20, "MiB")
        for name, answer in found.items():
            yield from figures(f"{files:,} files, {name}", answer, found.get("hudi"), name)


def figures(where: str, answer: dict, hudi: dict | None, name: str) -> Iterator[Figure]:
    """The figures of one engine; ours shall be no worse than Hudi's."""
    rival = hudi if name == "lakedex" else None

    def figure(what: str, value: Callable[[dict], float], unit: str) -> Figure:
        return Figure(f"{where}: {what}", value(answer), unit, rival and value(rival))

    def seconds(*numbers: int) -> Callable[[dict], float]:
        return lambda found: min(found["plans"][number]["seconds"] for number in numbers)

    yield figure("first query, by a column in order", seconds(0), "s")
    yield figure("the next one", seconds(1, 2), "s")
    yield figure("by a column in no order", seconds(3), "s")
    yield figure("the same again, and by another", seconds(4, 5), "s")
    yield figure("all files listed", seconds(6), "s")
    yield figure("memory added", lambda found: found["peak_bytes"] / 2**20, "MiB")
    if name == "lakedex":
        read = answer["plans"][3]["bytes"] / 2**20
        yield Figure(f"{where}: read for a column in no order", read, "MiB")


if __name__ == "__main__":
    run(measure)
