"""The cases that Hudi's own SQL tests have for INSERT, as they come out here.

One small table for each group of cases; expected rows are those that Hudi expects.
"""

from __future__ import annotations

import pytest

POLICY = "hoodie.datasource.insert.dup.policy"
OPERATION = "hoodie.spark.sql.insert.into.operation"
COLUMNS = "id INT, dt STRING, name STRING, price DOUBLE, ts BIGINT"


@pytest.fixture
def made(lake, spark, tmp_path):
    """Creates a table in the folder of the test."""

    def create(name, columns=COLUMNS, properties="primaryKey = 'id'", partition_by="dt"):
        parted = f"PARTITIONED BY ({partition_by})" if partition_by else ""
        told = f"TBLPROPERTIES ({properties})" if properties else ""
        spark.sql(
            f"CREATE TABLE {name} ({columns}) USING hudi {told} {parted} "
            f"LOCATION '{tmp_path / name.rpartition('.')[2]}'"
        )

    return create


def test_columns_are_listed_in_any_order_and_may_be_missing(spark, made, rows):
    made("listed")
    spark.sql("INSERT INTO listed (id, name, price, ts, dt) VALUES (1, 'a', 10, 1000, 'x')")
    spark.sql("INSERT INTO listed (dt, name, id, price, ts) VALUES ('y', 'b', 2, 20, 2000)")
    spark.sql("INSERT INTO listed (dt, ts, name, id) VALUES ('y', 3000, 'c', 3)")
    spark.sql("INSERT INTO listed (dt, ts, id) VALUES ('z' AS dt, 4000 AS ts, 4 AS id)")
    spark.sql("INSERT INTO listed PARTITION (dt = 'w') (ts, id, name) VALUES (5000, 5, 'e')")
    assert rows("SELECT id, name, price, ts, dt FROM listed") == [
        (1, "a", 10.0, 1000, "x"),
        (2, "b", 20.0, 2000, "y"),
        (3, "c", None, 3000, "y"),
        (4, None, None, 4000, "z"),
        (5, "e", None, 5000, "w"),
    ]
    for statement in (
        "PARTITION (dt = 'x') SELECT 1, 'a', 10, 1, 'more'",
        "SELECT 1, 'a', 10",
        "PARTITION (dt = 'x') SELECT 9 AS id, 'a' AS name, 1 AS price, 1 AS ts, 'x' AS new_col",
    ):
        with pytest.raises(Exception, match="the INSERT gives"):
            spark.sql(f"INSERT INTO listed {statement}")
    assert len(rows("SELECT id FROM listed")) == 5


def test_partitions_are_static_dynamic_or_both(spark, made, rows):
    made("parted", "id INT, dt STRING, name STRING, ht STRING, ts BIGINT", partition_by="dt, ht")
    spark.sql("INSERT INTO parted PARTITION (dt, ht) "
              "SELECT 1 AS id, 'a' AS name, 'd1' AS dt, 1000 AS ts, 'h1' AS ht")  # fmt: skip
    spark.sql("INSERT INTO parted PARTITION (dt = 'd2', ht) "
              "SELECT 2 AS id, 'b' AS name, 2000 AS ts, 'h2' AS ht")  # fmt: skip
    spark.sql("INSERT INTO parted PARTITION (dt, ht = 'h3') "
              "SELECT 3000 AS ts, 3 AS id, 'c' AS name, 'd3' AS dt")  # fmt: skip
    spark.sql("INSERT INTO parted SELECT 4, 'd', 4000, 'd4', 'h4'")
    spark.sql("INSERT INTO parted PARTITION (dt = 'd5', ht) (id, ht, ts, name) "
              "VALUES (5, 'h5', 5000, 'e')")  # fmt: skip
    assert rows("SELECT id, name, ts, dt, ht FROM parted") == [
        (number, "abcde"[number - 1], number * 1000, f"d{number}", f"h{number}")
        for number in range(1, 6)
    ]
    spark.sql("INSERT OVERWRITE parted PARTITION (dt = 'd5', ht = 'h5') (id, ts, name) "
              "VALUES (6, 6000, 'f')")  # fmt: skip
    assert rows("SELECT id FROM parted WHERE dt = 'd5'") == [(6,)]


