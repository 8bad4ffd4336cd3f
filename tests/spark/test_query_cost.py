"""Which indexes real queries ask, what runtime filters bring, and what is counted of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.prune.usage import flush
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.index_specs import ExpressionIndex
from tests.support.sample_tables import ordered_table

FILES = 6
SCHEMA = pa.schema(
    [("id", pa.string()), ("n", pa.int64()), ("d", pa.float64()), ("p", pa.string())]
)


@pytest.fixture(scope="module")
def lake(spark):
    return lakedex.attach(spark)


@pytest.fixture(scope="module")
def path(lake, tmp_path_factory):
    """A table of one file for each partition, and beside it a view with some of its numbers."""
    path = str(tmp_path_factory.mktemp("cost") / "rides")
    address = StorageAddress.of(path)
    settings = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    create_table(address.open(), TableSpec("rides", SCHEMA, "id", None, "p", "cow", settings))
    rows = [{"id": f"k{n}", "n": n, "d": n - 20.0, "p": f"p{n // 10}"} for n in range(10 * FILES)]
    source = ArrowRowSource(pa.Table.from_pylist(rows, SCHEMA))
    TableWriter(address, LocalEngine(2), {}).bulk_insert(source)
    lake.spark.read.format("lakedex").load(path).createOrReplaceTempView("rides")
    lake.spark.range(100).selectExpr("id AS n", "id % 7 AS x").createOrReplaceTempView("numbers")
    return path


def scanned(lake, query: str):
    """The rows of a query, and the reports of the scans that ran for them."""
    with lake._server.watching() as seen:
        rows = lake.spark.sql(query).collect()
    return rows, [report for _, report in seen]


@pytest.mark.parametrize(
    ("where", "left", "index"),
    [
        ("id = 'k33'", 1, "record_index"),
        ("n BETWEEN 12 AND 25", 2, "column_stats"),
        ("d > 35", 1, "column_stats"),
        ("d > -2 AND d < 1", 2, "column_stats"),
    ],
)
def test_a_small_table_is_pruned_by_its_indexes(lake, path, where, left, index):
    report = lake.explain(f"SELECT * FROM rides WHERE {where}")
    assert (len(report.files), report.total) == (left, FILES), report
    assert [step.index for step in report.steps if step.used] == [index]


def test_whole_partitions_are_pruned_where_column_stats_cannot_be_read(lake, tmp_path):
    # case B84: partition statistics without column statistics
    table = ordered_table(tmp_path / "t", ("column_stats", "partition_stats"))
    for file in (table / ".hoodie/metadata/column_stats").glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:100])
    lake.spark.read.format("hudi").load(str(table)).createOrReplaceTempView("cost_ordered")
    rows, (report,) = scanned(lake, "SELECT id FROM cost_ordered WHERE seq BETWEEN 15 AND 22")
    expected = [f"{letter}{number}" for number in range(7, 12) for letter in "km"]
    assert sorted(row.id for row in rows) == sorted({*expected} - {"k7", "m11"})
    assert (len(report.files), report.total) == (20, 120), report
    (step,) = [step for step in report.steps if step.used]
    assert (step.index, step.reason) == ("partition_stats", "ranges of seq in 12 partitions")


def test_whole_partitions_of_many_files_are_pruned_first(lake, tmp_path):
    indexes = ("column_stats", "partition_stats", ExpressionIndex("upper", "name", "upper"))
    sizes = {"files": 10_000, "partitions": 4, "real_files": 100}
    table = ordered_table(tmp_path / "t", indexes, **sizes)
    lake.spark.read.format("hudi").load(str(table)).createOrReplaceTempView("many_files")
    rows, (report,) = scanned(lake, "SELECT id FROM many_files WHERE seq = 75")
    assert [row.id for row in rows] == ["m37"]
    steps = [(step.index, step.before, step.after) for step in report.steps if step.used]
    assert steps == [("partition_stats", 10_000, 2_500), ("column_stats", 2_500, 1)], report
    rows, (report,) = scanned(lake, "SELECT id FROM many_files WHERE upper(name) = 'N00037B'")
    assert [row.id for row in rows] == ["m37"]
    (step,) = [step for step in report.steps if step.used and step.index == "expr_index_upper"]
    assert (step.before, step.after) == (10_000, 1)
    assert step.reason == "ranges of upper(name) in 1 of 4 partitions"


def test_a_subquery_is_left_to_spark(lake, path):
    """Spark keeps filters with a subquery from the scans of files, whatever it does with them."""
    query = "SELECT id FROM rides WHERE n > (SELECT max(n) - 45 FROM numbers) AND n < 58"
    rows, reports = scanned(lake, query)
    assert sorted(row.id for row in rows) == ["k55", "k56", "k57"]
    assert all("n < 58" in report.predicate for report in reports), reports


def test_a_join_with_a_runtime_filter_made_of_our_rows_runs(lake, path, setting):
    """The filter is a subquery over a table of ours that Spark adds after all other rules."""
    setting("spark.sql.optimizer.runtime.bloomFilter.enabled", "true")
    setting("spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold", "0")
    setting("spark.sql.autoBroadcastJoinThreshold", "-1")
    setting("spark.sql.adaptive.enabled", "false")
    query = "SELECT a.id FROM rides a JOIN rides b ON a.n = b.n WHERE b.d > 35 AND b.id LIKE 'k5%'"
    frame = lake.spark.sql(query)
    assert "might_contain" in frame._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(row.id for row in frame.collect()) == ["k56", "k57", "k58", "k59"]


def test_queries_are_counted_and_explanations_are_not(lake, path, setting, monkeypatch):
    monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "on")
    table = lake.table(path)

    def scans() -> int:
        return next(each.scans for each in table.indexes() if each.name == "record_index")

    before = scans()
    lake.spark.sql("SELECT * FROM rides WHERE id = 'k7'").collect()
    lake.spark.sql("SELECT * FROM rides WHERE id = 'k7'").collect()
    assert scans() == before + 2
    lake.explain("SELECT * FROM rides WHERE id = 'k7'")
    table.explain("id = 'k7'")
    assert scans() == before + 2
    setting("spark.lakedex.index.usage", "false")
    lake.spark.sql("SELECT * FROM rides WHERE id = 'k7'").collect()
    assert scans() == before + 2
    flush()
    assert scans() == before + 2
    seen = lakedex.open(path).usage().predicates["id", "equal", ""]
    assert (seen.files_total, seen.files_read) == (FILES * seen.scans, seen.scans)
