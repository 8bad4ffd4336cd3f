"""Measures one engine in a process of its own: a load, then some upserts.

    python bench/peers/measure.py ENGINE DATA WORK

DATA holds `load/` and `batch-<n>/` as Parquet, and `ranges.json` where queries are to be measured;
WORK is an empty folder. Prints one JSON line with seconds, the peak memory of driver and Python
workers, the steps of lakedex's writes, and milliseconds and rows of queries by kind.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.engines import ENGINES
from peers.sessions import frame, session

WARM_UP = 10
"""Queries of each kind that do not count."""


def main(name: str, data: Path, work: Path) -> None:
    kind = ENGINES[name]
    spark = session(name, kind.jars, kind.settings)
    engine = kind(spark, work)
    watch = PeakMemory()
    load = timed(lambda: engine.load(frame(spark, data / "load")))
    loaded = steps_of(engine)
    # Or else an engine that makes its files durable waits in its upserts for what was loaded.
    os.sync()
    upserts = []
    for batch in sorted(data.glob("batch-*")) if name != "parquet" else []:
        rows = frame(spark, batch)
        upserts.append(timed(lambda rows=rows: engine.upsert(rows)))
    print(
        json.dumps(
            {
                "engine": name,
                "load": load,
                "upserts": upserts,
                "rows": engine.count(),
                "ranges": ranges(engine, data / "ranges.json"),
                "peak_bytes": watch.stop(),
                "load_steps": loaded,
                "steps": steps_of(engine),
            }
        )
    )
    spark.stop()


def steps_of(engine: Any) -> dict[str, float]:
    """The seconds of each step of the last write, of an engine that reports them."""
    result = getattr(engine, "last", None)
    return dict(result.seconds) if result is not None else {}


def ranges(engine: Any, path: Path) -> dict[str, dict]:
    """Median milliseconds of queries of an open table, by kind, and what each of them found."""
    kinds = json.loads(path.read_text()) if path.exists() else {}
    opened = engine.frame() if kinds else None
    found = {}
    for kind, conditions in kinds.items():
        rows, seconds = [], []
        for condition in conditions:
            query = opened.where(condition).selectExpr("count(*) n", "sum(ver) v")
            began = time.perf_counter()
            (answer,) = query.collect()
            seconds.append(time.perf_counter() - began)
            rows.append([answer.n, answer.v])
        found[kind] = {"ms": statistics.median(seconds[WARM_UP:]) * 1000, "rows": rows}
    return found


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class PeakMemory:
    """The most resident memory that this process and its children had together."""

    def __init__(self) -> None:
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self._peak

    def now(self) -> int:
        """What they have together at present."""
        return sum(map(resident, family(os.getpid())))

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            self._peak = max(self._peak, self.now())


def family(root: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = [root]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found


def resident(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in text.splitlines() if x.startswith("Pss:")), 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
