"""Plans queries of one table up to the lists of files, in a process of its own; reads no data.

    python bench/peers/measure_planning.py ENGINE TABLE CONDITION...

Each condition is planned once, after them the whole table. Prints one JSON line: for each planning
seconds, files left, and what was read of the indexes (lakedex only), then the memory that all of it
added to the driver, JVM and Python.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lakedex
from lakedex.index.metadata_table import MetadataTable
from peers.engines import Hudi
from peers.measure import PeakMemory
from peers.sessions import session

STATS = ("column_stats", "partition_stats")


def planned_by_hudi(spark: Any, path: str) -> Callable[[str], int]:
    """How many files Hudi's own file index leaves for a condition."""
    reader = spark.read.format("hudi").option("hoodie.metadata.enable", "true")
    frame = reader.option("hoodie.enable.data.skipping", "true").load(path)

    def plan(condition: str) -> int:
        rows = frame.where(condition) if condition else frame
        todo = [rows.select("c1")._jdf.queryExecution().executedPlan()]
        while todo:
            node = todo.pop()
            if node.getClass().getSimpleName() == "FileSourceScanExec":
                return sum(folder.files().size() for folder in node.selectedPartitions())
            children = node.children().iterator()
            while children.hasNext():
                todo.append(children.next())
        raise RuntimeError("the plan has no scan")

    return plan


def planned_by_lakedex(spark: Any, path: str) -> Callable[[str], int]:
    """The same of lakedex."""
    lake = lakedex.attach(spark)
    frame = spark.read.format("lakedex").load(path)

    def plan(condition: str) -> int:
        rows = frame.where(condition) if condition else frame
        return len(lake.explain(rows.select("c1")).files)

    return plan


def watch_entries() -> list[list[str]]:
    """Keys of all statistics that are read from here on, one list for each reading."""
    seen: list[list[str]] = []
    for name in ("scan_prefixes", "lookup"):
        read = getattr(MetadataTable, name)

        def watched(self: Any, partition: str, wanted: Any, *rest: Any, read: Any = read) -> Any:
            records = read(self, partition, wanted, *rest)
            if partition in STATS:
                seen.append(records["key"].to_pylist())
            return records

        setattr(MetadataTable, name, watched)
    return seen


def read_bytes() -> int:
    """What this process has read so far, from files and sockets."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def main(engine: str, path: str, conditions: list[str]) -> None:
    is_hudi = engine == "hudi"
    spark = session(engine, Hudi.jars if is_hudi else (), Hudi.settings if is_hudi else {})
    seen = [] if is_hudi else watch_entries()
    watch = PeakMemory()
    before = watch.now()
    plan = (planned_by_hudi if is_hudi else planned_by_lakedex)(spark, path)
    found = []
    for condition in [*conditions, ""]:
        seen.clear()
        read, began = read_bytes(), time.perf_counter()
        files = plan(condition)
        seconds = time.perf_counter() - began
        keys = [key for part in seen for key in part]
        answer = {"files": files, "seconds": seconds, "bytes": read_bytes() - read}
        found.append({**answer, "entries": len(keys), "columns": len({key[:12] for key in keys})})
    print(json.dumps({"plans": found, "peak_bytes": watch.stop() - before}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
