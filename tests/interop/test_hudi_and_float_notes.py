"""Hudi takes no notice of the note beside our ranges of floats, and never keeps it for its own."""

from __future__ import annotations

import math

import pyarrow as pa

import lakedex
from lakedex.index.metadata_table.stat_values import NO_NAN
from tests.interop.reading import ask
from tests.support.write_lab import Lab, source

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64()), ("d", pa.float64())]
)
FILES = {"around": [-2.0, 5.0], "high": [7.0, 8.0], "nan": [1.0, math.nan], "zero": [0.0, -0.0]}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.upsert.shuffle.parallelism": "1",
}


def noted(path: str) -> set[str]:
    """The partitions of the files whose range of `d` has the note."""
    table = lakedex.open(path)
    live = {name: each.partition for each in table.files() for name in each.file_names}
    records = table.metadata("column_stats")["ColumnStatsMetadata"].to_pylist()
    return {
        live[record["fileName"]].removeprefix("p=")
        for record in records
        if record["fileName"] in live
        and record["columnName"] == "d"
        and (record["valueType"] or {}).get("additionalInfo") == NO_NAN
    }


def test_a_file_that_hudi_writes_anew_has_no_note(spark, tmp_path):  # case B1
    lab = Lab(tmp_path, schema=SCHEMA)
    rows = [
        {"id": f"{name}{n}", "p": name, "ver": 1, "d": value}
        for name, values in FILES.items()
        for n, value in enumerate(values)
    ]
    lab.writer.bulk_insert(source(rows, SCHEMA))
    assert noted(lab.path) == {"around", "high", "zero"}
    questions = ("d > 6", "d = 0", "d < -1", "d > -3 AND d < 1")
    for question in questions:
        ids = sorted(lakedex.open(lab.path).to_arrow(question, ["id"])["id"].to_pylist())
        assert ask(spark, lab.path, question, skipping=False).ids == ids, question
        assert ask(spark, lab.path, question).ids == ids, question
    changed = spark.createDataFrame(
        [("zero0", "zero", 2, math.nan)], "id string, p string, ver long, d double"
    )
    changed.write.format("hudi").options(**OPTIONS).mode("append").save(lab.path)
    assert noted(lab.path) == {"around", "high"}
    left = {each.partition for each in lakedex.open(lab.path).files("d > 100")}
    assert left == {"p=nan", "p=zero"}
    found = lakedex.open(lab.path).to_arrow("d > 100", ["id"])["id"].to_pylist()
    assert sorted(found) == ["nan1", "zero0"]
