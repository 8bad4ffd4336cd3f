"""EXPLAIN keeps Spark's text, appends what is read of our tables, and runs nothing."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidInput


@pytest.fixture(scope="module")
def table(lake, spark):
    lake.sql(
        "CREATE TABLE explained (id INT, name STRING, city STRING) USING hudi "
        "PARTITIONED BY (city) TBLPROPERTIES (primaryKey = 'id')"
    )
    lake.sql("INSERT INTO explained VALUES (1, 'a', 'oslo'), (2, 'b', 'rome'), (3, 'c', 'rome')")
    yield "explained"
    spark.sql("DROP TABLE explained")


def told(run, text):
    # Of a query that cannot be planned Spark tells the error line by line.
    return "\n".join(row["plan"] for row in run(text).collect())


def test_a_query_tells_files_and_reasons(lake, spark, table):
    for run in (lake.sql, spark.sql):
        for mode in ("", "EXTENDED", "FORMATTED", "COST"):
            text = told(run, f"EXPLAIN {mode} SELECT * FROM {table} WHERE city = 'oslo'")
            plan, _, files = text.partition("== Files ==")
            assert "== Physical Plan ==" in plan
            assert ("== Analyzed Logical Plan ==" in plan) == (mode == "EXTENDED")
            assert "reads 1 of 2 file slices" in files
            first, *others = [line.split("  ") for line in files.splitlines() if " ms  " in line]
            assert [part.strip() for part in first if part][:2] == ["partition values", "2 -> 1"]
            assert "saves " in " ".join(first)
            assert all("not used" in " ".join(line) for line in others)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("INSERT INTO {} SELECT * FROM {} WHERE city = 'rome'", "INSERT INTO"),
        ("INSERT OVERWRITE {} SELECT * FROM {} WHERE city = 'rome'", "INSERT OVERWRITE"),
        ("UPDATE {} SET name = 'x' WHERE city = 'rome'", "UPDATE"),
        ("DELETE FROM {} WHERE city = 'rome'", "DELETE FROM"),
        (
            "MERGE INTO {} t USING (SELECT 2 AS id) s ON t.id = s.id AND t.city = 'rome' "
            "WHEN MATCHED THEN DELETE",
            "MERGE INTO",
        ),
    ],
)
def test_a_statement_tells_what_it_would_read(lake, spark, table, statement, shown):
    before = lake.table(table).snapshot.timeline.completed()
    for run in (lake.sql, spark.sql):
        text = told(run, f"EXPLAIN {statement.replace('{}', table)}")
        assert text.startswith(f"== Statement ==\n{shown} explained: ")
        assert "reads 1 of 2 file slices" in text
    assert len(lake.explain(statement.replace("{}", table)).files) == 1
    assert lake.table(table).snapshot.timeline.completed() == before


def test_nothing_is_done_by_explaining(lake, spark, table):
    for run in (lake.sql, spark.sql):
        assert "== Statement ==" in told(run, f"EXPLAIN DROP TABLE {table}")
        assert "== Statement ==" in told(run, f"EXPLAIN TRUNCATE TABLE {table}")
        text = (
            "EXPLAIN CREATE TABLE never USING hudi TBLPROPERTIES (primaryKey = 'a') AS SELECT 1 a"
        )
        assert "CREATE TABLE AS SELECT" in told(run, text)
        assert not spark.catalog.tableExists("never")
        assert "== Files ==" not in told(run, "EXPLAIN SELECT 1")
        assert "nope" in told(run, f"EXPLAIN SELECT nope FROM {table}")
    with pytest.raises(InvalidInput, match="reads no rows"):
        lake.explain(f"DROP TABLE {table}")
    assert lake.explain("CREATE TABLE never (a INT) USING parquet").scans == ()
    assert not spark.catalog.tableExists("never")
    assert spark.table(table).count() == 3
