"""A program on a real two-executor Spark: load, change and read a table; prints what it saw.

usage: cluster_program.py <folder> <python of the executors>
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lakedex
from lakedex.errors import InvalidInput

ROWS = 3000


def main(folder: Path, executor_python: str) -> None:
    os.environ["PYSPARK_PYTHON"] = executor_python
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    lake = lakedex.local(
        **{
            "spark.master": "local-cluster[2,1,768]",
            "spark.executor.memory": "768m",
            "spark.executor.cores": "1",
            "spark.driver.memory": "768m",
            "spark.speculation": "true",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    spark = lake.spark
    spark.sparkContext.setLogLevel("OFF")
    told = {"modules": modules(spark.sparkContext)}
    table = lake.create_table(
        "mor",
        "id string, city string, v bigint, note string",
        path=folder / "mor",
        record_key="id",
        ordering="v",
        partition_by="city",
        table_type="mor",
        properties={
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.metadata.record.index.enable": "true",
        },
    )
    columns = ["cast(id as string) id", "concat('c', id % 3) city"]
    first = spark.range(0, ROWS, 1, 4).selectExpr(*columns, "1L v", "'a' note")
    loaded = table.bulk_insert(first)
    newer = spark.range(ROWS - 500, ROWS + 500, 1, 3).selectExpr(*columns, "2L v", "'b' note")
    changed = table.upsert(newer)
    table.delete(first.filter("id < '2'"))
    table.delete("city = 'c0' and v = 2")
    try:
        table.upsert(newer.selectExpr("cast(null as string) id", "city", "v", "note"))
    except InvalidInput as error:
        told["refused"] = str(error)
    told |= {
        "loaded": loaded.inserted,
        "inserted": changed.inserted,
        "updated": changed.updated,
        "rows": table.to_df().count(),
        "problems": [str(problem) for problem in table.verify().problems],
    }
    told |= queried(lake, table, folder)
    print(json.dumps(told))
    spark.stop()


def queried(lake, table, folder: Path) -> dict:
    """Merged slices, plain files and a stream, read and written by these executors."""
    spark = lake.spark
    plain = lake.create_table("plain", "id string, v bigint", path=folder / "p", record_key="id")
    stream = table.to_stream().select("id", "v").writeStream
    stream = stream.foreachBatch(plain.upsert_batch).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    # Without compiled code the nodes of a plan travel with its tasks.
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    uncompiled = "SELECT sum(v) AS n FROM plain WHERE v + 1 > 2 AND id > '3'"
    newer = spark.sql(uncompiled).first()["n"]
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    both = "SELECT count(*) AS n FROM mor m JOIN plain p ON m.id = p.id AND m.v = p.v"
    return {
        "newer": newer,
        "streamed": spark.sql("SELECT count(*) AS n FROM plain").first()["n"],
        "joined": spark.sql(both).first()["n"],
        "one": [row["v"] for row in spark.sql("SELECT v FROM mor WHERE id = '2999'").collect()],
        "files": len(lake.explain("SELECT v FROM mor WHERE id = '2999'").files),
    }


def modules(context) -> list[list[str]]:
    """Where executors have lakedex from, and what else they can import."""

    def look(_task):
        from importlib.util import find_spec  # noqa: PLC0415 - runs on an executor

        import lakedex  # noqa: PLC0415

        others = [name for name in ("fastavro", "xxhash", "obstore", "pandas") if find_spec(name)]
        return [lakedex.__file__, *others]

    return context.parallelize(range(4), 4).map(look).collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
