"""Measures how long one engine takes to build expression indexes, in a process of its own.

    python bench/peers/measure_expression.py ENGINE DATA WORK

DATA holds `load/` as Parquet; WORK is an empty folder. Prints one JSON line: the seconds of each
build, and the rows that queries by the new indexes found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.measure import timed
from peers.secondary import KINDS, finder
from peers.sessions import frame, session

BUILDS = {
    "a day": "USING column_stats(at) OPTIONS (expr='date_format', format='yyyy-MM-dd')",
    "a text": "USING column_stats(rider) OPTIONS (expr='upper')",
}
ASKED = ("date_format(at, 'yyyy-MM-dd') = '2023-11-15'", "upper(rider) = 'RIDER-77'")


def main(engine: str, data: Path, work: Path) -> None:
    kind = KINDS[engine][0]
    spark = session(engine, kind.jars, kind.settings)
    own = finder(engine, spark, work / "one", "rides")
    own.load(frame(spark, data / "load"))
    create = {
        what: timed(lambda n=number, how=how: spark.sql(f"CREATE INDEX idx_{n} ON rides {how}"))
        for number, (what, how) in enumerate(BUILDS.items())
    }
    rows = [spark.sql(f"SELECT id FROM rides WHERE {text}").count() for text in ASKED]
    print(json.dumps({"create": create, "rows": rows}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
