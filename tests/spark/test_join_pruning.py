"""A join tells the scan of its larger side which keys there are, and files without them stay shut.

Every query is run twice, with and without: the rows are the same, and the report of what was really
read says how many files that took and by which index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakedex.prune import SPARK
from lakedex.spark import pruned_scan

PARTS = 8
ROWS = 160
SWITCH = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
PROPERTIES = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
KINDS = {"cow": "as planned", "mor": "adaptive"}
COLUMNS = "id string, city string, rider string, n long, ver long"


def facts(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:03d}" for number in numbers],
            "city": [f"c{number * PARTS // ROWS}" for number in numbers],
            "rider": [None if number % 9 == 0 else f"r{number % 40}" for number in numbers],
            "n": pa.array(list(numbers), pa.int64()),
            "ver": pa.array([version] * len(numbers), pa.int64()),
        }
    )


@pytest.fixture(scope="module", params=KINDS)
def table(lake, request, tmp_path_factory) -> Any:
    """Eight slices, of which two have log files in a merge-on-read table."""
    kind = request.param
    made = lake.create_table(
        f"facts_{kind}",
        COLUMNS,
        path=tmp_path_factory.mktemp("joins") / kind,
        record_key="id",
        ordering="ver",
        partition_by="city",
        table_type=kind,
        properties=PROPERTIES,
    )
    made.bulk_insert(facts(range(ROWS), 1))
    made.upsert(facts(range(18, 22), 2))
    return made


@pytest.fixture(scope="module", autouse=True)
def dimensions(lake, tmp_path_factory) -> None:
    """Small tables of Parquet files."""
    spark, folder = lake.spark, tmp_path_factory.mktemp("dimensions")
    rows = [(f"c{n}", "north" if n < 2 else "south", n * 20 + 3, f"k{n:03d}") for n in range(9)]
    rows += [(None, "north", None, None), (None, "nowhere", None, None)]
    made = spark.createDataFrame(rows, "city string, region string, n long, id string")
    made.write.parquet(f"{folder}/cities")
    spark.read.parquet(f"{folder}/cities").createOrReplaceTempView("cities")
    made = spark.range(30000).selectExpr("id + 100 AS n", "id % 2 AS parity")
    made.write.parquet(f"{folder}/numbers")
    spark.read.parquet(f"{folder}/numbers").createOrReplaceTempView("numbers")


@pytest.fixture
def way(request, setting) -> str:
    """Spark plans as it goes, or once: each with one kind of tables, unless a test names it."""
    given = request.node.callspec.params
    chosen = given["way"] if "way" in given else KINDS[given["table"]]
    setting("spark.sql.adaptive.enabled", str(chosen == "adaptive").lower())
    return chosen


def run(lake: Any, query: str) -> tuple[list[Any], list[Any]]:
    """The rows of a query, and what was read of lakedex's tables for them."""
    with lake._server.watching() as seen:
        rows = lake.spark.sql(query).collect()
    reports = {id(report): report for _, report in seen}
    return sorted(map(tuple, rows), key=repr), list(reports.values())


def compared(lake: Any, query: str) -> Any:
    """What a query reads of its one table of ours, after its rows were found to be right."""
    rows, reports = run(lake, query)
    before = lake.spark.conf.get(SWITCH)
    lake.spark.conf.set(SWITCH, "false")
    try:
        assert rows == run(lake, query)[0]
    finally:
        lake.spark.conf.set(SWITCH, before)
    assert len({len(report.files) for report in reports}) == 1, "the halves agree"
    assert reports[0].total == PARTS
    return reports[0]


def reason(report: Any) -> str:
    """The index that removed the most."""
    steps = [step for step in report.steps if step.used and step.after < step.before]
    return steps[0].index if steps else ""


