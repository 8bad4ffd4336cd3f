"""lakedex in sessions of others: beside Hudi's own bundle, and beside Delta and Iceberg."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakedex
from tests.interop.conftest import JAR

ROOT = Path(__file__).parents[2]
JARS = ("delta-spark_2.12-3.3.2", "delta-storage-3.3.2", "iceberg-spark-runtime-3.5_2.12-1.10.0")

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import lakedex

folder, jars = sys.argv[1:]
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
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
lake = lakedex.attach(spark)
rows = "VALUES ('a', 1), ('b', 2), ('c', 3)"
spark.sql("CREATE TABLE d (id STRING, n INT) USING delta")
spark.sql("CREATE TABLE ice.db.i (id STRING, n INT) USING iceberg")
lake.sql("CREATE TABLE h (id STRING, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
for name in ("d", "ice.db.i", "h"):
    spark.sql(f"INSERT INTO {name} {rows}")
for name in ("d", "ice.db.i"):
    spark.sql(f"UPDATE {name} SET n = n * 10 WHERE id = 'b'")
    spark.sql(f"MERGE INTO {name} t USING h s ON t.id = s.id AND s.id = 'c' "
              "WHEN MATCHED THEN DELETE")
lake.sql("UPDATE h SET n = n * 10 WHERE id = 'b'")
lake.sql("MERGE INTO h t USING d s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE")
joined = spark.sql("SELECT h.id, h.n, d.n, i.n FROM h JOIN d USING (id) "
                   "JOIN ice.db.i AS i USING (id) WHERE h.n > 0 ORDER BY h.id")
print(json.dumps([list(row) for row in joined.collect()]))
"""


def test_delta_and_iceberg_go_on_as_before(tmp_path):
    jars = [JAR.parent / f"{name}.jar" for name in JARS]
    if not all(jar.exists() for jar in jars):
        pytest.skip("scripts/fetch_jars.py brings the jars of Delta and Iceberg")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), ",".join(map(str, jars))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [["a", 1, 1, 1], ["b", 20, 20, 20]]


def test_hudi_keeps_its_name_and_its_statements(spark, tmp_path):
    session = spark.newSession()
    path = str(tmp_path / "theirs")
    session.sql(
        "CREATE TABLE theirs (id STRING, n INT, ts BIGINT) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}'"
    )
    session.sql("INSERT INTO theirs VALUES ('a', 1, 1), ('b', 2, 1)")
    lakedex.attach(session)
    # Hudi's own statements, parser and source are still Hudi's.
    session.sql("UPDATE theirs SET n = 5 WHERE id = 'a'")
    session.sql(
        "MERGE INTO theirs t USING (SELECT 'c' AS id, 3 AS n, 2L AS ts) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    by_hudi = session.read.format("hudi").load(path)
    assert "HudiFileGroup" in by_hudi._jdf.queryExecution().analyzed().toString()
    ours = session.read.format("lakedex").load(path)
    expected = {("a", 5), ("b", 2), ("c", 3)}
    for frame in (session.table("theirs"), by_hudi, ours):
        assert {(row["id"], row["n"]) for row in frame.collect()} == expected
    joined = ours.join(by_hudi, "id").filter(ours["n"] == by_hudi["n"])
    assert joined.count() == len(expected)

    seen = []
    stream = session.readStream.format("lakedex").load(path).writeStream
    stream = stream.foreachBatch(lambda rows, _: seen.extend(row["id"] for row in rows.collect()))
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()
    assert sorted(seen) == ["a", "b", "c"]


def test_hudi_goes_on_with_a_stream_that_lakedex_wrote(spark, tmp_path):
    """Both keep the last batch of a stream in the same entry of the commits."""
    session = spark.newSession()
    lakedex.attach(session)
    source, target, kept = (str(tmp_path / name) for name in ("source", "target", "checkpoint"))
    options = {
        "hoodie.table.name": "target",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "insert",
        "hoodie.datasource.write.streaming.checkpoint.identifier": "orders",
    }

    def go(format_name: str) -> None:
        rows = session.readStream.schema("id string, n int").json(source)
        writer = rows.writeStream.format(format_name).options(path=target, **options)
        writer = writer.option("checkpointLocation", kept).trigger(availableNow=True)
        writer.start().awaitTermination()

    session.createDataFrame([("a", 1)], "id string, n int").write.json(source)
    go("lakedex")
    (Path(kept) / "commits" / "0").unlink()
    (Path(kept) / "commits" / ".0.crc").unlink()
    go("hudi")
    session.createDataFrame([("b", 1)], "id string, n int").write.mode("append").json(source)
    go("hudi")
    (Path(kept) / "commits" / "1").unlink()
    (Path(kept) / "commits" / ".1.crc").unlink()
    go("lakedex")
    found = lakedex.open(target).to_arrow(columns=["id"])["id"].to_pylist()
    assert sorted(found) == ["a", "b"]
