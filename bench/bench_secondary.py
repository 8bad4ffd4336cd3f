"""Lookups by value through secondary indexes, side by side with Hudi 1.2.0 and plain Parquet.

Every engine loads the same rows, five to a value and in no order, one file to a partition, in a
process of its own on the same PySpark 3.5. Half of the rows of an upsert that are there already
get another value of the indexed column. Medians count. Last comes a table whose files are in the
metadata table only, as large as the one that RFC-77 tells of: a value is in 150 of its files.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_write import write_load
from children import FRAMES, answer_of
from report import Figure, run

from tests.support.index_specs import SecondaryIndex
from tests.support.table_builder import TableBuilder

ROWS_A_VALUE = 5
SCANS, LOOKUPS = 6, 32
"""Lookups are so short that the median of a few would tell of what else the JVM does."""
BATCHES = 5
UPSERTING = ("lakedex", "lakedex-mor")
TABLES = {True: [(20_000, 20)], False: [(1_000_000, 200), (1_000_000, 2_000)]}
"""Rows and files, quick or not."""
BATCH = {True: 1_000, False: 50_000}
LARGEST = {True: 3_000, False: 286_603}
"""File groups of the table that is only planned."""
FILES_A_VALUE = 150
FILES_A_PARTITION = 1_000
MOST_ADDED = 30
"""Percent that an index may add to an upsert."""
OFF_BY = 25
"""Percent that an estimate may be off."""


def rides(numbers: np.ndarray, riders: np.ndarray, parts: int, version: int) -> pa.Table:
    count = len(numbers)
    rng = np.random.default_rng(version)
    return pa.table(
        {
            "id": np.char.add("ride-", np.char.zfill(numbers.astype(str), 10)),
            "part": np.char.add("p", (numbers % parts).astype(str)),
            "ver": np.full(count, version, np.int64),
            "rider": np.char.add("rider-", riders.astype(str)),
            "fare": rng.random(count) * 100,
            "distance": rng.random(count) * 30,
            "at": pa.array(1_700_000_000_000_000 + numbers * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


def prepare(folder: Path, rows: int, parts: int, batch: int) -> None:
    """Rows, upserts and the values to look up."""
    rng = np.random.default_rng(7)
    riders = rng.permutation(rows) // ROWS_A_VALUE
    everything = rides(np.arange(rows), riders, parts, 1)
    write_load(folder / "load", everything)
    known = rows
    for number in range(BATCHES):
        old = rng.choice(rows, batch * 8 // 10, replace=False)
        new = np.arange(known, known + batch - len(old))
        known += len(new)
        changed = riders[old]
        changed[::2] = rng.integers(0, rows // ROWS_A_VALUE, len(changed[::2]))
        fresh = rng.integers(0, rows // ROWS_A_VALUE, len(new))
        (folder / f"batch-{number}").mkdir()
        numbers, values = np.concatenate([old, new]), np.concatenate([changed, fresh])
        table = rides(numbers, values, parts, 2 + number)
        pq.write_table(table, folder / f"batch-{number}" / "0.parquet")
    chosen = rng.choice(rows // ROWS_A_VALUE, SCANS + LOOKUPS, replace=False)
    names = [f"rider-{value}" for value in chosen]
    asked = {"scanned": names[:SCANS], "found": names[SCANS:]}
    (folder / "values.json").write_text(json.dumps(asked))


def measured(what: str, engine: str, data: Path, partitions: int) -> dict:
    with tempfile.TemporaryDirectory() as work:
        script = "measure_secondary.py"
        return answer_of(script, what, engine, data, work, partitions=partitions)


def measure(quick: bool) -> Iterator[Figure]:
    for place, (rows, files) in enumerate(TABLES[quick]):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            prepare(data, rows, files, BATCH[quick])
            for count in FRAMES[:1] if quick else FRAMES:
                where = f"{rows:,} rows, {files:,} files, frame of {count}"
                engines = ("parquet", "lakedex", "hudi")
                found = {name: measured("lookups", name, data, count) for name in engines}
                yield from lookup_figures(where, rows, files, found)
                for name in UPSERTING if place == 0 else ():
                    answer = measured("upserts", name, data, count)
                    yield from upsert_figures(f"{where}: upsert, {name}", answer)
    yield from planning_figures(LARGEST[quick])


def lookup_figures(where: str, rows: int, files: int, found: dict[str, dict]) -> Iterator[Figure]:
    """Lookups, builds and bytes; ours are held against Hudi's and Parquet's."""
    scanned, looked_up = SCANS * ROWS_A_VALUE, LOOKUPS * ROWS_A_VALUE
    for name, answer in found.items():
        if answer["rows"] != scanned or answer.get("found_rows", looked_up) != looked_up:
            raise RuntimeError(f"{name} found other rows: {answer}")
    ours, hudi, parquet = found["lakedex"], found["hudi"], found["parquet"]
    for name, answer in found.items():
        yield Figure(f"{where}: lookup, {name} without index", answer["scan"] * 1000, "ms")
    yield Figure(f"{where}: lookup, hudi with index", hudi["found"] * 1000, "ms")
    goal = min(hudi["found"] / 3, parquet["scan"] * 1.1)
    if files >= max(each for _, each in TABLES[False]):
        goal = min(goal, ours["scan"] * 0.05)
    yield Figure(f"{where}: lookup, lakedex with index", ours["found"] * 1000, "ms", goal * 1000)
    yield Figure(f"{where}: CREATE INDEX, hudi", hudi["create"], "s")
    yield Figure(f"{where}: CREATE INDEX, lakedex", ours["create"], "s", hudi["create"] / 3)
    theirs, own = hudi["index_bytes"] / rows, ours["index_bytes"] / rows
    yield Figure(f"{where}: bytes per entry, hudi", theirs, "B")
    yield Figure(f"{where}: bytes per entry, lakedex", own, "B", theirs)
    estimate = ours["estimate"]
    real = {**estimate["real"], "seconds": ours["create"]}
    for name, value in real.items():
        off = abs(estimate[name] / value - 1) * 100
        yield Figure(f"{where}: estimate of {name} off by", off, "%", OFF_BY)


def upsert_figures(where: str, answer: dict) -> Iterator[Figure]:
    """What keeping one index up adds to an upsert."""
    # The first of both warms the session up.
    plain, indexed = (
        statistics.median(answer["seconds"][kind][1:]) for kind in ("plain", "indexed")
    )
    yield Figure(f"{where} without index", plain, "s")
    yield Figure(f"{where} with index", indexed, "s")
    yield Figure(f"{where}: what the index adds", (indexed / plain - 1) * 100, "%", MOST_ADDED)
    for step, seconds in answer["steps"]["indexed"].items():
        more = seconds - answer["steps"]["plain"].get(step, 0.0)
        yield Figure(f"{where}: the index adds to {step}", more, "s")


def planning_figures(files: int) -> Iterator[Figure]:
    """Planning a lookup in a table of very many file groups."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rides")
        values = build(path, files)
        asked = [f"rider = 'rider-{values * part // 4}'" for part in range(3)]
        answer = answer_of("measure_planning.py", "lakedex", path, *asked)
    *plans, everything = answer["plans"]
    if any(plan["files"] != FILES_A_VALUE for plan in plans) or everything["files"] != files:
        raise RuntimeError(f"{files} file groups: planned {answer['plans']}")
    where = f"{files:,} file groups, {FILES_A_VALUE} of a value"
    yield Figure(f"{where}: files left", plans[0]["files"], "files", FILES_A_VALUE)
    yield Figure(f"{where}: first lookup planned", plans[0]["seconds"], "s", 10)
    yield Figure(f"{where}: the next", min(plan["seconds"] for plan in plans[1:]), "s", 2)
    yield Figure(f"{where}: read for it", plans[2]["bytes"] / 2**20, "MiB")


def build(path: Path, files: int) -> int:
    """A table of so many files, each of two rows; answers how many values there are."""
    schema = pa.schema(
        [("id", pa.string()), ("day", pa.string()), ("rider", pa.string()), ("c1", pa.int64())]
    )
    builder = TableBuilder(
        path,
        schema,
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=["column_stats", "record_index", SecondaryIndex("rider", "rider")],
        groups={"record_index": 10, "secondary_index": 10},
    )
    # Every value has its rows in as many files; the rows that are left over have values of
    # their own.
    values = files // FILES_A_VALUE
    number = np.arange(files)
    common = np.where(number < values * FILES_A_VALUE, number % values, values + number)
    rows = 2 * files
    riders = np.empty(rows, np.int64)
    riders[::2], riders[1::2] = common, values + files + number
    table = pa.table(
        {
            "id": np.char.add("k", np.arange(rows).astype(str)),
            "rider": np.char.add("rider-", riders.astype(str)),
            "c1": np.arange(rows),
        }
    )
    pieces = [
        (f"d{each // FILES_A_PARTITION:04d}", table.slice(2 * each, 2)) for each in range(files)
    ]
    builder.commit(pieces, phantom_files=True)
    builder.finish()
    return values


if __name__ == "__main__":
    run(measure)
