"""Statements about the table itself: columns, properties, partitions, indexes, procedures."""

from __future__ import annotations

import logging

import pytest
from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from lakedex.errors import InvalidDefinition, InvalidInput, TableNotFound, UnsupportedFeature


@pytest.fixture
def table(table_type, spark, sql):
    """A partitioned table with three rows."""
    name = f"admin_{table_type}"
    sql(
        f"CREATE TABLE {name} (id INT, name STRING, ts BIGINT, city STRING) USING hudi "
        f"PARTITIONED BY (city) OPTIONS (primaryKey='id', orderingFields='ts', type='{table_type}')"
    )
    sql(f"INSERT INTO {name} VALUES (1,'a',10,'x'), (2,'b',10,'x'), (3,'c',10,'y')")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"DROP TABLE IF EXISTS {name}_2")


def values(rows):
    return [tuple(row) for row in rows.collect()]


def test_columns_and_names_change(lake, spark, sql, table):
    sql(f"ALTER TABLE {table} ADD COLUMNS (seats INT, note STRING)")
    sql(f"INSERT INTO {table} VALUES (4, 'd', 1, 7, NULL, 'y')")
    sql(f"ALTER TABLE {table} ALTER COLUMN seats TYPE BIGINT")
    sql(f"UPDATE {table} SET seats = 7000000000, ts = 11 WHERE id = 1")
    expected = [(1, 7_000_000_000, None), (2, None, None), (3, None, None), (4, 7, None)]
    assert values(sql(f"SELECT id, seats, note FROM {table} ORDER BY id")) == expected
    described = {row["col_name"]: row["data_type"] for row in sql(f"DESCRIBE {table}").collect()}
    assert (described["seats"], described["note"]) == ("bigint", "string")
    assert values(sql(f"SHOW PARTITIONS {table}")) == [("city=x",), ("city=y",)]
    assert values(sql(f"DESC {table} PARTITION (city = 'y')")) == values(sql(f"DESC {table}"))
    told = {row[0]: row[1] for row in values(sql(f"DESC EXTENDED {table} PARTITION (city='y')"))}
    assert told["Partition Values"] == "[city=y]"
    assert told["Location"].endswith("/city=y")
    for place in ("", "IN default "):
        (shown,) = sql(f"SHOW TABLE EXTENDED {place}LIKE '{table}' PARTITION (city='y')").collect()
        assert tuple(shown)[:3] == ("default", table, False)
        assert "Partition Values: [city=y]\nLocation: " in shown["information"]
    assert sql(f"SHOW TABLE EXTENDED LIKE '{table}'").first()["tableName"] == table
    sql(f"ALTER TABLE {table} DROP PARTITION (city = 'y')")
    assert values(sql(f"SHOW PARTITIONS {table}")) == [("city=x",)]
    with pytest.raises(Exception, match="no partition city=y"):
        sql(f"DESC {table} PARTITION (city = 'y')")
    with pytest.raises(Exception, match="no partition city=y"):
        sql(f"SHOW TABLE EXTENDED LIKE '{table}' PARTITION (city = 'y')")
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('hoodie.parquet.small.file.limit' = '0')")
    sql(f"ALTER TABLE {table} SET SERDEPROPERTIES ('hoodie.keep.max.commits' = '40')")
    sql(f"ALTER TABLE {table} RENAME TO {table}_2")
    renamed = lake.table(f"{table}_2")
    assert renamed.name == f"{table}_2"
    assert renamed.properties["hoodie.parquet.small.file.limit"] == "0"
    assert renamed.properties["hoodie.keep.max.commits"] == "40"
    sql(f"TRUNCATE TABLE {table}_2")
    assert spark.table(f"{table}_2").count() == 0


