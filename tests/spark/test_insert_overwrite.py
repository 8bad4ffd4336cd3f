"""What INSERT OVERWRITE takes away: by PARTITION (...), overwrite mode and operation, as in Hudi.

The expected rows are those of Hudi 1.2.0 for the same statements.
"""

from __future__ import annotations

import pytest

MODE = "hoodie.datasource.overwrite.mode"
SPARK_MODE = "spark.sql.sources.partitionOverwriteMode"
OPERATION = "hoodie.datasource.write.operation"
SEED = "(1, 1, 'a', '00'), (2, 1, 'a', '01'), (3, 1, 'b', '00')"
STATIC = "PARTITION (dt = 'a', hh = '00') SELECT 9, 1"
PARTLY = "PARTITION (dt = 'a', hh) SELECT 9, 1, '00'"
DYNAMIC = "PARTITION (dt, hh) SELECT 9, 1, 'a', '00'"
EMPTY = " WHERE false"
ALL, TABLE, FOLDER, OTHERS = [1, 2, 3], [9], [2, 3, 9], [3, 9]


def created(spark, name, path, *, table_type="cow", properties="", partition_by="dt, hh"):
    spark.sql(
        f"CREATE TABLE {name} (id INT, v INT, dt STRING, hh STRING) USING hudi TBLPROPERTIES "
        f"(primaryKey = 'id', type = '{table_type}'{properties}) PARTITIONED BY ({partition_by}) "
        f"LOCATION '{path}'"
    )


def ids(spark, name):
    return [row[0] for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()]


def test_the_mode_decides_which_partitions_go(lake, spark, setting, tmp_path):
    created(spark, "taken", tmp_path / "plain", table_type="mor")
    # Those come first that leave all rows: they need no new ones after them.
    cases = [
        ({MODE: "dynamic"}, PARTLY + EMPTY, ALL),
        ({MODE: "DYNAMIC"}, STATIC + EMPTY, ALL),
        ({SPARK_MODE: "dynamic"}, PARTLY, FOLDER),
        ({MODE: "dynamic", SPARK_MODE: "static"}, PARTLY, FOLDER),
        ({MODE: "static", SPARK_MODE: "dynamic"}, PARTLY, OTHERS),
        ({MODE: "static"}, PARTLY + EMPTY, [3]),
        ({MODE: "static"}, DYNAMIC, TABLE),
        ({OPERATION: "insert_overwrite_table"}, PARTLY, TABLE),
        ({OPERATION: "insert_overwrite_table"}, STATIC + EMPTY, []),
        ({OPERATION: "insert_overwrite", MODE: "static"}, PARTLY, FOLDER),
    ]
    rows: list[int] = []
    for settings, statement, expected in cases:
        if rows != ALL:
            spark.sql(f"INSERT OVERWRITE taken VALUES {SEED}")
        for name, value in settings.items():
            setting(name, value)
        spark.sql(f"INSERT OVERWRITE taken {statement}")
        for name in settings:
            spark.conf.unset(name)
        rows = ids(spark, "taken")
        assert rows == expected, (settings, statement)
    assert not lake.table("taken").verify().problems


def test_a_mode_of_the_table_holds_unless_the_session_says_otherwise(
    lake, spark, setting, tmp_path
):
    created(spark, "moded", tmp_path / "t", properties=f", '{MODE}' = 'dynamic'")
    spark.sql(f"INSERT INTO moded VALUES {SEED}")
    spark.sql(f"INSERT OVERWRITE moded {PARTLY}")
    assert ids(spark, "moded") == FOLDER
    setting(MODE, "static")
    spark.sql(f"INSERT OVERWRITE moded {PARTLY}")
    assert ids(spark, "moded") == OTHERS
    setting(MODE, "sometimes")
    with pytest.raises(Exception, match="static or dynamic, not 'sometimes'"):
        spark.sql(f"INSERT OVERWRITE moded {PARTLY}")
    assert ids(spark, "moded") == OTHERS


