"""Loads and upserts side by side with Hudi, Delta and Iceberg on the same PySpark 3.5.

Every engine writes the same rows in a process of its own, from frames of few and of many
partitions; 80 % of a batch are updates spread over all files. Medians of the upserts count.
`LAKEDEX_BENCH_LARGE=1` adds one run of lakedex alone at 20,000,000 rows.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from children import FRAMES, answer_of
from report import Figure, run

BATCHES = 3
SIZES = {True: [(30_000, 10, 2_000)], False: [(300_000, 100, 20_000), (1_000_000, 200, 50_000)]}
"""Rows, partitions (one file each) and rows of an upsert, quick or not."""
ALL = ("parquet", "lakedex", "lakedex-mor", "delta", "iceberg", "iceberg-mor", "hudi", "hudi-mor")
QUICK = ("lakedex", "lakedex-mor", "delta", "iceberg-mor")


def rides(numbers: np.ndarray, parts: int, version: int, rng: np.random.Generator) -> pa.Table:
    count = len(numbers)
    return pa.table(
        {
            "id": np.char.add("ride-", np.char.zfill(numbers.astype(str), 10)),
            "part": np.char.add("p", (numbers % parts).astype(str)),
            "ver": np.full(count, version, np.int64),
            "rider": np.char.add("rider-", rng.integers(0, 50_000, count).astype(str)),
            "driver": np.char.add("driver-", rng.integers(0, 5_000, count).astype(str)),
            "fare": rng.random(count) * 100,
            "distance": rng.random(count) * 30,
            "at": pa.array(1_700_000_000_000_000 + numbers * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


def write_load(folder: Path, rows: pa.Table) -> None:
    """The rows that engines load, in eight files."""
    folder.mkdir(parents=True)
    for number in range(8):
        piece = rows.slice(number * len(rows) // 8, -(-len(rows) // 8))
        pq.write_table(piece, folder / f"{number}.parquet")


def prepare(folder: Path, rows: int, parts: int, batch: int) -> None:
    rng = np.random.default_rng(7)
    everything = rides(np.arange(rows), parts, 1, rng)
    write_load(folder / "load", everything)
    known = rows
    for number in range(BATCHES):
        old = rng.choice(known, batch * 8 // 10, replace=False)
        new = np.arange(known, known + batch - len(old))
        known += len(new)
        (folder / f"batch-{number}").mkdir()
        table = rides(np.concatenate([old, new]), parts, 2 + number, rng)
        pq.write_table(table, folder / f"batch-{number}" / "0.parquet")


def measured(engine: str, data: Path, partitions: int = FRAMES[0]) -> dict:
    with tempfile.TemporaryDirectory() as work:
        return answer_of("measure.py", engine, data, work, partitions=partitions)


def measure(quick: bool) -> Iterator[Figure]:
    for rows, parts, batch in SIZES[quick]:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            prepare(data, rows, parts, batch)
            for count in FRAMES[:1] if quick else FRAMES:
                found = {name: measured(name, data, count) for name in (QUICK if quick else ALL)}
                yield from figures(found, f"{rows:,} rows, frame of {count}")
    if os.environ.get("LAKEDEX_BENCH_LARGE"):
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder), 20_000_000, 400, 50_000)
            found = {name: measured(name, Path(folder)) for name in ("lakedex", "lakedex-mor")}
        yield from figures(found, "20,000,000 rows")


def figures(found: dict[str, dict], where: str) -> Iterator[Figure]:
    counts = {answer["rows"] for name, answer in found.items() if name != "parquet"}
    if len(counts) > 1:
        raise RuntimeError(f"engines disagree about the rows: {counts}")
    loads = {name: answer["load"] for name, answer in found.items()}
    upserts = {
        name: statistics.median(answer["upserts"])
        for name, answer in found.items()
        if answer["upserts"]
    }
    for name in found:
        goal = loads.get("delta") if name.startswith("lakedex") else None
        yield Figure(f"{where}: load, {name}", loads[name], "s", goal)
    peers = [upserts[name] for name in ("delta", "iceberg", "iceberg-mor") if name in upserts]
    rewriting = [upserts[name] for name in ("delta", "iceberg") if name in upserts]
    for name, seconds in upserts.items():
        goal = None
        if name == "lakedex" and rewriting:
            goal = min(rewriting)
        elif name == "lakedex-mor" and peers:
            goal = min(peers) / 2
        yield Figure(f"{where}: upsert, {name}", seconds, "s", goal)
    for name, answer in found.items():
        memory = found.get("hudi", {}).get("peak_bytes")
        goal = memory / 2**20 if memory and name.startswith("lakedex") else None
        yield Figure(f"{where}: peak memory, {name}", answer["peak_bytes"] / 2**20, "MiB", goal)
    for name, answer in found.items():
        for write, steps in (("load", "load_steps"), ("last upsert", "steps")):
            for step, seconds in answer[steps].items():
                yield Figure(f"{where}: {write}, {name}, {step}", seconds, "s")


if __name__ == "__main__":
    run(measure)
