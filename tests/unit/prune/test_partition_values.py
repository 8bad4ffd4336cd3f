"""Predicates on partition columns are decided on the values that the paths stand for."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from tests.support.table_builder import TableBuilder


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables partitioned by text and by a number, without metadata tables."""
    made = {}
    for name, data_type, values in (
        ("text", pa.string(), ["x", "7", "007", "2024-01-01", "a b", "default"]),
        ("number", pa.int32(), [0, 7, -3]),
    ):
        schema = pa.schema([("id", pa.string()), ("p", data_type)])
        builder = TableBuilder(
            tmp_path_factory.mktemp(name) / "t",
            schema,
            record_key="id",
            partition_by="p",
            metadata=None,
        )
        builder.commit([(value, pa.table({"id": [str(value)]})) for value in values])
        made[name] = lakedex.open(builder.finish())
    return made


@pytest.mark.parametrize(
    ("table", "predicate", "matching", "read"),
    [
        # The folder `default` may stand for null, so it is always read.
        ("text", "p = 'x'", ["x"], 2),
        ("text", "p like '%0%'", ["007", "2024-01-01"], 3),
        ("text", "not p like '%0%'", ["7", "a b", "default", "x"], 4),
        ("text", "cast(p as int) = 7", ["007", "7"], 3),
        ("text", "length(p) = 1", ["7", "x"], 3),
        ("text", "year(p) = 2024", ["2024-01-01"], 2),
        ("text", "p is null", [], 1),
        ("number", "p = '7'", ["7"], 1),
        ("number", "p like '%3'", ["-3"], 1),
        ("number", "p % 7 = 0", ["0", "7"], 2),
        ("number", "p is null", [], 0),
    ],
)
def test_only_partitions_whose_value_satisfies_the_predicate_are_read(
    tables, table, predicate, matching, read
):
    found = tables[table].to_arrow(predicate, columns=["id"])["id"].to_pylist()
    assert sorted(found) == matching
    assert len(tables[table].files(predicate)) == read
