"""RFC-63's comparison: one question asked of hidden partitions, generated columns and our index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.conftest import JAR
from tests.interop.test_beside_other_engines import JARS

ROOT = Path(__file__).parents[2]
PROGRAM = """
import datetime as dt, json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
import lakedex
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.scans import files_read

folder, jars, questions = sys.argv[1:]
builder = SparkSession.builder.master("local[2]")
for name, value in {
    "spark.jars": jars,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.catalog.ice.warehouse": f"{folder}/ice",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1", "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
lake = lakedex.attach(spark)
start = dt.datetime(2022, 10, 1, tzinfo=dt.timezone.utc)
hours = [*range(24), *range(33, 39)]
at = pa.array([start + dt.timedelta(hours=hour) for hour in hours], pa.timestamp("us", "UTC"))
events = pa.table({"id": [f"k{hour}" for hour in hours], "ts": at})

lake.sql("CREATE TABLE h (id STRING, ts TIMESTAMP) USING hudi "
         f"TBLPROPERTIES (primaryKey = 'id') LOCATION '{folder}/h'")
writer = TableWriter(StorageAddress.of(f"{folder}/h"))
for number in range(len(hours)):
    writer.bulk_insert(ArrowRowSource(events.slice(number, 1)))
lake.sql("CREATE INDEX idx_day ON h (date_format(ts, 'yyyy-MM-dd'))")
lake.sql("CREATE INDEX idx_hour ON h (hour(ts))")

spark.sql("CREATE TABLE ice.db.i (id STRING, ts TIMESTAMP) USING iceberg "
          "PARTITIONED BY (hours(ts))")
tables = spark._jvm.io.delta.tables.DeltaTable
made = tables.create(spark._jsparkSession).tableName("d")
made = made.addColumn("id", "string").addColumn("ts", "timestamp")
for name, kind, value in (("day", "date", "CAST(ts AS DATE)"), ("hour", "int", "HOUR(ts)")):
    column = tables.columnBuilder(spark._jsparkSession, name).dataType(kind)
    made = made.addColumn(column.generatedAlwaysAs(value).build())
made.partitionedBy(spark._jvm.PythonUtils.toSeq(["day", "hour"])).execute()
for name in ("ice.db.i", "d"):
    spark.sql(f"INSERT INTO {name} (id, ts) SELECT id, ts FROM h")

answers = {}
for what, condition in json.loads(questions).items():
    for name in ("h", "ice.db.i", "d"):
        frame = spark.sql(f"SELECT id FROM {name} WHERE {condition}")
        answers.setdefault(what, []).append([len(frame.collect()), files_read(frame)])
known = spark.sql("SELECT id FROM d WHERE day = '2022-10-01' AND hour BETWEEN 12 AND 13")
answers["by hand"] = [[len(known.collect()), files_read(known)]]
print(json.dumps(answers))
"""

RANGE = "ts >= '2022-10-01 00:00:00' AND ts < '2022-10-02 00:00:00'"
DAY = "date_format(ts, 'yyyy-MM-dd') = '2022-10-01'"
NOON = "hour(ts) BETWEEN 12 AND 13"
QUESTIONS = {
    "all": "true",
    "range": RANGE,
    "day": DAY,
    "noon": NOON,
    "range and noon": f"{RANGE} AND {NOON}",
    "day and noon": f"{DAY} AND {NOON}",
}


def test_hours_of_a_day_beside_hidden_partitions_and_generated_columns(tmp_path):
    jars = [JAR.parent / f"{name}.jar" for name in JARS]
    if not all(jar.exists() for jar in jars):
        pytest.skip("scripts/fetch_jars.py brings the jars of Delta and Iceberg")
    arguments = [str(tmp_path), ",".join(map(str, jars)), json.dumps(QUESTIONS)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    rows = {what: {each[0] for each in found} for what, found in answers.items()}
    files = {what: [each[1] for each in found] for what, found in answers.items()}
    expected = {"all": 30, "range": 24, "day": 24, "noon": 4, "range and noon": 2}
    assert rows == {what: {count} for what, count in expected.items()} | {
        "day and noon": {2},
        "by hand": {2},
    }
    # Ours, Iceberg's, Delta's: each file is an hour, and a question names no partition.
    assert files["all"] == [30, 30, 30]
    assert files["range"] == [24, 24, 24]
    assert files["day"] == [24, 30, 30]
    assert files["noon"] == [4, 30, 30]
    assert files["range and noon"] == [2, 24, 24]
    assert files["day and noon"] == [2, 30, 30]
    # Who knows Delta's own columns can name them.
    assert files["by hand"] == [2]
