"""The Spark session that an engine is measured in, and the frames that it gets: alike for all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

ORDER = ("part", "id")
"""The columns by which frames are partitioned, those of them that there are."""
JARS = Path(__file__).resolve().parents[2] / ".interop" / "jars"
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
}


def session(name: str, jars: Sequence[str], more: Mapping[str, str]) -> SparkSession:
    """A session with the jars and settings of an engine, which has run a job already."""
    builder = SparkSession.builder.master("local[2]").appName(f"bench-{name}")
    settings = {**SETTINGS, **more}
    if jars:
        settings["spark.jars"] = ",".join(str(JARS / jar) for jar in jars)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


def frame(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of a folder, in as many partitions as the benchmark wants.

    Rows are partitioned by ranges of the table's partition and of the key, as after a sort: each
    engine then writes few files to each partition of the table.
    """
    rows = spark.read.parquet(str(folder))
    partitions = int(os.environ.get("LAKEDEX_BENCH_PARTITIONS", "0"))
    if not partitions:
        return rows
    return rows.repartitionByRange(partitions, *(n for n in ORDER if n in rows.columns))
