"""Names of expression indexes in queries: Spark filters rows, the indexes leave out files."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.spark import expression_checking
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

ZONE = "spark.sql.session.timeZone"
FIRST = dt.datetime(2022, 10, 1, tzinfo=dt.UTC)
BARE = {"hoodie.metadata.index.column.stats.enable": "false"}


@pytest.fixture(scope="module")
def visits(lake, spark, tmp_path_factory):
    """Three files, one a day, without ranges of the columns themselves."""
    path = tmp_path_factory.mktemp("names") / "visits"
    spark.sql(
        "CREATE TABLE visits (id string, at timestamp, name string) USING hudi "
        f"TBLPROPERTIES (primaryKey='id', type='cow') LOCATION '{path}'"
    )
    writer = TableWriter(StorageAddress.of(str(path)), LocalEngine(1), BARE)
    for day, name in enumerate(("ann", "Bob", "bob")):
        times = [FIRST + dt.timedelta(days=day, hours=n) for n in range(3)]
        columns = {
            "id": [f"k{day}{n}" for n in range(3)],
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "name": [name] * 3,
        }
        writer.bulk_insert(ArrowRowSource(pa.table(columns)))
    spark.sql("CREATE INDEX idx_day ON visits (date_format(at, 'yyyy-MM-dd'))")
    spark.sql("CREATE INDEX idx_name ON visits USING column_stats(name) OPTIONS (expr='upper')")
    spark.sql("CREATE INDEX idx_cut ON visits USING column_stats(id) "
              "OPTIONS (expr='ltrim', trimString='k1')")  # fmt: skip
    spark.sql("CREATE INDEX idx_no ON visits (length(name) * 2 + day(at))")
    spark.sql("CREATE INDEX idx_part ON visits (split(id, 'k')[1])")
    spark.sql("CREATE INDEX idx_hour ON visits USING bitmap(hour(at))")
    return lake.table("visits")


SECOND = ["k10", "k11", "k12"]


@pytest.mark.parametrize(
    ("query", "found", "files"),
    [
        ("SELECT id FROM visits WHERE idx_day = '2022-10-02'", SECOND, 1),
        ("SELECT v.id FROM visits v WHERE v.idx_day = '2022-10-02' AND v.id > 'k11'", ["k12"], 1),
        ("SELECT id FROM visits WHERE IDX_NAME = 'BOB' AND idx_day < '2022-10-03'", SECOND, 1),
        ("SELECT id FROM visits WHERE idx_day IN ('2022-10-02') AND idx_name > ''", SECOND, 1),
        ("SELECT id FROM visits WHERE id IN (SELECT id FROM visits WHERE idx_day = '2022-10-02')"
         " AND idx_name = 'BOB'", SECOND, None),
        ("SELECT id FROM visits WHERE idx_cut = '2'", ["k12"], 1),
        ("SELECT id FROM visits WHERE idx_no = 8 AND idx_part > '10'", SECOND[1:], 1),
        ("SELECT id FROM visits WHERE idx_hour = 2 AND idx_day < '2022-10-02'", ["k02"], 1),
        ("SELECT v.id FROM visits v JOIN (SELECT 'k11' AS w) o ON v.id = o.w AND v.idx_no = 8",
         ["k11"], 1),
        ("WITH days AS (SELECT id FROM visits WHERE idx_day = '2022-10-02') SELECT id FROM days",
         SECOND, 1),
        ("SELECT id, (SELECT max(name) FROM visits WHERE idx_day = '2022-10-02') AS top FROM visits"
         " WHERE id = 'k11'", ["k11"], None),
        ("SELECT min(id) AS id, (SELECT count(*) FROM visits WHERE idx_no = 8) AS n FROM visits"
         " WHERE idx_day = '2022-10-02'", ["k10"], None),
        # By the bare column (cases B11, B61).
        ("SELECT id FROM visits WHERE at >= '2022-10-02' AND at < '2022-10-03'", SECOND, 1),
        ("SELECT id FROM visits WHERE name = 'Bob'", SECOND, 2),
    ],
)  # fmt: skip
def test_an_index_is_asked_by_its_name(visits, lake, spark, query, found, files):
    assert sorted(row["id"] for row in lake.sql(query).collect()) == found
    assert sorted(row["id"] for row in spark.sql(query).collect()) == found
    if files is not None:
        assert len(lake.explain(query).files) == files


DAYS = ["2022-10-01", "2022-10-02", "2022-10-03"]
GROUPED = [
    ("SELECT id FROM visits WHERE coalesce(idx_day, 'x') = '2022-10-02'", SECOND),
    ("SELECT id FROM visits WHERE CAST(idx_day AS DATE) = DATE'2022-10-02'", SECOND),
    ("SELECT idx_day, count(*) FROM visits GROUP BY idx_day", [(day, 3) for day in DAYS]),
    ("SELECT v.idx_day, max(id) FROM visits v GROUP BY v.idx_day HAVING v.idx_day < '2022-10-02'",
     [("2022-10-01", "k02")]),
    ("SELECT count(*) FROM visits GROUP BY idx_day, name", [3, 3, 3]),
    ("SELECT upper(idx_name), count(*) FROM visits GROUP BY ALL", [("ANN", 3), ("BOB", 6)]),
    ("SELECT idx_name, name, count(*) FROM visits GROUP BY ROLLUP (idx_name, name) "
     "HAVING count(*) > 5", [("BOB", None, 6), (None, None, 9)]),
    ("SELECT count(*) FILTER (WHERE idx_day = '2022-10-02') FROM visits", [3]),
    ("SELECT name, count(*) FILTER (WHERE idx_day < '2022-10-03') FROM visits GROUP BY name",
     [("Bob", 3), ("ann", 3), ("bob", 0)]),
    ("SELECT id, part FROM visits LATERAL VIEW explode(split(id, '1')) e AS part "
     "WHERE idx_day = '2022-10-02' AND part = 'k'", [(each, "k") for each in SECOND]),
    ("SELECT v.id, x.n FROM visits v, LATERAL (SELECT length(v.name) AS n) x "
     "WHERE v.idx_day = '2022-10-02'", [(each, 3) for each in SECOND]),
    ("SELECT v.id, x.n FROM visits v JOIN LATERAL (SELECT count(*) AS n FROM visits "
     "WHERE idx_day > '2022-10-02') x ON v.idx_day = '2022-10-02'", [(each, 3) for each in SECOND]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), GROUPED)
def test_an_index_stands_in_groups_and_filters_and_beside_lateral_queries(
    visits, spark, query, expected
):
    rows = [tuple(row) if len(row) > 1 else row[0] for row in spark.sql(query).collect()]
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_other_names_are_not_found_as_ever(visits, lake, spark):
    for condition in ("idx_week = 3", "idx_day = '2022-10-02' AND nothing = 1"):
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            spark.sql(f"SELECT id FROM visits WHERE {condition}").collect()
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.sql("SELECT idx_day FROM visits")
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.sql("SELECT name, max(idx_day) FROM visits GROUP BY name")
    # A column that a LATERAL VIEW makes comes first as well.
    made = "SELECT id FROM visits LATERAL VIEW explode(array('x')) e AS idx_day WHERE"
    assert spark.sql(f"{made} idx_day = 'x' AND visits.idx_day = '2022-10-02'").count() == 3
    spark.range(2).selectExpr("id", "'x' AS idx_day").createOrReplaceTempView("others")
    # A column comes before an index; where there may be one, an index has to say its table.
    joined = "SELECT v.id FROM visits v JOIN others o ON true WHERE"
    assert spark.sql(f"{joined} idx_day = 'x'").count() == 18
    assert spark.sql(f"{joined} v.idx_day = '2022-10-02' AND idx_day = 'x'").count() == 6


def test_frames_and_changes_name_indexes_too(visits, lake, spark):
    assert visits.to_df().filter("idx_day = '2022-10-02'").count() == 3
    assert spark.table("visits").where("idx_name = 'ANN'").count() == 3
    lake.sql("DELETE FROM visits WHERE idx_day = '2022-10-03' AND id = 'k22'")
    assert spark.table("visits").count() == 8


def test_views_name_indexes_by_the_database_and_the_zone_they_were_made_in(
    visits, lake, spark, setting
):
    where = "SELECT id AS who, name FROM visits WHERE idx_day = '2022-10-02'"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW second_day AS {where}")
    spark.sql(f"CREATE VIEW kept_day (who, called) AS {where}")
    spark.sql("CREATE VIEW over_it AS SELECT who FROM kept_day WHERE called = 'Bob'")
    spark.sql("CREATE DATABASE elsewhere")
    try:
        spark.sql("USE elsewhere")
        setting(ZONE, "Asia/Tokyo")
        for name in ("default.kept_day", "default.over_it", "second_day"):
            query = f"SELECT who FROM {name} ORDER BY who"
            assert [row["who"] for row in spark.sql(query).collect()] == SECOND
        setting(ZONE, "UTC")
        assert spark.table("default.over_it").count() == 3
        joined = "SELECT who FROM second_day JOIN default.visits v ON v.id = who AND v.idx_no = 8"
        assert spark.sql(joined).count() == 3
        report = lake.explain("SELECT who FROM default.over_it")
        assert len(report.files) == 1
        with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN.*`nothing`"):
            spark.sql("SELECT nothing FROM second_day")
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE elsewhere")
        for view in ("over_it", "kept_day", "second_day"):
            spark.sql(f"DROP VIEW {view}")


def _days(spark: Any) -> list[str]:
    rows = spark.sql("SELECT id, name FROM visits ORDER BY id").collect()
    return [f"{row['id']} {row['name']}" for row in rows]


MERGES = [
    # The condition of the join, with a table before the name and without.
    ("visits v USING changed c ON v.id = c.id AND v.idx_day = '2022-10-02' "
     "WHEN MATCHED THEN UPDATE SET name = c.name", 1),
    ("visits USING changed c ON visits.id = c.id AND idx_name = 'BOB' AND idx_day = '2022-10-02' "
     "WHEN MATCHED THEN UPDATE SET name = c.name", 1),
    # The conditions of clauses.
    ("visits v USING changed c ON v.id = c.id WHEN MATCHED AND v.idx_day = '2022-10-02' "
     "THEN UPDATE SET name = c.name", None),
    ("visits v USING visits c ON v.id = c.id AND c.idx_day = '2022-10-02' "
     "WHEN MATCHED AND c.idx_name = v.idx_name AND v.id < 'k12' "
     "THEN UPDATE SET name = 'new'", None),
    ("visits v USING (SELECT id FROM visits WHERE idx_day != '2022-10-02' OR id = 'k12') c "
     "ON v.id = c.id WHEN NOT MATCHED BY SOURCE AND idx_day = '2022-10-02' "
     "THEN UPDATE SET name = 'new'", None),
]  # fmt: skip


@pytest.mark.parametrize(("merge", "files"), MERGES)
def test_a_merge_names_indexes_in_its_conditions(visits, lake, spark, merge, files):
    before = _days(spark)
    spark.sql("SELECT concat('k', id) id, 'new' name FROM VALUES (10), (11), (20), (99) AS t(id)"
              ).createOrReplaceTempView("changed")  # fmt: skip
    if files is not None:
        scans = lake.explain(f"MERGE INTO {merge}").scans
        assert [len(report.files) for _, report in scans] == [files], str(scans[0][1])
    spark.sql(f"MERGE INTO {merge}")
    assert [each for each in _days(spark) if each not in before] == ["k10 new", "k11 new"]
    visits.rollback(visits.snapshot.timeline.write_instants()[-1].requested_time)
    assert _days(spark) == before
    assert visits.verify().ok


def test_a_name_in_a_merge_that_nobody_knows_is_not_found_as_ever(visits, spark):
    for condition in ("v.idx_week = 3", "v.idx_day = '2022-10-02' AND nothing = 1"):
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            spark.sql(
                "MERGE INTO visits v USING (SELECT 'k1' id) c ON v.id = c.id "
                f"AND {condition} WHEN MATCHED THEN DELETE"
            )
    # A column of the source comes first: the index would have found rows.
    spark.sql(
        "MERGE INTO visits v USING (SELECT 'k10' id, 'x' idx_day) c ON v.id = c.id AND "
        "idx_day = '2022-10-02' AND v.idx_name = 'BOB' WHEN MATCHED THEN DELETE"
    )
    assert spark.sql("SELECT id FROM visits WHERE id = 'k10'").count() == 1


def test_another_zone_is_told(visits, lake, spark):
    # case B7: time units and time zones
    spark.conf.set(ZONE, "Asia/Tokyo")
    try:
        with pytest.raises(Exception, match="computed in the time zone UTC"):
            spark.sql("SELECT id FROM visits WHERE idx_day = '2022-10-02'")
    finally:
        spark.conf.set(ZONE, "UTC")


@pytest.mark.parametrize("zone", ["CET", "EST", "MST7MDT", "Europe/Berlin", "America/Mexico_City"])
def test_an_index_that_a_session_builds_is_one_that_it_uses(visits, lake, spark, zone):
    # Java and Python have time zone databases of their own, which may differ.
    create = "CREATE INDEX idx_here ON visits (date_format(at, 'yyyy-MM-dd HH'))"
    spark.conf.set(ZONE, zone)
    try:
        if not expression_checking.is_same_zone(spark.sparkContext._jvm, zone):
            with pytest.raises(InvalidInput, match=f"other offsets for '{zone}'"):
                lake.sql(create)
            assert "idx_here" not in str(visits.indexes())
            return
        lake.sql(create)
        first = spark.sql("SELECT date_format(min(at), 'yyyy-MM-dd HH') FROM visits").first()[0]
        for name in ("idx_here", "date_format(at, 'yyyy-MM-dd HH')"):
            query = f"SELECT id FROM visits WHERE {name} = '{first}'"
            assert [row["id"] for row in spark.sql(query).collect()] == ["k00"]
            assert len(lake.explain(query).files) == 1
        lake.sql("DROP INDEX idx_here ON visits")
    finally:
        spark.conf.set(ZONE, "UTC")


def test_a_zone_that_java_knows_differently_is_refused_and_prunes_nothing(
    visits, lake, spark, monkeypatch
):
    zone = "Asia/Tokyo"
    monkeypatch.setitem(expression_checking._found, zone, False)
    spark.conf.set(ZONE, zone)
    try:
        with pytest.raises(InvalidInput, match="other offsets for 'Asia/Tokyo'"):
            lake.sql("CREATE INDEX idx_here ON visits (hour(at))")
        lake.sql("CREATE INDEX idx_here ON visits (length(name))")
        lake.sql("DROP INDEX idx_here ON visits")
        asked = {
            "hoodie.metadata.index.expression.column": "at",
            "hoodie.metadata.index.expression.options": "expr='hour'",
        }
        with pytest.raises(InvalidInput, match="other offsets for 'Asia/Tokyo'"):
            visits.upsert(visits.to_df().limit(1), options=asked)
        report = lake.explain("SELECT id FROM visits WHERE hour(at) = 9 AND name = 'ann'")
        assert "which the JVM and lakedex know differently" in str(report)
    finally:
        spark.conf.set(ZONE, "UTC")
