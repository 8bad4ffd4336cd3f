"""A script as Hudi's own guide has it, through `lake.sql` and through plain `spark.sql`."""

from __future__ import annotations

import logging
from importlib import import_module

import pytest

from lakedex.errors import CommitConflict, InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.spark.sql import changing, copies
from tests.spark.conftest import newest_only

COLUMNS = "id, name, price, ts, city"


@pytest.fixture
def table(table_type, spark, sql):
    """A partitioned table of either type with three rows."""
    name = f"trips_{table_type}"
    sql(
        f"CREATE TABLE {name} (id INT, name STRING, price DOUBLE, ts BIGINT, city STRING) USING "
        f"hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{table_type}')"
        " PARTITIONED BY (city)"
    )
    sql(f"INSERT INTO {name} VALUES (1,'a',1.5,10,'x'), (2,'b',2.5,10,'x'), (3,'c',3.5,10,'y')")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows_of(spark, table, columns=COLUMNS):
    return [tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table} ORDER BY id").collect()]


def instants(lake, spark, table):
    return spark.sql(f"SELECT DISTINCT _hoodie_commit_time t FROM {table} ORDER BY t").collect()


def commits(lake, spark, table):
    entry = spark.sql(f"DESCRIBE EXTENDED {table}").collect()
    place = next(row[1] for row in entry if row[0] == "Location")
    return len(lake.table(place).snapshot.timeline.write_instants())


def test_a_script_runs_unchanged(lake, spark, sql, table):
    first = instants(lake, spark, table)[0]["t"]
    sql(f"UPDATE {table} SET price = price * 2, ts = ts + 1 WHERE id = 2")
    before = commits(lake, spark, table)
    sql(
        f"""
        MERGE INTO {table} AS target
        USING (SELECT 1 AS key, 'gone' AS name, 0.0 AS fare, 20L AS ts, 'x' AS city UNION ALL
               SELECT 3, 'new', 30.0, 20L, 'y' UNION ALL SELECT 4, 'four', 4.0, 20L, 'z') AS source
        ON target.id = source.key
        WHEN MATCHED AND source.name = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = source.name, price = source.fare, ts = source.ts
        WHEN NOT MATCHED THEN INSERT (id, name, price, ts, city)
        VALUES (source.key, name, fare, source.ts, source.city)
        """
    )
    assert commits(lake, spark, table) == before + 1
    expected = [(2, "b", 5.0, 11, "x"), (3, "new", 30.0, 20, "y"), (4, "four", 4.0, 20, "z")]
    assert rows_of(spark, table) == expected
    sql(f"DELETE FROM {table} WHERE id IN (SELECT max(id) FROM {table})")
    assert rows_of(spark, table) == expected[:2]
    old = sql(f"SELECT id FROM {table} TIMESTAMP AS OF '{first}' ORDER BY id").collect()
    assert [row["id"] for row in old] == [1, 2, 3]
    text = f"hudi_table_changes('{table}', 'latest_state', '{first}')"
    assert {row["id"] for row in sql(f"SELECT id FROM {text}").collect()} == {2, 3}
    text = f"hudi_table_changes('{table}', 'cdc', '{first}')"
    names = [f"get_json_object({side}, '$.name')" for side in ("before", "after")]
    told = sql(f"SELECT op, {', '.join(names)} FROM {text} WHERE op IN ('u', 'i', 'd')")
    assert sorted(map(tuple, told.collect()), key=repr) == [
        ("d", "a", None),
        ("d", "four", None),
        ("i", None, "four"),
        ("u", "b", "b"),
        ("u", "c", "new"),
    ]
    assert sql(f"SELECT count(*) n FROM {text}").collect()[0]["n"] == 5
    sql(f"CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT op FROM {text} UNION ALL "
        f"SELECT name FROM {table} TIMESTAMP AS OF '{first}'")  # fmt: skip
    assert sql("SELECT op FROM kept").count() == 5 + 3, "views are read again from their text"
    sql("DROP VIEW kept")
    both = sql(
        f"WITH old AS (SELECT id FROM {table} VERSION AS OF '{first}') "
        f"SELECT count(*) n FROM old WHERE id NOT IN (SELECT id FROM {table})"
    )
    assert both.collect()[0]["n"] == 1


