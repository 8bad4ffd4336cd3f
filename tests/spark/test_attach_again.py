"""A session that was stopped, and the next one of the same process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import lakedex
for number in range(2):
    lake = lakedex.local(spark_driver_memory="512m", spark_sql_shuffle_partitions="2")
    spark = lake.spark
    spark.sparkContext.setLogLevel("OFF")
    if number == 0:
        table = lake.create_table(
            "t", "id string, part string, ver long", path=sys.argv[1], record_key="id",
            ordering="ver", partition_by="part", table_type="mor",
        )
        table.bulk_insert(spark.range(30).selectExpr(
            "concat('k', id) AS id", "concat('p', id % 3) AS part", "id AS ver"))
    rows = spark.range(2).selectExpr(
        "concat('k', id) AS id", "concat('p', id % 3) AS part", f"id + {100 * number} AS ver")
    lake.table(sys.argv[1]).upsert(rows)
    frame = spark.read.format("hudi").load(sys.argv[1]).filter("part = 'p1'")
    newest = frame.agg({"ver": "max"}).first()[0]
    print("seen", frame.count(), newest, len(lake.explain(frame).files))
    spark.stop()
"""


def test_queries_work_after_stop_and_attach(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    seen = [line for line in done.stdout.splitlines() if line.startswith("seen")]
    assert seen == ["seen 10 28 1", "seen 10 101 1"], done.stderr[-2000:]
