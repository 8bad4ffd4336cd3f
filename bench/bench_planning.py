"""How long it takes to open a table of many files and to find the few that may match.

The files are in the metadata table only: planning reads nothing else. A range of one column is also
planned with the ranges of files alone and with those of partitions alone, the others switched off.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from report import Figure, best, resident_bytes, run
from rides import uuid_texts

import lakedex
from tests.support.table_builder import TableBuilder

ROWS_PER_FILE = 10
FILES_PER_PARTITION = 100
SIZES = {True: (200, 1_000), False: (1_000, 10_000, 50_000)}
GOAL_FILES = 10_000
GOAL_SECONDS = 0.5
TRIES = 3


def build(path: Path, files: int) -> str:
    """A table of so many files of ten rows; the key of its middle row."""
    rng = np.random.default_rng(3)
    schema = pa.schema([("id", pa.string()), ("day", pa.string()), ("seq", pa.int64())])
    builder = TableBuilder(
        path,
        schema,
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=["column_stats", "partition_stats", "record_index"],
    )
    keys = uuid_texts(files * ROWS_PER_FILE, rng)
    rows = pa.table({"id": keys, "seq": np.arange(len(keys))})
    pieces = [
        (f"d{number // FILES_PER_PARTITION:04d}", rows.slice(number * ROWS_PER_FILE, ROWS_PER_FILE))
        for number in range(files)
    ]
    builder.commit(pieces, phantom_files=True)
    builder.finish()
    return keys[len(keys) // 2].as_py()


def child(path: str, files: int, key: str) -> None:
    """Open and plan; print seconds for each step and the memory that it took."""
    middle = files * ROWS_PER_FILE // 2
    before = resident_bytes()

    def opened() -> int:
        return len(lakedex.open(path).files())

    def plan(condition: str, *without: str) -> int:
        options = lakedex.ReadOptions(without_indexes=without)
        return len(lakedex.open(path, options=options).files(condition))

    by_column, by_key = f"seq BETWEEN {middle} AND {middle + 5}", f"id = '{key}'"
    found = [opened(), plan(by_column), plan(by_key), plan(by_column, "column_stats")]
    memory = resident_bytes(peak=True) - before
    seconds = [best(opened, TRIES)]
    seconds += [best(lambda c=condition: plan(c), TRIES) for condition in (by_column, by_key)]
    for switched_off in ("partition_stats", "column_stats"):
        seconds.append(best(lambda off=switched_off: plan(by_column, off), TRIES))
    print(json.dumps([found, seconds, memory]))


def measure(quick: bool) -> Iterator[Figure]:
    for files in SIZES[quick]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rides")
            key = build(path, files)
            command = [sys.executable, __file__, "--child", str(path), str(files), key]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found, seconds, memory = json.loads(done.stdout)
        by_partition = found[3] in (FILES_PER_PARTITION, 2 * FILES_PER_PARTITION)
        if found[0] != files or not 1 <= found[1] <= 2 or found[2] != 1 or not by_partition:
            raise SystemExit(f"{files} files: planned {found}")
        goal = GOAL_SECONDS if files == GOAL_FILES else None
        yield Figure(f"{files:,} files: open and list", seconds[0], "s")
        yield Figure(f"{files:,} files: open, prune by one column", seconds[1], "s", goal)
        yield Figure(f"{files:,} files: the same by column_stats alone", seconds[3], "s")
        yield Figure(f"{files:,} files: the same by partition_stats alone", seconds[4], "s")
        yield Figure(f"{files:,} files: open, prune by record key", seconds[2], "s")
        yield Figure(f"{files:,} files: memory", memory / 2**20, "MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        run(measure)