@pytest.mark.parametrize("table_type", ["cow"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_point_in_time_is_the_same_in_every_zone(sql, setting, table, zone):
    setting("spark.sql.session.timeZone", zone)
    for ago, rows in (("0 SECOND", 3), ("2 HOUR", 0)):
        moment = f"current_timestamp() - INTERVAL {ago}"
        found = sql(f"SELECT count(*) n FROM {table} TIMESTAMP AS OF {moment}").collect()
        assert found[0]["n"] == rows


def test_inserts_find_their_columns(spark, sql, table):
    sql(f"INSERT INTO {table} (city, id, ts) VALUES ('w', 5, 1)")
    sql(f"INSERT INTO {table} BY NAME SELECT 1L AS ts, 'w' AS city, 6 AS id")
    sql(f"INSERT INTO {table} PARTITION (city = 'v') SELECT 7L ts, 7 AS ID, 7.0 price, 'g' name")
    sql(f"WITH s AS (SELECT 8 k) INSERT INTO {table} SELECT k, 'h', 8.0, 1, 'v' FROM s")
    assert rows_of(spark, table)[3:] == [
        (5, None, None, 1, "w"),
        (6, None, None, 1, "w"),
        (7, "g", 7.0, 7, "v"),
        (8, "h", 8.0, 1, "v"),
    ]
    sql(f"INSERT OVERWRITE {table} PARTITION (city = 'x') SELECT 9, 'i', 9.0, 1")
    sql(f"INSERT OVERWRITE {table} PARTITION (city = 'v') SELECT 9, 'i', 9.0, 1 WHERE false")
    assert [row[0] for row in rows_of(spark, table)] == [3, 5, 6, 9]
    # The rows that are replaced are read first.
    sql(f"INSERT OVERWRITE {table} SELECT id + 10, name, price, ts, city FROM {table}")
    assert [row[0] for row in rows_of(spark, table)] == [13, 15, 16, 19]


@pytest.mark.parametrize("table_type", ["cow"])
def test_an_operation_says_what_insert_overwrite_takes(spark, sql, setting, table):
    """As in Hudi, where it goes before the mode of the session."""
    setting("hoodie.datasource.write.operation", "insert_overwrite")
    sql(f"INSERT OVERWRITE {table} SELECT 9, 'i', 9.0, 1, 'x'")
    assert [row[0] for row in rows_of(spark, table)] == [3, 9]


@pytest.mark.parametrize("table_type", ["mor"])
def test_one_source_for_several_inserts(spark, sql, table):
    rows = "name, price, ts, city"
    sql(f"FROM {table} INSERT INTO {table} SELECT id + 10, {rows} WHERE id = 1 "
        f"INSERT INTO {table} SELECT id + 20, {rows} WHERE id = 2")  # fmt: skip
    assert [row[0] for row in rows_of(spark, table)] == [1, 2, 3, 11, 22]
    both = f"SELECT id FROM {table} UNION ALL SELECT id FROM {table}"
    assert "Union" in sql(f"EXPLAIN {both}").first()[0]
    with pytest.raises(Exception, match="contradicts table"):
        sql(f"ALTER TABLE {table} SET TBLPROPERTIES (primaryKey = 'name')")


def test_the_highest_of_several_updates_counts(spark, sql, table):
    """As in Hudi; where none is highest, it is an error, see below."""
    source = (
        "SELECT 1 id, 'low' name, 11L ts UNION ALL SELECT 1, 'high', 12L UNION ALL "
        "SELECT 2, 'no', 9L"
    )
    sql(
        f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name, ts = s.ts"
    )
    assert rows_of(spark, table, "id, name, ts") == [(1, "high", 12), (2, "b", 10), (3, "c", 10)]
    with pytest.raises(Exception, match="matched by several rows of the source"):
        sql(
            f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id WHEN MATCHED AND "
            "s.name = 'low' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name, ts = s.ts"
        )


def test_rows_move_between_partitions(spark, sql, table):
    sql(f"UPDATE {table} SET city = 'moved' WHERE id = 3")
    sql(
        f"MERGE INTO {table} t USING (SELECT 1 id, 'far' city) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.city = s.city"
    )
    assert rows_of(spark, table, "id, city") == [(1, "far"), (2, "x"), (3, "moved")]


def test_a_merge_that_reads_its_target(spark, sql, table):
    sql(
        f"MERGE INTO {table} t USING (SELECT id + 1 AS id, name, 1 twice, 2 twice FROM {table}) s "
        "ON t.id = s.id "
        "WHEN MATCHED AND t.id = 2 THEN UPDATE SET name = concat(t.name, s.name) "
        "WHEN NOT MATCHED THEN INSERT (id, name, ts, city) VALUES (id, name, 1, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND name = 'a' THEN UPDATE SET price = 100"
    )
    assert rows_of(spark, table, "id, name, price") == [
        (1, "a", 100.0),
        (2, "ba", 2.5),
        (3, "c", 3.5),
        (4, "c", None),
    ]


WRONG = [
    (
        "MERGE INTO {} t USING (SELECT 1 id, 'n' name, 'm' NAME) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *",
        InvalidDefinition,
        r"several columns 'name'.*>>>\(?SELECT 1",
    ),
    ("INSERT INTO {} VALUES (1, 2)", InvalidInput, "gives 2 columns for 5 of table"),
    ("INSERT INTO {} (id, nope) VALUES (1, 2)", InvalidInput, "has no column 'nope'"),
    ("INSERT INTO {} SELECT true, 'a', 1.0, 1, 'x'", InvalidInput, "boolean cannot be stored"),
    ("UPDATE {} SET nope = 1", InvalidDefinition, "no column 'nope'.*>>>nope = 1"),
    ("UPDATE {} SET id = 9", UnsupportedFeature, "the table's record key"),
    (
        "MERGE INTO {} t USING (SELECT 1 id UNION ALL SELECT 1) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'n'",
        InvalidInput,
        "matched by several rows of the source",
    ),
    (
        "MERGE INTO {} t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 77",
        InvalidInput,
        "another value of its record key",
    ),
    (
        "MERGE INTO {} t USING (SELECT 9 id) s ON t.id = s.id WHEN NOT MATCHED THEN "
        "INSERT (name, ts) VALUES ('n', 1L)",
        InvalidDefinition,
        "no value for id, the table's record key.*>>>",
    ),
    (
        "SELECT id FROM {} TIMESTAMP AS OF 'never'",
        InvalidDefinition,
        "'never' is not a time.*>>>'never'",
    ),
    (
        "SELECT * FROM hudi_table_changes('{}', 'nonsense', 'earliest')",
        InvalidInput,
        "'latest_state' or 'cdc', not 'nonsense'",
    ),
]


def test_what_is_wrong_changes_nothing(lake, spark):
    lake.sql(
        "CREATE TABLE wrong (id INT, name STRING, price DOUBLE, ts BIGINT, city STRING) USING hudi "
        "OPTIONS (primaryKey = 'id', orderingFields = 'ts')"
    )
    lake.sql("INSERT INTO wrong VALUES (1, 'a', 1.5, 10, 'x')")
    before = commits(lake, spark, "wrong")
    for text, kind, message in WRONG:
        with pytest.raises(kind, match=message):
            lake.sql(text.format("wrong")).collect()
        with pytest.raises(Exception, match=message.partition(".*")[0]):
            spark.sql(text.format("wrong")).collect()
    assert commits(lake, spark, "wrong") == before
    lake.sql("DROP TABLE wrong")


def test_names_follow_their_tables(lake, spark, tmp_path):
    with pytest.raises(InvalidInput, match="no record key column 'nope'"):
        lake.sql("CREATE TABLE never (a INT) USING hudi TBLPROPERTIES (primaryKey = 'nope')")
    assert not spark.catalog.tableExists("never")
    place = tmp_path / "made"
    lake.sql(
        f"CREATE TABLE made USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{place}' "
        "PARTITIONED BY (half) AS SELECT id % 2 AS half, id, 'n' AS name FROM range(4)"
    )
    lake.sql(f"CREATE TABLE again USING hudi LOCATION '{place}'")
    lake.sql("INSERT INTO again VALUES (9, 'n', 1)")
    assert [row[0] for row in rows_of(spark, "made", "id")] == [0, 1, 2, 3, 9]
    lake.sql("CREATE TABLE IF NOT EXISTS made (other INT) USING hudi")
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        lake.sql("CREATE TABLE made (other INT) USING hudi TBLPROPERTIES (primaryKey = 'other')")
    with pytest.raises(InvalidInput, match=r"made is not empty.*INSERT INTO"):
        lake.sql(
            f"CREATE TABLE third USING hudi LOCATION '{place}' TBLPROPERTIES (primaryKey = 'id') "
            "AS SELECT 1 AS half, 7L AS id, raise_error('too late') AS name"
        )
    assert not spark.catalog.tableExists("third")
    assert len(rows_of(spark, "made", "id")) == 5
    lake.sql("DROP TABLE again")
    assert (place / ".hoodie").is_dir()
    lake.sql("DROP TABLE made PURGE")
    assert not place.exists()
    with pytest.raises(Exception, match="too late"):
        lake.sql(
            "CREATE TABLE late USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT id, "
            "IF(id < 2, 1, CAST(raise_error('too late') AS INT)) AS x FROM range(4)"
        )
    assert not spark.catalog.tableExists("late")


@pytest.mark.parametrize("table_type", ["mor"])
def test_each_copy_of_a_key_is_a_row_of_its_own(spark, sql, table, monkeypatch):
    sql(f"INSERT INTO {table} VALUES (1, 'copy', 9.0, 12, 'x'), (1, 'third', 8.0, 13, 'x')")
    sql(f"UPDATE {table} SET price = price + 1 WHERE id < 3")
    prices = {(1, "a", 2.5), (1, "copy", 10.0), (1, "third", 9.0), (2, "b", 3.5), (3, "c", 3.5)}
    assert set(rows_of(spark, table, "id, name, price")) == prices
    sql(
        f"MERGE INTO {table} t USING (SELECT 1 id UNION ALL SELECT 5) s ON t.id = s.id "
        "WHEN MATCHED AND t.name = 'copy' THEN DELETE "
        "WHEN MATCHED AND t.name = 'third' THEN UPDATE SET price = 0 "
        "WHEN NOT MATCHED THEN INSERT (id, name, ts, city) VALUES (s.id, 'new', 1, 'q')"
    )
    expected = {(1, "a", 2.5), (1, "third", 0.0), (2, "b", 3.5), (3, "c", 3.5), (5, "new", None)}
    assert set(rows_of(spark, table, "id, name, price")) == expected
    # As for more keys than are asked by their values.
    monkeypatch.setattr(copies, "_FEW", 0)
    sql(f"DELETE FROM {table} WHERE name = 'third'")
    assert set(rows_of(spark, table, "id, name")) == {(1, "a"), (2, "b"), (3, "c"), (5, "new")}


def test_a_change_of_few_rows_takes_few_jobs(lake, spark):
    lake.sql("CREATE TABLE quick (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    lake.sql("INSERT INTO quick VALUES (1, 1), (2, 2)")
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    before = scheduler.numTotalJobs()
    lake.sql("UPDATE quick SET v = v + 1 WHERE id = 1")
    assert scheduler.numTotalJobs() - before <= 6
    assert rows_of(spark, "quick", "id, v") == [(1, 2), (2, 2)]
    lake.sql("DROP TABLE quick")


def test_another_writer_is_not_overwritten(lake, spark, monkeypatch):
    lake.sql("CREATE TABLE raced (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    lake.sql("INSERT INTO raced VALUES (1, 1), (2, 2)")
    chosen = copies.has_copies

    def while_another_writes(table, changed):
        answer = chosen(table, changed)
        table.upsert(spark.sql("SELECT 1 AS id, 100 AS v"))
        return answer

    monkeypatch.setattr(changing, "has_copies", while_another_writes)
    with pytest.raises(CommitConflict, match="another writer was first"):
        lake.sql("UPDATE raced SET v = v + 1")
    assert rows_of(spark, "raced", "id, v") == [(1, 100), (2, 2)]
    lake.sql("DROP TABLE raced")


@pytest.mark.parametrize("table_type", ["mor"])
def test_tables_by_path_and_in_databases(lake, spark, sql, setting, tmp_path):
    path = tmp_path / "by_path"
    lake.create_table("by_path", "id int, v int", path=path, record_key="id")
    sql(f"INSERT INTO hudi.`{path}` VALUES (1, 1), (2, 2)")
    sql(f"UPDATE hudi.`{path}` SET v = 20 WHERE id = 2")
    sql(f"DELETE FROM hudi.`{path}` WHERE id IN (SELECT min(id) FROM by_path)")
    found = sql(f"WITH p AS (SELECT v FROM hudi.`{path}`) SELECT * FROM p").collect()
    assert [row["v"] for row in found] == [20]
    sql("CREATE DATABASE IF NOT EXISTS other")
    sql("CREATE TABLE other.t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    sql("INSERT INTO spark_catalog.other.t SELECT id, v FROM by_path")
    spark.sql("CACHE TABLE other.t")
    assert lake.table("other.t").to_df().count() == 1
    sql("INSERT INTO other.t VALUES (7, 7)")
    assert spark.table("other.t").count() == 2
    assert lake.table("other.t").properties["hoodie.database.name"] == "other"
    # What earlier releases of Hudi had for the operation of INSERT counts by itself only.
    setting("hoodie.sql.insert.mode", "strict")
    with pytest.raises(Exception, match="7"):
        sql("INSERT INTO other.t VALUES (7, 9)")
    setting("hoodie.spark.sql.insert.into.operation", "upsert")
    sql("INSERT INTO other.t VALUES (7, 8)")
    assert rows_of(spark, "other.t", "id, v") == [(2, 20), (7, 8)]
    sql("DROP TABLE other.t")


@newest_only
def test_a_cast_that_fails_is_not_logged_with_a_java_trace(lake, spark, tmp_path):
    """pyspark 4 logs the errors of its own calls, of which lakedex makes some for a statement."""
    spark.sql(
        "CREATE TABLE quiet (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{tmp_path}/quiet'"
    )
    spark.sql("INSERT INTO quiet VALUES (1, 1)")
    loggers = import_module("pyspark.logger").PySparkLogger
    logger, records = loggers.getLogger("SQLQueryContextLogger"), []
    handler = logging.Handler()
    handler.emit = records.append
    logger.addHandler(handler)
    try:
        for run in (spark.sql, lake.sql):
            for statement in (
                "UPDATE quiet SET v = 'nope' WHERE id = 1",
                "INSERT INTO quiet SELECT 2, cast('nope' AS INT)",
                "MERGE INTO quiet t USING (SELECT 1 AS id, 'nope' AS v) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET v = s.v",
            ):
                with pytest.raises(Exception, match=r"CAST_INVALID_INPUT.*'nope'") as error:
                    run(statement)
                assert len(str(error.value)) < 400
        assert not records
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            spark.sql("SELECT cast('x' AS INT)").collect()
        assert len(records) == 1, "what a user's own call makes pyspark log is left alone"
    finally:
        logger.removeHandler(handler)
        spark.sql("DROP TABLE quiet")
