"""What Hudi's own SQL tests of procedures expect, on small tables that several cases share."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.errors import (
    CommitConflict,
    InvalidDefinition,
    InvalidInput,
    LakedexError,
    UnsupportedFeature,
)
from lakedex.spark.sql.procedures.registry import PROCEDURES, REFUSED
from lakedex.storage.open import StorageAddress
from lakedex.txn.lock import LockOptions, open_lock

PLAIN = "id int, name string, price double, ts bigint"


@pytest.fixture
def make(make_table):
    """Make a table of these columns unless others are given."""
    return lambda name, rows, columns=PLAIN, **more: make_table(name, columns, rows, **more)


@pytest.fixture
def call(spark):
    return lambda text: spark.sql(f"CALL {text}").collect()


def rows_of(count: int) -> list[str]:
    return [f"({n}, 'a{n}', {n * 10}, {1000 + n})" for n in range(1, count + 1)]


def at_once(count: int) -> list[str]:
    """The same rows in one INSERT."""
    return [", ".join(rows_of(count))]


def test_archived_commits_and_options_of_archiving(make, call, lake, spark):
    path = make("old", rows_of(4), **{"hoodie.metadata.enable": "false"})
    (gone,) = {row[0] for row in spark.sql("SELECT _hoodie_file_name FROM old").collect()}
    back, undone = undo_newest(call, path, gone)
    for row in rows_of(7)[4:]:
        spark.sql(f"INSERT INTO old VALUES {row}")
    with pytest.raises(InvalidInput, match="must be less than"):
        lake.sql(
            "CALL archive_commits(table => 'old', max_commits => 3, "
            "options => 'hoodie.keep.min.commits=4')"
        )
    limits = "hoodie.keep.min.commits=2, hoodie.keep.max.commits=3"
    done = call(
        f"archive_commits(table => 'old', retain_commits => 1, options => '{limits}', "
        "enable_metadata => false)"
    )
    assert [tuple(row) for row in done] == [(0,)]
    active = call("show_commits(table => 'old', limit => 10)")
    assert len(active) == 2
    newest = active[0]["commit_time"]
    old = call(f"show_archived_commits(table => 'old', end_ts => '{newest}')")
    assert len(old) == 4
    between = f"start_ts => '{old[-1]['commit_time']}', end_ts => '{newest}'"
    assert 0 < len(call(f"show_archived_commits(table => 'old', {between})")) <= 4
    files = call(f"show_archived_commits_metadata(table => 'old', end_ts => '{newest}')")
    assert {row["commit_time"] for row in files} == {row["commit_time"] for row in old}
    assert all(row["num_writes"] > 0 for row in files)
    # A rollback that is archived says what it took back, and which files it removed.
    every = call("show_timeline(table => 'old', showArchived => true, limit => 99)")
    archived = {row["instant_time"]: row for row in every if row["timeline_type"] == "ARCHIVED"}
    assert archived[back]["rollback_info"] == f"Rolled back: {undone}"
    assert all(row["inflight_time"] and row["completed_time"] for row in archived.values())
    assert len(every) == len(archived) + 2
    assert {row["timeline_type"] for row in call("show_timeline(table => 'old')")} == {"ACTIVE"}
    span = f"startTime => '{min(archived)}', endTime => '{back}', limit => 1"
    assert len(call(f"show_timeline(table => 'old', showArchived => true, {span})")) == 4
    assert call(f"show_timeline(table => 'old', {span})") == []
    (status,) = call(f"show_file_status(table => 'old', file => '{gone}')")
    assert tuple(status) == ("deleted", "rollback", back, "archived", "")


def undo_newest(call, path: str, gone: str) -> tuple[str, str]:
    """Roll the newest of four commits back, and see it on the timeline; both times."""

    def told(more: str = "") -> dict[str, str]:
        found = call(f"show_timeline(table => 'old'{more})")
        return {row["instant_time"]: row["rollback_info"] for row in found}

    def status(file: str) -> tuple:
        return tuple(*call(f"show_file_status(table => 'old', file => '{file}')"))

    assert status(gone) == ("exist", "", "", "active", f"{path}/{gone}")
    undone = max(told())
    assert tuple(*call(f"rollback_to_instant(table => 'old', instant_time => '{undone}')")) == (
        True,
    )
    times = sorted(told())
    back = times[-1]
    assert {time: info for time, info in told().items() if info} == {back: f"Rolled back: {undone}"}
    between = f", startTime => '{times[1]}', endTime => '{times[2]}'"
    assert sorted(told(f"{between}, limit => 1")) == times[1:3]
    assert sorted(told(f", startTime => '{times[1]}', limit => 2")) == times[2:]
    assert told(f", startTime => '{times[2]}', endTime => '{times[1]}'") == {}
    assert len(told(", startTime => ' ', endTime => '', filter => '  '")) == 4
    assert status(gone) == ("deleted", "rollback", back, "active", "")
    assert status("unknown") == ("unknown", "", "", "", "")
    return back, undone


def test_commits_with_files_metadata_and_filters(make, call, lake):
    path = make("told", rows_of(3))
    other = make("told_too", rows_of(2))
    commits = call("show_commits(table => 'told', limit => 10)")
    assert len(commits) == 3
    assert len(call(f"show_commits(path => '{path}')")) == 3
    time = commits[0]["commit_time"]
    (file,) = call(f"show_commit_files(table => 'told', instant_time => '{time}')")
    assert file["total_records_written"] == 3
    (stats,) = call(f"show_commit_write_stats(table => 'told', instant_time => '{time}')")
    assert stats["total_bytes_written"] > 0
    (extra,) = call(
        f"show_commit_extra_metadata(table => 'told', instant_time => '{time}', "
        "metadata_key => 'schema')"
    )
    assert extra["metadata_key"] == "schema"
    assert len(call("show_commits_metadata(table => 'told', limit => 1)")) == 1
    assert len(call(f"show_commit_partitions(table => 'told', instant_time => '{time}')")) == 1
    with pytest.raises(InvalidInput, match="19700101000000000"):
        lake.sql("CALL show_commit_files(table => 'told', instant_time => '19700101000000000')")
    assert len(call(f"commits_compare(table => 'told', path => '{other}')")) == 1
    for text, missing in (
        ("show_commits(limit => 10)", "table"),
        ("commits_compare(table => 'told')", "path"),
        ("rollback_to_instant(table => 'told')", "instant_time"),
        ("show_rollback_detail(table => 'told')", "instant_time"),
        ("delete_marker(table => 'told')", "instant_time"),
        ("show_fsview_all(limit => 10)", "table"),
    ):
        with pytest.raises(InvalidDefinition, match=missing):
            lake.sql(f"CALL {text}")
    assert tuple(*call(f"rollback_to_instant(table => 'told', instant_time => '{time}')")) == (
        True,
    )
    second = commits[1]["commit_time"]
    assert tuple(*call(f"rollback_to_instant('told', '{second}')")) == (True,)
    assert len(call("show_commits(table => 'told', limit => 10)")) == 1
    backs = call("show_rollbacks(table => 'told', limit => 10)")
    assert len(backs) == 2
    assert len(call(f"show_rollback_detail(table => 'told', instant_time => '{backs[1][0]}')")) == 1
    for instant in ("101", "102"):
        marker = (
            Path(path) / ".hoodie/.temp" / instant / f"f0_1-0-1_{instant}.parquet.marker.APPEND"
        )
        marker.parent.mkdir(parents=True)
        marker.touch()
    assert tuple(*call("delete_marker(table => 'told', instant_time => '101,102')")) == (True,)
    assert not list((Path(path) / ".hoodie/.temp").glob("10*/*"))


def test_file_views_of_tables_with_and_without_partitions(make, call, lake):
    make("flat", rows_of(2))
    assert len(call("show_fsview_all(table => 'flat', limit => 10)")) == 2
    assert len(call("show_fsview_all(table => 'flat', path_regex => '')")) == 2
    assert len(call("show_fsview_latest(table => 'flat', path_regex => '')")) == 1
    columns = "id int, name string, ts bigint, day string, hh string"
    make("empty_view", [], columns=columns, by="day, hh")
    assert call("show_fsview_all(table => 'empty_view')") == []
    rows = [
        "(1, 'a', 1, 'd1', 'h1'), (2, 'b', 2, 'd1', 'h2'), (4, 'd', 4, 'd2', 'h1')",
        "(3, 'c', 3, 'd1', 'h2')",
    ]
    limit = {"hoodie.parquet.small.file.limit": "0"}
    path = make("by_hour", rows, columns=columns, by="day, hh", **limit)
    for glob, count in (("day=d1/*/", 3), ("day=d1/hh=h2/", 2), ("*/*/", 4), ("*/", 0)):
        found = call(f"show_fsview_latest(table => 'by_hour', path_regex => '{glob}')")
        assert len(found) == count, glob
    for condition, count in (
        ("0 < data_file_size", 4),
        ("data_file_size >= 0.0", 4),
        ("data_file_size > 9999999999.0", 0),
    ):
        found = call(f"show_fsview_all(table => 'by_hour', filter => '{condition}')")
        assert len(found) == count, condition
    check_invalid_files(call, lake, path)


def check_invalid_files(call, lake, path):
    """What is called a Parquet file and is none: found by folder, removed if it is no data."""
    show = f"show_invalid_parquet(path => '{path}'"
    assert call(f"{show})") == []
    strays = [Path(path, folder, "1.parquet") for folder in ("day=d1/hh=h1", "day=d1/hh=h2")]
    for stray in strays:
        stray.write_bytes(b"1")
    assert [row["path"] for row in call(f"{show})")] == [str(stray) for stray in strays]
    for folders, count in (("day=d1", 2), ("day=d1/hh=h1,day=d2/hh=h1", 1), ("day=d", 0)):
        assert len(call(f"{show}, partitions => '{folders}')")) == count, folders
    assert len(call(f"{show}, limit => 1)")) == 1
    data = next(Path(path, "day=d2/hh=h1").glob("*.parquet"))
    whole = data.read_bytes()
    data.write_bytes(b"1")
    with pytest.raises(LakedexError, match=data.name):
        lake.sql(f"CALL {show}, needDelete => true)")
    assert all(each.exists() for each in (*strays, data))
    data.write_bytes(whole)
    assert call(f"{show}, needDelete => true)") == []
    assert not any(stray.exists() for stray in strays)
    assert lake.table("by_hour").to_df().count() == 4


def test_procedures_about_the_metadata_table(make, call):
    columns = (
        "c1 int, c2 boolean, c3 binary, c4 date, c5 decimal(10,1), c6 double, c7 float, "
        "c8 bigint, c9 string, c10 timestamp"
    )
    day = "DATE'{0}', 10.5, {1}, CAST({2} AS FLOAT)"
    first = day.format("2021-01-01", "3.14D", "2.5")
    second = day.format("2022-02-02", "6.28D", "3.14")
    rows = [
        f"(1, true, CAST('b' AS BINARY), {first}, 1000, 'one', TIMESTAMP'2021-01-01 00:00:00'), "
        f"(10, false, CAST('b' AS BINARY), {second}, 2000, 'a', TIMESTAMP'2022-02-02 00:00:00')",
    ]
    make("ranges", rows, columns=columns, primaryKey="c1", orderingFields="c8")
    expected = {
        "c1": ("1", "10"),
        "c2": ("false", "true"),
        "c6": ("3.14", "6.28"),
        "c7": ("2.5", "3.14"),
        "c8": ("1000", "2000"),
        "c9": ("a", "one"),
    }
    for number in range(1, 11):
        name = f"c{number}"
        found = call(
            f"show_metadata_table_column_stats(table => 'ranges', targetColumns => '{name}')"
        )
        assert len(found) == 1, name
        if name in expected:
            assert (found[0]["min_value"], found[0]["max_value"]) == expected[name]
    overlap = "show_metadata_column_stats_overlap(table => 'ranges', targetColumns => 'c1', filter"
    assert len(call(f"{overlap} => '`Average overlap` >= 0.0')")) == 1
    assert call(f"{overlap} => '`Average overlap` < 0.0')") == []
    make("parted", at_once(2), by="ts")
    parts = call("show_metadata_table_partitions(table => 'parted')")
    assert len(parts) == 2
    files = f"show_metadata_table_files(table => 'parted', partition => '{parts[0][0]}'"
    assert len(call(f"{files})")) == 1
    assert call(f"{files}, limit => 0)") == []
    assert call("validate_metadata_table_files(table => 'parted')") == []
    assert len(call("validate_metadata_table_files(table => 'parted', verbose => true)")) == 2
    assert len(call("init_metadata_table(table => 'parted', read_only => true)")) == 1
    assert len(call("init_metadata_table(table => 'parted')")) == 1
    assert len(call("delete_metadata_table(table => 'parted,ranges')")) == 1
    for name in ("parted", "ranges"):
        assert len(call(f"create_metadata_table(table => '{name}')")) == 1


def test_syntax_of_indexes(make, spark, lake):
    make("syntax", at_once(2), by="ts", type="mor")
    for text in (
        "CREATE INDEX idx_ts ON syntax (id)",
        "CREATE INDEX record_index ON syntax (ts)",
        "CREATE INDEX record_index ON syntax (id, ts)",
    ):
        with pytest.raises(InvalidInput, match=r"record_index|on its key"):
            lake.sql(text)
    spark.sql("CREATE INDEX record_index ON syntax (id)")
    spark.sql("DROP INDEX record_index ON syntax")
    spark.sql("CREATE INDEX record_index ON syntax USING record_index(id)")
    spark.sql("CREATE INDEX up ON syntax USING column_stats(name OPTIONS (expr='upper'))")
    spark.sql("CREATE INDEX low ON syntax USING bloom_filters(name) OPTIONS (expr='lower')")
    shown = {row["index_name"]: row for row in spark.sql("SHOW INDEXES IN syntax").collect()}
    assert shown["expr_index_up"]["index_type"] == "column_stats"
    assert shown["expr_index_low"]["index_type"] == "bloom_filters"
    assert shown["record_index"]["index_type"] == "record_index"
    with pytest.raises(InvalidInput, match="make an index of its own on name"):
        lake.sql("CREATE INDEX both ON syntax (name OPTIONS (expr='upper'), price)")
    with pytest.raises(InvalidInput, match="is 'true' and 'false'"):
        lake.sql(
            "CREATE INDEX both ON syntax (name OPTIONS ('lakedex.covering'='true'), "
            "price OPTIONS ('lakedex.covering'='false'))"
        )
    with pytest.raises(InvalidInput, match=r"desc|order"):
        lake.sql("CREATE INDEX sorted ON syntax (price OPTIONS (`order`='desc'))")
    made = spark.sql(
        "CREATE INDEX both ON syntax (name OPTIONS ('lakedex.covering'='true'), price)"
    ).collect()
    assert [row["detail"] for row in made] == ["built"]
    spark.sql("REFRESH INDEX both ON syntax")
    spark.sql("DROP INDEX IF EXISTS nothing ON syntax")
    spark.sql("DROP INDEX both ON syntax")
    found = spark.sql("SELECT id FROM syntax WHERE upper(name) = 'A2'").collect()
    assert [row["id"] for row in found] == [2]
    make("two_keys", at_once(2), primaryKey="id,price", by="ts")
    for columns in ("price", "id, ts"):
        with pytest.raises(InvalidInput, match="on its key"):
            lake.sql(f"CREATE INDEX record_index ON two_keys ({columns})")
    with pytest.raises(InvalidInput, match="record key of table"):
        lake.sql("CREATE INDEX mine ON two_keys (price, id)")
    spark.sql("CREATE INDEX record_index ON two_keys (id, price)")
    assert lake.table("two_keys").verify().ok


def test_savepoints_by_table_and_path(make, call, spark):
    path = make("saved", rows_of(3))
    times = sorted(row[0] for row in call("show_commits(table => 'saved')"))
    assert tuple(*call(f"create_savepoint('saved', '{times[0]}', 'admin', '1')")) == (True,)
    for time in times[1:]:
        more = f"commit_time => '{time}', user => 'admin', comments => '2'"
        assert tuple(*call(f"create_savepoint(path => '{path}', {more})")) == (True,)
    assert len(call("show_savepoints(table => 'saved')")) == 3
    assert tuple(*call(f"delete_savepoint('saved', '{times[2]}')")) == (True,)
    assert [row[0] for row in call(f"show_savepoints(path => '{path}')")] == [times[1], times[0]]
    (newest,) = {row[0] for row in spark.sql("SELECT _hoodie_file_name FROM saved").collect()}
    assert tuple(*call(f"rollback_to_savepoint('saved', '{times[1]}')")) == (True,)
    (status,) = call(f"show_file_status(table => 'saved', file => '{newest}')")
    assert tuple(status)[:2] == ("deleted", "restore")
    by_path = f"path => '{path}', instant_time => "
    assert tuple(*call(f"delete_savepoint({by_path}'{times[1]}')")) == (True,)
    assert tuple(*call(f"rollback_to_savepoint({by_path}'{times[0]}')")) == (True,)
    assert [row["id"] for row in spark.sql("SELECT id FROM saved").collect()] == [1]


def test_statistics_cleaning_and_truncating(make, call, lake, spark):
    columns = "id int, price double, name string, ts bigint"
    rows = ["(1, 10, 'a1', 1000)", "(2, 20, 'a2', 1500)"]
    make("sized", rows, columns=columns, by="name, ts")
    for glob, count in (("", 3), ("a1/*", 1), ("/a1/*", 1), ("name=a1/*", 2), ("/name=a?/*", 3)):
        found = call(f"stats_file_sizes(table => 'sized', partition_path => '{glob}')")
        assert len(found) == count, glob
    with pytest.raises(InvalidInput, match="has 1 levels"):
        lake.sql("CALL stats_file_sizes(table => 'sized', partition_path => '/*')")
    make("cleaned", rows_of(1))
    for price in (11, 12, 13):
        spark.sql(f"UPDATE cleaned SET price = {price} WHERE id = 1")
    assert len(call("stats_wa(table => 'cleaned')")) == 5
    for glob in ("", "*", "/*"):
        sizes = call(f"stats_file_sizes(table => 'cleaned', partition_path => '{glob}')")
        assert len(sizes) == 5, glob
    (clean,) = call("run_clean(table => 'cleaned', retain_commits => 1)")
    assert clean["total_files_deleted"] == 2
    assert len(call("show_cleans(table => 'cleaned')")) == 1
    assert len(call("show_cleans_metadata(table => 'cleaned')")) == 1
    assert [tuple(row) for row in spark.sql("SELECT id, price FROM cleaned").collect()] == [(1, 13)]
    call("truncate_table(table => 'sized', partitions => 'name=a1/ts=1000')")
    assert [row["id"] for row in spark.sql("SELECT id FROM sized").collect()] == [2]
    policy = "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1"
    call(f"run_clean(table => 'sized', {policy})")
    assert [row["id"] for row in spark.sql("SELECT id FROM sized").collect()] == [2]
    call("truncate_table(table => 'cleaned')")
    assert spark.sql("SELECT id FROM cleaned").collect() == []


def test_compactions_are_planned_run_and_shown(make, call, lake, spark):
    path = make("compacted", at_once(2), type="mor")
    at = f"path => '{path}'"
    assert call(f"run_compaction(op => 'run', {at})") == []
    assert call(f"show_compaction({at})") == []
    spark.sql("UPDATE compacted SET price = 11 WHERE id = 1")
    (planned,) = call("run_compaction(op => 'schedule', table => 'compacted')")
    assert [tuple(row) for row in call("show_compaction('compacted')")] == [tuple(planned)]
    (pending,) = call("show_timeline(table => 'compacted', filter => \"state = 'REQUESTED'\")")
    assert (pending["action"], pending["completed_time"]) == ("compaction", None)
    with pytest.raises(InvalidInput, match="12345"):
        lake.sql(f"CALL run_compaction(op => 'run', {at}, timestamp => 12345)")
    with pytest.raises(InvalidInput, match="000000"):
        lake.sql("CALL run_compaction(table => 'compacted', op => 'execute', instants => '000000')")
    done = call(f"run_compaction(op => 'run', {at}, timestamp => {planned[0]})")
    assert [tuple(row) for row in done] == [(*planned[:2], "COMPLETED")]
    assert len(call(f"show_compaction({at})")) == 1
    spark.sql("UPDATE compacted SET price = 12 WHERE id = 1")
    strategy = "hoodie.compaction.strategy=org.apache.hudi.table.action.compact.strategy."
    few = f"{strategy}LogFileNumBasedCompactionStrategy,hoodie.compaction.logfile.num.threshold=3"
    more = "hoodie.compact.inline.max.delta.commits=1"
    call_options = f"options => '{few},{more}'"
    assert call(f"run_compaction(table => 'compacted', op => 'run', {call_options})") == []
    again = f"op => 'scheduleAndExecute', options => '{more}'"
    assert len(call(f"run_compaction(table => 'compacted', {again})")) == 1
    prices = spark.sql("SELECT id, price FROM compacted ORDER BY id").collect()
    assert [tuple(row) for row in prices] == [(1, 12.0), (2, 20.0)]
    assert {row["action"] for row in call("show_timeline(table => 'compacted')")} == {
        "deltacommit",
        "commit",
    }


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_secondary_indexes_of_an_external_table(make, spark, lake, kind):
    columns, name = "id int, name string, price int, ts bigint", f"outside_{kind}"
    payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    properties = {
        "type": kind,
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.index.secondary.enable": "true",
        "hoodie.datasource.write.payload.class": payload,
    }
    path = make(name, ["(1, 'a1', 10, 1000)"], columns=columns, by="ts", **properties)
    spark.sql(f"DROP TABLE {name}")
    flag = "'hoodie.metadata.record.index.enable' = 'true'"
    spark.sql(f"CREATE TABLE {name} USING hudi OPTIONS ({flag}) LOCATION '{path}'")
    spark.sql(f"INSERT INTO {name} VALUES (2, 'a2', 10, 1001)")

    def shown() -> set[tuple[str, str, str]]:
        rows = spark.sql(f"SHOW INDEXES FROM default.{name}").collect()
        return {tuple(row)[:3] for row in rows if row["index_type"] == "secondary_index"}

    assert shown() == set()
    spark.sql(f"CREATE INDEX idx_name ON {name} (name)")
    spark.sql(f"CREATE INDEX idx_price ON {name} (price)")
    with pytest.raises(InvalidInput, match="already"):
        lake.sql(f"CREATE INDEX idx_price ON {name} (price)")
    on_name = ("secondary_index_idx_name", "secondary_index", "name")
    on_price = ("secondary_index_idx_price", "secondary_index", "price")
    assert shown() == {on_name, on_price}
    keys = spark.sql(
        f"SELECT key, SecondaryIndexMetadata.isDeleted FROM hudi_metadata('{path}') WHERE type = 7"
    ).collect()
    assert {tuple(row) for row in keys} == {
        (key, False) for key in ("a1$1", "a2$2", "10$1", "10$2")
    }
    assert spark.sql(f"SELECT key FROM hudi_metadata('{path}') WHERE type = 5").count() == 2
    first = lake.table(name).snapshot.timeline.write_instants()[1].requested_time
    spark.sql(f"UPDATE {name} SET name = 'b2' WHERE id = 2")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    for condition, found in (("name = 'a2'", []), ("name = 'b2'", [2]), ("price = 10", [2])):
        rows = spark.sql(f"SELECT id FROM {name} WHERE {condition}").collect()
        assert [row["id"] for row in rows] == found, condition
    before = f"SELECT id FROM {name} TIMESTAMP AS OF '{first}' WHERE name LIKE 'a%'"
    assert sorted(row["id"] for row in spark.sql(before).collect()) == [1, 2]
    for overwrite in (
        f"INSERT OVERWRITE {name} PARTITION (ts = 1001) SELECT 5, 'e5', 50",
        f"ALTER TABLE {name} DROP PARTITION (ts = 1001)",
    ):
        spark.sql(overwrite)
        assert lake.table(name).verify().ok
    spark.sql(f"DROP INDEX idx_name ON {name}")
    assert shown() == {on_price}
    with pytest.raises(InvalidInput, match="no index 'idx_name'"):
        lake.sql(f"DROP INDEX idx_name ON {name}")
    spark.sql(f"CREATE INDEX idx_name ON {name} (name)")
    for index in ("idx_name", "idx_price", "record_index", "column_stats"):
        spark.sql(f"DROP INDEX {index} ON {name}")
    spark.sql(f"DROP INDEX IF EXISTS partition_stats ON {name}")
    assert spark.sql(f"SHOW INDEXES FROM {name}").collect() == []
    with pytest.raises(InvalidInput, match="field_not_exist"):
        lake.sql(f"CREATE INDEX idx_price_1 ON {name} (field_not_exist)")


def test_a_secondary_index_of_a_table_with_generated_keys(make, spark, lake):
    columns = "ts bigint, id string, rider string, city string, state string"
    rows = "(1, 'trip2', 'rider-C', 'sunnyvale', 'ca'), (2, 'trip5', 'rider-A', 'paris', 'tx')"
    path = make("keyless", [rows], columns=columns, by="state", type="mor", primaryKey="")
    spark.sql("CREATE INDEX idx_city ON keyless (city)")
    spark.sql("UPDATE keyless SET city = 'rome' WHERE rider = 'rider-C'")
    expected = {
        f"{row[1]}${row[0]}"
        for row in spark.sql("SELECT _hoodie_record_key, city FROM keyless").collect()
    }
    found = spark.sql(f"SELECT key FROM hudi_metadata('{path}') WHERE type = 7").collect()
    assert {row["key"] for row in found} == expected
    assert [r["id"] for r in spark.sql("SELECT id FROM keyless WHERE city = 'rome'").collect()] == [
        "trip2"
    ]
    assert lake.table("keyless").verify().ok


def test_partitions_are_dropped_by_pattern_and_list(make, call, spark):
    columns = "id int, name string, ts bigint, year string, month string, day string"
    days = [("08", "31"), ("08", "30"), ("08", "29"), ("07", "31")]
    rows = ", ".join(
        f"({n}, 'n', {n}, '2019', '{m}', '{day}')" for n, (m, day) in enumerate(days, 1)
    )
    make("by_day", [], columns=columns, by="year, month, day")
    policy = "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1"
    for pattern, left in (
        ("year=2019/month=08/*", [4]),
        ("year=2019/*", []),
        ("year=2019/month=08/day=31,year=2019/month=08/day=30", [3, 4]),
        ("year=2019/month=08/day=29", [4]),
    ):
        if len(spark.sql("SELECT id FROM by_day").collect()) < 2:
            spark.sql(f"INSERT OVERWRITE TABLE by_day VALUES {rows}")
        call(f"drop_partition(table => 'by_day', partition => '{pattern}')")
        found = sorted(row["id"] for row in spark.sql("SELECT id FROM by_day").collect())
        assert found == left, pattern
    call(f"run_clean(table => 'by_day', {policy})")
    assert [row["id"] for row in spark.sql("SELECT id FROM by_day").collect()] == [4]


def test_tables_are_copied(make, call, lake, spark):
    make("copied", rows_of(3))
    times = [each.completion_time for each in lake.table("copied").snapshot.timeline.completed()]
    copies = []

    def copy(target: str, more: str = "") -> list[int]:
        copies.append(target)
        assert tuple(*call(f"copy_to_table(table => 'copied', new_table => '{target}'{more})")) == (
            0,
        )
        return sorted(row["id"] for row in spark.sql(f"SELECT id FROM {target}").collect())

    try:
        assert copy("copy_all") == [1, 2, 3]
        assert copy("copy_all", ", save_mode => 'append'") == [1, 1, 2, 2, 3, 3]
        assert copy("copy_all", ", save_mode => 'Overwrite'") == [1, 2, 3]
        assert copy("copy_names", ", columns => 'id,name'") == [1, 2, 3]
        assert spark.table("copy_names").columns == ["id", "name"]
        second = lake.table("copied").snapshot.timeline.completed()[1].requested_time
        snapshot = f", query_type => 'snapshot', as_of_instant => '{second}'"
        assert copy("copy_then", snapshot) == [1, 2]
        limits = f", begin_instance_time => '{times[0]}', end_instance_time => '{times[2]}'"
        assert copy("copy_news", f", query_type => 'incremental'{limits}") == [2, 3]
        for more, message in (
            ("", "new_table"),
            (", new_table => 'x', query_type => 'incremental'", "instance_time"),
            (", new_table => 'x', save_mode => 'append1'", "append1"),
        ):
            with pytest.raises((InvalidDefinition, InvalidInput), match=message):
                lake.sql(f"CALL copy_to_table(table => 'copied'{more})")
        call("copy_to_temp_view(table => 'copied', view_name => 'copied_view')")
        assert spark.sql("SELECT count(*) AS n FROM copied_view").first()["n"] == 3
    finally:
        for each in copies:
            spark.sql(f"DROP TABLE IF EXISTS {each}")


def test_properties_and_plans_of_cleans_are_repaired(make, call, lake, spark, tmp_path):
    path = Path(make("mended", rows_of(1)))
    file = path / ".hoodie/hoodie.properties"
    before = lake.table("mended").snapshot.config.raw
    new = tmp_path / "new.properties"
    repair = f"repair_overwrite_hoodie_props(table => 'mended', new_props_file_path => '{new}')"
    new.write_bytes(file.read_bytes() + b"hoodie.my.company.thing=here\n")
    shown = {row["property"]: tuple(row)[1:] for row in call(repair)}
    assert shown["hoodie.my.company.thing"] == ("null", "here")
    assert shown["hoodie.table.type"] == ("COPY_ON_WRITE", "COPY_ON_WRITE")
    assert lake.table("mended").properties["hoodie.my.company.thing"] == "here"
    new.write_bytes(file.read_bytes().replace(b"hoodie.table.version=9", b"hoodie.table.version=6"))
    with pytest.raises(InvalidInput, match="CALL upgrade_table"):
        lake.sql(f"CALL {repair}")
    new.write_text("\n".join(f"{name}={value}" for name, value in before.items()))
    assert ("hoodie.my.company.thing", "here", "null") in {tuple(row) for row in call(repair)}
    assert lake.table("mended").snapshot.config.raw == before
    spark.sql("INSERT INTO mended VALUES (2, 'a2', 20, 1002)")
    times = ["20200101000000000", "20200101000000001"]
    plans = [path / f".hoodie/timeline/{time}.clean.requested" for time in times]
    for plan in plans:
        plan.touch()
    pending = "show_timeline(table => 'mended', filter => \"state != 'COMPLETED'\")"
    assert {row["action"] for row in call(pending)} == {"clean"}
    assert tuple(*call("repair_corrupted_clean_files(table => 'mended')")) == (True,)
    assert not any(plan.exists() for plan in plans)
    assert call(pending) == []
    assert sorted(row["id"] for row in spark.sql("SELECT id FROM mended").collect()) == [1, 2]


def test_copies_of_a_key_are_removed_from_a_partition(make, call, lake, spark, tmp_path):
    rows = ["(1, 'old', 1, 5), (2, 'only', 1, 5), (3, 'other', 1, 6)", "(1, 'new', 2, 5)"]
    options = {"hoodie.metadata.record.index.enable": "true", "type": "mor"}
    make("doubled", rows, by="ts", **options)
    selected = "SELECT id, name, ts FROM doubled"
    before = sorted(map(tuple, spark.sql(selected).collect()))
    assert len(before) == 4
    place = tmp_path / "repaired"
    repair = (
        "repair_deduplicate(table => 'doubled', repaired_output_path => "
        f"'{place}', duplicated_partition_path => "
    )
    for wrong in ("'ts=5', dedupe_type => 'some_type'", "'ts=9'"):
        with pytest.raises(InvalidInput, match=r"some_type|ts=9"):
            lake.sql(f"CALL {repair}{wrong})")
    (result,) = call(f"{repair}'ts=5')")
    assert str(place) in result["result"]
    kept = spark.read.parquet(str(place)).select("id", "name").collect()
    assert sorted(map(tuple, kept)) == [(1, "new"), (2, "only")]
    assert sorted(map(tuple, spark.sql(selected).collect())) == before
    call(f"{repair}'ts=5', dry_run => false, dedupe_type => 'upsert_type')")
    left = [(1, "new", 5), (2, "only", 5), (3, "other", 6)]
    assert sorted(map(tuple, spark.sql(selected).collect())) == left
    found = spark.sql(f"{selected} WHERE id = 2").collect()
    assert [tuple(row) for row in found] == left[1:2]
    assert lake.table("doubled").verify().ok


def test_help_and_the_grammar_of_calls(make, call, lake, spark):
    make("spoken", rows_of(1))
    (every,) = call("help()")
    (same,) = call("help")
    assert every == same
    for name, procedure in PROCEDURES.items():
        assert name in every[0]
        (told,) = call(f"help(cmd => '{name}')")
        assert all(parameter in told[0] for parameter in procedure.parameters), name
    for name in REFUSED:
        with pytest.raises(InvalidDefinition, match=name):
            lake.sql(f"CALL {name}(table => 'spoken')")
    spark.conf.set("spark.extra.prop", "spoken")
    try:
        assert len(call("system.show_commits('${spark.extra.prop}');")) == 1
    finally:
        spark.conf.unset("spark.extra.prop")
    for wrong in ("CALL cat.system radish kebab", "CALL show_commits(table => 'spoken'"):
        with pytest.raises(Exception, match=r"CALL|call|radish|yntax|\)"):
            lake.sql(wrong)
    for name in ("show_cleans", "show_clean_plans", "show_cleans_metadata"):
        assert call(f"{name}(table => 'spoken')") == []
        with pytest.raises(LakedexError, match="not_there"):
            lake.sql(f"CALL {name}(table => 'not_there')")


def test_services_that_lost_their_commit_are_taken_back(make, call, spark, rows):
    path = make("undone", at_once(3), PLAIN, by="ts", type="mor", orderingFields="")
    timeline = Path(path, ".hoodie/timeline")
    spark.sql("UPDATE undone SET price = 11 WHERE id = 1")
    expected = rows("SELECT id, price FROM undone")

    def lose(action: str) -> str:
        (complete,) = timeline.glob(f"*.{action}")
        complete.unlink()
        return complete.name.split("_")[0]

    call("run_compaction(op => 'schedule', table => 'undone')")
    call("run_compaction(op => 'run', table => 'undone')")
    lost = lose("commit")
    back = f"run_rollback_inflight_tableservice(table => 'undone', pending_instant => '{lost}'"
    assert len(call(f"{back}, delete_request_instant_file => true)")) == 1
    assert not list(timeline.glob(f"{lost}.compaction.*"))
    call("run_clustering(op => 'schedule', table => 'undone')")
    call("run_clustering(op => 'execute', table => 'undone')")
    lost = lose("replacecommit")
    back = f"run_rollback_inflight_tableservice(table => 'undone', pending_instant => '{lost}'"
    assert len(call(f"{back})")) == 1
    assert [each.name for each in timeline.glob(f"{lost}.*")] == [f"{lost}.clustering.requested"]
    assert rows("SELECT id, price FROM undone") == expected
    assert lakedex.open(path).verify().ok


def test_partition_files_and_versions_of_tables(make, call, lake):
    path = make("parts", at_once(2), by="ts")
    assert [tuple(row) for row in call("repair_add_partition_meta(table => 'parts')")] == [
        ("ts=1001", "Yes", "None"),
        ("ts=1002", "Yes", "None"),
    ]
    Path(path, "ts=1001/.hoodie_partition_metadata").unlink()
    for dry_run, action in (("true", "None"), ("false", "Repaired")):
        shown = call(f"repair_add_partition_meta(table => 'parts', dry_run => {dry_run})")
        assert tuple(shown[0]) == ("ts=1001", "No", action)
    assert tuple(call("repair_add_partition_meta(table => 'parts')")[0])[1] == "Yes"
    assert [
        tuple(row) for row in call("upgrade_table(table => 'parts', to_version => 'NINE')")
    ] == [(True,)]
    for text, message in (
        ("upgrade_table(table => 'parts', to_version => 'ONE')", "only to NINE"),
        ("upgrade_table(table => 'parts')", "needs to_version"),
        ("downgrade_table(table => 'parts', to_version => 'SIX')", "version 9 only"),
        ("run_bootstrap(table => 'parts')", "CREATE TABLE"),
    ):
        with pytest.raises(LakedexError, match=message):
            lake.sql(f"CALL {text}")


def test_conditions_on_what_cleans_did(make, call, lake, spark, setting):
    setting("hoodie.clean.automatic", "false")
    make("cleans", at_once(2))
    shows = ("show_cleans", "show_clean_plans", "show_cleans_metadata")
    assert [call(f"{show}(table => 'cleans')") for show in shows] == [[], [], []]
    spark.sql("UPDATE cleans SET price = 10 WHERE id = 1")
    for price in (11, 12):
        spark.sql(f"UPDATE cleans SET price = {price} WHERE id = 1")
        call("run_clean(table => 'cleans', retain_commits => 1)")
    first = call("show_cleans(table => 'cleans')")[-1]["clean_time"]
    for condition, count in (
        (f"clean_time = '{first}' AND action = 'clean'", 1),
        (f"clean_time > '{first}'", 1),
        ("total_files_deleted >= 1 AND time_taken_in_millis >= 0", 2),
        (f"clean_time IN ('{first}', 'x') OR (version IS NULL AND length(action) = 3)", 1),
        ("upper(action) LIKE 'CL%' AND NOT total_files_deleted BETWEEN 100 AND 200", 2),
    ):
        assert len(call(f"show_cleans(table => 'cleans', filter => \"{condition}\")")) == count
    for condition in ("nope > 1", "clean_time >"):
        with pytest.raises(LakedexError, match="no condition on clean_time"):
            lake.sql(f"CALL show_cleans(table => 'cleans', filter => \"{condition}\")")
    for show in shows:
        assert len(call(f"{show}(table => 'cleans', limit => 1)")) == 1
        with pytest.raises(LakedexError, match="no Hudi table 'nowhere'"):
            lake.sql(f"CALL {show}(table => 'nowhere')")


def test_services_wait_for_the_lock_and_say_nothing_of_the_session(
    make, call, lake, setting, caplog
):
    path = make("locked", rows_of(2), type="mor")
    setting("hoodie.write.set.null.for.missing.columns", "true")
    setting("hoodie.metadata.enable", "true")
    waits = "options => 'hoodie.write.lock.wait_time_ms=1,hoodie.write.lock.client.num_retries=0'"
    calls = [f"run_{each}(op => 'schedule', table => 'locked', {waits})" for each in (
        "clustering", "compaction"
    )]  # fmt: skip
    calls.append(f"run_clean(table => 'locked', {waits})")
    with open_lock(StorageAddress.of(path).open(), LockOptions()):
        for each in calls:
            with pytest.raises(CommitConflict, match="is held by"):
                lake.sql(f"CALL {each}")
    caplog.clear()
    for each in calls:
        call(each)
    assert "no effect on a clean" not in caplog.text
    binary = (
        "org.apache.hudi.client.clustering.run.strategy.SparkBinaryCopyClusteringExecutionStrategy"
    )
    option = f"hoodie.clustering.execution.strategy.class={binary}"
    with pytest.raises(UnsupportedFeature, match="SparkBinaryCopy"):
        lake.sql(f"CALL run_clustering(table => 'locked', options => '{option}')")
