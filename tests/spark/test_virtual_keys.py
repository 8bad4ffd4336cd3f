"""Tables without meta columns (`hoodie.populate.meta.fields=false`) through Spark."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.errors import UnsupportedFeature

META = 5


def made(sql, name: str, table_type: str) -> str:
    """A partitioned table of three rows."""
    sql(
        f"CREATE TABLE {name} (id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING) USING hudi "
        f"PARTITIONED BY (dt) TBLPROPERTIES (primaryKey='id', orderingFields='ts', "
        f"type='{table_type}', 'hoodie.populate.meta.fields'='false')"
    )
    sql(f"INSERT INTO {name} VALUES (1,'a',1.0,10,'x'), (2,'b',2.0,10,'x'), (3,'c',3.0,10,'y')")
    return name


@pytest.fixture(scope="module")
def names(spark):
    """The tables of this file, by their type."""
    found: dict[str, str] = {}
    yield found
    for name in found.values():
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def table(table_type, names, sql):
    """The table that tests share which leave its rows as they were."""
    if table_type not in names:
        names[table_type] = made(sql, f"virtual_{table_type}", table_type)
    return names[table_type]


@pytest.fixture
def changing(table_type, spark, sql):
    """A table of one test."""
    name = made(sql, f"changing_{table_type}", table_type)
    yield name
    spark.sql(f"DROP TABLE {name}")


def rows_of(frame):
    return sorted(tuple(row) for row in frame.collect())


def own(rows):
    assert all(row[:META] == (None,) * META for row in rows)
    return sorted(row[META:] for row in rows)


def test_every_statement_works_by_computed_keys(lake, spark, sql, changing, table_type):
    table = changing
    sql(f"UPDATE {table} SET price = 9.0, ts = 11 WHERE id = 1")
    sql(
        f"MERGE INTO {table} t USING (SELECT 2 id, 'bb' name, 22.0D price, 12L ts, 'x' dt "
        "UNION ALL SELECT 4, 'd', 4.0D, 12L, 'y') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    sql(f"DELETE FROM {table} WHERE id = 3")
    expected = [(1, "a", 9.0, 11, "x"), (2, "bb", 22.0, 12, "x"), (4, "d", 4.0, 12, "y")]
    # As in Hudi a catalog shows the meta columns without values, and a path does not show them.
    assert own([tuple(row) for row in sql(f"SELECT * FROM {table}").collect()]) == expected
    path = lake.table(table).path
    assert rows_of(spark.read.format("hudi").load(path)) == expected
    assert rows_of(sql(f"SELECT id FROM {table} WHERE _hoodie_record_key = '1'")) == []
    assert sql(f"SELECT count(*) FROM {table}").first()[0] == 3
    if table_type == "mor":
        sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => '{table}')")
    sql(f"CALL run_clustering(table => '{table}', order => 'price')")
    assert own([tuple(row) for row in sql(f"SELECT * FROM {table}").collect()]) == expected
    sql(f"INSERT OVERWRITE {table} PARTITION (dt='x') VALUES (7, 'z', 7.0, 20)")
    expected = [(4, "d", 4.0, 12, "y"), (7, "z", 7.0, 20, "x")]
    assert own([tuple(row) for row in sql(f"SELECT * FROM {table}").collect()]) == expected
    assert lakedex.open(path).verify().ok


def test_a_merge_of_several_partners_is_refused(spark, sql, table):
    before = rows_of(spark.table(table))
    with pytest.raises(Exception, match="matched by several rows"):
        sql(
            f"MERGE INTO {table} t USING (SELECT 1 id, 12L ts UNION ALL SELECT 1, 12L) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts"
        )
    assert rows_of(spark.table(table)) == before


def test_keys_that_stand_twice_are_changed_in_every_copy(setting, spark, sql, table):
    setting("hoodie.spark.sql.insert.into.operation", "bulk_insert")
    sql(f"INSERT INTO {table} VALUES (1, 'copy', 5.0, 10, 'x')")
    sql(f"UPDATE {table} SET price = 8.0 WHERE name = 'copy'")
    found = rows_of(spark.table(table).select("id", "name", "price"))
    assert found == [(1, "a", 1.0), (1, "copy", 8.0), (2, "b", 2.0), (3, "c", 3.0)]
    sql(f"DELETE FROM {table} WHERE name = 'copy'")
    assert rows_of(spark.table(table).select("id")) == [(1,), (2,), (3,)]


def test_indexes_of_columns_serve(lake, sql, changing):
    table = changing
    sql(
        f"CREATE INDEX by_day ON {table} USING column_stats(ts) "
        "OPTIONS (expr='from_unixtime', format='yyyy-MM-dd')"
    )
    for statement in ("record_index ON {} (id)", "by_name ON {} (name)"):
        with pytest.raises(Exception, match=r"record[ _]index"):
            sql(f"CREATE INDEX {statement.format(table)}")
    sql(f"UPDATE {table} SET name = 'n', ts = 11 WHERE id = 2")
    sql(f"INSERT INTO {table} VALUES (5, 'n', 5.0, 10, 'y')")
    path = lake.table(table).path
    day = "from_unixtime(ts, 'yyyy-MM-dd') = '1970-01-01'"
    for condition in ("id = 2", "name = 'n'", "name = 'b'", "id in (1, 5)", day):
        pruned = rows_of(sql(f"SELECT id, name FROM {table} WHERE {condition}"))
        plain = lakedex.open(path, options=lakedex.ReadOptions(without_indexes={"all"}))
        whole = plain.to_arrow(condition, columns=["id", "name"]).to_pylist()
        assert pruned == sorted(tuple(row.values()) for row in whole), condition
    opened = lakedex.open(path)
    assert len(opened.files("id = 3")) == 1
    assert opened.verify().ok


def test_what_is_not_sound_is_refused_by_name(lake, spark, sql, table):
    before = rows_of(spark.table(table))
    path = lake.table(table).path
    with pytest.raises(UnsupportedFeature, match="without meta columns"):
        lakedex.open(path).changes("000")
    with pytest.raises(Exception, match="without meta columns"):
        spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental").option(
            "hoodie.datasource.read.begin.instanttime", "000"
        ).load(path).collect()
    frame = spark.createDataFrame(before, spark.table(table).schema)
    for name, value, problem in (
        ("hoodie.populate.meta.fields", "true", "contradicts"),
        ("hoodie.index.type", "BLOOM", "BLOOM"),
        ("hoodie.metadata.index.bloom.filter.enable", "true", "bloom_filters"),
    ):
        with pytest.raises(Exception, match=problem):
            frame.write.format("hudi").option(name, value).mode("append").save(path)
    with pytest.raises(Exception, match=r"hoodie\.populate\.meta\.fields"):
        sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('hoodie.populate.meta.fields'='true')")
    assert rows_of(spark.table(table)) == before


def test_a_data_frame_makes_a_table_without_meta_columns(spark, lake, tmp_path, table_type):
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id,name",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.populate.meta.fields": "false",
    }
    columns = "id int, name string, ts bigint"
    first = spark.createDataFrame([(1, "a", 1), (2, "b", 1)], columns)
    second = spark.createDataFrame([(1, "a", 2), (1, "b", 2)], columns)
    for frame in (first, second):
        frame.write.format("hudi").options(**options).mode("append").save(path)
    second.limit(1).write.format("hudi").options(
        **options, **{"hoodie.datasource.write.operation": "delete"}
    ).mode("append").save(path)
    assert rows_of(spark.read.format("hudi").load(path)) == [(1, "b", 2), (2, "b", 1)]
