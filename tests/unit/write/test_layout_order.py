"""Orders of rows: ranks of every type, curves, and ranges that are cut by a sample."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput
from lakedex.write.layout.order import (
    RowOrder,
    Strategy,
    bits_for,
    hilbert,
    quantiles,
    ranks,
    zorder,
)
from lakedex.write.layout.ranges import Ranges
from lakedex.write.rows import KEY

IN_ORDER = {
    "int": (pa.int32(), [None, -(2**31), -1, 0, 7]),
    "long": (pa.int64(), [None, -(2**63), 0, 2**63 - 1]),
    "double": (pa.float64(), [None, -math.inf, -1.5, 0.0, 5e-324, 2.0, math.inf, math.nan]),
    "text": (pa.string(), [None, "", "customer-10", "customer-2", "é", "\uffee", "\U0001f600"]),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"\x7f", b"\x80"]),
    "flag": (pa.bool_(), [None, False, True]),
    "date": (pa.date32(), [None, date(1900, 1, 1), date(2024, 2, 29)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [None, datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, UTC)],
    ),
    "decimal": (
        pa.decimal128(38, 10),
        [None, Decimal(-(10**20)), Decimal("-0.1"), Decimal("0.0000000001"), Decimal(10**27)],
    ),
}


@pytest.mark.parametrize("kind", IN_ORDER)
def test_ranks_keep_the_order_of_every_type(kind):
    data_type, values = IN_ORDER[kind]
    shuffled = np.random.default_rng(3).permutation(np.repeat(np.arange(len(values)), 3))
    column = pa.array([values[number] for number in shuffled], data_type)
    assert ranks(column).tolist() == shuffled.tolist()
    chunked = pa.chunked_array([column[:4], column[4:]])
    assert quantiles(chunked, chunked, 8).argsort(kind="stable").tolist() == (
        shuffled.argsort(kind="stable").tolist()
    )


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 6), (2, 4), (3, 3), (4, 2), (5, 1)])
def test_curves_visit_every_point_once_and_hilbert_makes_no_jump(dimensions, bits):
    points = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)))
    axes = list(points.T)
    for curve in (zorder, hilbert):
        assert sorted(curve(axes, bits).tolist()) == list(range(len(points)))
    walk = points[np.argsort(hilbert(axes, bits))]
    assert np.abs(np.diff(walk, axis=0)).sum(axis=1).max() == 1


def test_z_order_takes_bits_in_turn():
    rng = np.random.default_rng(5)
    axes = [rng.integers(0, 1 << 16, 50) for _ in range(3)]
    expected = []
    for point in zip(*(axis.tolist() for axis in axes), strict=True):
        bits = [f"{value:016b}" for value in point]
        expected.append(int("".join(itertools.chain.from_iterable(zip(*bits, strict=True))), 2))
    assert zorder(axes, 16).tolist() == expected


def test_places_of_many_columns_fit_their_type():
    for count in (1, 2, 4, 5, 31, 32):
        top = np.full(2, (1 << bits_for(count)) - 1)
        assert zorder([top] * count, bits_for(count)).max() > 0


def table(rng: np.random.Generator, count: int) -> pa.Table:
    """Rows with nulls, NaN and one very frequent value."""
    x = np.where(rng.random(count) < 0.6, 5, rng.integers(0, 50, count))
    y = np.where(rng.random(count) < 0.1, np.nan, rng.random(count).round(1))
    return pa.table(
        {
            "x": pa.array(x, mask=rng.random(count) < 0.1),
            "y": pa.array(y, mask=rng.random(count) < 0.1),
            KEY: [f"k{number:06d}" for number in rng.permutation(count)],
        }
    )


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("columns", [("x",), ("x", "y"), ("y", "x")])
def test_ranges_are_those_of_the_whole_order(strategy, columns):
    rng = np.random.default_rng(11)
    rows = table(rng, 3000)
    order = RowOrder.of(columns, strategy, rows.schema)
    ranges = Ranges.of(order, rows, 20)
    numbers = ranges.numbers(rows)
    in_order = numbers[order.positions(rows)]
    assert (np.diff(in_order) >= 0).all(), "a later range begins before an earlier one ends"
    # Frequent values are divided by their keys, so that no range is much larger than another.
    assert len(np.bincount(numbers)) == 20
    assert 150 * 0.6 <= np.bincount(numbers).min() <= np.bincount(numbers).max() <= 150 * 1.4


def test_ranges_by_a_sample_are_about_equal_and_do_not_overlap():
    rng = np.random.default_rng(12)
    rows = table(rng, 20_000)
    sample = rows.filter(pa.array(rng.random(20_000) < 0.1))
    order = RowOrder(("x", "y"))
    numbers = Ranges.of(order, sample, 10).numbers(rows)
    assert (np.diff(numbers[order.positions(rows)]) >= 0).all()
    assert np.bincount(numbers, minlength=10).min() > 1000


def test_a_range_ends_where_a_value_ends():
    rng = np.random.default_rng(14)
    x = np.sort(rng.integers(0, 400, 10_000))
    keys = [f"k{number}" for number in rng.permutation(10_000)]
    rows = pa.table({"x": x, "y": rng.random(10_000), KEY: keys})
    for columns in (("x",), ("x", "y")):
        numbers = Ranges.of(RowOrder(columns), rows[::7], 16).numbers(rows)
        assert len(np.unique(numbers)) == 16
        assert (np.diff(x)[np.diff(numbers) > 0] > 0).all(), "a value lies in two ranges"
        assert len(np.flatnonzero(np.diff(numbers))) == 15


def test_ranges_of_a_curve_are_parts_of_the_grid():
    """Each of 64 ranges is about one of 8 x 8 squares, also where a sample tells the cuts."""
    rng = np.random.default_rng(15)
    count = 64_000
    axes = {name: rng.permutation(count) for name in ("x", "y")}
    rows = pa.table({**axes, KEY: [f"k{number}" for number in range(count)]})
    sample = rows.filter(pa.array(rng.random(count) < 0.3))
    for strategy in (Strategy.ZORDER, Strategy.HILBERT):
        numbers = Ranges.of(RowOrder(("x", "y"), strategy), sample, 64).numbers(rows)
        for name in axes:
            widths = [np.ptp(axes[name][numbers == number]) for number in range(64)]
            assert np.mean(widths) < count / 8 * 1.2


def test_few_or_no_sample_rows_are_enough():
    rows = table(np.random.default_rng(13), 50)
    order = RowOrder(("x", "y"), Strategy.HILBERT)
    assert set(Ranges.of(order, rows[:0], 5).numbers(rows).tolist()) == {0}
    assert set(Ranges.of(order, rows[:3], 50).numbers(rows).tolist()) <= {0, 1, 2}
    assert Ranges.of(order, rows, 5).numbers(rows[:0]).tolist() == []


@pytest.mark.parametrize(
    ("names", "part"),
    [
        ([], "at least one column"),
        (["z"], "no column 'z'"),
        ([3], "no column 3"),
        (["x", "x"], "stands twice"),
        (["list"], "cannot be sorted by 'list'"),
        ([f"c{number}" for number in range(40)], "at most 32"),
    ],
)
def test_orders_that_cannot_be_are_refused(names, part):
    schema = pa.schema([("x", pa.int64()), ("list", pa.list_(pa.int64()))])
    with pytest.raises(InvalidInput, match=part):
        RowOrder.of(names, Strategy.LINEAR, schema)


def test_unknown_strategies_are_refused():
    with pytest.raises(InvalidInput, match="linear, zorder, hilbert, not by 'peano'"):
        Strategy.parse("peano")
