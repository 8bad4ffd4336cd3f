"""Evaluation node by node: casts, floats, LIKE, nested columns, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.expr.casting import cast
from lakedex.expr.evaluate import evaluate, filter_table
from lakedex.expr.like import like_regex, parse_like, prefix_successor
from lakedex.expr.tree import (
    And,
    Cast,
    Column,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Unknown,
)

NAN = float("nan")
UTC = dt.UTC
STAMP = pa.timestamp("us", "UTC")


def converted(values, kind, target, zone="UTC"):
    return cast(pa.array(values, kind), target, time_zone=zone).to_pylist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (" 12\t", 12),
        ("1.9", 1),
        ("-1.9", -1),
        (".", 0),
        (".5", 0),
        ("+7", 7),
        ("127", 127),
        ("128", None),
        ("-128", -128),
        ("-129", None),
        ("0000000000000000000000000000009", 9),
        ("1e2", None),
        ("", None),
        ("-", None),
        ("x", None),
        ("1 2", None),
        ("99999999999999999999", None),
    ],
)
def test_text_to_a_small_integer(value, expected):
    assert converted([value], pa.string(), pa.int8()) == [expected]


def test_text_to_other_types():
    words = ["t", " TRUE ", "no", "0", "maybe", None]
    assert converted(words, pa.string(), pa.bool_()) == [True, True, False, False, None, None]
    numbers = ["1.5", " -2e3 ", "Infinity", "-inf", "1d", "x", "1e999"]
    inf = float("inf")
    assert converted(numbers, pa.string(), pa.float64()) == [
        *(1.5, -2000.0, inf, -inf, 1.0),
        *(None, inf),
    ]
    assert converted(["1.005", "-0.005", "1000", "x"], pa.string(), pa.decimal128(5, 2)) == [
        Decimal("1.01"),
        Decimal("-0.01"),
        None,
        None,
    ]
    assert converted(["2021-2-3", "2021", "2021-02-30"], pa.string(), pa.date32()) == [
        dt.date(2021, 2, 3),
        dt.date(2021, 1, 1),
        None,
    ]


def test_text_to_timestamps_takes_offsets_and_else_the_session_zone():
    values = ["2021-02-03 04:05:06.1234567", "2021-02-03T04:05:06Z", "2021-02-03 04:05+01:00", "?"]
    got = converted(values, pa.string(), STAMP, "+02:00")
    assert got == [
        dt.datetime(2021, 2, 3, 2, 5, 6, 123456, tzinfo=UTC),
        dt.datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC),
        dt.datetime(2021, 2, 3, 3, 5, tzinfo=UTC),
        None,
    ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("12:30", STAMP),
        ("2021-01-01 00:00:00 Europe/Berlin", STAMP),
        ("0x1p3", pa.float64()),
        ("1e2", pa.decimal128(5, 2)),
    ],
)
def test_text_whose_meaning_is_not_reproduced_is_refused(value, kind):
    with pytest.raises(UnsupportedFeature):
        converted([value], pa.string(), kind)


def test_numbers_wrap_saturate_or_become_null_as_in_java():
    assert converted([300, -129], pa.int64(), pa.int8()) == [44, 127]
    assert converted([1e300, -1e300, NAN, 2.9], pa.float64(), pa.int32()) == [
        2**31 - 1,
        -(2**31),
        0,
        2,
    ]
    assert converted([1e300, 2.0**63], pa.float64(), pa.int64()) == [2**63 - 1, 2**63 - 1]
    assert converted([2147483648.0], pa.float64(), pa.int8()) == [-1]
    assert converted([NAN, 0.0, -0.0], pa.float64(), pa.bool_()) == [True, False, False]
    assert converted([12345], pa.int64(), pa.decimal128(5, 2)) == [None]
    decimals = [Decimal("2.50"), Decimal("-2.50"), Decimal("999.99")]
    kind = pa.decimal128(5, 2)
    assert converted(decimals, kind, pa.decimal128(3, 0)) == [Decimal(3), Decimal(-3), None]
    assert converted(decimals, kind, pa.int8()) == [2, -2, -25]
    assert converted(decimals, kind, pa.float64()) == [2.5, -2.5, 999.99]
    assert converted([Decimal("0E-10")], pa.decimal128(12, 10), pa.string()) == ["0E-10"]


def test_times_to_text_numbers_and_dates():
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), None]
    assert converted(moments, STAMP, pa.string()) == ["1969-12-31 23:59:59.5", None]
    assert converted(moments, STAMP, pa.int64()) == [-1, None]
    assert converted(moments, STAMP, pa.date32(), "+01:00") == [dt.date(1970, 1, 1), None]
    assert converted([dt.date(2021, 3, 4)], pa.date32(), STAMP, "+01:00") == [
        dt.datetime(2021, 3, 3, 23, tzinfo=UTC)
    ]
    assert converted([5], pa.int64(), STAMP) == [dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)]


def test_floats_to_text_are_refused_because_java_versions_differ():
    with pytest.raises(UnsupportedFeature, match="cast from double to string"):
        converted([1.5], pa.float64(), pa.string())


D = Column(("d",), pa.float64())
FLOATS = pa.table({"d": pa.array([NAN, -0.0, 0.0, 1.0, None])})


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (Op.EQ, NAN, [True, False, False, False, None]),
        (Op.EQ, 0.0, [False, True, True, False, None]),
        (Op.GT, 1.0, [True, False, False, False, None]),
        (Op.GTE, NAN, [True, False, False, False, None]),
        (Op.LT, NAN, [False, True, True, True, None]),
        (Op.LTE, NAN, [True, True, True, True, None]),
        (Op.EQ_NULL_SAFE, NAN, [True, False, False, False, False]),
    ],
)
def test_nan_is_equal_to_itself_and_above_all(op, value, expected):
    # case B1: NaN, -0.0
    predicate = Compare(op, D, Literal(value, pa.float64()))
    assert evaluate(predicate, FLOATS).to_pylist() == expected


def test_in_knows_nan_and_both_zeros():
    # case B1: NaN, -0.0
    values = (Literal(NAN, pa.float64()), Literal(-0.0, pa.float64()))
    assert evaluate(In(D, values), FLOATS).to_pylist() == [True, True, True, False, None]
    with_null = (*values, Literal(None, pa.float64()))
    assert evaluate(Not(In(D, with_null)), FLOATS).to_pylist() == [False] * 3 + [None] * 2


def test_fields_of_null_structs_are_null():
    rows = pa.table({"a": [{"b": {"c": 1}}, {"b": None}, None]})
    field = Column(("a", "b", "c"), pa.int64())
    assert evaluate(IsNull(field), rows).to_pylist() == [False, True, True]
    with pytest.raises(InvalidInput, match=r"a\.x"):
        evaluate(Column(("a", "x"), pa.int64()), rows)
    with pytest.raises(InvalidInput, match="nope"):
        evaluate(Column(("nope",), pa.int64()), rows)


def test_columns_in_another_encoding_are_decoded():
    rows = pa.table({"s": pa.array(["a", "b", "a"]).dictionary_encode()})
    predicate = Compare(Op.EQ, Column(("s",), pa.string()), Literal("a", pa.string()))
    assert filter_table(rows, predicate).num_rows == 2


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a%", "abc", True),
        ("%c", "abc", True),
        ("a_c", "a😀c", True),
        ("a_c", "ac", False),
        ("a.c", "abc", False),
        ("a%c", "a\nc", True),
        ("A%", "abc", False),
        ("", "", True),
        ("\\%\\_\\\\", "%_\\", True),
        ("(a|b)*", "(a|b)*", True),
        ("%\x00%", "a\x00b", True),
    ],
)
def test_like_matches_whole_strings(pattern, value, expected):
    rows = pa.table({"s": [value, None]})
    got = evaluate(Like(Column(("s",), pa.string()), pattern), rows).to_pylist()
    assert got == [expected, None]


def test_like_takes_another_escape_and_refuses_a_stray_one():
    rows = pa.table({"s": ["10%"]})
    column = Column(("s",), pa.string())
    assert evaluate(Like(column, "10!%", "!"), rows).to_pylist() == [True]
    for pattern in ("a\\", "\\a"):
        with pytest.raises(InvalidDefinition):
            evaluate(Like(column, pattern), rows)
    assert like_regex(parse_like("a%_")) == "(?s)\\Aa.*.\\z"


@pytest.mark.parametrize(
    ("prefix", "successor"),
    [
        ("a", "b"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
        ("\ud7ff", "\ue000"),
        ("\uffff", "\U00010000"),
        ("x\x7f", "x\x80"),
    ],
)
def test_the_successor_of_a_prefix_is_above_all_that_start_so(prefix, successor):
    # case B3: successor overflow, non-BMP
    assert prefix_successor(prefix) == successor
    if successor is not None:
        assert (prefix + "\U0010ffff" * 3).encode() < successor.encode()


def test_what_was_not_understood_cannot_be_evaluated():
    with pytest.raises(InvalidInput, match="a lateral view"):
        evaluate(And((Unknown("a lateral view"),)), FLOATS)


def test_a_filter_must_be_boolean_and_null_keeps_nothing():
    with pytest.raises(InvalidInput, match="boolean"):
        filter_table(FLOATS, D)
    assert filter_table(FLOATS, Literal(None, pa.bool_())).num_rows == 0
    assert filter_table(FLOATS, Literal(None)).num_rows == 0
    assert filter_table(FLOATS, Literal(True, pa.bool_())).num_rows == 5
    with pytest.raises(InvalidInput, match="not a value"):
        evaluate(Literal("x", pa.int32()), FLOATS)


def test_tables_without_rows_or_columns_evaluate():
    empty = FLOATS.slice(0, 0)
    assert evaluate(IsNull(D), empty).to_pylist() == []
    assert evaluate(Cast(D, pa.int64()), empty).type == pa.int64()
    assert len(evaluate(Literal(1, pa.int32()), FLOATS.select([]))) == 5


def test_a_deep_tree_does_not_exhaust_the_stack():
    tree = IsNull(D)
    for _ in range(5_000):
        tree = Not(tree)
    assert evaluate(tree, FLOATS).to_pylist() == [False] * 4 + [True]


def test_chunks_stay_chunks():
    chunked = pa.concat_tables([FLOATS, FLOATS])
    got = evaluate(IsNull(D), chunked)
    assert got.num_chunks == 2
    assert len(got) == 10
