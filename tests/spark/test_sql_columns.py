"""Columns of tables by SQL, fields of structs, and statements that only ask about a table."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidDefinition, InvalidInput

HISTORY = "hoodie.schema.on.read.enable"


@pytest.fixture(params=["cow", "mor"])
def table_type(request):
    return request.param


@pytest.fixture
def sql(table_type, lake, spark):
    """Both doors for a statement."""
    return lake.sql if table_type == "cow" else spark.sql


@pytest.fixture
def table(table_type, spark, sql):
    name = f"shaped_{table_type}"
    sql(
        f"CREATE TABLE {name} (id INT COMMENT 'key', n INT, s STRUCT<a: INT, b: STRING>, c STRING, "
        "ts BIGINT, city STRING) USING hudi PARTITIONED BY (city) "
        f"TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', type = '{table_type}')"
    )
    sql(f"INSERT INTO {name} VALUES (1, 1, struct(1, 'x'), 'c', 1, 'oslo'), "
        "(2, 2, struct(2, 'y'), 'c', 1, 'rome')")  # fmt: skip
    yield name
    for suffix in ("", "_like"):
        spark.sql(f"DROP TABLE IF EXISTS {name}{suffix}")


def values(rows):
    return [tuple(row) for row in rows.collect()]


def test_columns_change_and_rows_follow(lake, sql, table, setting):
    sql(f"ALTER TABLE {table} ADD COLUMNS (s.z INT)")
    setting(HISTORY, "true")
    for change in (
        "RENAME COLUMN n TO m",
        "RENAME COLUMN s.b TO bb",
        "DROP COLUMN c",
        "ADD COLUMNS (c INT COMMENT 'again' FIRST, q DECIMAL(10, 2) AFTER m)",
        "ALTER COLUMN m TYPE BIGINT",
        "ALTER COLUMN q AFTER ts",
        "ALTER COLUMN m COMMENT 'counted'",
    ):
        sql(f"ALTER TABLE {table} {change}")
    described = [tuple(row)[:3] for row in sql(f"DESCRIBE {table}").collect()[:7]]
    assert described[:3] == [
        ("c", "int", "again"),
        ("id", "int", "key"),
        ("m", "bigint", "counted"),
    ]
    assert [name for name, _, _ in described] == ["c", "id", "m", "s", "ts", "q", "city"]
    sql(f"UPDATE {table} SET m = 7000000000, ts = 2, s.bb = 'new' WHERE id = 1")
    sql(f"INSERT INTO {table} (id, ts, m, city, c) VALUES (3, 1, DEFAULT, 'oslo', 5)")
    rows = values(sql(f"SELECT id, m, s.a, s.bb, s.z, c, q FROM {table} ORDER BY id"))
    assert rows == [
        (1, 7_000_000_000, 1, "new", None, None, None),
        (2, 2, 2, "y", None, None, None),
        (3, None, None, None, None, 5, None),
    ]
    sql(f"ALTER TABLE {table} ALTER COLUMN m TYPE DECIMAL(14, 2)")
    sql(f"ALTER TABLE {table} ADD COLUMNS (day STRING)")
    sql(f"UPDATE {table} SET day = '2024-02-29', ts = ts + 1 WHERE id = 1")
    sql(f"ALTER TABLE {table} ALTER COLUMN day TYPE DATE")
    found = sql(f"SELECT id, cast(day AS STRING) FROM {table} WHERE day > DATE'2024-01-01'")
    assert values(found) == [(1, "2024-02-29")]
    with pytest.raises(Exception, match="from decimal128"):
        sql(f"ALTER TABLE {table} ALTER COLUMN m TYPE DECIMAL(9, 2)")
    with pytest.raises(Exception, match=r"column s.bb of table .*: '(new|y)' has no place in it"):
        sql(f"ALTER TABLE {table} ALTER COLUMN s.bb TYPE DATE")
    assert values(sql(f"SELECT id FROM {table} WHERE m < 5")) == [(2,)]
    assert values(sql(f"SELECT id FROM {table} WHERE c = 5")) == [(3,)]
    assert lake.table(table).verify().ok


WRONG = [
    ("RENAME COLUMN id TO k", InvalidInput, "id is a record key column"),
    ("DROP COLUMN ts", InvalidInput, "ts is an ordering column"),
    ("DROP COLUMNS (city)", InvalidInput, "city is a partition column"),
    ("DROP COLUMN nope", InvalidDefinition, "no column 'nope'.*>>>nope"),
    ("RENAME COLUMN c TO N", InvalidInput, "a column 'n' already"),
    ("ALTER COLUMN id TYPE STRING", InvalidInput, "part of keys or partition paths"),
]


@pytest.mark.parametrize("table_type", ["cow"])
def test_wrong_changes_are_refused(lake, spark, table, setting):
    setting(HISTORY, "true")
    for change, error, message in WRONG:
        with pytest.raises(error, match=message):
            lake.sql(f"ALTER TABLE {table} {change}")
        with pytest.raises(Exception, match=message):
            spark.sql(f"ALTER TABLE {table} {change}")
    assert len(values(spark.sql(f"CALL show_commits('{table}')"))) == 1


@pytest.mark.parametrize("table_type", ["mor"])
def test_fields_and_names_in_statements(lake, spark, sql, table):
    sql(
        f"WITH picked AS (SELECT 1 AS k) UPDATE {table} SET s.a = 9, ts = ts + 1, "
        "c = (SELECT concat('k', max(k)) FROM picked) WHERE id IN (SELECT k FROM picked)"
    )
    sql(
        f"MERGE INTO spark_catalog.default.`{table}` t USING (SELECT 2 AS id, 5 AS v) q "
        "ON t.id = q.id WHEN MATCHED THEN UPDATE SET t.s.a = q.v, ts = t.ts + 1"
    )
    rows = values(sql(f"SELECT id, s.a, s.b, c FROM {table} ORDER BY id"))
    assert rows == [(1, 9, "x", "k1"), (2, 5, "y", "c")]
    sql(f"WITH gone AS (SELECT 2 AS k) DELETE FROM {table} WHERE EXISTS "
        f"(SELECT 1 FROM gone WHERE k = {table}.id)")  # fmt: skip
    sql(f"INSERT INTO {table} SELECT * FROM {table}")
    assert [row[0] for row in values(sql(f"SELECT id FROM {table}"))] == [1, 1]
    for wrong, message in [
        ("s.q = 1", "s has no field 'q', only a, b, at character .*>>>s.q"),
        ("ts = 1, ts = 2", "ts is assigned twice"),
        ("s = NULL, s.a = 1", "s.a is assigned twice"),
    ]:
        with pytest.raises(InvalidDefinition, match=message):
            lake.sql(f"UPDATE {table} SET {wrong}")


@pytest.mark.parametrize("table_type", ["mor"])
def test_statements_that_ask_or_copy(lake, spark, sql, table):
    sql(f"CREATE TABLE {table}_like LIKE {table}")
    copy, source = (lake.table(name).snapshot.config for name in (f"{table}_like", table))
    assert copy.record_key_fields == source.record_key_fields
    assert (copy.table_type, copy.partition_fields) == (source.table_type, source.partition_fields)
    sql(f"INSERT INTO {table}_like SELECT * FROM {table}")
    assert spark.table(f"{table}_like").count() == 2
    sql(f"DROP TABLE {table}_like")
    other = "primaryKey = 'id,n', type = 'cow', hoodie.table.name = 'no', "
    other += "hoodie.table.cdc.enabled = 'true'"
    spark.conf.set("hoodie.index.type", "GLOBAL_SIMPLE")
    sql(f"CREATE TABLE {table}_like LIKE {table} USING hudi TBLPROPERTIES ({other})")
    sql(f"INSERT INTO {table}_like SELECT * FROM {table}")
    spark.conf.unset("hoodie.index.type")
    assert lake.table(f"{table}_like").properties["hoodie.index.type"] == "GLOBAL_SIMPLE"
    copy = lake.table(f"{table}_like").snapshot.config
    assert (copy.record_key_fields, copy.name) == (("id", "n"), f"{table}_like")
    assert (copy.table_type.value, copy.cdc_enabled) == ("COPY_ON_WRITE", False)
    sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
    assert "Statistics" not in str(values(sql(f"DESCRIBE EXTENDED {table}")))
    sql(f"MSCK REPAIR TABLE {table}")
    sql(f"ALTER TABLE {table} ADD IF NOT EXISTS PARTITION (city = 'oslo')")
    with pytest.raises(Exception, match="city=oslo already"):
        sql(f"ALTER TABLE {table} ADD PARTITION (city = 'bern') PARTITION (city = 'oslo')")
    before = values(sql(f"SHOW PARTITIONS {table}"))
    sql(f"ALTER TABLE {table} ADD PARTITION (city = 'bern') PARTITION (city = 'lima')")
    sql(f"ALTER TABLE {table} ADD PARTITION (city = NULL)")
    assert ("city=__HIVE_DEFAULT_PARTITION__",) in values(sql(f"SHOW PARTITIONS {table}"))
    sql(f"ALTER TABLE {table} DROP PARTITION (city = NULL)")
    assert values(sql(f"SHOW PARTITIONS {table} PARTITION (city = 'bern')")) == [("city=bern",)]
    sql(f"ALTER TABLE {table} DROP PARTITION (city = 'bern')")
    assert values(sql(f"SHOW PARTITIONS {table}")) == sorted([*before, ("city=lima",)])
    sql(f"ALTER TABLE {table} DROP PARTITION (city = 'lima')")
    with pytest.raises(Exception, match="named by its columns"):
        sql(f"ALTER TABLE {table} ADD PARTITION (town = 'bern')")
    name = "hoodie.parquet.small.file.limit"
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = '0')")
    assert (name, "0") in values(sql(f"SHOW TBLPROPERTIES {table}"))
    sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{name}')")
    assert name not in lake.table(table).properties
    assert "USING hudi" in sql(f"SHOW CREATE TABLE {table}").first()[0]
    with pytest.raises(Exception, match="REPLACE TABLE of a Hudi table"):
        sql(f"CREATE OR REPLACE TABLE {table} USING hudi AS SELECT 1 AS id")
