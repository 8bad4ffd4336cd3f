"""SQL text to tree: shapes, literals, complaints with positions, hostile text."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql import parse_expression, parse_predicate
from lakedex.expr.tree import (
    MAX_DEPTH,
    And,
    Call,
    Cast,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
)

A, B = Column(("a",)), Column(("b",))
ONE = Literal(1, pa.int32())
TEXT = pa.string()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Compare(Op.EQ, A, ONE)),
        ("a == 1", Compare(Op.EQ, A, ONE)),
        ("a <> 1", Compare(Op.NE, A, ONE)),
        ("a != 1", Compare(Op.NE, A, ONE)),
        ("a <=> 1", Compare(Op.EQ_NULL_SAFE, A, ONE)),
        ("1 >= a", Compare(Op.GTE, ONE, A)),
        ("a !> 1", Compare(Op.LTE, A, ONE)),
        ("a = 1 = b", Compare(Op.EQ, Compare(Op.EQ, A, ONE), B)),
        ("a IS NULL", IsNull(A)),
        ("a is not null", IsNotNull(A)),
        ("isnull(a)", IsNull(A)),
        ("a is distinct from 1", Not(Compare(Op.EQ_NULL_SAFE, A, ONE))),
        ("not a = 1", Not(Compare(Op.EQ, A, ONE))),
        ("!a = 1", Not(Compare(Op.EQ, A, ONE))),
        ("a in (1, null)", In(A, (ONE, Literal(None, pa.null())))),
        ("a not in (1)", Not(In(A, (ONE,)))),
        ("a in (b, 1)", Or((Compare(Op.EQ, A, B), Compare(Op.EQ, A, ONE)))),
        ("a between 1 and 1", And((Compare(Op.GTE, A, ONE), Compare(Op.LTE, A, ONE)))),
        ("a not between 1 and 1", Not(And((Compare(Op.GTE, A, ONE), Compare(Op.LTE, A, ONE))))),
        ("a like 'x%'", Like(A, "x%")),
        ("a not like 'x/%' escape '/'", Not(Like(A, "x/%", "/"))),
        ("startswith(a, 'x')", StartsWith(A, "x")),
        ("a or b and a", Or((A, And((B, A))))),
        ("(a or b) and a", And((Or((A, B)), A))),
        ("a and (b and a)", And((A, B, A))),
        ("a + 1 * b", Call("+", (A, Call("*", (ONE, B))))),
        ("a - 1 - b", Call("-", (Call("-", (A, ONE)), B))),
        ("-a", Call("negative", (A,))),
        ("a || b", Call("||", (A, B))),
        ("a::bigint", Cast(A, pa.int64())),
        ("cast(a as decimal(10, 2))", Cast(A, pa.decimal128(10, 2))),
        ("try_cast(a as varchar(3))", Cast(A, TEXT)),
        ("int(a)", Cast(A, pa.int32())),
        ("st.`a b`.c is null", IsNull(Column(("st", "a b", "c")))),
        ("`select` is null", IsNull(Column(("select",)))),
        ("`x``y` is null", IsNull(Column(("x`y",)))),
        ("date is null", IsNull(Column(("date",)))),
        ("1a is null", IsNull(Column(("1a",)))),
        ("show is null -- why", IsNull(Column(("show",)))),
        ("current_date", Call("current_date", ())),
    ],
)
def test_text_gives_the_tree(text, expected):
    assert parse_predicate(text) == expected


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("5", 5, pa.int32()),
        ("-2147483648", -2147483648, pa.int32()),
        ("3000000000", 3000000000, pa.int64()),
        ("-9223372036854775808", -9223372036854775808, pa.int64()),
        ("9223372036854775808", Decimal(9223372036854775808), pa.decimal128(19, 0)),
        ("5L", 5, pa.int64()),
        ("5s", 5, pa.int16()),
        ("-128Y", -128, pa.int8()),
        ("20.5", Decimal("20.5"), pa.decimal128(3, 1)),
        (".5", Decimal("0.5"), pa.decimal128(1, 1)),
        ("0.001", Decimal("0.001"), pa.decimal128(3, 3)),
        ("2e1", 20.0, pa.float64()),
        ("2.5D", 2.5, pa.float64()),
        ("0.1F", 0.10000000149011612, pa.float32()),
        ("5.50BD", Decimal("5.50"), pa.decimal128(3, 2)),
        ("1e2BD", Decimal(100), pa.decimal128(3, 0)),
        ("X'1ff'", b"\x01\xff", pa.binary()),
        ("DATE '2024-2-29'", date(2024, 2, 29), pa.date32()),
        ("TIMESTAMP_NTZ '2024-01-01 10:00:00'", datetime(2024, 1, 1, 10), pa.timestamp("us")),
        (
            "TIMESTAMP '2024-01-01 10:00:00+02:00'",
            datetime(2024, 1, 1, 8, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
        ),
        (r"'it''s \'q\' \\ \n \% \u00e9 \101 \q'", "it's 'q' \\ \n \\% é A q", TEXT),
        ('"a""b"', 'a"b', TEXT),
        ("'a' 'b'", "ab", TEXT),
        (r"r'a\n'", r"a\n", TEXT),
        (r"'\ud83d\ude00'", "\U0001f600", TEXT),
    ],
)
def test_constants_have_sparks_types(text, value, kind):
    assert parse_expression(text) == Literal(value, kind)


def test_timestamp_without_zone_waits_for_the_session_zone():
    parsed = parse_expression("TIMESTAMP '2024-01-01 10:00:00'")
    assert parsed == Cast(Literal("2024-01-01 10:00:00", TEXT), pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    "text",
    [
        "date_format(ts, 'yyyy-MM-dd')",
        "from_unixtime(ts, 'yyyy')",
        "substr(a, 1, 2)",
        "substring(a, 1)",
        "to_date(a)",
        "day(a)",
        "dayofmonth(a)",
        "date_add(a, 1)",
        "nvl(a, b)",
        "DATE_TRUNC('month', ts)",
        "trim(a)",
        "hash(a)",
        "unix_timestamp(a)",
        "length(a)",
    ],
)
def test_functions_keep_their_name_and_arguments(text):
    name = text.split("(")[0].lower()
    call = parse_expression(text)
    assert isinstance(call, Call)
    assert call.function == name
    assert len(call.arguments) == text.count(",") + 1


def test_interval_arithmetic_is_unknown():
    compare = parse_predicate("ts > a + interval '1' day and b")
    assert Unknown("interval arithmetic") in compare.children[0].right.arguments


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a = (select 1)", 5),
        ("a in (select 1)", 6),
        ("exists (select 1)", 0),
        ("count(a) > 1", 0),
        ("row_number() over (order by a)", 0),
        ("upper(a) over (b)", 9),
        ("transform(a, x -> x)", 15),
        ("a = ?", 4),
        ("a = :p", 4),
        ("a = 1; drop table t", 5),
        ("case when a then b end", 0),
        ("a[0] = 1", 1),
        ("a = 'x", 4),
        ("a = `x", 4),
        ("a /* x", 2),
        ("a = ", 4),
        ("a b", 2),
        ("a = 1)", 5),
        ("(a = 1", 6),
        ("a in ()", 5),
        ("a like any ('x')", 7),
        ("a like 'x' escape 'xy'", 18),
        ("cast(a as blob)", 10),
        ("a = DATE '2023-02-30'", 9),
        ("a = DATE '12345-01-01'", 9),
        ("a = 128Y", 4),
        ("a = 1e999", 4),
        ("a = X'zz'", 4),
        ("a = '\\ud800'", 4),
        ("a = \x00", 4),
        ("", 0),
        ("db.f(a)", 4),
    ],
)
def test_what_is_not_understood_is_refused_with_its_position(text, position):
    with pytest.raises(InvalidDefinition) as caught:
        parse_predicate(text)
    assert caught.value.position == position


def test_refusal_shows_the_place_and_what_is_allowed():
    with pytest.raises(InvalidDefinition, match=r"subquery.*allowed are.*a = \(>>>select"):
        parse_predicate("a = (select 1)")


def test_ten_thousand_terms_are_one_flat_or():
    parsed = parse_predicate(" or ".join(f"a = {n}" for n in range(10_000)))
    assert isinstance(parsed, Or)
    assert len(parsed.children) == 10_000


def test_ten_thousand_terms_in_alternation_stay_flat():
    parsed = parse_predicate(" or ".join(f"a = {n} and b = {n}" for n in range(5_000)))
    assert len(parsed.children) == 5_000


def test_parentheses_up_to_the_limit_work_and_beyond_are_refused():
    depth = MAX_DEPTH - 2
    assert parse_predicate("(" * depth + "a" + ")" * depth) == A


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000 + "a" + ")" * 100_000,
        "(" * 1000,
        "not " * 5000 + "a",
        "- " * 5000 + "1",
        "f(" * 1000 + "a" + ")" * 1000,
        "a" + "+a" * 5000,
        "a" + " = a" * 5000,
        "a" + "::int" * 5000,
        "a" + " is null" * 5000,
        "(a" + "+a)" * 150 + "+a" * 150,
    ],
)
def test_deep_nesting_is_refused_not_a_crash(text):
    with pytest.raises(InvalidDefinition):
        parse_predicate(text)


def test_text_over_a_mebibyte_is_refused():
    with pytest.raises(InvalidDefinition, match="characters"):
        parse_predicate("a" * (1 << 20) + "b")


_SIGNS = ["'", '"', "`", *"(),.=<>-+*/%[];?{\\", "<=>", "--", "/*", "*/", "::", "X'0'", "r'"]
_WORDS = ["a", "b", "1", "2.5", "'x'", "and", "or", "not", "in", "is", "null", "like", "escape"]
_MORE = ["between", "cast", "as", "int", "decimal", "interval", "day", "date", "timestamp", "case"]
_PIECES = st.sampled_from([*_SIGNS, *_WORDS, *_MORE])


@given(st.lists(_PIECES, max_size=25).map(" ".join) | st.text(max_size=60))
def test_any_text_gives_a_tree_or_a_definition_error(text):
    with suppress(InvalidDefinition):
        parse_predicate(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 and not b < 2 or c is null",
        "a in (1, 2) and b between 1 and 2",
        "upper(a) like 'X%' or cast(b as int) <=> 5",
        "st.f = x'00' and d > date '2024-01-01'",
        "a % 2 = 1 and -b * 3 >= c / 4",
    ],
)
def test_sqlglot_accepts_the_same_texts(text):
    assert sqlglot.parse_one(text, dialect="spark") is not None
    parse_predicate(text)
