"""Binding: names, Spark's coercion, and casts undone without changing a single row."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidDefinition, InvalidInput
from lakedex.expr.bind import bind, bind_predicate, bound_type, unknown_in
from lakedex.expr.coercion import comparison_type, membership_type
from lakedex.expr.evaluate import evaluate
from lakedex.expr.literal_cast import cast_literal
from lakedex.expr.sql import parse_expression, parse_predicate
from lakedex.expr.tree import (
    FALSE,
    Call,
    Cast,
    Column,
    Compare,
    In,
    Like,
    Literal,
    Not,
    Op,
    Unknown,
)
from lakedex.expr.unwrap_cast import always, never, unwrap_compare, unwrap_in

STAMP, STAMP_MS, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("b", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dt", pa.date32()),
        ("ts", STAMP),
        ("ms", STAMP_MS),
        ("ntz", NTZ),
        ("dec", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("bin", pa.binary()),
        ("St", pa.struct([("Zip", pa.int32()), ("in", pa.struct([("x", pa.string())]))])),
        ("dup", pa.int32()),
        ("DUP", pa.int32()),
        ("a.b", pa.int32()),
    ]
)


def col(name):
    return Column((name,), SCHEMA.field(name).type)


def lit(value, kind):
    return Literal(value, kind)


def compare(op, name, value):
    return Compare(op, col(name), Literal(value, SCHEMA.field(name).type))


ZIP = Column(("St", "Zip"), pa.int32())
CASES = [
    # Names.
    ("I = 5", compare(Op.EQ, "i", 5)),
    ("st.zip = 5", Compare(Op.EQ, ZIP, lit(5, pa.int32()))),
    ("`a.b` = 5", compare(Op.EQ, "a.b", 5)),
    # Constants go to the right.
    ("5 < i", compare(Op.GT, "i", 5)),
    ("5 <=> i", compare(Op.EQ_NULL_SAFE, "i", 5)),
    # Text against numbers.
    ("i = '5'", compare(Op.EQ, "i", 5)),
    ("i = ' 5.7 '", compare(Op.EQ, "i", 5)),
    ("i = 'abc'", compare(Op.EQ, "i", None)),
    ("i = '3000000000'", compare(Op.EQ, "i", None)),
    ("s = 5", Compare(Op.EQ, Cast(col("s"), pa.int32()), lit(5, pa.int32()))),
    ("d > '1e3'", compare(Op.GT, "d", 1000.0)),
    ("dec = '1'", Compare(Op.EQ, Cast(col("dec"), pa.float64()), lit(1.0, pa.float64()))),
    ("flag = 'yes'", compare(Op.EQ, "flag", True)),
    ("bin = 'abc'", compare(Op.EQ, "bin", b"abc")),
    ("s > X'616263'", compare(Op.GT, "s", "abc")),
    # Numbers against numbers, the cast undone.
    ("i > 2.5", compare(Op.GT, "i", 2)),
    ("i >= 2.5", compare(Op.GT, "i", 2)),
    ("i < 2.5", compare(Op.LTE, "i", 2)),
    ("i >= 2.0", compare(Op.GTE, "i", 2)),
    ("i > -2.5D", compare(Op.GT, "i", -3)),
    ("i = 2.5", never(col("i"))),
    ("i != 2.5", always(col("i"))),
    ("i <=> 2.5", FALSE),
    ("i = 3000000000", never(col("i"))),
    ("i < 3000000000", always(col("i"))),
    ("i > -3000000000", always(col("i"))),
    ("b = 5", compare(Op.EQ, "b", 5)),
    ("b > 2.5D", compare(Op.GT, "b", 2)),
    ("f = 0.1", never(col("f"))),
    ("f = 0.5", compare(Op.EQ, "f", 0.5)),
    ("f > 0.1F", compare(Op.GT, "f", 0.10000000149011612)),
    ("dec = 1", compare(Op.EQ, "dec", Decimal("1.00"))),
    ("dec = 1.005", never(col("dec"))),
    ("dec > 1.005", compare(Op.GT, "dec", Decimal("1.00"))),
    ("dec < 1e30BD", always(col("dec"))),
    ("cast(i as bigint) = 5", compare(Op.EQ, "i", 5)),
    ("cast(cast(i as bigint) as double) > 5.5D", compare(Op.GT, "i", 5)),
    # Dates and times, in New York.
    ("dt = '2024-1-2'", compare(Op.EQ, "dt", date(2024, 1, 2))),
    ("dt = 'x'", compare(Op.EQ, "dt", None)),
    ("dt > timestamp '2024-01-02 12:00:00'", compare(Op.GT, "dt", date(2024, 1, 2))),
    ("dt = timestamp '2024-01-02'", compare(Op.EQ, "dt", date(2024, 1, 2))),
    ("dt = timestamp '2024-01-02 00:00:00Z'", never(col("dt"))),
    ("ts > '2024-01-02'", compare(Op.GT, "ts", datetime(2024, 1, 2, 5, tzinfo=UTC))),
    ("ts = date '2024-07-02'", compare(Op.EQ, "ts", datetime(2024, 7, 2, 4, tzinfo=UTC))),
    (
        "ts = '2024-01-02T00:00+01:00'",
        compare(Op.EQ, "ts", datetime(2024, 1, 1, 23, tzinfo=UTC)),
    ),
    ("ntz = '2024-01-02 03:04:05'", compare(Op.EQ, "ntz", datetime(2024, 1, 2, 3, 4, 5))),
    ("ntz = date '2024-01-02'", compare(Op.EQ, "ntz", datetime(2024, 1, 2))),
    ("ms = '2024-01-02 00:00:00.0005Z'", never(col("ms"))),
    (
        "ms > '2024-01-02 00:00:00.0015Z'",
        compare(Op.GT, "ms", datetime(2024, 1, 2, 0, 0, 0, 1000, tzinfo=UTC)),
    ),
    # IN has rules of its own.
    ("i in (1, 2.5, null)", In(col("i"), (lit(1, pa.int32()), lit(None, pa.int32())))),
    ("i in (3000000000)", never(col("i"))),
    ("i in ('05', '6')", In(col("i"), (lit(6, pa.int32()),))),
    ("s in (1, 2.50)", In(col("s"), (lit("1", pa.string()), lit("2.50", pa.string())))),
    ("dt in ('2024-01-02', '2024-1-2')", In(col("dt"), (lit(date(2024, 1, 2), pa.date32()),))),
    # The rest.
    ("i like '1%'", Like(Cast(col("i"), pa.string()), "1%")),
    ("dt + 1 = '2024-01-02'", None),
    ("i + interval 1 day > ts", Unknown("interval arithmetic")),
    ("not null", Not(Literal(None, pa.bool_()))),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_sparks_coercion(text, expected):  # cases B7, B8, B11, B12
    bound = bind_predicate(parse_predicate(text), SCHEMA, time_zone="America/New_York")
    if expected is None:
        expected = Compare(
            Op.EQ,
            Call("date_add", (col("dt"), lit(1, pa.int32()))),
            lit(date(2024, 1, 2), pa.date32()),
        )
    assert bound == expected


@pytest.mark.parametrize(("text", "_expected"), CASES, ids=[text for text, _ in CASES])
def test_both_sides_of_every_comparison_have_one_type(text, _expected):
    pending = [bind(parse_predicate(text), SCHEMA)]
    while pending:
        node = pending.pop()
        if isinstance(node, Compare):
            assert bound_type(node.left) == bound_type(node.right)
        if isinstance(node, In):
            assert {value.type for value in node.values} == {bound_type(node.child)}
        pending.extend(getattr(node, "children", ()))


def test_binding_twice_changes_nothing():
    for text, _ in CASES:
        bound = bind(parse_predicate(text), SCHEMA)
        assert bind(bound, SCHEMA) == bound


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("far = 1", "no column far"),
        ("flagg", "no column flagg; did you mean flag"),
        ("st.zap = 1", r"no column st\.zap; did you mean Zip"),
        ("i.x = 1", "i is int32, which has no fields"),
        ("dup = 1", "dup is ambiguous; it can be any of dup, DUP"),
        ("s", "must be true or false"),
        ("i and flag", "must be true or false"),
        ("flag = 1", "BOOLEAN and INT cannot be compared"),
        ("dt = 1", "cannot be compared"),
        ("st = 1", "cannot be compared"),
        ("st = st", "compare its fields"),
        ("flag in ('true')", "do not mix"),
        ("f in ('0.1')", "without quotes"),
        ("bin like 'a%'", "needs a string"),
        ("nosuch(i) = 1", "unknown function 'nosuch'"),
        ("upper() = 'a'", "upper takes 1"),
        ("ts > '12:30'", "no date"),
        ("dt > '12345-01-01'", "years 1 to 9999"),
        ("cast(st as int) = 1", "cannot cast"),
    ],
)
def test_what_cannot_be_bound_is_named(text, message):
    with pytest.raises(InvalidInput, match=message):
        bind_predicate(parse_predicate(text), SCHEMA)


def test_case_sensitive_names_tell_duplicates_apart():
    bound = bind(parse_predicate("DUP = 1"), SCHEMA, case_sensitive=True)
    assert bound.left.path == ("DUP",)
    with pytest.raises(InvalidInput):
        bind(parse_predicate("I = 1"), SCHEMA, case_sensitive=True)


def test_bad_like_patterns_and_zones_are_refused():
    with pytest.raises(InvalidDefinition):
        bind(Like(Column(("s",)), "a\\"), SCHEMA)
    with pytest.raises(InvalidInput, match="time zone"):
        bind(parse_predicate("i = 1"), SCHEMA, time_zone="Nowhere/Land")
    with pytest.raises(InvalidInput, match="time zone"):
        bind(parse_predicate("i = 1"), SCHEMA, time_zone="../../etc/passwd")


def test_a_column_typed_otherwise_is_unknown():
    bound = bind(Compare(Op.EQ, Column(("i",), pa.int64()), Literal(1, pa.int64())), SCHEMA)
    assert isinstance(bound, Unknown)


def test_a_null_row_stays_null_where_a_comparison_can_never_be_true():
    rows = pa.table({"i": pa.array([None, 5], pa.int32())})
    bound = bind(parse_predicate("i = 3000000000"), rows.schema)
    assert evaluate(bound, rows).to_pylist() == [None, False]
    bound = bind(parse_predicate("i < 3000000000"), rows.schema)
    assert evaluate(bound, rows).to_pylist() == [None, True]


def test_unknown_is_found_below_junctions():
    bound = bind(parse_predicate("i = 1 and not (ts > ts + interval 1 day)"), SCHEMA)
    assert unknown_in(bound) == Unknown("interval arithmetic")
    assert unknown_in(bound.children[0]) is None


def test_python_values_get_sparks_types():
    values = [1, 2**40, 1.5, Decimal("1.50"), "x", b"x", True, date(2024, 1, 1)]
    types = [bound_type(bind(Literal(value), SCHEMA)) for value in values]
    assert types[:3] == [pa.int32(), pa.int64(), pa.float64()]
    assert types[3:] == [pa.decimal128(3, 2), pa.string(), pa.binary(), pa.bool_(), pa.date32()]


def test_types_of_expressions():
    assert bound_type(bind(parse_expression("year(ts)"), SCHEMA)) == pa.int32()
    assert bound_type(bind(parse_expression("i + b"), SCHEMA)) == pa.int64()
    assert bound_type(bind(parse_expression("i / 2"), SCHEMA)) == pa.float64()


# Casts that are undone: the rows must be those of the cast itself.

NEAR_INT32 = [-(2**31), -(2**31) + 1, -1, 0, 1, 2, 2**24, 2**24 + 1, 2**31 - 1]
NEAR_INT64 = [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]
F32 = [-np.inf, -1.5, -0.0, 0.1, 0.5, 3.4028234663852886e38, np.inf, np.nan, 1e-45, -1e-45]
DAYS = [date(1900, 1, 1), date(2024, 3, 10), date(2024, 11, 3), date(2018, 11, 4), date(2024, 1, 1)]
SOURCES = {
    "int32": pa.array([None, *NEAR_INT32], pa.int32()),
    "int64": pa.array([None, *NEAR_INT64], pa.int64()),
    "int8": pa.array([None, -128, 0, 127], pa.int8()),
    "float": pa.array([None, *np.array(F32, np.float32)], pa.float32()),
    "decimal": pa.array(
        [None, *map(Decimal, ("-999.99", "-0.01", "0.00", "1.00", "1.01", "999.99"))],
        pa.decimal128(5, 2),
    ),
    "date": pa.array([None, *DAYS], pa.date32()),
    "ms": pa.array([None, -1, 0, 1, 1704067200000], STAMP_MS),
    "text": pa.array([None, "", "a", "é", "\U0001f600", "\uffff"]),
}
NUMBERS = st.sampled_from([*NEAR_INT32, *NEAR_INT64, 127, 128, -129])
DOUBLES = (
    st.floats(allow_nan=False)
    | st.sampled_from([*F32, 1e39, -1e39, 0.1, 2.5, -0.5])
    | NUMBERS.map(float)
)
MICROS = st.sampled_from([0, 1, -1, 1000, 1500, -500]) | st.integers(-(2**50), 2**50)
# Midnight does not exist on this day in São Paulo: the clocks go from 23:59 to 01:00.
SUMMER_BEGINS = datetime(2018, 11, 4, 3, tzinfo=UTC)
TARGETS = [
    ("int32", pa.int64(), NUMBERS),
    ("int8", pa.int32(), NUMBERS.filter(lambda n: abs(n) < 2**31)),
    ("int32", pa.float64(), DOUBLES),
    ("int32", pa.float32(), DOUBLES.map(lambda x: float(np.float32(x)))),
    ("int64", pa.float64(), DOUBLES),
    ("int64", pa.decimal128(22, 2), st.decimals(-(10**19), 10**19, places=2)),
    ("float", pa.float64(), DOUBLES),
    ("decimal", pa.decimal128(8, 4), st.decimals(-9999, 9999, places=4)),
    ("ms", STAMP, MICROS.map(lambda n: pa.scalar(n, STAMP).as_py())),
    (
        "date",
        STAMP,
        st.datetimes(datetime(1900, 1, 2), datetime(2030, 1, 1), timezones=st.just(UTC))
        | st.sampled_from([SUMMER_BEGINS, datetime(2024, 1, 1, 5, tzinfo=UTC)]),
    ),
    ("date", NTZ, st.datetimes(datetime(1900, 1, 1), datetime(2030, 1, 1))),
    ("text", pa.binary(), st.binary(max_size=3) | st.text(max_size=2).map(str.encode)),
]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(("name", "target", "_values"), TARGETS, ids=lambda part: str(part)[:30])
@given(data=st.data(), op=st.sampled_from(list(Op)))
def test_an_undone_cast_keeps_every_answer(name, target, _values, data, op):  # cases B1, B7, B8
    rows = pa.table({"x": SOURCES[name]})
    literal = Literal(data.draw(_values), target)
    zone = data.draw(st.sampled_from(["UTC", "America/New_York", "America/Sao_Paulo", "+05:30"]))
    cast = Cast(Column(("x",), rows["x"].type), target)
    plain = evaluate(Compare(op, cast, literal), rows, time_zone=zone)
    undone = unwrap_compare(op, cast, literal, rows["x"].type, zone)
    assert evaluate(undone, rows, time_zone=zone).to_pylist() == plain.to_pylist()
    values = (literal, Literal(None, target)) if data.draw(st.booleans()) else (literal,)
    plain = evaluate(In(cast, values), rows, time_zone=zone)
    undone = unwrap_in(cast, values, rows["x"].type, zone)
    assert evaluate(undone, rows, time_zone=zone).to_pylist() == plain.to_pylist()


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.decimal128(3, 1), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(4, 3), pa.decimal128(6, 3)),
        (pa.decimal128(38, 0), pa.decimal128(5, 5), pa.decimal256(43, 5)),
        (pa.int32(), pa.decimal128(3, 1), pa.decimal128(11, 1)),
        (pa.date32(), NTZ, NTZ),
        (NTZ, STAMP, STAMP),
        (STAMP_MS, pa.date32(), STAMP),
        (pa.large_string(), pa.string(), pa.large_string()),
        (pa.string(), pa.bool_(), pa.bool_()),
        (pa.null(), pa.int32(), pa.int32()),
    ],
)
def test_comparison_types(left, right, expected):
    assert comparison_type(left, right) == expected


def test_a_string_makes_an_in_list_text():
    assert membership_type([pa.int32(), pa.int64(), pa.string()]) == pa.string()
    assert membership_type([pa.date32(), pa.null()]) == pa.date32()


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (3000000000, pa.int64(), pa.int32(), -1294967296),
        (3e9, pa.float64(), pa.int32(), 2**31 - 1),
        (math.nan, pa.float64(), pa.int64(), 0),
        (300.7, pa.float64(), pa.int8(), 44),
        (Decimal("-1.9"), pa.decimal128(2, 1), pa.int32(), -1),
        (Decimal("1.005"), pa.decimal128(4, 3), pa.decimal128(4, 2), Decimal("1.01")),
        (Decimal("100"), pa.decimal128(3, 0), pa.decimal128(3, 1), None),
        (0.1, pa.float64(), pa.decimal128(3, 2), Decimal("0.10")),
        ("1e2", pa.string(), pa.decimal128(5, 1), Decimal("100.0")),
        ("-Infinity", pa.string(), pa.float64(), -math.inf),
        ("maybe", pa.string(), pa.bool_(), None),
        (True, pa.bool_(), pa.string(), "true"),
        (Decimal("0.0000001"), pa.decimal128(7, 7), pa.string(), "1E-7"),
        (datetime(2024, 1, 1, 3, tzinfo=UTC), STAMP, pa.date32(), date(2023, 12, 31)),
        (datetime(2024, 3, 10, 2, 30), NTZ, STAMP, datetime(2024, 3, 10, 7, 30, tzinfo=UTC)),
        ("2024-01-01 00:00:00 Mars/Base", pa.string(), STAMP, None),
        ("2024-01-01 25:00:00", pa.string(), STAMP, None),
    ],
)
def test_casts_of_constants(value, source, target, expected):
    cast = cast_literal(Literal(value, source), target, "America/New_York")
    assert cast == Literal(expected, target)