@pytest.mark.parametrize(
    ("query", "files", "index"),
    [
        # A partition column, the record key, and a column that has ranges only.
        ("JOIN cities d ON f.city = d.city WHERE d.region = 'north'", 2, "partition values"),
        ("JOIN cities d ON f.id = d.id WHERE d.region = 'north'", 1, "record_index"),
        ("JOIN cities d ON f.n = d.n WHERE d.region = 'north'", 2, "column_stats"),
        (
            "LEFT SEMI JOIN cities d ON f.city = d.city AND d.region = 'north'",
            2,
            "partition values",
        ),
        ("WHERE city IN (SELECT city FROM cities WHERE region = 'north')", 2, "partition values"),
        (
            "WHERE EXISTS (SELECT 1 FROM cities d WHERE d.id = f.id AND region = 'north')",
            1,
            "record_index",
        ),
        # Two joins tell one scan; keys may be computed.
        (
            "JOIN cities d ON f.city = d.city JOIN cities e ON f.n = e.n "
            "WHERE d.region = 'north' AND e.region = 'south'",
            0,
            "partition values",
        ),
        (
            "JOIN cities d ON upper(f.city) = upper(d.city) WHERE d.region = 'north'",
            2,
            "partition values",
        ),
        ("JOIN cities d ON f.city <=> d.city WHERE d.region = 'north'", 2, "partition values"),
        # Without a condition, but far smaller than the table.
        ("JOIN (VALUES ('c3'), ('c5')) AS d(city) ON f.city = d.city", 2, "partition values"),
    ],
)
def test_keys_of_a_broadcast_join_choose_files(lake, table, way, query, files, index):
    report = compared(lake, f"SELECT f.id, f.ver FROM {table.name} f {query}")
    assert (len(report.files), reason(report)) == (files, index)


@pytest.mark.parametrize(
    "query",
    [
        # The table's own rows are kept, with a partner or without.
        "LEFT JOIN (SELECT * FROM cities WHERE region = 'north') d ON f.city = d.city",
        "FULL JOIN (SELECT * FROM cities WHERE region = 'north') d ON f.city = d.city",
        "LEFT ANTI JOIN (SELECT * FROM cities WHERE region = 'north') d ON f.city = d.city",
        "WHERE city NOT IN (SELECT city FROM cities WHERE region = 'north' AND city IS NOT NULL)",
        # Other rows at each asking.
        "JOIN (SELECT * FROM cities WHERE n < 9 AND rand() * 2 < 2) d ON f.city = d.city",
        "JOIN (SELECT * FROM cities WHERE id = 'k000' LIMIT 1) d ON f.city = d.city",
        # Nothing is compared by equality.
        "JOIN cities d ON f.city > d.city AND d.region = 'north'",
    ],
)
def test_what_may_not_be_left_out_is_read(lake, table, way, query):
    report = compared(lake, f"SELECT f.id, f.ver FROM {table.name} f {query}")
    assert len(report.files) == PARTS


def test_nulls_meet_nulls_where_the_join_says_so(lake, table, way):
    query = f"SELECT f.id FROM {table.name} f JOIN (VALUES (null), ('r1')) d(rider) ON f.rider"
    for sign, count in (("=", 3), ("<=>", 3 + 18)):
        assert len(run(lake, f"{query} {sign} d.rider")[0]) == count
        compared(lake, f"{query} {sign} d.rider")


@pytest.mark.parametrize("way", KINDS.values(), indirect=True)
def test_a_secondary_index_is_asked_for_the_keys(lake, way, tmp_path, monkeypatch):
    # Eight small files are read faster than the index is.
    monkeypatch.setattr(pruned_scan, "SPARK", replace(SPARK, query_s=60))
    table = lake.create_table(
        f"riders_{way[:2]}",
        COLUMNS,
        path=tmp_path / "t",
        record_key="id",
        ordering="ver",
        partition_by="city",
        properties=PROPERTIES,
    )
    rows = facts(range(ROWS), 1)
    riders = pa.array([f"r{n * 7 % ROWS:03d}" for n in range(ROWS)])
    table.bulk_insert(rows.set_column(2, "rider", riders))
    table.create_index("idx_rider", columns=["rider"])
    report = compared(
        lake,
        f"SELECT f.id FROM {table.name} f JOIN (VALUES ('r007'), ('r014')) d(rider)"
        " ON f.rider = d.rider",
    )
    assert len(report.files) == 1
    assert "idx_rider" in reason(report)