@pytest.mark.parametrize("table_type", ["mor"])
def test_partition_columns_of_every_type(spark, made, rows, table_type):
    values = [
        ("string", "'1000'", "'1000'"),
        ("int", "1000", "1000"),
        ("bigint", "10000", "10000"),
        ("timestamp", "'2021-05-20 00:00:00'", "TIMESTAMP'2021-05-20 00:00:00'"),
        ("date", "'2021-05-20'", "DATE'2021-05-20'"),
    ]
    for kind, static, literal in values:
        name = f"by_{kind}"
        made(name, f"id INT, name STRING, dt {kind}", f"primaryKey = 'id', type = '{table_type}'")
        spark.sql(f"INSERT INTO {name} PARTITION (dt = {static}) SELECT 1, 'a'")
        spark.sql(f"INSERT OVERWRITE {name} PARTITION (dt = {static}) SELECT 1, 'b'")
        spark.sql(f"INSERT INTO {name} SELECT 2, 'c', {literal}")
        shown = static.strip("'")
        found = rows(f"SELECT id, name, CAST(dt AS STRING) FROM {name} WHERE dt = {literal}")
        assert found == [(1, "b", shown), (2, "c", shown)], kind


@pytest.mark.parametrize("table_type", ["cow"])
def test_policies_for_keys_that_are_there(spark, setting, made, rows, table_type):
    made("policed", "id INT, name STRING, dt STRING", f"primaryKey = 'id', type = '{table_type}'")
    spark.sql("INSERT INTO policed VALUES (1, 'a', 'x')")
    twice = "INSERT INTO policed VALUES (1, 'b', 'x'), (2, 'c', 'x')"
    setting(POLICY, "fail")
    with pytest.raises(Exception, match="the key '1' is in the table already"):
        spark.sql(twice)
    assert rows("SELECT id, name FROM policed") == [(1, "a")]
    setting(POLICY, "drop")
    spark.sql(twice)
    assert rows("SELECT id, name FROM policed") == [(1, "a"), (2, "c")]
    setting(POLICY, "none")
    spark.sql("INSERT INTO policed VALUES (1, 'd', 'x')")
    assert rows("SELECT id, name FROM policed") == [(1, "a"), (1, "d"), (2, "c")]
    setting(OPERATION, "upsert")
    spark.sql("INSERT INTO policed VALUES (2, 'e', 'x'), (2, 'f', 'x')")
    assert rows("SELECT id, name FROM policed WHERE id = 2") == [(2, "f")]


def test_a_policy_keeps_records_from_upserts(lake, spark, setting, made, rows):
    made("kept", "id INT, name STRING, dt STRING", "primaryKey = 'id', type = 'mor'")
    spark.sql("INSERT INTO kept VALUES (1, 'a', 'x')")
    setting(POLICY, "drop")
    setting(OPERATION, "upsert")
    spark.sql("INSERT INTO kept VALUES (1, 'b', 'x'), (2, 'c', 'x'), (2, 'd', 'x'), (1, 'e', 'x')")
    assert rows("SELECT id, name FROM kept") == [(1, "a"), (2, "c"), (2, "d")]
    setting(POLICY, "fail")
    with pytest.raises(Exception, match="the key '1' is in the table already"):
        spark.sql("INSERT INTO kept VALUES (3, 'f', 'x'), (1, 'g', 'x')")
    spark.sql("INSERT INTO kept VALUES (3, 'f', 'x'), (3, 'g', 'x')")
    assert rows("SELECT id, name FROM kept WHERE id = 3") == [(3, "g")]
    more = spark.createDataFrame(
        [(1, "h", "x"), (4, "i", "x"), (4, "j", "x")], "id int, name string, dt string"
    )
    writer = more.write.format("hudi").option(POLICY, "none").mode("append")
    older = "hoodie.datasource.write.insert.drop.duplicates"
    writer.option(older, "true").save(lake.table("kept").path)
    assert rows("SELECT id, name FROM kept WHERE id IN (1, 4)") == [(1, "a"), (4, "j")]
    writer.option(older, "false").option(POLICY, "drop").saveAsTable("kept")
    assert rows("SELECT id, name FROM kept WHERE id IN (1, 4)") == [(1, "a"), (4, "j")]
    spark.sql("UPDATE kept SET name = 'k' WHERE id = 1")
    assert rows("SELECT name FROM kept WHERE id = 1") == [("k",)]


