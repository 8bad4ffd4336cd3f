"""The cases that Hudi's own SQL tests have for columns and new tables, as they come out here."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

HISTORY = "hoodie.schema.on.read.enable"
OPERATION = "hoodie.spark.sql.insert.into.operation"


@pytest.fixture
def made(lake, spark, tmp_path):
    """Creates a table in the folder of the test."""

    def create(name, columns, properties="primaryKey = 'id'", partition_by=""):
        parted = f"PARTITIONED BY ({partition_by})" if partition_by else ""
        spark.sql(
            f"CREATE TABLE {name} ({columns}) USING hudi TBLPROPERTIES ({properties}) {parted} "
            f"LOCATION '{tmp_path / name}'"
        )

    return create


def test_columns_are_retyped_back_and_forth(spark, setting, made, rows, table_type):
    setting(HISTORY, "true")
    setting(OPERATION, "upsert")
    made("typed", "id INT, ts INT, n INT, f FLOAT, `日` DATE, p STRING",
         f"primaryKey = 'id', orderingFields = 'ts', type = '{table_type}'", "p")  # fmt: skip
    spark.sql("INSERT INTO typed VALUES (1, 1, 11, 1.25, DATE'2021-12-25', 'a'), "
              "(2, 1, 12, 2.25, DATE'2021-12-26', 'b')")  # fmt: skip
    for change in ("`日` TYPE STRING", "n TYPE DOUBLE", "f TYPE DOUBLE"):
        spark.sql(f"ALTER TABLE typed ALTER COLUMN {change}")
    spark.sql("INSERT INTO typed VALUES (1, 2, 13.5, 901.01, '2021-12-27', 'a')")
    assert rows("SELECT id, `日`, n, f FROM typed") == [
        (1, "2021-12-27", 13.5, 901.01),
        (2, "2021-12-26", 12.0, 2.25),
    ]
    for change in ("`日` TYPE DATE", "n TYPE DECIMAL(16, 4)", "f TYPE DECIMAL(5, 1)"):
        spark.sql(f"ALTER TABLE typed ALTER COLUMN {change}")
    # Half is rounded up, in files of either type.
    assert rows("SELECT id, `日`, n, f FROM typed") == [
        (1, date(2021, 12, 27), Decimal("13.5000"), Decimal("901.0")),
        (2, date(2021, 12, 26), Decimal("12.0000"), Decimal("2.3")),
    ]
    spark.sql("ALTER TABLE typed ALTER COLUMN n TYPE STRING")
    assert rows("SELECT id FROM typed WHERE n LIKE '12%' AND f > 2") == [(2,)]
    spark.sql("ALTER TABLE typed DROP COLUMN n")
    spark.sql("ALTER TABLE typed RENAME COLUMN f TO n")
    spark.sql("INSERT INTO typed VALUES (3, 1, 3.5, NULL, 'b')")
    assert rows("SELECT id, n, `日` IS NULL FROM typed WHERE p = 'b'") == [
        (2, Decimal("2.3"), False),
        (3, Decimal("3.5"), True),
    ]


def test_fields_in_maps_and_structs_change(spark, setting, made, rows):
    setting(HISTORY, "true")
    setting(OPERATION, "upsert")
    made("deep", "id INT, name STRING, m MAP<STRING, STRUCT<n: STRING, a: INT>>, "
         "u STRUCT<name: STRING, age: INT, score: INT>, ts BIGINT",
         "primaryKey = 'id', orderingFields = 'ts', type = 'mor'")  # fmt: skip
    spark.sql("ALTER TABLE deep ALTER COLUMN m.value.a FIRST")
    spark.sql("INSERT INTO deep VALUES "
              "(1, 'ann', map('k', struct(10, 'x')), struct('first', 29, 7), 1)")  # fmt: skip
    spark.sql("ALTER TABLE deep RENAME COLUMN u TO who")
    spark.sql("ALTER TABLE deep DROP COLUMNS (name, who.name, who.score)")
    spark.sql("ALTER TABLE deep ADD COLUMNS (name STRING AFTER who, who.name STRING FIRST, "
              "who.score INT AFTER age)")  # fmt: skip
    # What was dropped does not come back with a column of its name.
    assert rows("SELECT name, who.name, who.age, who.score FROM deep") == [(None, None, 29, None)]
    spark.sql("ALTER TABLE deep ALTER COLUMN who.age TYPE BIGINT")
    spark.sql("ALTER TABLE deep ADD COLUMNS (more MAP<STRING, INT>)")
    spark.sql("INSERT INTO deep VALUES (2, map('k', struct(20, 'y')), struct('second', 31, 8), "
              "'bob', 1, map('t', 9))")  # fmt: skip
    spark.sql("ALTER TABLE deep ALTER COLUMN more.value TYPE DOUBLE")
    for change in ("m TO mem", "mem.value.n TO nn", "who.age TO years"):
        spark.sql(f"ALTER TABLE deep RENAME COLUMN {change}")
    spark.sql("INSERT INTO deep VALUES (1, map('k', struct(11, 'z')), struct('third', 30, 9), "
              "'ann', 2, map('t', 1.5D))")  # fmt: skip
    assert rows("SELECT id, mem['k'].a, mem['k'].nn, who, name, more['t'] FROM deep") == [
        (1, 11, "z", ("third", 30, 9), "ann", 1.5),
        (2, 20, "y", ("second", 31, 8), "bob", 9.0),
    ]


def test_rows_of_other_columns_are_reconciled(spark, lake, tmp_path, rows, table_type):
    path = str(tmp_path / "grown")
    options = {
        "hoodie.table.name": "grown",
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[
            table_type
        ],
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.precombine.field": "ts",
        HISTORY: "true",
    }
    first = "k string, ts int, tips array<struct<currency: string>>, fare double"
    frame = spark.createDataFrame([("a", 1, [("USD",)], 2.5), ("b", 1, [("USD",)], 4.5)], first)
    frame.write.format("hudi").options(**options).mode("overwrite").save(path)
    second = "k string, ts int, tips array<struct<currency: string, amount: double>>, city string"
    more = spark.createDataFrame([("a", 2, [("EUR", 7.0)], "rome")], second)
    writer = more.write.format("hudi").options(**options).mode("append")
    with pytest.raises(Exception, match="the rows lack the column 'fare'"):
        writer.save(path)
    writer.option("hoodie.datasource.write.reconcile.schema", "true").save(path)
    assert rows(f"SELECT k, tips.currency, tips.amount, fare, city FROM hudi.`{path}`") == [
        ("a", ["EUR"], [7.0], None, "rome"),
        ("b", ["USD"], [None], 4.5, None),
    ]


def test_tables_over_tables(spark, lake, made, rows, tmp_path):
    frame = spark.createDataFrame([(1, "a", 1, "2021/08/02", 12)],
                                  "id int, name string, ts int, day string, hh int")  # fmt: skip
    path = str(tmp_path / "framed")
    frame.write.format("hudi").options(**{
        "hoodie.table.name": "original",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "day,hh",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }).mode("overwrite").save(path)  # fmt: skip
    spark.sql(f"CREATE TABLE framed USING hudi LOCATION '{path}'")
    spark.sql("INSERT INTO framed VALUES (2, 'b', 1, '2021/08/02', 12)")
    spark.sql("MERGE INTO framed t USING (SELECT 1 AS id, 'c' AS name, 2 AS ts, '2021/08/02' AS "
              "day, 12 AS hh) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")  # fmt: skip
    spark.sql("UPDATE framed SET name = concat(name, '!') WHERE id = 2")
    folder = "2021%2F08%2F02/12"
    assert rows("SELECT id, name, _hoodie_partition_path, day, hh FROM framed") == [
        (1, "c", folder, "2021/08/02", 12),
        (2, "b!", folder, "2021/08/02", 12),
    ]
    assert lake.table("framed").snapshot.config.name == "original"
    spark.sql(f"CREATE TABLE plain (id INT, name STRING, ts BIGINT) USING parquet TBLPROPERTIES "
              f"('not.of.hudi' = 'x') LOCATION '{tmp_path / 'plain'}'")  # fmt: skip
    spark.sql(f"CREATE TABLE alike LIKE plain USING hudi TBLPROPERTIES (PRIMARYKEY = 'id,name', "
              f"precombineField = 'ts') LOCATION '{tmp_path / 'alike'}'")  # fmt: skip
    spark.sql(f"CREATE TABLE again LIKE alike USING hudi TBLPROPERTIES (primaryKey = 'id') "
              f"LOCATION '{tmp_path / 'again'}'")  # fmt: skip
    keys = [lake.table(name).snapshot.config.record_key_fields for name in ("alike", "again")]
    assert [list(key) for key in keys] == [["id", "name"], ["id"]]
    spark.sql("DROP TABLE plain")
    made("spelled", "id INT, ts BIGINT", "hoodie.table.recordkey.fields = 'id', "
         "hoodie.table.type = 'MERGE_ON_READ', hoodie.table.precombine.field = 'ts', "
         "hoodie.table.name = 'other', hoodie.database.name = 'other'")  # fmt: skip
    config = lake.table("spelled").snapshot.config
    assert (config.name, config.ordering_fields, config.table_type.value) == (
        "spelled",
        ("ts",),
        "MERGE_ON_READ",
    )
    folder = lake.table("spelled").path
    spark.sql("DROP TABLE spelled")
    with pytest.raises(Exception, match="is not empty"):
        spark.sql(f"CREATE TABLE spelled USING hudi LOCATION '{folder}' AS SELECT 1 AS id")


def test_partitions_without_values_are_shown(spark, made, rows):
    made("sparse", "id INT, y STRING, m STRING", partition_by="y, m")
    none = "__HIVE_DEFAULT_PARTITION__"
    spark.sql("ALTER TABLE sparse ADD PARTITION (y = '2023', m = '06')")
    spark.sql("ALTER TABLE sparse DROP PARTITION (y = '2023', m = '06')")
    assert rows("SHOW PARTITIONS sparse") == []
    spark.sql("INSERT INTO sparse VALUES (1, '2023', '06'), (2, '2023', NULL), (3, NULL, '06')")
    assert rows("SHOW PARTITIONS sparse") == [
        ("y=2023/m=06",),
        (f"y=2023/m={none}",),
        (f"y={none}/m=06",),
    ]
    assert rows("SHOW PARTITIONS sparse PARTITION (m = '06')") == [("y=2023/m=06",),
                                                                   (f"y={none}/m=06",)]  # fmt: skip
    assert rows("SELECT id FROM sparse WHERE y IS NULL OR m IS NULL") == [(2,), (3,)]
    spark.sql("INSERT OVERWRITE sparse VALUES (4, '2023', '06'), (5, '2023', '07')")
    assert rows("SHOW PARTITIONS sparse") == [("y=2023/m=06",), ("y=2023/m=07",)]
