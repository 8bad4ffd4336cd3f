"""Rows laid out by Spark jobs: clustering, and bulk inserts that sort."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.errors import InvalidInput

FILES = {
    "hoodie.parquet.max.file.size": "12000",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "12000",
}


def create(lake, path, **more):
    return lake.create_table(
        "laid_out",
        "id string, x bigint, y bigint, city string",
        path=path,
        record_key="id",
        partition_by="city",
        properties={"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
        **more,
    )


def frame(spark, count: int):
    return spark.range(count).selectExpr(
        "concat('k', id) id", "(id * 7919) % 4001 x", "(id * 104729) % 4003 y", "'oslo' city"
    )


def rows_of(table) -> set[tuple]:
    return {tuple(row) for row in table.to_df().select("id", "x", "y", "city").collect()}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_clustering_by_spark(lake, spark, tmp_path, table_type):
    table = create(lake, tmp_path / "t", table_type=table_type)
    table.bulk_insert(frame(spark, 4000), options=FILES)
    table.upsert(frame(spark, 40).selectExpr("id", "x + 1 x", "y", "city"), options=FILES)
    before = rows_of(table)
    result = table.cluster(by=["x", "y"], strategy="hilbert", options=FILES)
    assert result.rows_in == 4000
    assert rows_of(table) == before
    opened = lakedex.open(table.path)
    assert len(opened.files()) > 6
    for question in ("x between 1000 and 1020", "y between 3000 and 3020"):
        assert len(opened.files(question)) <= len(opened.files()) * 0.7
    assert table.verify().ok
    assert table.cluster("x", where="city = 'rio'").instant is None
    with pytest.raises(InvalidInput, match="no column 'nobody'"):
        table.cluster(by="nobody")


def test_a_sorted_bulk_insert_by_spark(lake, spark, tmp_path):
    table = create(lake, tmp_path / "t")
    table.bulk_insert(frame(spark, 4000).repartition(3), sort_by="x", options=FILES)
    opened = lakedex.open(table.path)
    assert len(opened.files()) > 6
    assert len(opened.files("x = 2000")) == 1
    assert rows_of(table) == {tuple(row) for row in frame(spark, 4000).collect()}
    assert table.verify().ok


def test_files_in_other_roots_by_sql(lake, spark, setting, tmp_path):
    roots = f"{tmp_path}/hot,{tmp_path}/cold"
    spark.sql(
        "CREATE TABLE scattered (id string, ts bigint, org string, day string) USING hudi "
        "TBLPROPERTIES (primaryKey='id', orderingFields='ts', 'hoodie.index.type'='GLOBAL_SIMPLE') "
        f"PARTITIONED BY (org, day) LOCATION '{tmp_path}/home'"
    )
    spark.sql("INSERT INTO scattered VALUES ('a', 1, 'o1', 'd1')")
    change = f"ALTER TABLE scattered SET TBLPROPERTIES ('lakedex.partition.roots' = '{roots}')"
    with pytest.raises(InvalidInput, match="must allow it"):
        lake.sql(change)
    setting("lakedex.partition.roots", str(tmp_path))
    spark.sql(change)
    spark.sql(
        "INSERT INTO scattered SELECT concat('k', id), id, concat('o', id % 2), "
        "concat('d', id % 4) FROM range(8)"
    )
    # Spellings of RFC-63 and of Hudi that Spark's grammar has, and that it lacks.
    spark.sql(
        "CREATE INDEX idx_org ON scattered USING bloom_filters (upper(org)) "
        "OPTIONS ('fpp' = '0.01')"
    )
    spark.sql("CREATE INDEX idx_up ON scattered USING column_stats(org) (expr='upper')")
    spark.sql(
        "CREATE INDEX idx_year ON scattered "
        "USING col_stats (ts OPTIONS (func='from_unixtime', format='yyyy'))"
    )
    shown = {
        row["index_name"]: row["col_options"]
        for row in spark.sql("SHOW INDEXES FROM TABLE scattered").collect()
    }
    assert shown["expr_index_idx_year"] == "from_unixtime"
    assert shown["expr_index_idx_org"] == shown["expr_index_idx_up"] == "upper"
    spark.sql("UPDATE scattered SET ts = 100 WHERE id = 'k3'")
    rows = spark.sql("SELECT id, ts FROM scattered WHERE upper(org) = 'O1'").collect()
    assert sorted(map(tuple, rows)) == [("a", 1), ("k1", 1), ("k3", 100), ("k5", 5), ("k7", 7)]
    table = lake.table("scattered")
    assert len(table.explain("upper(org) = 'O1'").files) == 3
    assert {each.partition.partition("/")[0] for each in table.snapshot.slices} == {
        "org=o1", "lakedex-root-0", "lakedex-root-1",
    }  # fmt: skip
    assert table.verify().ok
    assert spark.sql("SELECT count(*) FROM scattered").collect()[0][0] == 9
    spark.sql("DROP TABLE scattered")
