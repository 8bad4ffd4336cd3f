"""What Hudi's own SQL tests expect of expression indexes, clustering and table-valued functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakedex.errors import InvalidDefinition, InvalidInput, LakedexError

DAY = "USING column_stats(ts) OPTIONS (expr='from_unixtime', format='yyyy-MM-dd')"
TIMES = {1: 1601098924, 2: 1632634924, 3: 1664170924, 5: 1727329324}
"""Seconds of 26 September of 2020, 2021, 2022 and 2024."""


@pytest.fixture
def rows(spark):
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_expression_indexes_are_made_kept_up_and_dropped(make_table, spark, lake, rows, kind):
    table = f"days_{kind}"
    path = make_table(
        table,
        "id int, name string, ts bigint, price string",
        [f"({id_}, 'a{min(id_, 2)}', {TIMES[id_]}, '{10 * max(1, id_ - 1)}')" for id_ in (1, 2, 3)],
        by="price",
        type=kind,
        **{
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.metadata.record.index.enable": "true",
        },
    )
    spark.sql(f"CREATE INDEX idx_datestr ON {table} {DAY}")
    spark.sql(f"CREATE INDEX idx_name ON {table} USING column_stats(name) OPTIONS (expr='upper')")
    for wrong, message in (
        (f"CREATE INDEX i ON {table} USING column_stat(ts)", "column_stat"),
        (f"CREATE INDEX i ON {table} USING column_stats(ts) OPTIONS (expr='random')", "random"),
        (
            f"CREATE INDEX idx_name ON {table} USING column_stats(ts) OPTIONS (expr='year')",
            "lready",
        ),
    ):
        with pytest.raises(LakedexError, match=message):
            lake.sql(wrong)
    ranges = (
        "SELECT ColumnStatsMetadata.columnName, ColumnStatsMetadata.minValue.member6.value, "
        "ColumnStatsMetadata.maxValue.member6.value, ColumnStatsMetadata.isDeleted FROM "
        f"hudi_metadata('{table}') WHERE type = 3"
    )
    first = {
        ("ts", "2020-09-26", "2021-09-26", False),
        ("ts", "2022-09-26", "2022-09-26", False),
        ("name", "A1", "A2", False),
        ("name", "A2", "A2", False),
    }
    assert {*rows(ranges)} == first
    assert {*rows(ranges.replace(f"'{table}'", f"'{path}'"))} == first
    assert {row[:3] for row in rows(ranges.replace("type = 3", "type = 6"))} == {
        row[:3] for row in first
    }
    spark.sql(f"INSERT INTO {table} VALUES (5, 'a5', {TIMES[5]}, '50')")
    spark.sql(f"UPDATE {table} SET name = 'a3' WHERE id = 1")
    day = "from_unixtime(ts, 'yyyy-MM-dd')"
    for condition, found in (
        (f"{day} IN ('2024-09-26', '2022-09-26')", [3, 5]),
        (f"{day} >= '2022-09-26'", [3, 5]),
        (f"{day} < '2021-01-01'", [1]),
        ("upper(name) = 'A3'", [1]),
        ("upper(name) < 'A3'", [2, 3]),
    ):
        ids = sorted(each[0] for each in rows(f"SELECT id FROM {table} WHERE {condition}"))
        assert ids == found, condition
    assert ("ts", "2024-09-26", "2024-09-26", False) in rows(ranges)
    assert "A3" in {high for _, _, high, _ in rows(ranges)}
    assert lake.table(table).verify().ok
    spark.sql(f"DROP INDEX idx_datestr ON {table}")
    left = {each[0] for each in rows(f"SHOW INDEXES FROM {table}")}
    assert left == {"expr_index_idx_name", "record_index"}
    assert rows(f"SELECT id FROM {table} WHERE {day} = '2024-09-26'") == [(5,)]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_clustering_of_some_partitions(make_table, lake, rows, kind):
    table, columns = f"clustered_{kind}", "id int, name string, price double, ts bigint"
    path = make_table(table, columns, by="ts", type=kind)
    assert rows(f"CALL run_clustering(path => '{path}')") == []
    assert rows(f"CALL show_clustering(path => '{path}')") == []
    lake.sql(
        f"INSERT INTO {table} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1001), (3, 'a3', 10, 1002)"
    )
    with pytest.raises(InvalidInput, match="partition"):
        lake.sql(f"CALL run_clustering(table => '{table}', predicate => 'ts <= 1001L and id = 10')")
    named = f"table => '{table}', order => 'ts', show_involved_partition => true"
    ((instant, groups, state, parts),) = rows(
        f"CALL run_clustering({named}, predicate => 'ts <= 1001L')"
    )
    assert (groups, state, parts) == (2, "COMPLETED", "ts=1000,ts=1001")
    ((_, groups, _, parts),) = rows(
        f"CALL run_clustering({named}, predicate => 'ts > 1001L and ts <= 1005L')"
    )
    assert (groups, parts) == (1, "ts=1002")
    shown = rows(f"CALL show_clustering(table => '{table}', show_involved_partition => true)")
    assert (instant, 2, "COMPLETED", "ts=1000,ts=1001") in shown
    assert len(shown) == 2
    check_runs_of_planned_clusterings(lake, rows, table, Path(path, ".hoodie/timeline"))
    assert sorted(rows(f"SELECT id FROM {table}")) == [(1,), (2,), (3,)]


def check_runs_of_planned_clusterings(lake, rows, table, timeline):
    """Plans are run by their times, all or none; of a run that is undone the plan stays."""
    run = f"CALL run_clustering(table => '{table}', "
    plans = [
        rows(f"{run}op => 'schedule', selected_partitions => 'ts={ts}')")[0][0]
        for ts in (1000, 1001)
    ]
    chosen = f"instants => '{','.join(plans)}'"
    for op in ("schedule", "scheduleAndExecute"):
        with pytest.raises(InvalidDefinition, match="planned already"):
            lake.sql(f"{run}{chosen}, op => '{op}')")
    with pytest.raises(InvalidInput, match="no clustering 000000 pends, so none was run"):
        lake.sql(f"{run}instants => '{plans[0]}, 000000')")
    assert [each[2] for each in rows(f"{run}{chosen})")] == ["COMPLETED", "COMPLETED"]
    next(timeline.glob(f"{plans[1]}_*.replacecommit")).unlink()
    named = f"table => '{table}', pending_instant => '{plans[1]}'"
    undo = f"CALL run_rollback_inflight_tableservice({named}"
    assert [each[0] for each in rows(f"{undo})")] == [plans[1]]
    assert sorted(each.name for each in timeline.glob(f"{plans[1]}*")) == [
        f"{plans[1]}.clustering.requested"
    ]
    rows(f"{undo}, delete_request_instant_file => true)")
    assert list(timeline.glob(f"{plans[1]}*")) == []


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_functions_in_the_place_of_tables(make_table, spark, lake, rows, kind):
    table, columns = f"functions_{kind}", "id int, name string, price double, ts bigint"
    path = make_table(
        table,
        columns,
        ["(1, 'a1', 10, 1000), (2, 'a2', 20, 1000)"],
        type=kind,
        **{"hoodie.table.cdc.enabled": "true"},
    )
    action = "commit" if kind == "cow" else "deltacommit"
    timeline = (
        "SELECT action, state, total_files_updated, total_partitions_written, "
        "total_records_written, total_updated_records_written, total_write_errors FROM "
        f"hudi_query_timeline('{table}', 'true') ORDER BY timestamp"
    )
    assert rows(timeline) == [(action, "COMPLETED", 0, 1, 2, 0, 0)]
    optimized = f"SELECT id, name FROM hudi_query('{table}', 'read_optimized') ORDER BY id"
    assert rows(optimized) == [(1, "a1"), (2, "a2")]
    spark.sql(f"UPDATE {table} SET name = concat(name, '_x'), ts = 1100")
    updated = [(1, "a1_x"), (2, "a2_x")]
    assert rows(optimized) == (updated if kind == "cow" else [(1, "a1"), (2, "a2")])
    spark.sql(f"UPDATE {table} SET name = 'last', ts = 1200")
    first, second = (
        each.completion_time for each in lake.table(table).snapshot.timeline.write_instants()[:2]
    )
    for identifier in (table, path):
        changes = f"SELECT id, name FROM hudi_table_changes('{identifier}', 'latest_state', "
        assert len(rows(f"{changes}'earliest')")) == 2
        assert sorted(rows(f"{changes}'{first}', '{second}')")) == updated
    found = rows(
        f"SELECT op, before, after FROM hudi_table_changes('{table}', 'cdc', '{first}', '{second}')"
    )
    assert {(op, json.loads(old)["name"], json.loads(new)["name"]) for op, old, new in found} == {
        ("u", "a1", "a1_x"),
        ("u", "a2", "a2_x"),
    }
    assert len(rows(f"SELECT * FROM hudi_filesystem_view('{path}')")) == 1
    parted = make_table(
        f"{table}_p",
        "id int, name string, price double",
        ["(1, 'a1', 10.0), (2, 'a2', 20.0)"],
        by="price",
        type=kind,
        orderingFields="",
    )
    paths = f"SELECT Partition_Path FROM hudi_filesystem_view('{parted}', 'price*')"
    assert sorted(rows(paths)) == [("price=10.0",), ("price=20.0",)]


TEXTS = {
    "hour": ("at", "", "hour(at) >= 12", [2, 4]),
    "date_format": ("at", "format='yyyy-MM'", "date_format(at, 'yyyy-MM') = '2022-05'", [3]),
    "date_add": ("day", "days='10'", "date_add(day, 10) > date'2022-06-01'", [3]),
}
"""Functions of dates and times whose column is a text: column, options, condition, rows."""


def test_functions_of_dates_whose_column_is_a_text(make_table, spark, lake, rows):
    make_table(
        "spelled",
        "id int, day string, at string, ts bigint",
        [
            "(1, '2020-01-15', '2020-01-15 01:30:00', 1)",
            "(2, '2021-03-01', '2021-03-01 13:00:00', 1)",
            "(3, '2022-05-31', '2022-05-31 09:00:00', 1)",
            "(4, null, '2023-07-01 23:59:59', 1)",
        ],
        type="mor",
        **{"hoodie.parquet.small.file.limit": "0"},
    )
    selected = "SELECT id FROM spelled WHERE "
    without = {name: sorted(rows(selected + case[2])) for name, case in TEXTS.items()}
    assert without == {name: [(each,) for each in case[3]] for name, case in TEXTS.items()}
    for name, (column, options, _, _) in TEXTS.items():
        given = f"expr='{name}'" + (f", {options}" if options else "")
        spark.sql(
            f"CREATE INDEX t_{name} ON spelled USING column_stats({column}) OPTIONS ({given})"
        )
    spark.sql("UPDATE spelled SET ts = 2 WHERE id = 2")
    table = lake.table("spelled")
    for name, (_, _, condition, found) in TEXTS.items():
        assert sorted(rows(selected + condition)) == without[name], name
        report = table.explain(condition)
        assert len(report.files) == len(found), (name, report)
    assert table.verify().ok


def test_a_record_index_for_each_partition_or_for_all(make_table, spark, lake, rows):
    table = "by_key"
    make_table(
        table,
        "id string, v int, ts bigint, p string",
        ["('k1', 1, 1, 'p1'), ('k2', 2, 1, 'p2'), ('k3', 3, 1, 'p1')"],
        by="p",
        type="mor",
        **{"hoodie.metadata.index.column.stats.enable": "false"},
    )
    conditions = (
        "id = 'k1'",
        "id IN ('k1', 'k2', 'nothing')",
        "_hoodie_record_key = 'k3'",
        "id = 'nothing'",
        "id > 'k1'",
        "id = 'k1' OR ts >= 0",
        "id = 'k1' AND p = 'p2'",
    )
    without = {each: sorted(rows(f"SELECT id, v FROM {table} WHERE {each}")) for each in conditions}
    for value in ("true", "false"):
        spark.sql(f"CREATE INDEX record_index ON {table} (id) OPTIONS (isPartitioned = '{value}')")
        definition = lake.table(table).snapshot.definitions["record_index"]
        assert definition.is_partitioned is (value == "true")
        for each in conditions:
            found = sorted(rows(f"SELECT id, v FROM {table} WHERE {each}"))
            assert found == without[each], (value, each)
        assert lake.table(table).verify().ok
        spark.sql(f"DROP INDEX record_index ON {table}")
    with pytest.raises(InvalidInput, match="isPartitioned"):
        lake.sql(f"CREATE INDEX idx_v ON {table} (v) OPTIONS (isPartitioned = 'true')")
