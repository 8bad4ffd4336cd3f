"""Expression indexes: what planning by one costs beside column stats, and building one beside Hudi.

Planning is measured on tables whose files are in the metadata table only, from `spark.sql` to the
list of files: the same question, once of a column and once of a function of it. Builds are
measured on rows that both engines loaded, each in a process of its own on the same PySpark 3.5.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench_secondary import rides
from bench_write import write_load
from children import answer_of
from report import Figure, run

from tests.support.index_specs import ExpressionIndex
from tests.support.table_builder import TableBuilder

PLANNED = {True: (200,), False: (1_000, 10_000)}
"""Files of the tables that are only planned, quick or not."""
LOADED = {True: (20_000, 20), False: (1_000_000, 200)}
"""Rows and files of the tables that are indexed."""
ROWS_PER_FILE = 2
FILES_PER_PARTITION = 1_000
TRIES = 100
WARM_UP = 40
MOST_OF_COLUMN_STATS = 1.1
MOST_OF_HUDI = 1 / 3


def build(path: Path, files: int) -> None:
    """A table of so many files, told apart by their names."""
    schema = pa.schema(
        [("id", pa.string()), ("day", pa.string()), ("name", pa.string()), ("c1", pa.int64())]
    )
    builder = TableBuilder(
        path,
        schema,
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=["column_stats", ExpressionIndex("up", "name", "upper")],
        groups={"column_stats": 2, "expr_index": 2},
    )
    count = files * ROWS_PER_FILE
    number = np.arange(count)
    rows = pa.table(
        {
            "id": np.char.add("k", number.astype(str)),
            "name": np.char.add("name-", np.char.zfill(number.astype(str), 9)),
            "c1": number,
        }
    )
    pieces = [
        (f"d{file // FILES_PER_PARTITION:04d}", rows.slice(file * ROWS_PER_FILE, ROWS_PER_FILE))
        for file in range(files)
    ]
    builder.commit(pieces, phantom_files=True)
    builder.finish()


def planning_figures(files: int) -> Iterator[Figure]:
    """Both ways take turns, each time for another value; the median of either counts."""
    by_column, by_function = [], []
    for number in range(WARM_UP + TRIES):
        value = f"name-{files * ROWS_PER_FILE // 2 + number * ROWS_PER_FILE:09d}"
        by_column.append(f"name = '{value}'")
        by_function.append(f"upper(name) = '{value.upper()}'")
    asked = [each for pair in zip(by_column, by_function, strict=True) for each in pair]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "named")
        build(path, files)
        *plans, everything = answer_of("measure_planning.py", "lakedex", path, *asked)["plans"]
    if everything["files"] != files or any(plan["files"] != 1 for plan in plans):
        raise RuntimeError(f"{files} files: planned {plans}")
    seconds = [plan["seconds"] for plan in plans[2 * WARM_UP :]]
    column, function = statistics.median(seconds[::2]), statistics.median(seconds[1::2])
    yield Figure(f"{files:,} files: planned by column stats", column * 1000, "ms")
    yield Figure(f"{files:,} files: planned by an expression index", function * 1000, "ms")
    ratio = function / column
    yield Figure(f"{files:,} files: the latter as", ratio, "times", MOST_OF_COLUMN_STATS)


def build_figures(rows: int, files: int) -> Iterator[Figure]:
    """CREATE INDEX on a function of a time, and on one of a text."""
    with tempfile.TemporaryDirectory() as folder:
        riders = np.random.default_rng(7).integers(0, rows, rows)
        write_load(Path(folder, "load"), rides(np.arange(rows), riders, files, 1))
        found = {}
        for engine in ("lakedex", "hudi"):
            with tempfile.TemporaryDirectory() as work:
                found[engine] = answer_of("measure_expression.py", engine, folder, work)
    where = f"{rows:,} rows, {files:,} files: CREATE INDEX on"
    for what, hudi in found["hudi"]["create"].items():
        yield Figure(f"{where} {what}, hudi", hudi, "s")
        ours = found["lakedex"]["create"][what]
        yield Figure(f"{where} {what}, lakedex", ours, "s", hudi * MOST_OF_HUDI)
    if found["lakedex"]["rows"] != found["hudi"]["rows"]:
        raise RuntimeError(f"the engines found other rows: {found}")


def measure(quick: bool) -> Iterator[Figure]:
    for files in PLANNED[quick]:
        yield from planning_figures(files)
    yield from build_figures(*LOADED[quick])


if __name__ == "__main__":
    run(measure)
