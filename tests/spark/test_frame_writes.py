"""DataFrames written into tables by name, and what the session remembers of a changed table."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as fn

from lakedex.errors import InvalidDefinition, UnsupportedFeature
from tests.spark.conftest import newest_only

COLUMNS = "id int, name string, ts bigint, city string"


@pytest.fixture
def table(lake, spark):
    lake.sql(
        f"CREATE TABLE framed ({COLUMNS}) USING hudi PARTITIONED BY (city) "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor')"
    )
    yield "framed"
    spark.sql("DROP TABLE IF EXISTS framed")
    spark.sql("DROP TABLE IF EXISTS framed_2")


def values(spark, table="framed"):
    rows = spark.sql(f"SELECT id, name, ts, city FROM {table} ORDER BY id, ts").collect()
    return [tuple(row) for row in rows]


def _hudi(rows):
    return rows.write.format("hudi").mode("append")


def test_every_way_of_a_dataframe(lake, spark, table):
    first = spark.createDataFrame([(1, "a", 1, "oslo"), (2, "b", 1, "rome")], COLUMNS)
    first.write.insertInto(table)
    assert values(spark) == [(1, "a", 1, "oslo"), (2, "b", 1, "rome")]
    newer = first.withColumn("ts", fn.lit(2)).select("city", "ts", "id", "name")
    newer.filter("id = 1").write.format("hudi").mode("append").saveAsTable(table)
    assert values(spark) == [(1, "a", 2, "oslo"), (2, "b", 1, "rome")]
    newer.withColumn("id", fn.lit(3)).limit(1).writeTo(table).append()
    assert [row[0] for row in values(spark)] == [1, 2, 3]
    # What Hudi adds to rows that were read is left out where they are written.
    spark.table(table).filter("id = 2").withColumn("name", fn.lit("z")).writeTo(
        table
    ).overwritePartitions()
    assert [row[:2] for row in values(spark) if row[3] == "rome"] == [(2, "z")]
    first.limit(1).writeTo(table).overwrite(fn.lit(True))
    assert len(values(spark)) == 1
    first.writeTo(table).overwrite(fn.col("city") == "rome")
    assert values(spark) == [(1, "a", 1, "oslo"), (1, "a", 1, "oslo"), (2, "b", 1, "rome")]
    first.writeTo(table).overwrite(fn.col("id") == 1)
    assert values(spark) == [(1, "a", 1, "oslo"), (2, "b", 1, "rome"), (2, "b", 1, "rome")]
    first.write.insertInto(table, overwrite=True)
    assert values(spark) == [(1, "a", 1, "oslo"), (2, "b", 1, "rome")]
    first.writeTo("framed_2").using("hudi").tableProperty("primaryKey", "id").create()
    assert values(spark, "framed_2") == values(spark)
    assert lake.table("framed_2").snapshot.config.record_key_fields == ("id",)


def test_rows_in_the_place_of_others_by_sql(lake, spark, table):
    """By a condition on columns, and by the name of an index."""
    spark.sql(f"INSERT INTO {table} VALUES (1,'a',1,'oslo'), (2,'b',1,'rome'), (3,'c',1,'rome')")
    spark.sql(f"CREATE INDEX up ON {table} (upper(name))")
    new = "SELECT 4 AS id, 'd' AS name, 1L AS ts, 'lima' AS city"
    spark.sql(f"INSERT INTO {table} REPLACE WHERE name = 'b' {new}")
    assert values(spark) == [(1, "a", 1, "oslo"), (3, "c", 1, "rome"), (4, "d", 1, "lima")]
    lake.sql(f"INSERT INTO {table} REPLACE WHERE up = 'D' SELECT 5, 'e', 1L, 'rome'")
    assert values(spark) == [(1, "a", 1, "oslo"), (3, "c", 1, "rome"), (5, "e", 1, "rome")]
    assert lake.table(table).verify().ok


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda rows: rows.select("id").write.insertInto("framed"), "gives 1 columns for 4"),
        (lambda rows: rows.withColumn("q", fn.lit(1)).writeTo("framed").append(), "no column 'q'"),
        (lambda rows: rows.writeTo("framed").overwrite(fn.col("nope") > 1), "nope"),
        (
            lambda rows: rows.write.format("parquet").mode("append").saveAsTable("framed"),
            "is a Hudi table",
        ),
        (lambda rows: rows.writeTo("framed").using("hudi").createOrReplace(), "REPLACE TABLE"),
        (lambda rows: _hudi(rows).bucketBy(2, "id").saveAsTable("framed_2"), "bucketBy"),
        (lambda rows: _hudi(rows).partitionBy("ts").saveAsTable("framed"), "which has city"),
    ],
)
def test_wrong_writes_change_nothing(lake, spark, table, write, message):
    with pytest.raises(Exception, match=message):
        write(spark.createDataFrame([(1, "a", 1, "oslo")], COLUMNS))
    assert not lake.table(table).snapshot.timeline.completed()
    assert not spark.catalog.tableExists("framed_2")


def test_writes_of_others_pass(spark, lake, tmp_path):
    spark.sql(f"CREATE TABLE plain_one (a INT) USING parquet LOCATION '{tmp_path}'")
    rows = spark.createDataFrame([(1,)], "a int")
    rows.write.insertInto("plain_one")
    rows.write.mode("append").saveAsTable("plain_one")
    assert spark.table("plain_one").count() == 2


@newest_only
def test_statements_take_parameters(lake, spark, table):
    lake.sql("INSERT INTO framed VALUES (:id, 'a', 1, :city)", args={"id": 7, "city": "oslo"})
    lake.sql("UPDATE framed SET name = ? WHERE id = ?", args=["z", 7])
    assert values(spark) == [(7, "z", 1, "oslo")]
    assert lake.sql("SELECT id FROM framed WHERE city = :x", {"x": "rome"}).count() == 0
    with pytest.raises(InvalidDefinition, match="no column 'nope'"):
        lake.sql("UPDATE framed SET nope = :x", args={"x": 1})


@newest_only
def test_clusters_of_spark_are_refused(lake, spark, table, tmp_path):
    rows = _hudi(spark.createDataFrame([(1, "a", 1, "oslo")], COLUMNS)).clusterBy("id")
    with pytest.raises(Exception, match="clusterBy of a Hudi table"):
        rows.saveAsTable("framed_2")
    with pytest.raises(Exception, match="clusterBy of a Hudi table"):
        rows.save(str(tmp_path / "clustered"))
    with pytest.raises(UnsupportedFeature, match="CLUSTER BY of a Hudi table"):
        lake.sql(f"ALTER TABLE {table} CLUSTER BY (id)")
    assert not spark.catalog.tableExists("framed_2")
    assert not list(tmp_path.iterdir())


@newest_only
def test_what_no_parser_saw_is_a_statement_too(spark, table):
    first = spark.createDataFrame([(1, "a", 1, "oslo"), (2, "b", 1, "rome")], COLUMNS)
    first.write.insertInto(table)
    rows = first.withColumns({"id": fn.col("id") + 1, "ts": fn.lit(2)}).alias("s")
    merging = rows.mergeInto(table, fn.expr("framed.id = s.id"))
    merging.whenMatched().update({"name": fn.col("s.name")}).whenNotMatched().insertAll().merge()
    assert [row[:2] for row in values(spark)] == [(1, "a"), (2, "a"), (3, "b")]
    found = spark.sql(
        "BEGIN UPDATE framed SET name = 'z' WHERE id = 1; DELETE FROM framed WHERE id = 2; "
        "SELECT id, name FROM framed ORDER BY id; END"
    )
    assert [tuple(row) for row in found.collect()] == [(1, "z"), (3, "b")]
    with pytest.raises(Exception, match="no column 'nope'"):
        spark.sql("BEGIN UPDATE framed SET nope = 1; END").collect()


@newest_only
def test_a_script_makes_changes_and_drops_tables(lake, spark):
    found = lake.sql(
        "BEGIN CREATE TABLE scripted (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey='id');"
        " INSERT INTO scripted VALUES (1, 'a'), (2, 'b'); ALTER TABLE scripted ADD COLUMNS (w INT);"
        " UPDATE scripted SET w = 5 WHERE id = 1; CALL create_savepoint(table => 'scripted');"
        " CREATE INDEX record_index ON scripted (id); SELECT id, v, w FROM scripted ORDER BY 1; END"
    )
    assert [tuple(row) for row in found.collect()] == [(1, "a", 5), (2, "b", None)]
    table = lake.table("scripted")
    assert table.schema.names[5:] == ["id", "v", "w"]
    assert "record_index" in table.snapshot.config.metadata_partitions
    assert spark.sql("CALL show_savepoints(table => 'scripted')").count() == 1
    with pytest.raises(InvalidDefinition, match=r"unknown.*>>>nope"):
        lake.sql("BEGIN CALL show_commits(table => 'scripted', nope => 1); END").collect()
    for run in (lake.sql, spark.sql):
        rows = run(
            "BEGIN DECLARE n INT DEFAULT 1; IF n = 1 THEN "
            "CREATE INDEX idx_v ON scripted (upper(v)); END IF; "
            "REFRESH INDEX record_index ON scripted; SHOW INDEXES FROM scripted; END"
        ).collect()
        assert {"expr_index_idx_v", "record_index"} <= {row["index_name"] for row in rows}
        run("BEGIN DROP INDEX idx_v; SELECT 1; END")
        with pytest.raises(Exception, match="there is no Hudi table 'nowhere'"):
            run("BEGIN SELECT 1; SHOW INDEXES FROM nowhere; END").collect()
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
            run("BEGIN SHOW INDEXES FROM scripted; SELEC 1; END")
    lake.sql("BEGIN CREATE TABLE other_one (a INT) USING parquet; DROP TABLE other_one; END")
    lake.sql("BEGIN DROP TABLE scripted; END")
    assert not spark.catalog.tableExists("scripted")


def test_caches_follow_writes_of_the_api(lake, spark, table):
    rows = spark.createDataFrame([(1, "a", 1, "oslo")], COLUMNS)
    spark.sql(f"CACHE TABLE {table}")
    kept = lake.table(table).to_df().select("id").cache()
    assert (spark.table(table).count(), kept.count()) == (0, 0)
    lake.table(table).upsert(rows.withColumn("extra", fn.lit("new")))
    assert [row["extra"] for row in spark.table(table).collect()] == ["new"]
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE id = 1").first()[0] == 1
    assert lake.table(table).to_df().select("id").count() == 1
    kept.unpersist()
    spark.sql(f"UNCACHE TABLE IF EXISTS {table}")