def test_only_alter_table_gives_a_table_the_operation_of_all_writes(spark, made, rows, caplog):
    written = "hoodie.datasource.write.operation"
    made("told", "id INT, name STRING", f"primaryKey = 'id', {written} = 'upsert'", "")
    assert f"CREATE TABLE does not keep {written}" in caplog.text
    for name in "ab":
        spark.sql(f"INSERT INTO told VALUES (1, '{name}')")
    assert rows("SELECT name FROM told") == [("a",), ("b",)]
    spark.sql("DELETE FROM told WHERE name = 'b'")
    spark.sql(f"ALTER TABLE told SET TBLPROPERTIES ('{written}' = 'upsert')")
    spark.sql("INSERT INTO told VALUES (1, 'c')")
    assert rows("SELECT name FROM told") == [("c",)]
    spark.sql(f"ALTER TABLE told UNSET TBLPROPERTIES ('{written}')")
    spark.sql("INSERT INTO told VALUES (1, 'd')")
    assert rows("SELECT name FROM told") == [("c",), ("d",)]
    made("asked", "id INT, name STRING", f"primaryKey = 'id', {OPERATION} = 'upsert'", "")
    for name in "ab":
        spark.sql(f"INSERT INTO asked VALUES (1, '{name}')")
    assert rows("SELECT name FROM asked") == [("b",)]


def test_values_are_cast_to_the_types_of_columns(spark, made, rows):
    made("cast_to", "id INT, b BIGINT, i INT, f FLOAT, d DECIMAL(10, 1), s STRING, t TIMESTAMP, "
         "day DATE, ok BOOLEAN", partition_by="")  # fmt: skip
    spark.sql("INSERT INTO cast_to (id, b, f, d, i, s, day, t) SELECT 1 AS id, "
              "CAST(127 AS TINYINT) AS b, 2147483647 AS f, 22 AS d, 123.45D AS i, true AS s, "
              "TIMESTAMP'2023-01-01 12:00:00' AS day, DATE'2023-01-01' AS t")  # fmt: skip
    spark.sql("INSERT INTO cast_to (id, d, i) SELECT 2 AS id, CAST(3.14 AS FLOAT) AS d, "
              "CAST(123.45 AS DECIMAL(10, 2)) AS i")  # fmt: skip
    for value, column in (
        ("'123'", "i"),
        ("'abc'", "ok"),
        ("'2023-01-01'", "day"),
        ("true", "i"),
        ("2147483648", "i"),
        ("2147483647", "d"),
    ):
        with pytest.raises(Exception, match=r"(?i)cast|overflow|range|cannot|fit"):
            spark.sql(f"INSERT INTO cast_to (id, {column}) SELECT 99 AS id, {value} AS x")
    query = "SELECT id, b, string(f), string(d), i, s, string(day), string(t) FROM cast_to"
    assert rows(query) == [
        (1, 127, "2.14748365E9", "22.0", 123, "true", "2023-01-01", "2023-01-01 00:00:00"),
        (2, None, None, "3.1", 123, None, None, None),
    ]


def test_bulk_inserts(lake, spark, setting, made, rows):
    def operation(name):
        timeline = lake.table(name).snapshot.timeline
        return timeline.commit_metadata(timeline.write_instants()[-1]).operation_type

    made("bulk", "id INT, name STRING, price DOUBLE, dt STRING")
    setting("hoodie.sql.bulk.insert.enable", "true")
    spark.sql("INSERT INTO bulk VALUES (1, 'a', 10, 'x')")
    assert operation("bulk") == "BULK_INSERT"
    setting("hoodie.sql.insert.mode", "strict")
    with pytest.raises(Exception, match=r"bulk.insert.enable=true .*mode=strict"):
        spark.sql("INSERT INTO bulk VALUES (2, 'b', 10, 'x')")
    setting("hoodie.sql.insert.mode", "non-strict")
    setting("hoodie.sql.bulk.insert.enable", "false")
    spark.sql("INSERT INTO bulk VALUES (2, 'b', 10, 'x')")
    assert operation("bulk") == "INSERT"
    spark.sql("CREATE TABLE bulk_empty USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION "
              f"'{lake.table('bulk').path}_empty' AS SELECT * FROM bulk WHERE id = 9")  # fmt: skip
    assert rows("SELECT id FROM bulk_empty") == []
    setting(OPERATION, "bulk_insert")
    spark.sql("INSERT OVERWRITE bulk PARTITION (dt = 'x') VALUES (3, 'c', 11)")
    assert (operation("bulk"), rows("SELECT id FROM bulk")) == ("INSERT_OVERWRITE", [(3,)])
    spark.sql("INSERT OVERWRITE bulk VALUES (4, 'd', 14, 'y')")
    assert operation("bulk") == "INSERT_OVERWRITE_TABLE"
    both = spark.createDataFrame([(7, "a", 1.0, "z"), (7, "b", 2.0, "z")], "id int, name string, "
                                 "price double, dt string")  # fmt: skip
    writer = both.write.format("hudi").option("hoodie.datasource.write.operation", "bulk_insert")
    path = lake.table("bulk").path
    writer.option("hoodie.combine.before.insert", "true").mode("append").save(path)
    assert len(rows("SELECT id FROM bulk WHERE id = 7")) == 1
    writer.option("hoodie.combine.before.insert", "false").mode("append").save(path)
    assert len(rows("SELECT id FROM bulk WHERE id = 7")) == 3


