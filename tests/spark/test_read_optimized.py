"""Read-optimized queries: rows as base files have them, whatever indexes know of later versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakedex.prune import SPARK
from lakedex.spark import pruned_scan

PARTS, ROWS = 8, 80
INDEXES = {
    "by_name": ("name", "secondary_index"),
    "bits": ("name", "bitmap"),
    "shouted": ("upper(name)", "column_stats"),
}


def people(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "part": [f"p{number % PARTS}" for number in numbers],
            "name": [f"n{number + 1000 * version}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def table(lake, tmp_path_factory) -> Any:
    """Slices of which half have log files: all their rows have other values there, or are gone."""
    made = lake.create_table(
        "optimized",
        "id string, part string, name string, ver long",
        path=tmp_path_factory.mktemp("optimized") / "t",
        record_key="id",
        ordering="ver",
        partition_by="part",
        table_type="mor",
        properties={"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
    )
    made.bulk_insert(people(range(ROWS), 1))
    for name, (column, using) in INDEXES.items():
        made.create_index(name, column, using=using)
    made.upsert(people(range(0, ROWS, 2), 2))
    made.delete("id IN ('k4', 'k6')")
    return made


@pytest.mark.parametrize(
    ("condition", "keys", "most"),
    [
        ("name = 'n1002'", ["k2"], 4),
        ("name = 'n2002'", [], 4),
        ("name IN ('n1003', 'n1004')", ["k3", "k4"], 5),
        ("id = 'k4'", ["k4"], 4),
        ("id IN ('k6', 'k7')", ["k6", "k7"], 5),
        ("id = 'k3'", ["k3"], 5),
        ("name = 'n1006' OR id = 'k9'", ["k6", "k9"], 5),
        ("upper(name) = 'N1010'", ["k10"], 4),
        ("part = 'p2' AND ver = 1", [f"k{number}" for number in range(2, ROWS, PARTS)], 1),
        ("ver = 1 AND name < 'n1002'", ["k0", "k1"], 4),
    ],
)
def test_indexes_leave_the_rows_of_base_files(lake, table, monkeypatch, condition, keys, most):
    # Eight small files are read faster than any index is.
    monkeypatch.setattr(pruned_scan, "SPARK", replace(SPARK, query_s=60))
    reader = lake.spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    frame = reader.load(table.path).where(condition).select("id")
    report = lake.explain(frame)
    assert report.total == PARTS
    assert len(report.files) <= most, report
    assert sorted(row["id"] for row in frame.collect()) == sorted(keys)
