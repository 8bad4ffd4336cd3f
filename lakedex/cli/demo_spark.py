"""The second half of the demo: a table that Spark jobs of this process make, change and index.

The same query runs twice in plain Spark SQL, with the indexes of the table and without.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lakedex import api
from lakedex.cli.demo_queries import ask_hudi_rs
from lakedex.prune import Report
from lakedex.write.result import WriteResult

_ROWS = 400_000
_FILES = 40
_ROW_BYTES = 25
"""About what a row takes in a file."""
_TABLE, _UNPRUNED = "demo_rides", "demo_rides_without_indexes"
_CREATE = """CREATE TABLE {table} (id STRING, rider STRING, fare BIGINT, at BIGINT) USING hudi
TBLPROPERTIES (primaryKey = 'id', orderingFields = 'at',
    hoodie.parquet.max.file.size = {file_bytes}, hoodie.parquet.small.file.limit = 0)
LOCATION '{path}'"""
_INDEX = f"CREATE INDEX record_index ON {_TABLE} (id)"
_CLUSTER = ("fare", "at")
_RIDES = (
    "format_string('ride-%07d', id) id",
    "concat('rider-', id * 7919 % 5000) rider",
    "id * 104729 % 10007 fare",
    "id * 15485863 % 1000003 at",
)
_CHANGED = (*_RIDES[:2], "0L fare", "2000000 + id at")
_QUERIES = (
    ("one record key", "id = 'ride-0004711'"),
    ("a hundredth of the fares", "fare BETWEEN 5000 AND 5100"),
)
_TRIES = 3
_QUIET = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "4"}


@dataclass(frozen=True, slots=True)
class QueryComparison:
    """One query with indexes and without: slices to read, seconds, and whether rows agree."""

    what: str
    condition: str
    total: int
    left: int
    seconds: float
    seconds_without: float
    same_rows: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "query": self.condition,
            "file_slices": self.total,
            "read": self.left,
            "seconds": round(self.seconds, 6),
            "seconds_without_indexes": round(self.seconds_without, 6),
            "same_rows": self.same_rows,
        }


@dataclass(frozen=True, slots=True)
class SparkDemo:
    """What the half on Spark came to."""

    steps: tuple[tuple[str, str, float], ...]
    """What was done, what it came to, and its seconds."""
    queries: tuple[QueryComparison, ...]
    report: Report
    """What each index did for the last query."""
    is_right: bool
    """Whether every index agrees with the data, and queries read less."""
    hudi_rs: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        steps = [
            {"what": what, "result": outcome, "seconds": seconds}
            for what, outcome, seconds in self.steps
        ]
        queries = [each.as_dict() for each in self.queries]
        return {"steps": steps, "queries": queries, "ok": self.is_right, "hudi_rs": self.hudi_rs}


def what_spark_needs() -> str | None:
    """What is missing for a Spark session here; None where nothing is."""
    if find_spec("pyspark") is None:
        return "pyspark: pip install lakedex[spark]"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Java 17: install it, or set JAVA_HOME"
    return None


def demo_on_spark(rows: int = _ROWS) -> SparkDemo:
    """Create a table in a temporary folder, change it, index it, and query it."""
    # Not imported above: the rest of the demo works where pyspark is absent.
    lake = import_module("lakedex.spark.session").local(**_QUIET)
    with tempfile.TemporaryDirectory(prefix="lakedex-demo-") as folder:
        path = str(Path(folder, "rides"))
        try:
            return _Demo(lake, path, rows).run()
        finally:
            lake.sql(f"DROP TABLE IF EXISTS {_TABLE}")
            lake.spark.catalog.dropTempView(_UNPRUNED)


class _Demo:
    """One run on one lake."""

    def __init__(self, lake: Any, path: str, rows: int) -> None:  # noqa: ANN401 - needs pyspark
        self._lake = lake
        self._path = path
        self._rows = rows
        self._steps: list[tuple[str, str, float]] = []

    def run(self) -> SparkDemo:
        spark = self._lake.spark
        rides = spark.range(0, self._rows, 1, 4).selectExpr(*_RIDES)
        changed = spark.range(self._rows - 1_000, self._rows + 500).selectExpr(*_CHANGED)
        file_bytes = self._rows * _ROW_BYTES // _FILES
        self._lake.sql(_CREATE.format(table=_TABLE, file_bytes=file_bytes, path=self._path))
        table = self._lake.table(_TABLE)
        self._step("bulk_insert", lambda: table.bulk_insert(rides))
        self._step("upsert", lambda: table.upsert(changed))
        self._step(_INDEX, lambda: self._lake.sql(_INDEX))
        self._step(
            f"cluster by {' and '.join(_CLUSTER)}, zorder",
            lambda: table.cluster(by=_CLUSTER, strategy="zorder"),
        )
        reader = spark.read.format("lakedex").option("hoodie.enable.data.skipping", "false")
        reader.load(self._path).createOrReplaceTempView(_UNPRUNED)
        queries = tuple(self._ask(*query) for query in _QUERIES)
        opened = api.open(self._path)
        return SparkDemo(
            steps=tuple(self._steps),
            queries=queries,
            report=opened.explain(queries[-1].condition),
            is_right=opened.verify().ok and all(each.left < each.total for each in queries),
            hudi_rs=ask_hudi_rs(opened, self._path, {}),
        )

    def _step(self, what: str, work: Callable[[], Any]) -> None:
        began = time.perf_counter()
        outcome = work()
        seconds = time.perf_counter() - began
        self._steps.append((what, _counts(outcome), seconds))

    def _ask(self, what: str, condition: str) -> QueryComparison:
        report = self._lake.explain(_query(_TABLE, condition))
        rows, seconds = self._timed(_query(_TABLE, condition))
        all_rows, seconds_without = self._timed(_query(_UNPRUNED, condition))
        left = len(report.files)
        return QueryComparison(
            what, condition, report.total, left, seconds, seconds_without, rows == all_rows
        )

    def _timed(self, query: str) -> tuple[list[Any], float]:
        """The rows, and the least seconds of some tries: the first compiles code."""
        least = float("inf")
        for _ in range(_TRIES):
            began = time.perf_counter()
            rows = self._lake.spark.sql(query).collect()
            least = min(least, time.perf_counter() - began)
        return rows, least


def _counts(outcome: Any) -> str:  # noqa: ANN401 - of a statement it is a DataFrame
    if not isinstance(outcome, WriteResult):
        return ""
    if outcome.file_groups_replaced:
        replaced = f"{outcome.rows_in:,} rows of {outcome.file_groups_replaced:,}"
        return f"{replaced} in {outcome.files:,} files"
    return f"{outcome.inserted:,} inserted, {outcome.updated:,} updated, {outcome.files:,} files"


def _query(table: str, condition: str) -> str:
    return f"SELECT count(*), sum(fare), max(rider) FROM {table} WHERE {condition}"
