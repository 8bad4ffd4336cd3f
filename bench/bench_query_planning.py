"""From `spark.sql` to the list of files, for tables of many files and twenty columns.

The files are in the metadata table only: planning reads nothing else. Only the entries of the one
column that the predicate names are read, so what the others weigh does not matter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from report import Figure, resident_bytes, run

import lakedex
from tests.support.table_builder import TableBuilder

COLUMNS = 20
ROWS_PER_FILE = 2
FILES_PER_PARTITION = 1_000
SIZES = {True: (200, 1_000), False: (1_000, 10_000, 100_000, 286_603)}


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
    rows |= {name: rng.integers(0, 1 << 40, count) for name in names[1:]}
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


def child(path: str, files: int) -> None:
    """Plan one query on a fresh session, then others; print seconds and memory."""
    lake = lakedex.local(spark_driver_memory="4g")
    lake.spark.sparkContext.setLogLevel("ERROR")
    lake.spark.read.format("hudi").load(path).createOrReplaceTempView("rides")
    lake.spark.sql("SELECT 1").collect()
    middle = files * ROWS_PER_FILE // 2
    before = resident_bytes()
    seconds = []
    for number in range(3):
        began = time.perf_counter()
        report = lake.explain(f"SELECT c1 FROM rides WHERE c0 = {middle + number}")
        seconds.append(time.perf_counter() - began)
        if report.total != files or len(report.files) != 1:
            raise SystemExit(f"{files} files: {len(report.files)} of {report.total} are left")
    began = time.perf_counter()
    everything = lake.explain("SELECT c1 FROM rides")
    seconds.append(time.perf_counter() - began)
    if len(everything.files) != files:
        raise SystemExit(f"{files} files: a full scan lists {len(everything.files)}")
    print(json.dumps([seconds, resident_bytes(peak=True) - before]))


def measure(quick: bool) -> Iterator[Figure]:
    for files in SIZES[quick]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rides")
            build(path, files)
            command = [sys.executable, __file__, "--child", str(path), str(files)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        seconds, memory = json.loads(done.stdout.splitlines()[-1])
        yield Figure(f"{files:,} files: first query by one column of {COLUMNS}", seconds[0], "s")
        yield Figure(f"{files:,} files: the next one", min(seconds[1:3]), "s")
        yield Figure(f"{files:,} files: all files listed", seconds[3], "s")
        yield Figure(f"{files:,} files: memory of the driver's Python", memory / 2**20, "MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        run(measure)
