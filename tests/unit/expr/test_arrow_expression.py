"""Arrow expressions: the tree is true wherever Arrow is, for every type, null, NaN and zero."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidDefinition
from lakedex.expr.arrow_expression import from_arrow
from lakedex.expr.bind import bind_predicate, unknown_in
from lakedex.expr.evaluate import filter_table
from lakedex.expr.normal_form import normalise
from lakedex.expr.tree import (
    FALSE,
    And,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
)

f = pc.field
TABLE = pa.table(
    {
        "i": pa.array([None, -1, 0, 1, 2, 5], pa.int32()),
        "b": pa.array([None, -1, 0, 1, 2**53 - 1, 5], pa.int64()),
        "f": pa.array([None, math.nan, -0.0, 0.1, 0.5, math.inf], pa.float32()),
        "d": pa.array([None, math.nan, -0.0, 0.1, 0.5, -math.inf], pa.float64()),
        "s": pa.array([None, "", "a", "ab", "é", "b"]),
        "dec": pa.array([None, *map(Decimal, ("0.10", "0.50", "1.00", "-1.00", "5.00"))]),
        "day": pa.array([None, *[date(2024, 1, n) for n in range(1, 6)]]),
        "ts": pa.array(
            [None, *[datetime(2024, 1, n, tzinfo=UTC) for n in range(1, 6)]],
            pa.timestamp("ms", "UTC"),
        ),
        "flag": pa.array([None, True, False, True, False, None]),
        "st": pa.array([None, {"x": 1}, {"x": None}, {"x": 2}, {"x": 1}, {"x": 3}]),
        "row": pa.array(range(6), pa.int64()),
    }
)
NUMBERS = [0, 1, 5, 2**40, -0.0, 0.1, 0.5, 2.5, math.nan, math.inf, Decimal("0.50"), Decimal("0.7")]
VALUES = {
    **dict.fromkeys(("i", "b", "f", "d", "dec"), NUMBERS),
    "s": ["", "a", "ab", "é"],
    "day": [date(2024, 1, 2), datetime(2024, 1, 2), datetime(2024, 1, 2, 5)],
    "ts": [datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 2, 0, 0, 0, 5, tzinfo=UTC)],
    "flag": [True, False],
}


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(sorted(VALUES)))
    value = draw(st.sampled_from(VALUES[name]))
    choice = draw(st.integers(0, 5))
    if choice <= 2:
        test = draw(st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]))
        return getattr(f(name), test)(pa.scalar(value))
    if choice == 3:
        members = draw(st.lists(st.sampled_from([value, None]), min_size=1, max_size=2))
        return pc.is_in(f(name), pa.array(members), skip_nulls=draw(st.booleans()))
    if choice == 4:
        return draw(st.sampled_from([f(name).is_null(), f(name).is_valid()]))
    return draw(
        st.sampled_from(
            [
                f("flag"),
                f("d") > f("d"),
                f("d") != f("d"),
                f("f").is_nan(),
                f("d").is_null(nan_is_null=True),
                pc.starts_with(f("s"), "a"),
                pc.match_like(f("s"), "a_"),
                pc.match_like(f("s"), "%"),
                f("i").cast(pa.int64()) > 1,
                f("st", "x") == 1,
                pc.scalar(True),
                pc.utf8_upper(f("s")) == "A",
            ]
        )
    )


TREES = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda a: ~a)
    ),
    max_leaves=6,
)


def pruned_rows(tree):
    """The rows that the bound tree keeps; all where it holds something unknown."""
    normal = normalise(bind_predicate(tree, TABLE.schema))
    if unknown_in(normal) is None:
        return set(filter_table(TABLE, normal)["row"].to_pylist())
    return pruned_parts(normal)


def pruned_parts(expr):
    """As pruning treats it: unknown parts keep every row."""
    match expr:
        case Unknown():
            return set(range(6))
        case And(children):
            return set.intersection(*map(pruned_parts, children))
        case Or(children):
            return set.union(*map(pruned_parts, children))
        case _:
            return set(filter_table(TABLE, expr)["row"].to_pylist())


@given(TREES, st.booleans())
def test_the_tree_keeps_every_row_that_arrow_keeps(expression, with_schema):  # cases B1, B12
    try:
        kept = ds.InMemoryDataset(TABLE).to_table(filter=expression)["row"].to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return
    tree = from_arrow(expression, TABLE.schema if with_schema else None)
    assert set(kept) <= pruned_rows(tree)


SCHEMA = TABLE.schema


def col(name):
    return Column((name,), SCHEMA.field(name).type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f("i") > 5, Compare(Op.GT, col("i"), Literal(5, pa.int64()))),
        (pc.scalar(5) > f("i"), Compare(Op.LT, col("i"), Literal(5, pa.int64()))),
        (~(f("i") > 5), Compare(Op.LTE, col("i"), Literal(5, pa.int64()))),
        (f("d") != pa.scalar(math.nan), IsNotNull(col("d"))),
        (f("d") == pa.scalar(math.nan), FALSE),
        (~(f("i") < pa.scalar(math.nan)), IsNotNull(col("i"))),
        (f("s") == pa.scalar(None, pa.string()), FALSE),
        (f("s").is_null(), IsNull(col("s"))),
        (~f("s").is_null(), IsNotNull(col("s"))),
        (pc.starts_with(f("s"), "a"), StartsWith(col("s"), "a")),
        (~pc.starts_with(f("s"), "a"), Not(StartsWith(col("s"), "a"))),
        (pc.match_like(f("s"), "a_b"), StartsWith(col("s"), "a")),
        (f("d").is_null(nan_is_null=True), Unknown("is_null with nan_is_null")),
        (
            f("s").isin(["x"]),
            In(col("s"), (Literal("x", pa.string()),)),
        ),
        (
            ~f("s").isin(["x"]),
            Or((Not(In(col("s"), (Literal("x", pa.string()),))), IsNull(col("s")))),
        ),
        (
            f("s").isin(["x", None]),
            Or((In(col("s"), (Literal("x", pa.string()),)), IsNull(col("s")))),
        ),
    ],
    ids=str,
)
def test_translation(expression, expected):
    assert from_arrow(expression, SCHEMA) == expected


def test_not_greater_keeps_nan():  # case B1: NaN, infinity and negative zero
    tree = from_arrow(~(f("d") > 5.0), SCHEMA)
    assert isinstance(tree, Or)
    assert tree.children[0] == Compare(Op.LTE, col("d"), Literal(5.0, pa.float64()))
    assert math.isnan(tree.children[1].right.value)


@pytest.mark.parametrize(
    "text", ["it's", 'q"uote', "a)b, c", "back\\slash", "\n\0", "\U0001f600", '" == x and (']
)
def test_strings_and_names_are_never_parsed_from_text(text):
    schema = pa.schema([(text, pa.string())])
    tree = from_arrow(f(text) == text, schema)
    assert tree == Compare(Op.EQ, Column((text,), pa.string()), Literal(text, pa.string()))


@pytest.mark.parametrize(
    "expression",
    [f(0) == 1, f("i") + 1 > 2, f("missing") > 1, pc.if_else(f("flag"), f("i"), f("i")) > 1],
    ids=str,
)
def test_what_is_not_understood_is_unknown(expression):
    assert isinstance(from_arrow(expression, SCHEMA), Unknown)


def test_without_a_schema_another_type_makes_it_unknown():  # case B11
    tree = from_arrow(f("d") > 5)
    assert unknown_in(bind_predicate(tree, SCHEMA)) is not None
    known = from_arrow(f("b") > 5)
    assert bind_predicate(known, SCHEMA) == Compare(Op.GT, col("b"), Literal(5, pa.int64()))


def test_twenty_thousand_terms_are_one_flat_or():
    expression = f("i") == 0
    for number in range(1, 20_000):
        expression = expression | (f("i") == number)
    tree = from_arrow(expression, SCHEMA)
    assert isinstance(tree, Or)
    assert len(tree.children) == 20_000


def test_deep_alternation_never_overflows():
    expression = f("flag")
    for _ in range(2_000):
        expression = (expression & f("flag")) | f("flag")
    tree = from_arrow(expression, SCHEMA)
    try:
        bind_predicate(tree, SCHEMA)
    except InvalidDefinition:
        pytest.fail("deep parts must become unknown")
