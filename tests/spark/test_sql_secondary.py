"""Secondary indexes by SQL and by the table's own verbs, built and kept up in Spark jobs."""

from __future__ import annotations

import threading

import pytest

from lakedex.errors import InvalidInput
from tests.spark.test_pruning_shown import shown

PROPERTIES = (
    "primaryKey='uuid', orderingFields='ts', type='mor', "
    "'hoodie.metadata.record.index.enable'='true', 'hoodie.index.type'='RECORD_INDEX', "
    "'hoodie.metadata.global.record.level.index.min.filegroup.count'='2', "
    "'hoodie.metadata.global.record.level.index.max.filegroup.count'='2'"
)
NAME = "secondary_index_idx_rider"


def test_a_secondary_index_from_first_to_last(lake, spark, tmp_path):
    sql = spark.sql
    sql(
        "CREATE TABLE trips_si (uuid string, ts bigint, rider string, fare double, city string) "
        f"USING hudi TBLPROPERTIES ({PROPERTIES}) PARTITIONED BY (city) LOCATION '{tmp_path}/t'"
    )
    sql(
        "INSERT INTO trips_si VALUES ('a1', 1, 'ann', 1.5, 'oslo'), ('a2', 1, 'ann', 2.5, 'rio'), "
        "('b1', 1, 'bob', 3.5, 'oslo'), ('c1', 1, null, 4.5, 'lima')"
    )
    sql("CREATE INDEX idx_rider ON trips_si (RIDER)")
    sql("CREATE INDEX IF NOT EXISTS idx_rider ON TABLE trips_si USING secondary_index (rider)")
    with pytest.raises(InvalidInput, match="already"):
        lake.sql("CREATE INDEX idx_rider ON trips_si (city)")
    shown = {row["index_name"]: row for row in sql("SHOW INDEXES FROM trips_si").collect()}
    assert (shown[NAME]["col_name"], shown[NAME]["index_type"]) == ("rider", "secondary_index")
    trips = lake.table("trips_si")

    def found(condition: str) -> list[str]:
        rows = sql(f"SELECT uuid FROM trips_si WHERE {condition}").collect()
        return sorted(row["uuid"] for row in rows)

    assert found("rider = 'ann'") == ["a1", "a2"]
    assert len(trips.explain("rider = 'bob'").files) == 1
    sql("UPDATE trips_si SET rider = 'zoe' WHERE uuid = 'a1'")
    sql("DELETE FROM trips_si WHERE uuid = 'b1'")
    sql(
        "MERGE INTO trips_si t USING (SELECT 'c1' uuid, 5L ts, 'ann' rider, 'lima' city) s "
        "ON t.uuid = s.uuid WHEN MATCHED THEN UPDATE SET rider = s.rider, ts = s.ts"
    )
    assert found("rider = 'ann'") == ["a2", "c1"]
    assert found("rider in ('zoe', 'bob')") == ["a1"]
    assert found("rider <=> null") == []
    assert trips.verify().ok
    sql("REFRESH INDEX idx_rider ON trips_si")
    trips.create_index("idx_fare", "fare", using="secondary_index", options={}, wait=True)
    assert trips.verify().ok
    build = trips.create_index("idx_city", "city", wait=False)
    sql("UPDATE trips_si SET rider = 'eve' WHERE uuid = 'a1'")
    assert build.wait(120)
    sql("CREATE INDEX idx_ts ON trips_si (ts) OPTIONS ('hoodie.metadata.index.async' = 'true')")
    moment = threading.Event()
    while "building" in {each.state for each in trips.indexes()}:
        moment.wait(0.1)
    assert "secondary_index_idx_ts" in {each.name for each in trips.indexes()}
    assert found("ts = 5") == ["c1"]
    assert found("city = 'rio'") == ["a2"]
    assert trips.verify().ok
    sql("DROP INDEX idx_city ON trips_si")
    sql("DROP INDEX idx_ts ON trips_si")
    sql("DROP INDEX idx_rider ON trips_si")
    sql("DROP INDEX idx_fare")
    sql("DROP INDEX IF EXISTS idx_rider ON trips_si")
    assert not [each.name for each in trips.indexes() if each.kind == "secondary_index"]
    assert found("rider = 'ann'") == ["a2", "c1"]