def test_partitions_are_named_by_their_values(sql, spark):
    sql("CREATE TABLE numbered (id INT, n INT, p STRING) USING hudi PARTITIONED BY (n, p)")
    sql("INSERT INTO numbered VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'default')")
    assert values(sql("SHOW PARTITIONS numbered PARTITION (n = '01')")) == [("n=1/p=a",)]
    # A folder that may stand for null keeps no other partition from being named.
    sql("INSERT OVERWRITE numbered PARTITION (n = '02', p = 'a') SELECT 9 WHERE false")
    assert sorted(values(sql("SELECT id FROM numbered"))) == [(1,), (3,)]
    sql("ALTER TABLE numbered DROP PARTITION (p = 'default')")
    assert values(sql("SELECT id FROM numbered")) == [(1,)]
    sql("INSERT INTO numbered PARTITION (n = null, p = 'a') SELECT 4")
    assert values(sql("SELECT id FROM numbered WHERE n IS NULL")) == [(4,)]
    sql("INSERT INTO numbered (id, p) VALUES (5, 'b')")
    sql("INSERT INTO numbered BY NAME SELECT 6 AS id")
    where = "SELECT id, p FROM numbered WHERE n IS NULL ORDER BY id"
    assert values(sql(where)) == [(4, "a"), (5, "b"), (6, None)]
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql("INSERT INTO numbered PARTITION (n = 'one', p = 'a') SELECT 5")
    spark.sql("DROP TABLE numbered")


def test_a_declaration_may_not_contradict_the_table_in_its_folder(lake, spark, tmp_path):
    """Hudi accepts and refuses the same types; where it ignores a contradiction it is refused."""
    columns = "id INT, name STRING, price DOUBLE, ts BIGINT, tags ARRAY<INT>"
    place = f"LOCATION '{tmp_path / 'declared'}'"
    key = "primaryKey = 'id', orderingFields = 'ts'"
    spark.sql(
        f"CREATE TABLE declared ({columns}, dt STRING) USING hudi TBLPROPERTIES ({key}) "
        f"PARTITIONED BY (dt) {place}"
    )
    spark.sql("INSERT INTO declared VALUES (1, 'a', 1.5, 10, array(1), 'x')")

    def declare(columns, properties=key, partitions="PARTITIONED BY (dt)", run=spark.sql):
        named = f"({columns}, dt STRING)" if columns else ""
        told = f"TBLPROPERTIES ({properties})" if properties else ""
        run(f"CREATE TABLE again {named} USING hudi {told} {partitions} {place}")

    accepted = [
        (columns, key),
        (columns.replace("name", "NAME").replace("INT,", "BIGINT,", 1), key),
        ("id INT", key),
        ("id INT, price FLOAT, ts INT, tags ARRAY<STRING>, more STRING", ""),
    ]
    for declaration in accepted:
        declare(*declaration)
        assert values(spark.sql("SELECT id, name, ts FROM again")) == [(1, "a", 10)]
        spark.sql("DROP TABLE again")
    declare("", "", "")
    spark.sql("INSERT INTO again VALUES (2, 'b', 2.5, 11, NULL, 'y')")
    assert values(spark.sql("SELECT id FROM declared ORDER BY id")) == [(1,), (2,)]
    spark.sql("DROP TABLE again")
    wrong = [
        ("id INT, name MAP<STRING, STRING>", key, "name is declared as map<string,string>.*string"),
        ("id INT, price DATE", key, "price is declared as date, but .* stores double"),
        ("id INT, tags INT", key, "tags is declared as int, but .* stores array<int>"),
        (columns, "primaryKey = 'name'", "recordkey.field='name' contradicts.*'id'"),
        (columns, "preCombineField = 'price'", "precombine.field='price' contradicts.*'ts'"),
        (columns, "type = 'mor'", "contradicts table declared, which has 'COPY_ON_WRITE'"),
        (
            columns,
            "'hoodie.datasource.write.hive_style_partitioning' = 'false'",
            "hive_style_partitioning='false' contradicts",
        ),
    ]
    for declaration, properties, message in wrong:
        with pytest.raises(Exception, match=message):
            declare(declaration, properties)
        assert not spark.catalog.tableExists("again")
    with pytest.raises(InvalidInput, match=r"partitionBy\(name\) contradicts .* has dt"):
        declare(columns, key, "PARTITIONED BY (name)", lake.sql)


