"""Hudi beside virtual log files: it refuses to read what it would miss, and goes on afterwards."""

from __future__ import annotations

import pytest

from lakedex.services.clustering.resizing import pending_resizes, run_resize
from tests.support.bucket_checks import check_buckets, snapshot_of
from tests.support.resizing import VIRTUAL, beside, lab_of, plan_split, rows_of
from tests.support.write_lab import source

HUDI = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.compact.inline": "false",
}


def by_hudi(spark, path: str) -> list[tuple[str, int]]:
    rows = spark.read.format("hudi").load(path).select("id", "ver").collect()
    return sorted((each["id"], each["ver"]) for each in rows)


def test_hudi_fails_while_the_resize_pends_and_reads_all_afterwards(spark, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, VIRTUAL).upsert(source(rows_of(50, 2)))

    with pytest.raises(Exception, match="block byte type found 19524"):
        by_hudi(spark, lab.path)
    run_resize(lab.writer, instant)
    assert by_hudi(spark, lab.path) == [(f"k{number:03d}", 2) for number in range(50)]
    frame = spark.createDataFrame(
        [(f"k{number:03d}", "a", 3, 0.5) for number in range(45, 55)],
        "id string, p string, ver long, x double",
    )
    frame.write.format("hudi").options(**HUDI).mode("append").save(lab.path)
    assert len(by_hudi(spark, lab.path)) == 55
    lab.holds([*rows_of(45, 2), *rows_of(10, 3, 45)])
    check_buckets(lab.path)


def test_hudi_runs_the_resize_and_reads_all_afterwards(spark, tmp_path):
    """It takes the files that the plan names, and the log files of the new buckets with them."""
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, VIRTUAL).upsert(source(rows_of(50, 2)))
    listed = ",".join(f"{name}={value}" for name, value in HUDI.items())
    spark.sql(
        f"CALL run_clustering(path => '{lab.path}', op => 'execute', options => '{listed}')"
    ).collect()
    assert instant not in pending_resizes(snapshot_of(lab.path).timeline)
    lab.holds(rows_of(50, 2))
    assert by_hudi(spark, lab.path) == [(f"k{number:03d}", 2) for number in range(50)]
    check_buckets(lab.path)
