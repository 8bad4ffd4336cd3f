"""The judge itself is sound: real Hudi reads the tables that real Hudi wrote."""

from __future__ import annotations


def test_hudi_on_spark_counts_the_rows_of_a_golden_merge_on_read_table(spark, golden):
    table = golden("mor_trips_all_indexes")
    frame = spark.read.format("hudi").load(table.path)
    assert frame.count() == table.expected["row_count"] == 48
