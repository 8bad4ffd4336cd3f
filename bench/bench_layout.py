"""Range queries on tables laid out along a curve, side by side with Delta, Iceberg and Hudi.

Every engine loads the same rows as they come and lays them out by two columns, in about as many
files, each in a process of its own on the same PySpark 3.5. One column is even, the other has a
long tail, as times and prices have. A query asks for a hundredth of the rows by one column, or for
a twentieth by each of both. Files that scans read count, and the median of times.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from children import FRAMES, answer_of
from report import Figure, run

OURS = ("lakedex z-order", "lakedex hilbert")
PEERS = ("delta z-order", "iceberg z-order", "hudi z-order", "hudi hilbert")
SIZES = {True: (40_000, 16, 3), False: (2_000_000, 64, 8)}
"""Rows, files and queries of each kind, quick or not."""
SPREAD = 1 << 40


def rides(count: int) -> pa.Table:
    """Rides in no order."""
    rng = np.random.default_rng(11)
    return pa.table(
        {
            "id": np.char.add("ride-", np.char.zfill(np.arange(count).astype(str), 10)),
            "at": rng.integers(0, SPREAD, count),
            "cents": np.exp(rng.normal(7, 1, count)).astype(np.int64),
            "rider": np.char.add("rider-", rng.integers(0, 50_000, count).astype(str)),
            "distance": rng.random(count) * 30,
        }
    )


def prepare(folder: Path, rows: int, queries: int) -> None:
    """Rows as files, and what is asked of them."""
    table = rides(rows)
    (folder / "rows").mkdir()
    for number in range(8):
        piece = table.slice(number * rows // 8, (number + 1) * rows // 8 - number * rows // 8)
        pq.write_table(piece, folder / "rows" / f"{number}.parquet")
    rng = np.random.default_rng(13)
    at, cents = (np.sort(table[name].to_numpy()) for name in ("at", "cents"))
    asked: dict[str, list[str]] = {"time": [], "price": [], "both": []}
    for _ in range(queries):
        asked["time"].append(_between("at", at, 0.01, rng))
        asked["price"].append(_between("cents", cents, 0.01, rng))
        box = _between("at", at, 0.05, rng), _between("cents", cents, 0.05, rng)
        asked["both"].append(" and ".join(box))
    (folder / "queries.json").write_text(json.dumps(asked))


def _between(name: str, values: np.ndarray, share: float, rng: np.random.Generator) -> str:
    first = int(rng.random() * (1 - share) * len(values))
    return f"{name} between {values[first]} and {values[first + int(share * len(values))]}"


def measured(layout: str, data: Path, files: int, partitions: int) -> dict:
    """What one engine came to."""
    with tempfile.TemporaryDirectory() as work:
        return answer_of("measure_layout.py", layout, data, work, files, partitions=partitions)


def measure(quick: bool) -> Iterator[Figure]:
    rows, files, queries = SIZES[quick]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data, rows, queries)
        for partitions in FRAMES[:1] if quick else FRAMES:
            names = (*OURS, *PEERS)
            found = {name: measured(name, data, files, partitions) for name in names}
            yield from compared(f"{rows:,} rows in {partitions} partitions", found)


def compared(where: str, found: dict[str, dict]) -> Iterator[Figure]:
    """All figures of one frame."""
    for name, answer in found.items():
        yield Figure(f"{where}: files, {name}", answer["files"], "files")
        yield Figure(f"{where}: seconds to lay out, {name}", answer["seconds"], "s")
    kinds = list(found[OURS[0]]["queries"])
    for kind in kinds:
        yield from figures(f"{where}: range of {kind}", [kind], found)
    # One column alone is best served by a plain sort, which some curves come close to: a layout by
    # two columns is held against others by all questions together.
    yield from figures(f"{where}: all ranges", kinds, found, is_goal=True)


def figures(
    where: str, kinds: list[str], found: dict[str, dict], *, is_goal: bool = False
) -> Iterator[Figure]:
    """Files and times of kinds of queries; all in all we shall need no more than the least peer."""
    files, times = {}, {}
    for name, answer in found.items():
        queries = [answer["queries"][kind] for kind in kinds]
        files[name] = mean(mean(query["files"]) for query in queries)
        times[name] = mean(query["ms"] for query in queries)
    for kind in kinds:
        if len({json.dumps(answer["queries"][kind]["rows"]) for answer in found.values()}) > 1:
            raise RuntimeError(f"engines disagree about the rows of {kind}")
    for what, unit, counted in ((": files read", "files", files), ("", "ms", times)):
        least = min(counted[name] for name in PEERS)
        for name, value in counted.items():
            goal = least if is_goal and name in OURS else None
            yield Figure(f"{where}{what}, {name}", value, unit, goal)


if __name__ == "__main__":
    run(measure)
