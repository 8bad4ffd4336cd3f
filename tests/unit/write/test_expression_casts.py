"""Indexes on casts that may fail, and on times of which the session's zone makes moments."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.expr.casting import lost_in_cast
from lakedex.services.index_creating import create_index
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("fare", pa.float64()),
        ("n", pa.int64()),
        ("c", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("wall", pa.timestamp("us")),
        ("text", pa.string()),
    ]
)
BARE = {"hoodie.metadata.index.column.stats.enable": "false"}
CLOCKS_GO_FORWARD = dt.datetime(2024, 3, 31, 2, 30)


def row(number: int, **changes: object) -> Row:
    wall = dt.datetime(2024, 1 + number, 1, 3)
    return {
        "id": f"k{number}",
        "p": f"p{number}",
        "ver": 1,
        "fare": 10.5 * number,
        "n": 1_700_000_000 + 86_400 * number,
        "c": Decimal(number) + Decimal("0.25"),
        "day": wall.date(),
        "wall": wall,
        "text": str(wall),
        **changes,
    }


class Files(Lab):
    """A file for each of six rows."""

    def __init__(self, root, **of_last):
        super().__init__(root, schema=SCHEMA, **BARE)
        rows = [row(n, **(of_last if n == 5 else {})) for n in range(6)]
        self.writer.bulk_insert(source(rows, SCHEMA))

    def files(self, predicate: str, zone: str = "UTC") -> int:
        """How many files are read, after the rows were held against a full scan."""
        options = ReadOptions(time_zone=zone, weighs_cost=False)
        plain = ReadOptions(time_zone=zone, without_indexes={"all"})
        table = lakedex.open(self.path, options=options)
        found = table.to_arrow(predicate, ["id"]).to_pylist()
        assert (
            found == lakedex.open(self.path, options=plain).to_arrow(predicate, ["id"]).to_pylist()
        )
        return len(table.explain(predicate).files)


def test_numbers_that_a_type_does_not_hold():
    def lost(values, kind, target):
        return lost_in_cast(pa.array(values, kind), target).tolist()

    assert lost([2**31 - 0.5, -(2.0**31) - 0.5, 2.0**31, math.nan, math.inf, None], pa.float64(),
                pa.int32()) == [False, False, True, True, True, False]  # fmt: skip
    assert lost([2.0**63, -(2.0**63), 9e18], pa.float64(), pa.int64()) == [True, False, False]
    assert lost([128, -128, None], pa.int64(), pa.int8()) == [True, False, False]
    assert lost([Decimal("127.99"), Decimal("128.00")], pa.decimal128(5, 2), pa.int8()) == [
        False,
        True,
    ]
    assert lost([99, 100], pa.int32(), pa.decimal128(3, 1)) == [False, True]
    assert lost([Decimal("9.95"), Decimal("9.94")], pa.decimal128(3, 2), pa.decimal128(2, 1)) == [
        True,
        False,
    ]
    assert lost([0, 2**62], pa.timestamp("us", "UTC"), pa.int32()) == [False, True]
    assert lost([0, 2**62], pa.int64(), pa.timestamp("us", "UTC")) == [False, True]
    assert lost(["x", "1"], pa.string(), pa.int32()) == [False, False]


def test_a_number_that_does_not_fit_leaves_its_file_without_an_entry(tmp_path):
    table = Files(tmp_path, fare=1e20, n=2**40, c=Decimal("9999999999.99"))
    create_index(table.writer, "whole", "cast(fare as int)")
    create_index(table.writer, "short", "cast(n as int)")
    create_index(table.writer, "units", "cast(c as int) + 1")
    create_index(table.writer, "at", "date_format(cast(n as timestamp), 'yyyy-MM-dd')")
    assert table.files("cast(fare as int) = 21") == 2
    assert table.files("cast(n as int) < 1700086400") == 2
    assert table.files("cast(c as int) + 1 = 3") == 2
    assert table.files("date_format(cast(n as timestamp), 'yyyy-MM-dd') = '2023-11-16'") == 1
    assert lakedex.open(table.path).verify().ok


TEXTS = {
    "year": ({}, "year(text) < 2024", 0),
    "month": ({}, "month(text) = 3", 1),
    "day": ({}, "day(text) > 1", 0),
    "hour": ({}, "hour(text) = 3 and id = 'k1'", 5),
    "date_format": ({"format": "yyyy-MM"}, "date_format(text, 'yyyy-MM') = '2024-02'", 1),
    "date_add": ({"days": "10"}, "date_add(text, 10) <= date '2024-02-11'", 2),
    "date_sub": ({"days": "1"}, "date_sub(text, 1) = date '2024-02-29'", 1),
    "to_date": ({"format": "yyyy-MM-dd HH:mm:ss"},
                "to_date(text, 'yyyy-MM-dd HH:mm:ss') = date '2024-05-01'", 1),
}  # fmt: skip
"""Functions of Hudi on a column of texts: options, a predicate, and how many files it reads."""


def test_functions_of_times_take_texts_as_spark_casts_them(tmp_path):
    table = Files(tmp_path, text="no time")
    for name, (options, _, _) in TEXTS.items():
        create_index(table.writer, f"of_{name}", "text", options={"expr": name, **options})
    for name, (_, predicate, files) in TEXTS.items():
        assert table.files(predicate) == files, name
        table.files(predicate, "America/New_York")
    table.writer.upsert(source([row(2, ver=2, text="2030-08-09 10:11:12")], SCHEMA))
    assert table.files("date_add(text, 10) = date '2030-08-19'") == 1
    assert table.files("month(text) = 3") == 0
    report = lakedex.open(table.path).verify()
    assert report.ok, report.problems[:3]


SPOKEN = [
    ("date_format(timestamp_seconds(n), 'MM-dd')",
     "date_format(timestamp_seconds(n), 'MM-dd') = '11-16'", 1),
    ("timestamp_millis(n)", "timestamp_millis(n) < timestamp '1970-01-20 16:15:00'", 2),
    ("extract(month from day) + 0", "extract(month from day) + 0 = 3", 1),
    ("extract(year from day)", "year(day) = 2023", 0),
    ("trim(leading '2' from text)", "ltrim('2', text) like '024-02%'", 1),
    ("substring(text from 6 for 2)", "substring(text, 6, 2) in ('01', '02')", 2),
    ("unix_date(day)", "unix_date(day) = 19783", 1),
]  # fmt: skip


def test_counts_of_time_and_calls_with_words(tmp_path):
    table = Files(tmp_path)
    for number, (expression, predicate, files) in enumerate(SPOKEN):
        create_index(table.writer, f"i{number}", expression)
        assert table.files(predicate) == files, expression
    assert lakedex.open(table.path).verify().ok


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_date_is_a_moment_of_the_zone(tmp_path, zone):
    # case B7: time units and time zones
    table = Files(tmp_path)
    told = {"lakedex.expression.time.zone": "Europe/Berlin"}
    create_index(table.writer, "month", "date_trunc('month', day)", options=told)
    create_index(table.writer, "hour", "date_trunc('hour', text)", options=told)
    create_index(table.writer, "count", "unix_seconds(cast(day as timestamp))", options=told)
    is_own = zone == "Europe/Berlin"
    assert table.files("date_trunc('month', day) = timestamp '2024-03-01'", zone) == (
        1 if is_own else 6
    )
    asked = "date_trunc('hour', text) = timestamp '2024-03-01 03:00:00'"
    assert table.files(asked, zone) == (1 if is_own else 6)
    asked = "unix_seconds(cast(day as timestamp)) = 1709247600"  # midnight in Berlin
    assert table.files(asked, zone) == (1 if is_own else 6)


def test_times_without_a_zone(tmp_path):
    # case B7: time units and time zones
    table = Files(tmp_path, wall=CLOCKS_GO_FORWARD)
    for name in ("year", "month", "day", "hour", "to_date"):
        create_index(table.writer, f"i_{name}", f"{name}(wall)")
    create_index(table.writer, "later", "date_add(wall, 1)")
    told = {"lakedex.expression.time.zone": "Europe/Berlin"}
    create_index(table.writer, "clock", "date_format(wall, 'MM-dd HH')", options=told)
    assert table.files("hour(wall) = 2", "America/New_York") == 1
    assert table.files("month(wall) = 3") == 2
    assert (
        table.files("wall between timestamp_ntz '2024-02-01' and timestamp_ntz '2024-02-02'") == 1
    )
    assert table.files("to_date(wall) = date '2024-02-01'") == 1
    assert table.files("date_add(wall, 1) = date '2024-02-02'") == 1
    # The text is of a moment: there is no half past two on that day.
    assert table.files("date_format(wall, 'MM-dd HH') = '03-31 03'", "Europe/Berlin") == 1
    assert table.files("date_format(wall, 'MM-dd HH') = '03-31 02'", "Europe/Berlin") == 0
    assert table.files("date_format(wall, 'MM-dd HH') = '03-31 02'", "UTC") == 6
    assert lakedex.open(table.path).verify().ok


def test_clocks_change_after_2037_as_before(tmp_path):
    # case B7: time units and time zones
    table = Files(tmp_path, n=2_540_000_000)  # the summer of 2050
    told = {"lakedex.expression.time.zone": "Europe/Berlin"}
    create_index(table.writer, "hours", "from_unixtime(n, 'HH')", options=told)
    assert table.files("from_unixtime(n, 'HH') = '05'", "Europe/Berlin") == 1
    assert lakedex.open(table.path).verify().ok


@pytest.mark.parametrize(("zone", "files"), [("UTC", 1), ("+01:00", 1), ("Europe/Berlin", 2)])
def test_databases_differ_before_1970_so_that_such_files_are_read(tmp_path, zone, files):
    # case B7: pre-1900 offsets
    table = Files(tmp_path, n=-5_000_000_000, day=dt.date(1811, 7, 23))
    told = {"lakedex.expression.time.zone": zone}
    create_index(table.writer, "days", "from_unixtime(n, 'yyyy-MM-dd')", options=told)
    create_index(table.writer, "moments", "unix_seconds(cast(day as timestamp))", options=told)
    assert table.files("from_unixtime(n, 'yyyy-MM-dd') = '2023-11-16'", zone) == files
    assert table.files("unix_seconds(cast(day as timestamp)) > 1709337600", zone) == 1 + files
    assert lakedex.open(table.path).verify().ok