def test_indexes_come_and_go(lake, sql, table):
    key = "id"
    sql(f"CREATE INDEX record_index ON {table} ({key})")
    sql(f"CREATE INDEX IF NOT EXISTS record_index ON {table} ({key})")
    sql(f"CREATE INDEX bloom_filters ON {table} USING bloom_filters ({key})")
    shown = {
        row["index_name"]: row["col_name"] for row in sql(f"SHOW INDEXES FROM {table}").collect()
    }
    assert sql(f"SHOW INDEXES FROM {table}").columns[:3] == ["index_name", "index_type", "col_name"]
    assert shown.keys() == {"bloom_filters", "column_stats", "partition_stats", "record_index"}
    assert shown["column_stats"] == "id,name,ts,city"
    report = lake.table(table).explain("id = 3")
    assert len(report.files) == 1
    assert not lake.table(table).verify().problems
    sql("DROP INDEX bloom_filters")
    sql(f"DROP INDEX record_index ON {table}")
    sql(f"DROP INDEX column_stats ON {table}")
    sql(f"DROP INDEX IF EXISTS column_stats ON {table}")
    sql(f"INSERT INTO {table} VALUES (9, 'z', 1, 'x')")
    assert values(sql(f"SHOW INDEXES IN {table}")) == []
    sql(f"CREATE INDEX column_stats ON {table} (id, name)")
    sql(f"REFRESH INDEX column_stats ON {table}")
    shown = {row["index_name"]: row["col_name"] for row in sql(f"SHOW INDEXES {table}").collect()}
    assert shown["column_stats"] == "id,name"
    assert not lake.table(table).verify().problems


def test_procedures_tell(lake, sql, table):
    commits = sql(f"CALL show_commits(table => '{table}', limit => 5)").collect()
    assert [row["total_records_written"] for row in commits] == [3]
    assert len(values(sql(f"CALL show_fsview_latest('{table}')"))) == 2
    assert values(sql(f"CALL show_metadata_table_partitions('{table}')")) == [
        ("city=x",),
        ("city=y",),
    ]
    assert (
        len(values(sql(f"CALL show_metadata_table_files('{table}', partition => 'city=x')"))) == 1
    )
    assert values(sql(f"CALL show_savepoints('{table}')")) == []
    assert ("hoodie.table.name", table) in values(
        sql(f"CALL show_table_properties('{table}', limit => 99)")
    )
    ((_, groups, state, _),) = values(lake.sql(f"CALL run_clustering(table => '{table}')"))
    assert (groups, state) == (2, "COMPLETED"), "without columns as with Hudi"
    assert len(values(sql(f"CALL show_commits('{table}')"))) == 2


def test_what_only_our_grammar_knows_is_not_logged_as_an_error(lake, table, monkeypatch):
    logged = []
    monkeypatch.setattr(logging.Logger, "handle", lambda _, record: logged.append(record))
    lake.sql(f"SHOW INDEXES FROM {table}")
    lake.sql(f"CALL show_commits('{table}')")
    lake.sql(f"DROP INDEX IF EXISTS nope ON {table}")
    assert [each for each in logged if each.levelno >= logging.WARNING] == []
    with pytest.raises(ParseException, match="INDICES"):
        lake.sql(f"SHOW INDICES FROM {table}")