# case B17: secondary index without record index
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_statement_of_rfc_77_on_a_plain_table_builds_both_indexes(lake, spark, tmp_path, kind):
    sql, table = spark.sql, f"plain_{kind}"
    sql(
        f"CREATE TABLE {table} (id int, last_name string) USING hudi "
        f"TBLPROPERTIES (primaryKey='id', type='{kind}') LOCATION '{tmp_path}/t'"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    create, no = (
        f"CREATE INDEX idx_last_name ON {table} (last_name)",
        "record.index.enable'='false'",
    )
    with pytest.raises(InvalidInput, match="needs a record index"):
        lake.sql(f"{create} OPTIONS ('hoodie.metadata.{no})")
    spark.conf.set("hoodie.metadata.record.index.enable", "false")
    try:
        with pytest.raises(InvalidInput, match="needs a record index"):
            lake.sql(create)
    finally:
        spark.conf.unset("hoodie.metadata.record.index.enable")
    commits = len(lake.table(table).snapshot.timeline.completed())
    name = "secondary_index_idx_last_name"
    rows = [tuple(row) for row in (lake.sql if kind == "cow" else sql)(create).collect()]
    assert rows == [(name, "built"), ("record_index", f"built, because {name} needs it")]
    assert len(lake.table(table).snapshot.timeline.completed()) == commits + 1
    assert sql(create.replace("INDEX", "INDEX IF NOT EXISTS")).collect() == []
    for column in ("id", "ID"):
        with pytest.raises(InvalidInput, match="record key of table"):
            lake.sql(f"CREATE INDEX my_key ON {table} ({column})")
    sql(f"UPDATE {table} SET last_name = 'c' WHERE id = 1")
    found = sql(f"SELECT id FROM {table} WHERE last_name = 'c'").collect()
    assert [row["id"] for row in found] == [1]
    assert lake.table(table).verify().ok
    sql(f"DROP INDEX idx_last_name ON {table}")
    shown = {row["index_name"] for row in sql(f"SHOW INDEXES FROM {table}").collect()}
    assert "record_index" in shown
    assert name not in shown


def test_a_property_of_the_table_refuses_the_record_index_that_another_needs(lake, tmp_path):
    sql, no = lake.sql, "'hoodie.metadata.global.record.level.index.enable' = 'false'"
    sql(
        "CREATE TABLE refusing (id int, last_name string) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', {no}) LOCATION '{tmp_path}/t'"
    )
    sql("INSERT INTO refusing VALUES (1, 'a')")
    create = "CREATE INDEX idx_last_name ON refusing (last_name)"
    with pytest.raises(InvalidInput, match="needs a record index"):
        sql(create)
    sql("CREATE INDEX record_index ON refusing (id)")
    sql(create)
    sql("INSERT INTO refusing VALUES (2, 'b')")
    assert lake.table("refusing").verify().ok
    sql("DROP TABLE refusing")


def test_an_index_on_two_columns_from_first_to_last(lake, spark, tmp_path):
    sql = spark.sql
    sql(
        "CREATE TABLE two_si (uuid string, ts bigint, rider string, city string, day string) "
        f"USING hudi TBLPROPERTIES ({PROPERTIES}) PARTITIONED BY (day) LOCATION '{tmp_path}/t'"
    )
    sql(
        "INSERT INTO two_si VALUES ('a1', 1, 'ann', 'oslo', 'd1'), ('a2', 1, 'ann', 'rio', 'd2'), "
        "('b1', 1, 'bob', 'oslo', 'd3'), ('c1', 1, null, 'oslo', 'd4')"
    )
    sql("CREATE INDEX idx_both ON two_si (city, RIDER)")
    listed = {
        row["index_name"]: row["col_name"] for row in sql("SHOW INDEXES FROM two_si").collect()
    }
    assert listed["secondary_index_composite-idx_both"] == "city,rider"
    sql("UPDATE two_si SET rider = 'ann' WHERE uuid = 'b1'")
    both = "city = 'oslo' AND rider = 'ann'"
    found = sql(f"SELECT uuid FROM two_si WHERE {both}").collect()
    assert sorted(row["uuid"] for row in found) == ["a1", "b1"]
    trips = lake.table("two_si")
    assert len(trips.explain(both).files) == 2
    assert trips.estimate_index(["city", "rider"]).column == "city, rider"
    assert trips.verify().ok
    sql("DROP INDEX idx_both ON two_si")
    assert not [each.name for each in trips.indexes() if each.kind == "secondary_index"]


def test_properties_of_a_new_table_ask_for_indexes(lake, spark, tmp_path):
    asked = (
        "'hoodie.metadata.index.secondary.column'='rider', "
        "'hoodie.metadata.index.expression.column'='city', "
        "'hoodie.metadata.index.expression.options'='expr=upper'"
    )
    create = "CREATE TABLE {} (uuid string, ts bigint, rider string, city string) USING hudi "
    spark.sql(f"{create.format('asked_si')} TBLPROPERTIES ({PROPERTIES}, {asked}) "
              f"LOCATION '{tmp_path}/t'")  # fmt: skip
    spark.sql("INSERT INTO asked_si VALUES ('a1', 1, 'ann', 'oslo'), ('a2', 1, 'bob', 'rio')")
    table = lake.table("asked_si")
    assert {"secondary_index_rider", "expr_index_city"} <= {each.name for each in table.indexes()}
    assert table.verify().ok
    wrong = asked.replace("'city'", "'nobody'")
    with pytest.raises(InvalidInput, match="no column 'nobody'"):
        lake.sql(f"{create.format('wrong_si')} TBLPROPERTIES ({PROPERTIES}, {wrong}) "
                 f"LOCATION '{tmp_path}/wrong'")  # fmt: skip
    assert not (tmp_path / "wrong" / ".hoodie").exists()
    assert not spark.catalog.tableExists("wrong_si")


CITIES = ("bergen", "lima", "oslo", "rio", "rome", "seoul", "tunis", "vaduz")


@pytest.fixture(scope="module")
def rides(lake, spark, tmp_path_factory):
    """A file for each of eight cities, with a rider and a number that only it has."""
    folder = tmp_path_factory.mktemp("rides")
    properties = PROPERTIES.replace("type='mor'", "type='cow'")
    spark.sql(
        "CREATE TABLE rides_si (uuid string, ts bigint, rider string, day date, city string) "
        f"USING hudi TBLPROPERTIES ({properties}) PARTITIONED BY (city) LOCATION '{folder}/t'"
    )
    rows = ", ".join(
        f"('k{at}', 1, 'r{at}-{city}', date'2024-01-0{at + 1}', '{city}')"
        for at, city in enumerate(CITIES)
    )
    spark.sql(f"INSERT INTO rides_si VALUES {rows}, ('k9', 1, null, null, 'oslo')")
    spark.sql("CREATE INDEX idx_rider ON rides_si (rider)")
    spark.sql("CREATE INDEX idx_day ON rides_si (day) OPTIONS ('lakedex.covering' = 'true')")
    spark.sql("CREATE OR REPLACE TEMP VIEW wanted AS SELECT 'r3-rio' AS rider, 'rio' AS city")
    return lake.table("rides_si")


WHERE = {
    "rider LIKE 'r3%'": ["k3"],
    "startswith(rider, 'r5')": ["k5"],
    "rider BETWEEN 'r1' AND 'r3'": ["k1", "k2"],
    "rider >= 'r6'": ["k6", "k7"],
    "rider IS NULL": ["k9"],
    "rider <=> null": ["k9"],
    "day < date'2024-01-03'": ["k0", "k1"],
}
EITHER = {
    "rider = 'r0-bergen' OR day = date'2024-01-08'": ["k0", "k7"],
    "rider LIKE 'r1%' OR (day > date'2024-01-06' AND day < date'2024-01-08')": ["k1", "k6"],
}


@pytest.mark.parametrize("condition", WHERE)
def test_spark_reads_the_files_that_the_index_leaves(spark, rides, condition):
    frame = spark.sql(f"SELECT uuid FROM rides_si WHERE {condition}")
    metrics = shown(spark, frame)
    read = sum(int(each["files of the table"]) - int(each["files pruned"]) for each in metrics)
    assert read == len(WHERE[condition]), metrics
    assert sorted(row["uuid"] for row in frame.collect()) == WHERE[condition]


@pytest.mark.parametrize("condition", EITHER)
def test_each_side_of_or_is_asked_of_its_own_index(spark, rides, condition):
    """Eight files are read sooner than both indexes, which the report leaves aside."""
    rows = spark.sql(f"SELECT uuid FROM rides_si WHERE {condition}").collect()
    assert sorted(row["uuid"] for row in rows) == EITHER[condition]
    report = rides.explain(condition)
    assert len(report.files) == len(EITHER[condition])
    assert any("that the entries name" in step.reason for step in report.steps)


def test_values_that_arrive_while_a_query_runs(spark, rides):
    """Join keys that Spark hands over, as lists of values or as filters that name none."""
    query = "SELECT rides_si.uuid FROM rides_si JOIN wanted USING ({})"
    for column in ("rider", "city"):
        rows = spark.sql(query.format(column)).collect()
        assert [row["uuid"] for row in rows] == ["k3"]
    for wanted in ("IN (SELECT rider FROM wanted)", "= (SELECT max(rider) FROM wanted)"):
        rows = spark.sql(f"SELECT uuid FROM rides_si WHERE rider {wanted}").collect()
        assert [row["uuid"] for row in rows] == ["k3"]


def test_older_states_and_changes_are_read_without_the_newest_index(spark, rides):
    # case B18: newest index for older snapshots
    before = rides.snapshot.timeline.write_instants()[-1].requested_time
    spark.sql("UPDATE rides_si SET rider = 'r9', day = date'2024-02-01' WHERE uuid = 'k3'")
    old = "SELECT uuid FROM rides_si TIMESTAMP AS OF '{}' WHERE {}"
    for condition, wanted in (
        ("rider LIKE 'r3%'", ["k3"]),
        ("rider > 'r8'", []),
        ("rider = 'r9' OR day = date'2024-01-04'", ["k3"]),
    ):
        rows = spark.sql(old.format(before, condition)).collect()
        assert [row["uuid"] for row in rows] == wanted, condition
    rows = spark.sql("SELECT uuid FROM rides_si WHERE rider > 'r8' OR rider LIKE 'r3%'").collect()
    assert [row["uuid"] for row in rows] == ["k3"]


def test_an_index_that_writers_do_not_maintain(lake, spark, tmp_path):
    spark.sql(
        "CREATE TABLE trips_lag (uuid string, ts bigint, rider string, city string) "
        f"USING hudi TBLPROPERTIES ({PROPERTIES}) PARTITIONED BY (city) LOCATION '{tmp_path}/t'"
    )
    spark.sql(
        "INSERT INTO trips_lag VALUES ('a1', 1, 'ann', 'oslo'), ('b1', 1, 'bob', 'rio'), "
        "('c1', 1, 'cem', 'lima')"
    )
    spark.sql("CREATE INDEX lag ON trips_lag (rider) OPTIONS (maintenance = 'async')")
    spark.sql("UPDATE trips_lag SET rider = 'bob' WHERE uuid = 'a1'")

    def found() -> list[str]:
        rows = spark.sql("SELECT uuid FROM trips_lag WHERE rider = 'bob'").collect()
        return sorted(row["uuid"] for row in rows)

    def reason() -> str:
        steps = lake.table("trips_lag").explain("rider = 'bob'").steps
        return next(each.reason for each in steps if each.index == "secondary_index_async-lag")

    def shown() -> str:
        rows = spark.sql("SHOW INDEXES FROM trips_lag").collect()
        return next(row["options"] for row in rows if row[0] == "secondary_index_async-lag")

    assert found() == ["a1", "b1"]
    assert "1 newer file slices are read" in reason()
    assert shown() == "live, maintenance=async, 1 commits behind, 1 newer file slices"
    spark.sql("REFRESH INDEX lag ON trips_lag")
    assert found() == ["a1", "b1"]
    assert "newer" not in reason()
    assert shown() == "live, maintenance=async, up to date"
    for call in ("table => 'trips_lag', index => 'lag'", "table => 'trips_lag'"):
        spark.sql("UPDATE trips_lag SET ts = ts + 1 WHERE uuid = 'a1'")
        assert "1 newer file slices" in shown()
        (row,) = spark.sql(f"CALL refresh_index({call})").collect()
        assert tuple(row) == ("secondary_index_async-lag", shown())
        assert shown().endswith("up to date")
        assert found() == ["a1", "b1"]
    with pytest.raises(Exception, match="no index 'lagg'"):
        lake.sql("CALL refresh_index(table => 'trips_lag', index => 'lagg')")
    assert lake.table("trips_lag").verify().ok
    spark.sql("DROP INDEX lag ON trips_lag")
    assert found() == ["a1", "b1"]
