"""CALL with the procedures that users of Hudi know, functions in the place of tables, and names."""

from __future__ import annotations

import json

import pyspark
import pytest

from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.spark.sql.procedures.registry import PROCEDURES, REFUSED

_READS_PARAMETERS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
"""Since when Spark puts values into a statement before it reads it."""


@pytest.fixture(scope="module")
def table(lake, tmp_path_factory):
    """A merge-on-read table with an update and a delete in its logs."""
    place = tmp_path_factory.mktemp("called")
    lake.sql(
        "CREATE TABLE called (id INT, name STRING, ts BIGINT, dt STRING) USING HUDI "
        "PARTITIONED BY (dt) OPTIONS (type = 'mor', primaryKey = 'id', preCombineField = 'ts') "
        f"LOCATION '{place}/called'"
    )
    lake.sql("INSERT INTO called VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'c', 1, 'y')")
    lake.sql("UPDATE called SET name = 'z', ts = '2' WHERE id = 1")
    lake.sql("DELETE FROM called WHERE id = 3")
    yield lake.table("called")
    lake.sql("DROP TABLE called")


@pytest.fixture
def call(lake, table):
    def run(text):
        return [row.asDict() for row in lake.sql(f"CALL {text}").collect()]

    return run


def test_commits_are_told(call, table):
    first, second, third = (
        each.requested_time for each in table.snapshot.timeline.write_instants()
    )
    shown = call("show_commits(table => 'called')")
    assert [row["commit_time"] for row in shown] == [third, second, first]
    assert [row["total_records_written"] for row in shown] == [0, 1, 3]
    by_file = call("show_commits_metadata('called')")
    assert [row["partition"] for row in by_file[:2]] == ["dt=y", "dt=x"]
    (schema,) = call("show_commit_extra_metadata(table => 'called', metadata_key => 'schema')")
    assert schema["instant_time"] == third
    files = call(f"show_commit_files(table => 'called', instant_time => '{first}')")
    assert sum(row["total_records_written"] for row in files) == 3
    (part,) = call(f"show_commit_partitions(table => 'called', instant_time => '{second}')")
    assert (part["partition_path"], part["total_records_updated"]) == ("dt=x", 1)
    (stats,) = call(f"show_commit_write_stats(table => 'called', instant_time => '{first}')")
    assert stats["avg_record_size"] == -(-stats["total_bytes_written"] // 3)
    assert call("stats_wa('called')")[-1]["write_amplification_factor"] == "4.00"
    assert call("show_archived_commits_metadata('called')") == []
    (same,) = call(f"commits_compare(table => 'called', path => '{table.path}')")
    assert "ahead by 0 commits" in same["compare_detail"]
    rows = call("show_timeline(table => 'called', filter => \"state = 'COMPLETED'\", limit => 2)")
    assert [row["instant_time"] for row in rows] == [third, second]


def test_files_are_told(call, table, tmp_path):
    slices = call("show_fsview_latest(table => 'called', partition_path => 'dt=x')")
    assert [row["num_delta_files"] for row in slices] == [1]
    for glob, count in (("dt=*", 2), ("*/", 2), ("dt={x,z}/", 1), ("dt=[w-x]", 1), ("dt=?", 2)):
        assert len(call(f"show_fsview_all(table => 'called', path_regex => '{glob}')")) == count
        assert len(call(f"show_fsview_latest(table => 'called', path_regex => '{glob}')")) == count
    for glob in ("", "*/*", "dt=.*"):
        assert call(f"show_fsview_all(table => 'called', path_regex => '{glob}')") == []
    with pytest.raises(InvalidInput, match="not both"):
        call("show_fsview_latest(table => 'called', path_regex => '*', partition_path => 'dt=x')")
    with pytest.raises(InvalidInput, match="no path pattern"):
        call("show_fsview_all(table => 'called', path_regex => 'dt={x')")
    assert call("stats_file_sizes('called')")[-1]["num_files"] == 2
    name = slices[0]["data_file"].rpartition("/")[2]
    assert call(f"show_file_status(table => 'called', file => '{name}')")[0]["status"] == "exist"
    assert call("show_file_status(table => 'called', file => 'f')")[0]["status"] == "unknown"
    assert call(f"show_invalid_parquet(path => '{table.path}')") == []
    (place,) = call(f"show_fs_path_detail(path => '{table.path}')")
    assert place["storage_size"] > 0
    blocks = call("show_logfile_metadata(table => 'called', log_file_path_pattern => '*.log.*')")
    assert [row["block_type"] for row in blocks] == ["AVRO_DATA_BLOCK", "DELETE_BLOCK"]
    for merge in ("false", "true"):
        pattern = f"log_file_path_pattern => '*dt=x*', merge => {merge}"
        (record,) = call(f"show_logfile_records(table => 'called', {pattern})")
        assert json.loads(record["records"])["name"] == "z"
    ranges = call("show_metadata_table_column_stats(table => 'called', targetColumns => 'id')")
    assert {(row["min_value"], row["max_value"]) for row in ranges} >= {("1", "1"), ("2", "3")}
    overlap = call("show_metadata_column_stats_overlap(table => 'called', targetColumns => 'id')")
    assert [row["Maximum file overlap"] for row in overlap] == [2, 1]
    assert call("validate_metadata_table_files('called')") == []
    assert len(call("validate_metadata_table_files(table => 'called', verbose => true)")) == 4
    (exported,) = call(f"export_instants(table => 'called', local_folder => '{tmp_path}')")
    assert exported["export_detail"].startswith("Exported 3")
    assert len(list(tmp_path.iterdir())) == 3


def test_functions_stand_for_tables(lake, table):
    def rows(text):
        return [tuple(row) for row in lake.sql(text).collect()]

    assert len(rows("SELECT * FROM hudi_query_timeline('called', 'true')")) == 3
    assert len(rows("SELECT * FROM hudi_filesystem_view('called', 'dt=x')")) == 1
    optimized = "SELECT name FROM hudi_query('called', 'read_optimized') ORDER BY id"
    assert rows(optimized) == [("a",), ("b",), ("c",)]
    columns = "SELECT DISTINCT ColumnStatsMetadata.columnName FROM hudi_metadata('called')"
    assert ("id",) in rows(f"{columns} WHERE type = 3")
    assert lake.sql("SELECT * FROM hudi_metadata('called')").columns == [
        "key",
        "type",
        "filesystemMetadata",
        "BloomFilterMetadata",
        "ColumnStatsMetadata",
        "recordIndexMetadata",
        "SecondaryIndexMetadata",
    ]
    missing = "recordIndexMetadata.fileId, SecondaryIndexMetadata.isDeleted"
    assert {*rows(f"SELECT {missing} FROM hudi_metadata('called')")} == {(None, None)}
    with pytest.raises(UnsupportedFeature, match="hudi_vector_search"):
        lake.sql("SELECT * FROM hudi_vector_search('called', 'name', array(1.0), 3)")


def test_wrong_calls_show_the_place(lake, call):
    for text, place in (
        ("show_commits(table => 'called', limit => 'many')", ">>>limit"),
        ("show_commits(table => 'called', nope => 1)", "unknown.*>>>nope"),
        ("show_commits('called', 1, table => 'called')", "twice.*>>>table"),
        ("hive_sync(table => 'called')", "not there.*>>>hive_sync"),
        ("help(1, 2)", "too many.*>>>2"),
    ):
        with pytest.raises(InvalidDefinition, match=place):
            call(text)
    with pytest.raises(InvalidInput, match="is no condition on"):
        call("show_timeline(table => 'called', filter => 'nope = 1')")
    assert not set(PROCEDURES) & set(REFUSED)
    (told,) = lake.sql("CALL help(cmd => 'show_timeline')").collect()
    assert "showArchived" in told["result"]
    assert "rollback_info" in told["result"]
    assert lake.sql("CALL spark_catalog.system.help(cmd => 'help')").count() == 1
    (plan,) = lake.sql("EXPLAIN CALL show_commits(table => 'called')").collect()
    assert "CALL show_commits" in plan[0]


def test_tables_change_by_calls(lake, spark):
    lake.sql("CREATE TABLE freely (name STRING, n INT, dt STRING) USING org.apache.hudi "
             "PARTITIONED BY (dt)")  # fmt: skip
    for _ in range(2):
        lake.sql("INSERT INTO freely VALUES ('a', 1, 'x'), ('b', 2, 'y'), ('c', 3, 'z')")
    lake.sql("UPDATE freely SET n = 9, dt = 'y' WHERE name = 'a'")
    lake.sql("MERGE INTO freely t USING (SELECT 'b' name, 5 n, 'y' dt UNION ALL "
             "SELECT 'd', 6, 'z') s ON t.name = s.name WHEN MATCHED THEN UPDATE SET n = s.n "
             "WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    lake.sql("DELETE FROM freely WHERE name = 'c' AND n = 3")

    def rows(source="freely"):
        found = spark.sql(f"SELECT name, n, dt FROM {source} ORDER BY name, n").collect()
        return [tuple(row) for row in found]

    expected = [("a", 9, "y")] * 2 + [("b", 5, "y")] * 2 + [("d", 6, "z")]
    assert rows() == expected
    lake.sql("CALL copy_to_temp_view(table => 'freely', view_name => 'as_view', replace => true)")
    lake.sql("CALL copy_to_table(table => 'freely', new_table => 'freely_2', columns => 'name')")
    assert rows("as_view") == expected
    assert spark.table("freely_2").columns == ["name"]
    lake.sql("CALL delete_metadata_table(table => 'freely')")
    lake.sql("CALL create_metadata_table(table => 'freely')")
    lake.sql("CALL drop_partition(table => 'freely', partition => 'dt=z')")
    assert rows() == expected[:-1]
    (kept,) = [lake.sql("CALL run_ttl(table => 'freely', retain_days => 5)").collect()]
    assert kept == []
    told = spark.sql("CALL truncate_table(table => 'freely')")
    assert told.columns == ["result", "time_cost"]
    assert [row["result"] for row in told.collect()] == ["SUCCESS"], "it ran once"
    assert rows() == []
    assert spark.sql("INSERT INTO freely VALUES ('a', 1, 'x')").columns == []
    assert not lake.table("freely").verify().problems
    for name in ("freely", "freely_2"):
        spark.sql(f"DROP TABLE {name}")


def test_parameters_have_their_values_from_the_call(lake, spark, table):
    text = "CALL show_commits(table => :name, limit => :most)"
    (row,) = lake.sql(text, {"name": "called", "most": 1}).collect()
    assert [row] == lake.sql("CALL show_commits('called', 1)").collect()
    assert lake.sql("CALL show_commits(?, ?)", ["called", 1]).collect() == [row]
    told = lake.sql(f"EXPLAIN {text}", {"name": "called", "most": 1}).first()[0]
    assert "it runs when it is called" in told
    with pytest.raises(InvalidDefinition, match=r"no value for the parameter most at character 43"):
        lake.sql(text, {"name": "called"})
    with pytest.raises(InvalidDefinition, match=r"the parameter most is a text.*, not list"):
        lake.sql(text, {"name": "called", "most": [1]})
    named, placed = {"name": "called", "most": 1}, ["called", 1]
    if _READS_PARAMETERS:
        assert spark.sql(text, args=named).collect() == [row]
        assert spark.sql("CALL show_commits(?, limit => ?)", args=placed).collect() == [row]
        return
    with pytest.raises(Exception, match=r"the parameter name has its value from lake.sql"):
        spark.sql(text, args=named).collect()