def test_folders_of_other_styles_are_told_apart(lake, spark, setting, tmp_path):
    """Plain folders, dates, timestamps, decimals and null as partition values."""
    spark.sql(
        "CREATE TABLE styled (id INT, d DATE, t TIMESTAMP, n DECIMAL(6, 2)) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.datasource.write.hive_style_partitioning' = "
        f"'false') PARTITIONED BY (d, t, n) LOCATION '{tmp_path / 'styled'}'"
    )
    spark.sql(
        "INSERT INTO styled VALUES (1, DATE'2026-01-02', TIMESTAMP'2026-01-02 03:04:05', 1.5), "
        "(2, DATE'2026-01-02', TIMESTAMP'2026-01-02 03:04:06', 1.5), "
        "(3, NULL, TIMESTAMP'2026-01-02 03:04:05', 2), (4, DATE'2026-01-03', NULL, 2)"
    )
    at = "t = '2026-01-02 03:04:05'"
    spark.sql(f"INSERT OVERWRITE styled PARTITION (d = '2026-01-02', {at}, n) SELECT 9, 7")
    assert ids(spark, "styled") == [2, 3, 4, 9]
    spark.sql(f"INSERT OVERWRITE styled PARTITION (d = NULL, {at}, n = '2') SELECT 8")
    assert ids(spark, "styled") == [2, 4, 8, 9]
    setting(MODE, "dynamic")
    spark.sql("INSERT OVERWRITE styled PARTITION (d = '2026-01-02', t, n) SELECT 7, NULL, 7")
    assert ids(spark, "styled") == [2, 4, 7, 8, 9]
    spark.sql("ALTER TABLE styled DROP PARTITION (d = '2026-01-02', t = '2026-01-02 03:04:06')")
    assert ids(spark, "styled") == [4, 7, 8, 9]
    assert not lake.table("styled").verify().problems


def test_a_data_frame_overwrites_the_partitions_of_its_rows_when_asked(lake, spark, tmp_path):
    path = str(tmp_path / "frame")
    created(spark, "framed", path)
    spark.sql(f"INSERT INTO framed VALUES {SEED}")
    rows = spark.sql("SELECT 9 AS id, 1 AS v, 'a' AS dt, '00' AS hh")
    rows.write.format("hudi").option(MODE, "dynamic").mode("overwrite").save(path)
    assert ids(spark, "framed") == FOLDER
    for_spark = rows.withColumn("hh", rows.dt).write.format("hudi")
    for_spark.option("partitionOverwriteMode", "dynamic").mode("overwrite").save(path)
    assert ids(spark, "framed") == [2, 3, 9, 9]
    for_spark.option(OPERATION, "insert_overwrite").mode("append").save(path)
    assert ids(spark, "framed") == [2, 3, 9, 9]
    with pytest.raises(Exception, match="not 'later'"):
        rows.write.format("hudi").option(MODE, "later").mode("overwrite").save(path)
    rows.limit(0).write.format("hudi").option(MODE, "dynamic").mode("overwrite").save(path)
    assert ids(spark, "framed") == [2, 3, 9, 9]
    rows.write.format("hudi").mode("overwrite").save(path)
    assert ids(spark, "framed") == TABLE


def test_a_table_without_partitions_is_overwritten_as_a_whole(lake, spark, setting, tmp_path):
    spark.sql(f"CREATE TABLE whole (id INT) USING hudi LOCATION '{tmp_path / 'whole'}'")
    spark.sql("INSERT INTO whole VALUES (1), (2)")
    setting(MODE, "dynamic")
    spark.sql("INSERT OVERWRITE whole VALUES (3)")
    assert ids(spark, "whole") == [3]
    setting(OPERATION, "insert_overwrite")
    spark.sql("INSERT OVERWRITE whole VALUES (4)")
    assert ids(spark, "whole") == [4]
    spark.sql("INSERT OVERWRITE whole SELECT 5 WHERE false")
    assert ids(spark, "whole") == [4]


def test_an_insert_merges_with_the_record_of_its_key_when_duplicates_are_forbidden(
    lake, spark, setting, tmp_path, table_type
):
    """`hoodie.merge.allow.duplicate.on.inserts=false` leaves one row a key."""
    ordering = ", orderingFields = 'ts'" if table_type == "mor" else ""
    spark.sql(
        "CREATE TABLE merged (id INT, v INT, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        f"type = '{table_type}'{ordering}) LOCATION '{tmp_path / 'merged'}'"
    )
    spark.sql("INSERT INTO merged VALUES (1, 1, 5), (2, 1, 5)")
    setting("hoodie.merge.allow.duplicate.on.inserts", "false")
    setting("hoodie.spark.sql.insert.into.operation", "insert")
    spark.sql("INSERT INTO merged VALUES (1, 2, 4), (3, 1, 5), (3, 2, 6)")
    first = (1, 1, 5) if ordering else (1, 2, 4)
    rows = spark.sql("SELECT id, v, ts FROM merged ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [first, (2, 1, 5), (3, 2, 6)]
    timeline = lake.table("merged").snapshot.timeline
    newest = timeline.commit_metadata(timeline.write_instants()[-1])
    assert newest.operation_type == "INSERT"
    setting("hoodie.merge.allow.duplicate.on.inserts", "true")
    spark.sql("INSERT INTO merged VALUES (2, 7, 7)")
    assert ids(spark, "merged") == [1, 2, 2, 3]
