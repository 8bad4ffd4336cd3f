"""Measures the layout of one engine in a process of its own: load, lay out, ask.

    python bench/peers/measure_layout.py LAYOUT DATA WORK FILES

DATA holds `rows/` as Parquet and `queries.json`: conditions by kind. Prints one JSON line: seconds
of the layout, the files of the table, and for each kind rows, files and milliseconds of a query.
One query of each kind is asked before, so that all kinds find the session warm.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.layouts import LAYOUTS
from peers.sessions import frame, session
from tests.support.scans import files_read

ROUNDS = 3


def main(name: str, data: Path, work: Path, files: int) -> None:
    kind = LAYOUTS[name]
    spark = session(name.replace(" ", "-"), kind.jars, kind.settings)
    layout = kind(spark, work, files)
    layout.load(frame(spark, data / "rows"))
    began = time.perf_counter()
    layout.arrange()
    seconds = time.perf_counter() - began
    table = layout.frame()
    everything = table.selectExpr("sum(cents)")
    everything.collect()
    queries = json.loads((data / "queries.json").read_text())
    for conditions in queries.values():
        asked(table, conditions[:1])
    found = {kind: asked(table, conditions) for kind, conditions in queries.items()}
    answer = {"layout": name, "seconds": seconds, "files": files_read(everything)}
    print(json.dumps({**answer, "queries": found}))
    spark.stop()


def asked(table: Any, conditions: list[str]) -> dict[str, Any]:
    """What the queries of one kind came to; each is asked some times, and the least time counts."""
    rows, files, times = [], [], []
    for condition in conditions:
        least = float("inf")
        for _ in range(ROUNDS):
            query = table.where(condition).selectExpr("count(*) n", "sum(cents) s")
            began = time.perf_counter()
            (answer,) = query.collect()
            least = min(least, time.perf_counter() - began)
        rows.append([answer.n, answer.s])
        files.append(files_read(query))
        times.append(least * 1000)
    return {"rows": rows, "files": files, "ms": statistics.median(times)}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