def test_services_are_planned_and_run(lake, table, table_type):
    sql = lake.sql
    plan = f"CALL run_clustering(table => '{table}', order => 'name,ts', op => 'schedule')"
    ((clustering, groups, state, partitions),) = values(sql(plan))
    assert (groups, state, partitions) == (2, "REQUESTED", "*")
    execute = f"CALL run_clustering(table => '{table}', op => 'execute')"
    assert values(sql(execute)) == [(clustering, 2, "COMPLETED", "*")]
    shown = f"CALL show_clustering(table => '{table}', show_involved_partition => true)"
    assert values(sql(shown)) == [(clustering, 2, "COMPLETED", "city=x,city=y")]
    sql(f"UPDATE {table} SET name = 'z' WHERE id = 1")
    plan = f"SCHEDULE COMPACTION ON {table}"
    path = lake.table(table).path
    told = "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')"
    part = f"CREATE TABLE {table}_2 USING hudi {told} LOCATION "
    if table_type == "cow":
        with pytest.raises(InvalidInput, match="copy-on-write"):
            sql(plan)
        with pytest.raises(InvalidInput, match="is for merge-on-read tables"):
            sql(f"{part}'{path}'")
        return
    with pytest.raises(TableNotFound, match="no Hudi table at"):
        sql(f"{part}'{path}_none'")
    sql(f"{part}'{path}'")
    part = f"SELECT name FROM {table}_2 WHERE id = 1"
    assert values(lake.spark.sql(part)) == [("a",)], "only base files"
    with pytest.raises(UnsupportedFeature, match="name the table itself"):
        sql(f"DELETE FROM {table}_2")
    ((compaction, size, state),) = values(sql(plan))
    assert (size, state) == (1, "REQUESTED")
    run = f"RUN COMPACTION ON {table} AT {compaction}"
    assert values(sql(run)) == [(compaction, 1, "COMPLETED")]
    assert values(sql(f"SHOW COMPACTION ON '{path}'")) == [(compaction, 1, "COMPLETED")]
    assert values(lake.spark.sql(part)) == [("z",)]
    assert values(sql(f"CALL run_compaction('run', '{table}')")) == [], "there is nothing left"
    assert (1, "z") in values(sql(f"SELECT id, name FROM {table}"))
    with pytest.raises(InvalidDefinition, match="op is one of"):
        sql(f"CALL run_compaction(op => 'dance', table => '{table}')")


WRONG = [
    ("CREATE INDEX i ON {} USING hash (name)", UnsupportedFeature, "CREATE INDEX i of kind 'hash'"),
    ("CREATE INDEX i ON {} (id)", InvalidInput, "CREATE INDEX record_index ON"),
    ("CREATE INDEX i ON {} (soundex(name))", UnsupportedFeature, "the function .soundex."),
    ("CREATE INDEX record_index ON {} (name)", InvalidInput, r"is on its key \(id\)"),
    ("DROP INDEX nope ON {}", InvalidInput, "has no index 'nope'"),
    ("DROP INDEX nope", InvalidInput, "no table has an index 'nope'"),
    ("SHOW INDEXES FROM nowhere", InvalidDefinition, "there is no Hudi table 'nowhere'"),
    ("CALL run_wonders('{}')", InvalidDefinition, "no procedure 'run_wonders', only archive"),
    ("CALL show_commits(tabel => '{}')", InvalidDefinition, "'tabel' is unknown.*>>>tabel"),
    ("ALTER TABLE {} DROP COLUMN name", UnsupportedFeature, "DROP COLUMN without a history"),
    ("ALTER TABLE {} RENAME COLUMN name TO n", UnsupportedFeature, "RENAME COLUMN"),
    ("ALTER TABLE {} ALTER COLUMN ts TYPE INT", UnsupportedFeature, "ts from int64 to int32"),
    ("ALTER TABLE {} ADD COLUMNS (NAME INT)", InvalidInput, "there is a column 'name' already"),
    ("ALTER TABLE {} DROP PARTITION (city = 'none')", InvalidInput, "has no partition"),
    (
        "ALTER TABLE {} SET TBLPROPERTIES ('hoodie.table.name' = 'x')",
        InvalidInput,
        "hoodie.table.name was settled",
    ),
]


