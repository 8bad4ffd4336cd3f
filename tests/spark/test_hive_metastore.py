"""Names in a Hive metastore: made by one session, seen by the next, gone when dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.spark.conftest import ROOT, newest_only

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import lakedex

def session():
    url = f"jdbc:derby:;databaseName={sys.argv[1]}/metastore;create=true"
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in {
        "spark.sql.warehouse.dir": f"{sys.argv[1]}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": url,
        "spark.hadoop.datanucleus.schema.autoCreateTables": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={sys.argv[1]}",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "768m",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

spark = session()
lake = lakedex.attach(spark)
told = {"catalog": spark.conf.get("spark.sql.catalogImplementation")}
lake.sql("CREATE TABLE trips (id STRING, fare DOUBLE) USING hudi "
         "TBLPROPERTIES (primaryKey = 'id')")
spark.sql("INSERT INTO trips VALUES ('a', 1.0), ('b', 2.0)")
lake.create_table("rides", "id string", record_key="id", path=f"{sys.argv[1]}/elsewhere")
other = spark.newSession()
told["other"] = [row[0] for row in
                 lakedex.attach(other).spark.sql("SELECT id FROM trips WHERE fare > 1").collect()]
spark.stop()

spark = session()
lake = lakedex.attach(spark)
told["names"] = sorted(table.name for table in spark.catalog.listTables())
told["rows"] = spark.table("trips").count()
lake.sql("UPDATE trips SET fare = 3.0 WHERE id = 'a'")
told["stream"] = spark.readStream.table("trips").columns[-2:]
told["fares"] = sorted(row[0] for row in spark.sql("SELECT fare FROM trips").collect())
lake.sql("DROP TABLE trips")
told["left"] = [table.name for table in spark.catalog.listTables()]
print(json.dumps(told))
"""


@newest_only
def test_names_outlive_the_session(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "catalog": "hive",
        "other": ["b"],
        "names": ["rides", "trips"],
        "rows": 2,
        "stream": ["id", "fare"],
        "fares": [2.0, 3.0],
        "left": ["rides"],
    }