def test_names_keys_and_properties(lake, spark, setting, made, rows):
    made("spark_catalog.default.named", "id INT, name STRING, dt STRING")
    spark.sql("INSERT INTO spark_catalog.default.named SELECT 1 AS id, 'a' AS name, 'x' AS dt")
    spark.sql("INSERT INTO spark_catalog.default.named PARTITION (dt = 'x') SELECT 2, 'b'")
    assert rows("SELECT id FROM spark_catalog.default.named") == [(1,), (2,)]
    made("nested", "name STRING, ts BIGINT, s STRUCT<a: STRING, b: STRUCT<c: INT>>",
         "primaryKey = 's.a', preCombineField = 's.b.c', type = 'MOR'", "")  # fmt: skip
    setting(OPERATION, "upsert")
    spark.sql("INSERT INTO nested VALUES ('n1', 1, struct('k', struct(9))), "
              "('n2', 2, struct('k', struct(3)))")  # fmt: skip
    assert rows("SELECT name, s.a, s.b.c FROM nested") == [("n1", "k", 9)]
    spark.conf.unset(OPERATION)
    made("keyless", "id INT, m MAP<STRING, STRING>, price DOUBLE, dt STRING",
         "preCombineField = 'price', type = 'MOR'")  # fmt: skip
    spark.sql("INSERT INTO keyless VALUES (1, map('k', 'v'), 10, 'x'), (1, NULL, 20, 'x')")
    assert rows("SELECT id FROM keyless WHERE m.k = 'v'") == [(1,)]
    assert len(rows("SELECT DISTINCT _hoodie_record_key FROM keyless")) == 2
    generator = "org.apache.hudi.keygen.ComplexAvroKeyGenerator"
    made("generated", "id INT, dt STRING, pt STRING", "primaryKey = 'id', "
         f"'hoodie.datasource.write.keygenerator.class' = '{generator}'", "dt, pt")  # fmt: skip
    spark.sql("INSERT INTO generated VALUES (1, 'a', 'b')")
    assert rows("SELECT id, dt, pt FROM generated") == [(1, "a", "b")]
    with pytest.raises(Exception, match="BUCKET_aa"):
        made("wrong", "id INT", "primaryKey = 'id', 'hoodie.index.type' = 'BUCKET_aa'", "")


@pytest.mark.parametrize(("moves", "table_type"), [("true", "mor"), ("false", "cow")])
def test_merges_move_records_or_not_as_the_session_said(
    spark, setting, made, rows, moves, table_type
):
    setting("hoodie.index.type", "GLOBAL_SIMPLE")
    setting("hoodie.simple.index.update.partition.path", moves)
    made("moved", "id INT, v INT, what STRING, dt STRING",
         f"primaryKey = 'id', orderingFields = 'v', type = '{table_type}'")  # fmt: skip
    spark.sql("INSERT INTO moved VALUES (1, 1, 'new', 'x'), (2, 1, 'new', 'x'), (3, 1, 'new', 'x')")
    source = ("(SELECT * FROM VALUES (1, 2, 'yes', 'y'), (2, 2, 'no', 'y'), (3, 2, 'delete', 'y'), "
              "(4, 1, 'new', 'x'), (4, 2, 'newer', 'x') AS s(id, v, what, dt))")  # fmt: skip
    spark.sql(f"MERGE INTO moved t USING {source} s ON t.id = s.id "
              "WHEN MATCHED AND s.what = 'yes' THEN UPDATE SET * WHEN MATCHED AND "
              "s.what = 'delete' THEN DELETE WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    folder = "dt=y" if moves == "true" else "dt=x"
    assert rows("SELECT id, v, what, _hoodie_partition_path FROM moved") == [
        (1, 2, "yes", folder),
        (2, 1, "new", "dt=x"),
        (4, 2, "newer", "dt=x"),
    ]
    late = "SELECT 1 AS id, 1 AS v, 'late' AS what, 'x' AS dt"
    spark.sql(f"MERGE INTO moved t USING ({late}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert rows("SELECT what FROM moved WHERE id = 1") == [("yes",)]
