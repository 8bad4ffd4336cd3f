"""Secondary indexes on columns of every type of single values, spelled as Hudi spells them."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput
from lakedex.index.kinds.secondary.records import SecondaryTarget, pair_rows
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import Trips, pairs

MOMENT, CITY = pa.timestamp("us", "UTC"), pa.field("city", pa.string())
TYPES = {
    "whole": (pa.int32(), [7, -7], ["7", "-7"], "v = 7"),
    "large": (pa.int64(), [2**40, -1], [str(2**40), "-1"], f"v = {2**40}"),
    "price": (pa.decimal128(9, 2), [Decimal("1.5"), Decimal("-.01")], ["1.50", "-0.01"], "v = 1.5"),
    "flag": (pa.bool_(), [True, False], ["true", "false"], "v = true"),
    "data": (pa.binary(), [b"\x00\xff", b""], ["00ff", ""], "v = X'00FF'"),
    "share": (pa.float64(), [1.5, 1e10], ["1.5", "1.0E10"], "v = 1.5D"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_column_of_any_single_values_can_be_indexed(tmp_path, name):
    dtype, (one, other), (text, other_text), predicate = TYPES[name]
    schema = pa.schema([("uuid", pa.string()), ("ts", pa.int64()), ("v", dtype), CITY])
    trips = Trips(tmp_path / "t", "mor", schema=schema)
    rows = [("k0", 1, one, "x"), ("k1", 1, other, "y"), ("k2", 1, None, "y")]
    trips.writer.insert(trips.rows(*rows))
    trips.index("v")
    assert trips.entries("v") == pairs({"k0": text, "k1": other_text, "k2": None})
    trips.writer.upsert(trips.rows(("k0", 2, other, "x"), ("k2", 2, one, "y")))
    assert trips.entries("v") == pairs({"k0": other_text, "k1": other_text, "k2": text})
    assert trips.found(predicate) == ["k2"]
    trips.assert_whole()
    (step,) = [each for each in trips.table().explain(predicate).steps if "idx_v" in each.index]
    if name == "share":
        assert "not sure" in step.reason
    else:
        assert (step.before, step.after) == (2, 1)


BY_HUDI = {
    "text": (pa.string(), ["a$b", "", "x"], ["a\\$b$k0", "$k1", "x$k2"]),
    "whole": (pa.int32(), [7, -7, 0], ["7$k0", "-7$k1", "0$k2"]),
    "large": (pa.int64(), [70_000_000_000, -1, 0], ["70000000000$k0", "-1$k1", "0$k2"]),
    "float": (
        pa.float32(),
        [1.5, 3.4028235e38, math.nan],
        ["1.5$k0", "3.4028235E38$k1", "NaN$k2"],
    ),
    "small float": (
        pa.float32(),
        [1e-20, 0.1, 0.0],
        ["1.0E-20$k0", "0.1$k1", "0.0$k2"],
    ),
    "double": (pa.float64(), [1e10, 0.1, 2e-3], ["1.0E10$k0", "0.1$k1", "0.002$k2"]),
    "odd double": (pa.float64(), [-0.0, -math.inf, 1.5], ["-0.0$k0", "-Infinity$k1", "1.5$k2"]),
    "moment": (
        MOMENT,
        [1704164645123456, -315521754500000, 253402300799999999],
        ["1704164645123456$k0", "-315521754500000$k1", "253402300799999999$k2"],
    ),
}
"""Columns, values and the keys that Hudi 1.2.0 made of them, on Java 17."""


@pytest.mark.parametrize("name", BY_HUDI)
def test_values_are_spelled_as_hudi_spells_them(name):
    dtype, values, keys = BY_HUDI[name]
    rows = pa.table(
        {"_hoodie_record_key": ["k0", "k1", "k2", "k3"], "v": pa.array([*values, None], dtype)}
    )
    target = SecondaryTarget("secondary_index_v", ("v",), 10, 8)
    assert pair_rows(target, rows, is_delete=False)["key"].to_pylist() == [*keys, "\0$k3"]


def test_dates_and_moments_are_found(tmp_path):
    """Hudi refuses dates, and finds moments by the same microseconds."""
    schema = pa.schema(
        [("uuid", pa.string()), ("ts", pa.int64()), ("day", pa.date32()), ("at", MOMENT), CITY]
    )
    trips = Trips(tmp_path / "t", "cow", schema=schema)
    first, middle, last = date(1960, 1, 2), date(2024, 1, 2), date(2030, 1, 2)
    trips.writer.insert(
        trips.rows(
            ("a", 1, first, -9, "x"),
            ("b", 1, last, 9, "x"),
            ("c", 1, first, -9, "y"),
            ("d", 1, middle, 5, "y"),
            ("e", 1, last, 9, "y"),
        )
    )
    trips.index("day")
    trips.index("at")
    assert trips.entries("day") == ["-3652$a", "-3652$c", "19724$d", "21916$b", "21916$e"]
    # The ranges of both partitions hold these values; only the index knows better.
    for predicate in ("day = date'2024-01-02'", "at = timestamp'1970-01-01 00:00:00.000005Z'"):
        assert trips.found(predicate) == ["d"]
        used = [step for step in trips.table().explain(predicate).steps if "asked" in step.reason]
        assert [(step.before, step.after) for step in used] == [(2, 1)], predicate


def test_a_type_that_spells_values_otherwise_is_refused(tmp_path):
    schema = pa.schema([("uuid", pa.string()), ("ts", pa.int64()), ("v", pa.int32())])
    trips = Trips(tmp_path / "t", "cow", schema=schema, partition_by=())
    trips.writer.insert(trips.rows(("k", 1, 1)))
    trips.index("v")
    wider = pa.table({"uuid": ["k"], "ts": [2], "v": pa.array([1.5], pa.float64())})
    with pytest.raises(InvalidInput, match="secondary_index_idx_v"):
        trips.writer.upsert(ArrowRowSource(wider))
    assert trips.found("v = 1") == ["k"]
    trips.assert_whole()
