"""The Spark UI shows how many files a scan leaves out, in the numbers that the report has."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.conftest import newest_only

PARTS = 6
COLUMNS = "id string, part string, ver long"


@pytest.fixture(scope="module")
def table(lake, tmp_path_factory) -> Any:
    """Six slices, two of them with log files."""
    made = lake.create_table(
        "shown",
        COLUMNS,
        path=tmp_path_factory.mktemp("shown") / "t",
        record_key="id",
        partition_by="part",
        table_type="mor",
    )
    made.bulk_insert(rows(range(24), 1))
    made.upsert(rows(range(2), 2))
    return made


def rows(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "part": [f"p{number % PARTS}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
        }
    )


def shown(spark: Any, frame: Any) -> list[dict[str, str]]:
    """The metrics of our nodes, as the UI's store has them when the query is done."""
    store = spark._jsparkSession.sharedState().statusStore()
    # By number: the store forgets old ones, so that there are never more than a thousand.
    before = store.executionsList().last().executionId()
    frame.collect()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        execution = store.executionsList().last()
        is_done = execution.completionTime().isDefined() and execution.metricValues() is not None
        if execution.executionId() > before and is_done:
            break
        time.sleep(0.05)
    number = execution.executionId()
    assert number > before, "Spark's UI has not heard of the query"
    values = store.executionMetrics(number)
    found = []
    nodes = store.planGraph(number).allNodes().iterator()
    while nodes.hasNext():
        node = nodes.next()
        if node.name() == "lakedex files":
            metrics: dict[str, str] = {}
            each = node.metrics().iterator()
            while each.hasNext():
                metric = each.next()
                value = values.get(metric.accumulatorId())
                metrics[metric.name()] = value.get() if value.isDefined() else ""
            found.append(metrics)
    return found


@pytest.mark.parametrize(
    ("condition", "files", "pruned"),
    [("true", [2, 4], [0, 0]), ("part = 'p0'", [2, 4], [1, 4]), ("part = 'p5'", [2, 4], [2, 3])],
)
def test_the_scan_nodes_show_files_pruned(spark, lake, table, condition, files, pruned):
    query = f"SELECT * FROM shown WHERE {condition}"
    frame = spark.sql(query)
    for _ in ("first", "again"):
        metrics = sorted(shown(spark, frame), key=lambda each: each["files of the table"])
        assert [int(each["files of the table"]) for each in metrics] == files
        assert [int(each["files pruned"]) for each in metrics] == pruned
    report = lake.explain(query)
    assert sum(pruned) == report.total - len(report.files)
    assert all("size of files pruned" in each for each in metrics)


def test_rows_are_still_read_in_columns_and_compiled_code(spark, table, setting):
    setting("spark.sql.adaptive.enabled", "false")
    plan = spark.read.format("hudi").load(table.path).filter("ver > 0").groupBy("part").count()
    text = plan._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("simple")
    )
    lines = [line.strip(" +-:*()0123456789") for line in text.splitlines()]
    place = lines.index("lakedex files")
    assert lines[place - 1].startswith("ColumnarToRow")
    assert lines[place + 1].startswith("FileScan parquet")


@newest_only
@pytest.mark.parametrize(
    "condition",
    [
        "part = (SELECT max(p) FROM picked)",
        # Spark asks both at once, and takes the fields of one row.
        "part BETWEEN (SELECT min(p) FROM picked) AND (SELECT max(p) FROM picked)",
    ],
)
def test_a_subquery_prunes_base_files_when_its_value_is_there(lake, spark, table, condition):
    spark.range(3, 4).selectExpr("concat('p', id) AS p").createOrReplaceTempView("picked")
    query = f"SELECT id FROM shown WHERE {condition}"
    assert sorted(row["id"] for row in spark.sql(query).collect()) == ["k15", "k21", "k3", "k9"]
    counted = shown(spark, spark.sql(query))
    assert {(each["files of the table"], each["files pruned"]) for each in counted} >= {("4", "3")}
    assert "a subquery, whose value is known when the query runs" in str(lake.explain(query))