def test_buckets_of_spark_stay_in_the_catalog_as_in_hudi(lake, spark, caplog):
    layout = "TBLPROPERTIES (primaryKey='id') CLUSTERED BY (id) SORTED BY (n) INTO 4 BUCKETS"
    for run in (lake.sql, spark.sql):
        caplog.clear()
        run(f"CREATE TABLE bucketed (id INT, n INT) USING hudi {layout}")
        assert "changes none of its files" in caplog.text
        run("INSERT INTO bucketed VALUES (1, 1), (2, 2)")
        spark.createDataFrame([(2, 3)], "id int, n int").write.insertInto("bucketed")
        run("MERGE INTO bucketed b USING (SELECT 1 id, 9 n) s ON b.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *")  # fmt: skip
        found = run("SELECT b.id, c.n FROM bucketed b JOIN bucketed c USING (id) WHERE b.id = 1")
        assert values(found) == [(1, 9)]
        assert "INTO 4 BUCKETS" in run("SHOW CREATE TABLE bucketed").first()[0]
        assert len(values(run("CALL show_fsview_latest('bucketed')"))) == 1
        run("DROP TABLE bucketed")
        run(f"CREATE TABLE bucketed USING hudi {layout} AS SELECT 1 AS id, 2 AS n")
        assert values(run("SELECT id, n FROM bucketed")) == [(1, 2)]
        run("DROP TABLE bucketed")


def test_comments_of_columns_are_told(lake, spark, sql, table):
    sql(f"ALTER TABLE {table} ADD COLUMNS (seats INT COMMENT 'how many', note STRING)")
    assert values(sql(f"DESC {table} seats"))[-1] == ("comment", "how many")
    assert values(sql(f"DESC {table} note"))[-1] == ("comment", "NULL")
    assert spark.table(table).schema["seats"].metadata == {"comment": "how many"}
    assert spark.table(table).where("seats IS NULL AND city = 'x'").count() == 2


def test_what_is_wrong_is_named(lake, spark):
    lake.sql(
        "CREATE TABLE wrongly (id INT, name STRING, ts BIGINT, city STRING) USING hudi "
        "PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id')"
    )
    lake.sql("INSERT INTO wrongly VALUES (1, 'a', 1, 'x')")
    for text, kind, message in WRONG:
        with pytest.raises(kind, match=message):
            lake.sql(text.format("wrongly"))
        with pytest.raises(Exception, match=message):
            spark.sql(text.format("wrongly"))
    assert len(values(spark.sql("CALL show_commits('wrongly')"))) == 1
    lake.sql("DROP TABLE wrongly")


def test_statements_of_others_pass(lake, spark, tmp_path):
    for run in (lake.sql, spark.sql):
        run(f"CREATE TABLE plain (a INT) USING parquet LOCATION '{tmp_path / 'plain'}'")
        run("INSERT INTO plain VALUES (1)")
        assert values(run("SELECT * FROM plain")) == [(1,)]
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
            run("SELEC 1")
        run("DROP TABLE plain")
        for file in (tmp_path / "plain").glob("*"):
            file.unlink()


def test_the_catalog_makes_a_table_that_can_be_used(lake, spark, tmp_path):
    columns = StructType().add("id", "string").add("n", "long")
    spark.catalog.createTable("by_catalog", source="hudi", schema=columns, primaryKey="id")
    spark.sql("INSERT INTO by_catalog VALUES ('a', 1)")
    assert [tuple(row) for row in spark.sql("SELECT id, n FROM by_catalog").collect()] == [("a", 1)]
    assert lake.table("by_catalog").snapshot.config.record_key_fields == ("id",)
    path = lake.table("by_catalog").path
    spark.catalog.createTable("by_path", path=path, source="hudi")
    assert spark.table("by_path").count() == 1
    with pytest.raises(Exception, match="nobody"):
        spark.catalog.createTable("wrong", source="hudi", schema=columns, primaryKey="nobody")
    assert not spark.catalog.tableExists("wrong")
    for name in ("by_path", "by_catalog"):
        lake.sql(f"DROP TABLE {name}")
