"""Plain Spark SQL over faces: the right rows, fewer files, one snapshot a query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.spark.read_spec import ReadSpec

PARTS = 8
ROWS = 400
KEYS = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
COLUMNS = "id string, part string, ver long, fare double"


def rides(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:04d}" for number in numbers],
            "part": [f"p{number % PARTS}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
            "fare": [float(number * version) for number in numbers],
        }
    )


def make(lake: Any, path: Path, kind: str) -> Any:
    table = lake.create_table(
        f"rides_{kind}_{path.name}".replace("-", "_"),
        COLUMNS,
        path=path / "rides",
        record_key="id",
        ordering="ver",
        partition_by="part",
        table_type=kind,
        properties=KEYS,
    )
    table.bulk_insert(rides(range(ROWS), 1))
    # Half of the groups get a log file, or a new base file.
    table.upsert(rides(range(0, ROWS, 2), 2).slice(0, 20))
    return table


def rows_of(frame: Any) -> dict[str, tuple[int, float]]:
    return {row["id"]: (row["ver"], row["fare"]) for row in frame.collect()}


def model() -> dict[str, tuple[int, float]]:
    found = {f"k{n:04d}": (1, float(n)) for n in range(ROWS)}
    found.update({f"k{n:04d}": (2, float(n * 2)) for n in range(0, 40, 2)})
    return found


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(lake, request, tmp_path_factory) -> Any:
    """For tests that only read."""
    return make(lake, tmp_path_factory.mktemp("query"), request.param)


@pytest.fixture(params=["cow", "mor"])
def own_table(lake, request, tmp_path) -> Any:
    return make(lake, tmp_path, request.param)


def show(lake: Any, table: Any) -> str:
    name = "own_face"
    lake.spark.read.format("hudi").load(table.path).createOrReplaceTempView(name)
    return name


@pytest.fixture
def view(lake, table) -> str:
    name = "face"
    lake.spark.read.format("hudi").load(table.path).createOrReplaceTempView(name)
    return name


def test_all_rows_with_meta_columns_first(lake, table, view):
    frame = lake.spark.table(view)
    assert frame.columns[:5] == list(META_COLUMNS)
    assert rows_of(frame) == model()
    assert lake.spark.sql(f"SELECT count(*) AS n FROM {view}").first()["n"] == ROWS


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("id = 'k0004'", 1),
        ("id IN ('k0004', 'k0012')", 2),
        ("id = 'nobody'", 0),
        ("part = 'p3'", 1),
        ("part = 'p3' AND ver = 2", 1),
        ("ver > 7", 0),
    ],
)
def test_conditions_prune(lake, table, view, condition, most):
    query = f"SELECT * FROM {view} WHERE {condition}"
    plain = lake.spark.createDataFrame(
        [(key, f"p{int(key[1:]) % PARTS}", ver, fare) for key, (ver, fare) in model().items()],
        "id string, part string, ver long, fare double",
    )
    assert rows_of(lake.spark.sql(query)) == rows_of(plain.filter(condition))
    report = lake.explain(query)
    assert report.total == PARTS
    assert len(report.files) <= most
    assert "== Files ==" in str(report)


def test_pruning_can_be_switched_off(lake, table):
    reader = lake.spark.read.format("hudi").option("hoodie.enable.data.skipping", "false")
    frame = reader.load(table.path).filter("id = 'k0004'")
    assert len(lake.explain(frame).files) == PARTS
    assert list(rows_of(frame)) == ["k0004"]


def test_a_frame_is_explained_as_often_as_wanted_and_after_it_ran(lake, table, view):
    for condition in ("part = 'p3'", f"part = (SELECT max(part) FROM {view})"):
        frame = lake.spark.sql(f"SELECT * FROM {view} WHERE {condition}")
        before = lake.explain(frame)
        assert before.total == lake.explain(frame).total > 0
        frame.collect()
        after = lake.explain(frame)
        assert after.total == before.total
        assert len(after.files) <= len(before.files)
    plain = lake.spark.table(view).filter("part = 'p3'")
    plain.collect()
    assert (lake.explain(plain).total, len(lake.explain(plain).files)) == (PARTS, 1)


def test_joins_and_subqueries_see_one_snapshot(lake, own_table):
    table, view = own_table, show(lake, own_table)
    query = lake.spark.sql(
        f"SELECT a.id, a.ver, b.fare, (SELECT max(ver) FROM {view}) AS newest FROM {view} a "
        f"JOIN {view} b ON a.id = b.id WHERE a.ver = (SELECT max(ver) FROM {view})"
    )
    query._jdf.queryExecution().executedPlan()
    table.upsert(rides(range(ROWS), 3))
    found = query.collect()
    assert {row["newest"] for row in found} == {2}
    assert {row["id"]: (row["ver"], row["fare"]) for row in found} == {
        key: value for key, value in model().items() if value[0] == 2
    }
    assert {row["ver"] for row in lake.spark.table(view).collect()} == {3}


def test_a_cached_table_agrees_with_itself(lake, own_table):
    table, view = own_table, show(lake, own_table)
    lake.spark.sql(f"CACHE TABLE {view}")
    try:
        table.upsert(rides(range(ROWS), 3))
        both = lake.spark.sql(
            f"SELECT a.ver = b.ver AS same FROM {view} a JOIN {view} b USING (id)"
        )
        assert {row["same"] for row in both.collect()} == {True}
    finally:
        lake.spark.sql(f"UNCACHE TABLE {view}")
    assert {row["ver"] for row in lake.spark.table(view).collect()} == {3}


def test_time_travel_and_changes(lake, table):
    instants = lakedex.open(table.path).timeline.completed()
    assert {row["ver"] for row in table.to_df(instants[0].requested_time).collect()} == {1}
    first, second = (instant.completion_time for instant in instants)
    assert rows_of(table.changes(first)) == {
        key: value for key, value in model().items() if value[0] == 2
    }
    assert rows_of(table.changes("earliest", first)) == {
        f"k{n:04d}": (1, float(n)) for n in range(ROWS)
    }
    assert table.changes(second).count() == 0
    assert table.changes(first).count() == 20


def test_read_optimized_reads_base_files_only(lake, table):
    reader = lake.spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    versions = {row["ver"] for row in reader.load(table.path).collect()}
    is_mor = "mor" in table.name
    assert versions == ({1} if is_mor else {1, 2})


def test_widened_columns_are_read_by_our_reader(lake, tmp_path):
    table = lake.create_table("widened", "id int, n int", path=tmp_path / "w", record_key="id")
    table.insert(pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([5], pa.int32())}))
    wide = pa.table({"id": pa.array([2], pa.int32()), "n": pa.array([2**40], pa.int64())})
    table.insert(wide, options={"hoodie.parquet.small.file.limit": "0"})
    rows = {row["id"]: row["n"] for row in table.to_df().filter("n > 4").collect()}
    assert rows == {1: 5, 2: 2**40}


def test_the_size_is_the_live_size(lake, table, view):
    plan = lake.spark.table(view)._jdf.queryExecution().optimizedPlan()
    size = int(str(plan.stats().sizeInBytes()))
    assert size >= sum(each.size_bytes for each in lakedex.open(table.path).files())


def test_a_table_that_is_not_there(lake, tmp_path):
    with pytest.raises(Exception, match="no Hudi table"):
        lake.spark.read.format("hudi").load(str(tmp_path / "nowhere"))
    with pytest.raises(Exception, match=r"say which table"):
        lake.spark.read.format("hudi").load()


def test_unknown_query_types_are_named(lake, table):
    reader = lake.spark.read.format("hudi").option("hoodie.datasource.query.type", "backwards")
    with pytest.raises(Exception, match="backwards"):
        reader.load(table.path)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.datasource.read.incr.filters", "id = 1"),
        ("hoodie.datasource.read.incr.path.glob", "/p1/*"),
        ("hoodie.datasource.merge.type", "skip_merge"),
    ],
)
def test_rows_of_another_kind_are_refused(option, value):
    begin = {"hoodie.datasource.read.begin.instanttime": "0"}
    kind = {"hoodie.datasource.query.type": "incremental"}
    with pytest.raises(UnsupportedFeature, match=option):
        ReadSpec.of("/t", {**kind, **begin, option: value})


def test_paths_and_options_of_older_scripts_are_read():
    old = ReadSpec.of("/t/a/*/*/", {"hoodie.datasource.view.type": "READ_OPTIMIZED"})
    assert (old.path, old.query_type) == ("/t/a", "read_optimized")
    with pytest.raises(InvalidInput, match="is a pattern: load the table's own path"):
        ReadSpec.of("/t/a/2024*/*", {})


def test_another_session_is_told_to_attach(lake, table):
    with pytest.raises(Exception, match="attach"):
        lake.spark.newSession().read.format("hudi").load(table.path)


def test_attaching_again_serves_the_newest(lake, spark, table, view):
    again = lakedex.attach(spark)
    assert rows_of(again.table(table.path).to_df()) == model()
    assert len(again.explain(f"SELECT * FROM {view} WHERE id = 'k0004'").files) == 1
