"""Measures one engine in a process of its own: lookups by value, or upserts with an index.

    python bench/peers/measure_secondary.py lookups|upserts ENGINE DATA WORK

DATA holds `load/` and `batch-<n>/` as Parquet and `values.json`, the values to look up; WORK is an
empty folder. Prints one JSON line.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.measure import timed
from peers.secondary import COLUMN, KINDS, Finder, LakedexFinder, finder
from peers.sessions import frame, session

WARM_UP = 2
"""Lookups that do not count."""


def lookups(engine: str, spark: Any, data: Path, work: Path) -> dict:
    """Seconds of lookups without an index and with one, and what the index came to."""
    own = finder(engine, spark, work / "one", "rides")
    answer: dict = {"load": timed(lambda: own.load(frame(spark, data / "load")))}
    values = json.loads((data / "values.json").read_text())
    answer["scan"], answer["rows"] = asked(own, values["scanned"])
    if engine == "parquet":
        return answer
    estimate = estimated(own) if isinstance(own, LakedexFinder) else {}
    answer["create"] = timed(own.index)
    answer["found"], answer["found_rows"] = asked(own, values["found"])
    answer["index_bytes"] = own.index_bytes()
    if estimate:
        answer["estimate"] = {**estimate, "real": real(own, values["found"])}
    return answer


def asked(own: Finder, values: list[str]) -> tuple[float, int]:
    """The median seconds of a lookup once the session is warm, and the rows of all together."""
    rows, seconds = 0, []
    for number, value in enumerate(values):
        began = time.perf_counter()
        rows += len(own.find(value))
        if number >= WARM_UP:
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), rows


def estimated(own: LakedexFinder) -> dict:
    """What the estimate says before there is an index."""
    estimate = own.table.estimate_index(COLUMN)
    return {
        "size": estimate.size_bytes,
        "files": estimate.files_per_value,
        "seconds": estimate.build_seconds,
    }


def real(own: LakedexFinder, values: list[str]) -> dict:
    """What the same figures came to."""
    files = [len(own.table.explain(f"{COLUMN} = '{value}'").files) for value in values]
    return {"size": own.index_bytes(), "files": statistics.mean(files)}


def upserts(engine: str, spark: Any, data: Path, work: Path) -> dict:
    """Seconds of the same upserts into a table without an index and into one with it."""
    plain = finder(engine, spark, work / "plain", "plain")
    indexed = finder(engine, spark, work / "indexed", "indexed")
    for own in (plain, indexed):
        own.load(frame(spark, data / "load"))
    indexed.index()
    seconds: dict[str, list[float]] = {"plain": [], "indexed": []}
    for number, batch in enumerate(sorted(data.glob("batch-*"))):
        rows = frame(spark, batch)
        # In turns, so that neither always comes second.
        both = [("plain", plain), ("indexed", indexed)]
        for name, own in both if number % 2 else reversed(both):
            seconds[name].append(timed(lambda own=own, rows=rows: own.engine.upsert(rows)))
    counts = {own.engine.count() for own in (plain, indexed)}
    if len(counts) > 1:
        raise RuntimeError(f"{engine}: the index changed the rows: {counts}")
    steps = {
        name: dict(own.engine.last.seconds)
        for name, own in (("plain", plain), ("indexed", indexed))
        if isinstance(own, LakedexFinder)
    }
    return {"seconds": seconds, "rows": counts.pop(), "steps": steps}


def main(what: str, engine: str, data: Path, work: Path) -> None:
    kind = KINDS[engine][0]
    spark = session(engine, kind.jars, kind.settings)
    print(json.dumps({"lookups": lookups, "upserts": upserts}[what](engine, spark, data, work)))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
