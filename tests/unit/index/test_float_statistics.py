"""Float ranges that lakedex wrote prune around and above zero; others do not (case B1)."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest

import lakedex
from lakedex.index.metadata_table.merging import _join
from lakedex.index.metadata_table.stat_values import NO_NAN
from tests.support.table_builder import TableBuilder
from tests.support.write_lab import Lab, source

NAN, INF = math.nan, math.inf
FILES = {
    "above": [1.5, 3.0],
    "around": [-2.0, 5.0],
    "below": [-9.0, -4.0],
    "endless": [-INF, INF],
    "high": [2.0, INF],
    "low": [-INF, -1.0],
    "minus_zero": [-0.0],
    "nan": [NAN, 1.0],
    "nan_only": [NAN],
    "nothing": [None],
    "some": [None, 7.0],
    "zero": [0.0],
}
ALWAYS = {"endless", "nan", "nan_only"}
"""Nothing is known of these."""
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float32()),
    ]
)
CONSTANTS = [-INF, -9.0, -4.0, -0.0, 0.0, 1.0, 5.0, 100.0, INF, NAN]


def rows(files: dict[str, list], ver: int = 1) -> list[dict]:
    return [
        {"id": f"{name}{number}", "p": name, "ver": ver, "x": value, "y": value}
        for name, values in files.items()
        for number, value in enumerate(values)
    ]


@pytest.fixture(scope="module", params=["cow", "mor"])
def path(request, tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp(request.param), request.param, schema=SCHEMA)
    lab.writer.bulk_insert(source(rows(FILES), SCHEMA))
    return lab.path


def left(path: str, predicate: str) -> set[str]:
    return {each.partition.removeprefix("p=") for each in lakedex.open(path).files(predicate)}


def literal(value: float) -> str:
    return f"cast('{value}' as double)"


@pytest.mark.parametrize(
    ("predicate", "matching"),
    [
        ("> 6", {"high", "some"}),
        (">= 5", {"around", "high", "some"}),
        ("< -3", {"below", "low"}),
        ("= 0", {"around", "minus_zero", "zero"}),
        ("= 4", {"around", "high"}),
        ("> 0", {"above", "around", "high", "some"}),
        ("< 0", {"around", "below", "low"}),
        ("> -0.5 AND {} < 0.5", {"around", "minus_zero", "zero"}),
    ],
)
@pytest.mark.parametrize("column", ["x", "y"])
def test_only_files_whose_range_allows_a_value_are_read(path, column, predicate, matching):
    assert left(path, f"{column} {predicate.format(column)}") == matching | ALWAYS


@pytest.mark.parametrize("column", ["x", "y"])
def test_whatever_is_asked_the_rows_are_those_of_a_scan(path, column):
    pruned = lakedex.open(path)
    whole = lakedex.open(path, options=lakedex.ReadOptions(without_indexes={"all"}))
    operators = ["=", "!=", "<", "<=", ">", ">=", "<=>"]
    for op, value in itertools.product(operators, map(literal, CONSTANTS)):
        for predicate in (f"{column} {op} {value}", f"NOT ({column} {op} {value})"):
            found, wanted = (
                sorted(each.to_arrow(predicate, ["id"])["id"].to_pylist())
                for each in (pruned, whole)
            )
            assert found == wanted, predicate


def test_a_log_file_with_a_nan_hides_it_no_more(tmp_path):
    lab = Lab(tmp_path, "mor", schema=SCHEMA)
    files = {name: FILES[name] for name in ("above", "below", "some", "zero")}
    lab.writer.bulk_insert(source(rows(files), SCHEMA))
    assert left(lab.path, "x > 6") == {"some"}
    lab.writer.upsert(source(rows({"above": [NAN], "below": [8.0]}, ver=2), SCHEMA))
    assert left(lab.path, "x > 6") == {"above", "below", "some"}
    assert left(lab.path, "x > 8.5") == {"above"}
    assert lakedex.open(lab.path).to_arrow("x > 8.5", ["id"])["id"].to_pylist() == ["above0"]
    assert lakedex.open(lab.path).verify().ok


def test_ranges_that_hudi_took_from_footers_are_not_believed(tmp_path):
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", indexes=["column_stats"]
    )
    wanted = ("above", "around", "nan", "zero")
    table = {name: pa.Table.from_pylist(rows({name: FILES[name]}), SCHEMA) for name in wanted}
    builder.commit([(name, each.drop_columns(["p"])) for name, each in table.items()])
    path = builder.finish()
    # A NaN may hide behind every range, and one that holds zero may be no range at all.
    assert left(path, "x > 100") == set(wanted)
    assert left(path, "x < -100") == {"around", "nan", "zero"}


def test_a_joined_range_has_no_note():
    record = {
        "minValue": None,
        "maxValue": None,
        "isDeleted": False,
        "isTightBound": False,
        "valueType": {"typeOrdinal": 6, "additionalInfo": NO_NAN},
    } | dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), 1)
    assert _join(record, dict(record))["valueType"] == {"typeOrdinal": 6, "additionalInfo": None}
