"""The same queries with indexes and without, on tables where indexes can and cannot save anything.

Every query is the first one after a commit, with indexes and without; then the same is asked of a
table that does not change. The promise is that a query with indexes never takes more than a tenth
longer. Through Spark a query runs by `spark.sql` on a warm session, through Arrow by
`lakedex.open(...).to_arrow(...)`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from report import Figure, run

import lakedex
from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

LIMIT = 1.1
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("shop", pa.string()),
        ("seq", pa.int64()),
        ("noise", pa.int64()),
        ("plain", pa.int64()),
        ("note", pa.string()),
    ]
)
OPTIONS = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.index.column.stats.column.list": "seq,noise",
}
TABLES = {"2 tiny files": (2, 10), "10 tiny files": (10, 50), "100 files": (100, 5_000)}
"""By name: files and rows in each."""
QUICK_TABLES = {"2 tiny files": (2, 10)}
TRIES = {True: 2, False: 21}
WARM_UP = 40
QUERIES = {
    "one key": lambda rows, n: f"id = 'k{(rows // 2 + n) % rows}'",
    "a narrow range": lambda rows, n: f"seq BETWEEN {rows // 3 + n} AND {rows // 3 + n + 2}",
    "a range that all files have": lambda _, n: f"noise > {1000 + n}",
    "a range that holds all rows": lambda _, n: f"seq >= {-1 - n}",
    "10,000 keys": lambda rows, n: f"id IN ({_keys(rows, n)})",
    "a column without an index": lambda _, n: f"plain = {n}",
}


def _keys(rows: int, n: int) -> str:
    return ", ".join(f"'k{number}'" for number in range(n, n + 10_000))


def build(path: Path, files: int, each: int) -> None:
    """A table of one file for each shop; `seq` grows from file to file, `noise` does not."""
    rng = np.random.default_rng(2)
    count = files * each
    rows = pa.table(
        {
            "id": np.char.add("k", np.arange(count).astype(str)),
            "shop": np.char.add("s", np.char.zfill((np.arange(count) // each).astype(str), 3)),
            "seq": np.arange(count),
            "noise": rng.integers(0, 1 << 30, count),
            "plain": rng.integers(0, 1 << 30, count),
            "note": np.char.add("note ", rng.integers(0, 1 << 30, count).astype(str)),
        },
        schema=SCHEMA,
    )
    address = StorageAddress.of(str(path))
    spec = TableSpec("sales", SCHEMA, "id", None, "shop", "cow", OPTIONS)
    create_table(address.open(), spec)
    TableWriter(address, LocalEngine(2), {}).bulk_insert(ArrowRowSource(rows))


def commit(path: str) -> None:
    """Write one row again, as it is: nothing changes but the table's newest instant."""
    row = lakedex.open(path).to_arrow("id = 'k0'").select(SCHEMA.names)
    TableWriter(StorageAddress.of(path), LocalEngine(2), {}).upsert(ArrowRowSource(row))


def ratios(
    tries: int, rows: int, ask: Callable[[str, bool], int], before: Callable[[], None] | None = None
) -> Iterator[tuple[str, float]]:
    """How long each query takes with indexes, as a multiple of the time without.

    Both take turns, and medians count; what comes `before` a query is not timed.
    """
    for name, predicate in QUERIES.items():
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(tries):
            found = set()
            for indexed in (True, False) if turn % 2 else (False, True):
                text = predicate(rows, turn)
                if before is not None:
                    before()
                began = time.perf_counter()
                found.add(ask(text, indexed))
                seconds[indexed].append(time.perf_counter() - began)
            if len(found) > 1:
                raise SystemExit(f"{name}: {found} rows, with and without indexes")
        yield name, median(seconds[True]) / median(seconds[False])


def both_ways(
    path: str, tries: int, rows: int, ask: Callable[[str, bool], int]
) -> Iterator[tuple[str, float]]:
    for name, ratio in ratios(tries, rows, ask, partial(commit, path)):
        yield f"{name}, after a commit", ratio
    for name, ratio in ratios(tries, rows, ask):
        yield f"{name}, asked again", ratio


def by_arrow(path: str, tries: int, rows: int) -> Iterator[tuple[str, float]]:
    def ask(predicate: str, indexed: bool) -> int:
        options = lakedex.ReadOptions(without_indexes=() if indexed else ["all"])
        return lakedex.open(path, options=options).to_arrow(predicate, ["id", "note"]).num_rows

    ask("seq = 1", True)
    yield from both_ways(path, tries, rows, ask)


def by_spark(path: str, tries: int, rows: int) -> Iterator[tuple[str, float]]:
    lake = lakedex.local(spark_driver_memory="2g")
    lake.spark.sparkContext.setLogLevel("ERROR")
    for view, skipping in (("indexed", "true"), ("plain", "false")):
        read = lake.spark.read.format("hudi").option("hoodie.enable.data.skipping", skipping)
        read.load(path).createOrReplaceTempView(view)

    def ask(predicate: str, indexed: bool) -> int:
        view = "indexed" if indexed else "plain"
        query = f"SELECT count(note) FROM {view} WHERE {predicate}"
        return lake.spark.sql(query).collect()[0][0]

    for warming in range(WARM_UP):
        ask(f"seq = {warming}", warming % 2 == 0)
    yield from both_ways(path, tries, rows, ask)
    lake.spark.stop()


def child(path: str, tries: int, rows: int) -> None:
    """Ask by both ways in this process; print the ratios."""
    found = {"Arrow": list(by_arrow(path, tries, rows)), "Spark": list(by_spark(path, tries, rows))}
    print(json.dumps(found))


def measure(quick: bool) -> Iterator[Figure]:
    for table, (files, each) in (QUICK_TABLES if quick else TABLES).items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "sales")
            build(path, files, each)
            command = [sys.executable, __file__, "--child", str(path)]
            command += [str(TRIES[quick]), str(files * each)]
            quiet = {**os.environ, "LAKEDEX_INDEX_USAGE": "off"}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=quiet)
        for way, found in json.loads(done.stdout.splitlines()[-1]).items():
            for query, ratio in found:
                yield Figure(f"{table}, {query}, by {way}", ratio, "of a scan", LIMIT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        run(measure)
