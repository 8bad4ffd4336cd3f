"""Partition values with slashes, slash-separated dates, and patterns that name partitions.

The folders and rows are those of Hudi 1.2.0 for the same statements.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
HIVE = "hoodie.datasource.write.hive_style_partitioning"


def created(spark, name, path, properties="", columns="dt STRING", partition_by="dt"):
    spark.sql(
        f"CREATE TABLE {name} (id INT, v INT, {columns}) USING hudi TBLPROPERTIES "
        f"(primaryKey = 'id'{properties}) PARTITIONED BY ({partition_by}) LOCATION '{path}'"
    )


def rows(spark, query):
    return sorted(map(tuple, spark.sql(query).collect()), key=str)


def folders(path):
    found = {file.parent.relative_to(path) for file in Path(path).rglob("*.parquet")}
    return sorted(str(folder) for folder in found if ".hoodie" not in folder.parts)


@pytest.mark.parametrize("hive", ["true", "false"])
def test_a_value_with_slashes_is_several_folders(lake, spark, tmp_path, hive):
    path, start = tmp_path / "t", "dt=" if hive == "true" else ""
    created(spark, "slashed", path, f", type = 'mor', '{HIVE}' = '{hive}'")
    spark.sql("INSERT INTO slashed VALUES (1, 1, '2026/01/01'), (2, 1, '2026/01/02')")
    more = spark.sql("SELECT 3 AS id, 1 AS v, '2026/01/03' AS dt")
    more.write.format("hudi").mode("append").save(str(path))
    paths = [f"{start}2026/01/0{day}" for day in (1, 2, 3)]
    assert folders(path) == paths
    assert rows(spark, "SHOW PARTITIONS slashed") == [(each,) for each in paths]
    assert rows(spark, "SELECT id, dt FROM slashed WHERE dt = '2026/01/02'") == [(2, "2026/01/02")]
    report = lake.table("slashed").explain("dt = '2026/01/02'")
    assert (report.total, len(report.files)) == (3, 1)
    assert report.steps[0].kind == "partition_values"
    assert report.steps[0].after == 1
    spark.sql("UPDATE slashed SET v = 5 WHERE id = 1")
    spark.sql("INSERT OVERWRITE slashed PARTITION (dt = '2026/01/02') SELECT 4, 4")
    spark.sql("ALTER TABLE slashed DROP PARTITION (dt = '2026/01/03')")
    expected = [(1, 5, "2026/01/01"), (4, 4, "2026/01/02")]
    assert rows(spark, "SELECT id, v, dt FROM slashed") == expected
    for value in ("2026", "2026/01/01/x"):
        with pytest.raises(Exception, match="would be a folder of the partition"):
            spark.sql(f"INSERT INTO slashed VALUES (9, 9, '{value}')")
    for value in ("../x", "a/../b", "a//b", "/a", "a/"):
        with pytest.raises(Exception, match="partition column 'dt': the value"):
            spark.sql(f"INSERT INTO slashed VALUES (9, 9, '{value}')")
    assert rows(spark, "SELECT id, v, dt FROM slashed") == expected
    assert not lake.table("slashed").verify().problems


def test_slashes_in_one_of_two_columns(lake, spark, tmp_path):
    created(spark, "two", tmp_path / "t", "", "dt STRING, hh STRING", "dt, hh")
    spark.sql("INSERT INTO two VALUES (1, 1, '2026/01/01', 'h'), (2, 1, '2026/01/01', 'i')")
    assert folders(tmp_path / "t") == ["dt=2026/01/01/hh=h", "dt=2026/01/01/hh=i"]
    assert rows(spark, "SELECT id FROM two WHERE dt = '2026/01/01' AND hh = 'i'") == [(2,)]
    spark.sql("ALTER TABLE two DROP PARTITION (dt = '2026/01/*', hh = 'h')")
    assert rows(spark, "SELECT id, dt, hh FROM two") == [(2, "2026/01/01", "i")]
    created(
        spark, "flat", tmp_path / "u", f", '{HIVE}' = 'false'", "dt STRING, hh STRING", "dt, hh"
    )
    with pytest.raises(Exception, match=r"'2026/01/01' has a slash; set .*urlencode"):
        spark.sql("INSERT INTO flat VALUES (1, 1, '2026/01/01', 'h')")


def test_slash_separated_dates(lake, spark, tmp_path):
    path = tmp_path / "t"
    created(spark, "dated", path, f", '{SLASH_DATES}' = 'true'")
    spark.sql("INSERT INTO dated VALUES (1, 1, '2026-01-01'), (2, 1, '2026-01-02'), (3, 1, NULL)")
    rest = spark.sql("SELECT 4 AS id, 1 AS v, '2026-02-01' AS dt")
    rest.write.format("hudi").option(SLASH_DATES, "true").mode("append").save(str(path))
    assert folders(path) == ["2026/01/01", "2026/01/02", "2026/02/01", "__HIVE_DEFAULT_PARTITION__"]
    assert rows(spark, "SHOW PARTITIONS dated")[:2] == [("dt=2026-01-01",), ("dt=2026-01-02",)]
    assert rows(spark, "SELECT id, dt FROM dated WHERE dt = '2026-01-02'") == [(2, "2026-01-02")]
    assert len(lake.table("dated").explain("dt = '2026-01-02'").files) == 1
    assert rows(spark, "SELECT id FROM dated WHERE dt IS NULL OR dt > '2026-01-03'") == [(3,), (4,)]
    spark.sql("MERGE INTO dated t USING (SELECT 1 id, 7 v, '2026-01-01' dt) s ON t.id = s.id "
              "WHEN MATCHED THEN UPDATE SET *")  # fmt: skip
    spark.sql("INSERT OVERWRITE dated PARTITION (dt = '2026-01-02') SELECT 5, 5")
    spark.sql("ALTER TABLE dated DROP PARTITION (dt = '2026-02-*')")
    expected = [(1, 7, "2026-01-01"), (3, 1, None), (5, 5, "2026-01-02")]
    assert rows(spark, "SELECT id, v, dt FROM dated") == expected
    with pytest.raises(Exception, match="contradicts table"):
        rest.write.format("hudi").option(SLASH_DATES, "false").mode("append").save(str(path))
    both = f", '{SLASH_DATES}' = 'true', '{HIVE}' = 'true'"
    with pytest.raises(Exception, match=r"does not go with .*hive_style"):
        created(spark, "both", tmp_path / "both", both)
    with pytest.raises(Exception, match="take a text column"):
        created(spark, "typed", tmp_path / "d", f", '{SLASH_DATES}' = 'true'", "dt DATE")
    assert not lake.table("dated").verify().problems


def test_patterns_name_partitions_to_drop(lake, spark, tmp_path):
    created(spark, "many", tmp_path / "t", "", "dt STRING, hh STRING", "dt, hh")
    values = "(1, 1, 'a', '00'), (2, 1, 'a', '01'), (3, 1, 'ab', '00'), (4, 1, 'b', '00')"
    cases = [
        ("ALTER TABLE many DROP PARTITION (dt = 'a', hh = '*')", [3, 4]),
        ("ALTER TABLE many DROP PARTITION (dt = 'a*', hh = '*0')", [2, 4]),
        ("TRUNCATE TABLE many PARTITION (dt = '*b', hh = '*')", [1, 2]),
        ("ALTER TABLE many DROP IF EXISTS PARTITION (dt = 'z*', hh = '*')", [1, 2, 3, 4]),
    ]
    for statement, expected in cases:
        spark.sql(f"INSERT OVERWRITE many VALUES {values}")
        spark.sql(statement)
        assert [row[0] for row in rows(spark, "SELECT id FROM many")] == expected, statement
    with pytest.raises(Exception, match="has no partition with"):
        spark.sql("ALTER TABLE many DROP PARTITION (dt = 'z*', hh = '00')")
