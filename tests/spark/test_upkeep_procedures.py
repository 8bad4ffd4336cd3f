"""Tending a table from Spark: methods of the table, and CALL with Hudi's names."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidDefinition, InvalidInput


@pytest.fixture
def table(lake, spark, tmp_path):
    lake.sql(
        "CREATE TABLE tended (id INT, name STRING, ts BIGINT) USING hudi TBLPROPERTIES "
        "(primaryKey = 'id', preCombineField = 'ts', 'hoodie.clean.automatic' = 'false') "
        f"LOCATION '{tmp_path / 'tended'}'"
    )
    for number in range(4):
        lake.sql(f"INSERT INTO tended VALUES ({number}, 'n{number}', 1)")
    yield lake.table("tended")
    spark.sql("DROP TABLE IF EXISTS tended")


def call(lake, text):
    return [row.asDict() for row in lake.sql(f"CALL {text}").collect()]


def names(spark):
    return [row.name for row in spark.sql("SELECT name FROM tended ORDER BY id").collect()]


def test_a_table_is_tended_by_procedures(lake, spark, table):
    times = [each.requested_time for each in table.snapshot.timeline.write_instants()]
    assert call(lake, f"create_savepoint('tended', '{times[1]}', 'me')") == [
        {"create_savepoint_result": True}
    ]
    assert call(lake, "show_savepoints(table => 'tended')") == [{"savepoint_time": times[1]}]
    (done,) = call(lake, "run_clean(table => 'tended', retain_commits => 1)")
    assert done["total_files_deleted"] > 0
    assert done["earliest_commit_to_retain"] == times[-1]
    (shown,) = call(lake, "show_cleans(table => 'tended', showArchived => true)")
    assert shown["total_files_deleted"] == done["total_files_deleted"]
    (plan,) = call(lake, "show_clean_plans(table => 'tended')")
    assert (plan["state"], plan["policy"]) == ("COMPLETED", "KEEP_LATEST_COMMITS")
    assert call(lake, f"rollback_to_instant('tended', '{times[-1]}')") == [
        {"rollback_result": True}
    ]
    assert names(spark) == ["n0", "n1", "n2"]
    (back,) = call(lake, "show_rollbacks(table => 'tended')")
    assert back["rollback_instant"] == times[-1]
    assert call(lake, "rollback_to_savepoint(table => 'tended')") == [
        {"rollback_savepoint_result": True}
    ]
    assert names(spark) == ["n0", "n1"]
    assert call(lake, f"delete_savepoint('tended', '{times[1]}')")
    assert call(lake, "archive_commits(table => 'tended', min_commits => 2, max_commits => 3)")
    assert call(lake, "show_archived_commits(table => 'tended')") == []
    assert table.verify().ok


def test_methods_of_a_table_do_the_same(spark, table):
    saved = table.savepoint(comments="now")
    lasting = names(spark)
    newest = table.upsert(spark.sql("SELECT 9 id, 'nine' name, 5L ts")).instant
    assert table.rollback(newest).instants == (newest,)
    table.upsert(spark.sql("SELECT 8 id, 'eight' name, 5L ts"))
    assert table.clean(options={"hoodie.clean.commits.retained": "1"}).files > 0
    assert len(table.restore(saved.instant).undone) == 1
    table.delete_savepoint(saved.instant)
    assert table.archive().instants == 0
    assert names(spark) == lasting
    assert table.verify().ok


def test_wrong_calls_change_nothing(lake, spark, table):
    before = names(spark)
    with pytest.raises(InvalidInput):
        call(lake, "delete_savepoint('tended', '1')")
    with pytest.raises(InvalidDefinition, match="needs instant_time"):
        call(lake, "rollback_to_instant(table => 'tended')")
    with pytest.raises(InvalidDefinition, match="retain"):
        call(lake, "run_clean(table => 'tended', retain => 1)")
    assert names(spark) == before