def test_a_join_that_sorts_asks_for_keys_only_where_that_is_cheap(
    lake, table, way, setting, monkeypatch
):
    setting(BROADCAST, "-1")
    query = (
        f"SELECT f.id FROM {table.name} f JOIN cities d ON f.city = d.city WHERE d.region = 'north'"
    )
    assert len(compared(lake, query).files) == PARTS
    monkeypatch.setattr(pruned_scan, "MOST_OVERHEAD", 1e6)
    report = compared(lake, query)
    assert (len(report.files), reason(report)) == (2, "partition values")
    # Of an outer join only the other side could be broadcast.
    outer = query.replace("JOIN", "RIGHT JOIN")
    assert len(compared(lake, outer).files) == 2
    # Sums of the same numbers may differ when they are made again.
    summed = (
        f"SELECT f.id FROM {table.name} f JOIN (SELECT city FROM cities WHERE region = 'north'"
        " GROUP BY city HAVING sum(n) > 0) d ON f.city = d.city"
    )
    assert len(compared(lake, summed).files) == PARTS
    setting("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "true")
    assert len(compared(lake, query).files) == PARTS


def test_many_keys_are_told_as_a_range(lake, table, way):
    query = (
        f"SELECT /*+ BROADCAST(d) */ f.id FROM {table.name} f JOIN numbers d ON f.n = d.n"
        " WHERE d.parity >= 0"
    )
    report = compared(lake, query)
    assert (len(report.files), reason(report)) == (3, "column_stats")
    assert "n >= 100 and n <= 30099" in report.predicate


def test_a_table_joined_with_itself(lake, table, way):
    query = (
        f"SELECT a.id, b.id AS other FROM {table.name} a JOIN {table.name} b ON a.city = b.city"
        " WHERE b.id = 'k003'"
    )
    rows, reports = run(lake, query)
    assert rows == [(f"k{n:03d}", "k003") for n in range(20)]
    assert [(report.total, len(report.files)) for report in reports] == [(PARTS, 1)] * 2
    assert {reason(report) for report in reports} == {"record_index", "partition values"}


@pytest.mark.parametrize("way", KINDS.values(), indirect=True)
def test_all_parts_of_a_query_see_one_snapshot(lake, way, tmp_path):
    table = lake.create_table(
        f"moving_{way[:2]}",
        COLUMNS,
        path=tmp_path / "t",
        record_key="id",
        ordering="ver",
        partition_by="city",
        table_type="mor",
    )
    table.bulk_insert(facts(range(ROWS), 1))
    frame = lake.spark.sql(
        f"SELECT a.id FROM {table.name} a JOIN {table.name} b ON a.city = b.city"
        " WHERE b.ver = 1 AND b.n = 3"
    )
    frame._jdf.queryExecution().executedPlan()
    table.upsert(facts(range(ROWS), 2))
    assert len(frame.collect()) == ROWS // PARTS
    assert len(frame.collect()) == ROWS // PARTS


def test_it_can_be_switched_off(lake, table, setting):
    query = f"SELECT f.id FROM {table.name} f JOIN cities d USING (city) WHERE d.region = 'north'"
    setting(SWITCH, "false")
    _, reports = run(lake, query)
    assert {len(report.files) for report in reports} == {PARTS}


def test_explain_says_what_is_known_later(lake, table, way):
    query = f"SELECT f.id FROM {table.name} f JOIN cities d USING (city) WHERE d.region = 'north'"
    told = str(lake.explain(query))
    assert "the keys of a join, which are known when the query runs" in told
    assert f"reads {PARTS} of {PARTS} file slices" in told
