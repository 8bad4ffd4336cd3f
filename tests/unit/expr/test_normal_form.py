"""The normal form is true for exactly the rows of the predicate; `points` loses none of them."""

from __future__ import annotations

import math
import re
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidDefinition
from lakedex.expr.normal_form import fold_compare, fold_in, normalise, order_key
from lakedex.expr.points import key_points, points
from lakedex.expr.tree import (
    FALSE,
    NULL,
    TRUE,
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

INT, TEXT, DOUBLE, BOOL = pa.int64(), pa.string(), pa.float64(), pa.bool_()
DOMAINS = {
    "i": (INT, [None, 0, 1, 2]),
    "j": (INT, [None, 1, 2]),
    "s": (TEXT, [None, "", "a", "ab", "axb", "%"]),
    "d": (DOUBLE, [None, -0.0, 1.5, math.nan]),
    "b": (BOOL, [None, True, False]),
}
ROWS = [
    dict(zip(DOMAINS, values, strict=True))
    for values in product(*(values for _, values in DOMAINS.values()))
]


def column(name):
    return Column((name,), DOMAINS[name][0])


def literal(kind):
    values = {INT: [None, 0, 1, 2, 3], TEXT: [None, "", "a", "ab"], BOOL: [None, True, False]}
    return st.sampled_from(values.get(kind, [None, 0.0, 1.5, math.nan])).map(
        lambda value: Literal(value, kind)
    )


def chosen(*choices):
    return Call("coalesce", choices)


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(list(DOMAINS)))
    kind = DOMAINS[name][0]
    child = draw(st.sampled_from([column(name), chosen(column(name), draw(literal(kind)))]))
    choice = draw(st.integers(0, 6))
    if choice == 0:
        return Compare(draw(st.sampled_from(list(Op))), child, draw(literal(kind)))
    if choice == 1:
        return In(child, tuple(draw(st.lists(literal(kind), min_size=1, max_size=3))))
    if choice == 2:
        return draw(st.sampled_from([IsNull(child), IsNotNull(child)]))
    if choice == 3:
        patterns = st.sampled_from(["a%", "a", "", "%", "a%b", "a_", "\\%", "%b"])
        return Like(column("s"), draw(patterns))
    if choice == 4:
        return StartsWith(column("s"), draw(st.sampled_from(["", "a", "ab"])))
    if choice == 5:
        other = draw(st.sampled_from([column("i"), chosen(column("i"), column("j"))]))
        return Compare(draw(st.sampled_from(list(Op))), other, column("j"))
    literals = draw(st.tuples(literal(kind), literal(kind)))
    constant = Compare(draw(st.sampled_from(list(Op))), *literals)
    flag = chosen(column("b"), draw(st.sampled_from([TRUE, FALSE])))
    return draw(st.sampled_from([TRUE, FALSE, NULL, column("b"), flag, constant]))


def joined(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    truth = st.sampled_from([TRUE, FALSE, NULL])
    op = st.sampled_from([Op.EQ, Op.NE, Op.EQ_NULL_SAFE])
    return (
        several.map(And)
        | several.map(Or)
        | inner.map(Not)
        | inner.map(IsNull)
        | inner.map(IsNotNull)
        | st.builds(Compare, op, inner, truth)
    )


TREES = st.recursive(leaves(), joined, max_leaves=8)


def value_of(expr, row):
    """A plain interpreter of SQL's three-valued logic."""
    match expr:
        case Column((name,)):
            return row[name]
        case Literal(value):
            return value
        case Not(child):
            value = value_of(child, row)
            return None if value is None else not value
        case And(children):
            values = [value_of(child, row) for child in children]
            return False if False in values else None if None in values else True
        case Or(children):
            values = [value_of(child, row) for child in children]
            return True if True in values else None if None in values else False
        case IsNull(child):
            return value_of(child, row) is None
        case IsNotNull(child):
            return value_of(child, row) is not None
        case Compare(op, left, right):
            sides = (Literal(value_of(side, row)) for side in (left, right))
            return fold_compare(op, *sides)
        case In(child, values):
            return fold_in(Literal(value_of(child, row)), values)
        case Call("coalesce", choices):
            values = [value_of(choice, row) for choice in choices]
            return next((value for value in values if value is not None), None)
        case StartsWith(child, prefix):
            value = value_of(child, row)
            return None if value is None else value.startswith(prefix)
        case Like(child, pattern):
            value = value_of(child, row)
            return None if value is None else bool(regex(pattern).fullmatch(value))
    raise AssertionError(expr)


def regex(pattern):
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    return re.compile("".join(signs.get(p) or re.escape(p[-1]) for p in parts), re.DOTALL)


def truths(expr):
    return [value_of(expr, row) is True for row in ROWS]


def has_not_above_a_junction(expr):
    match expr:
        case And(children) | Or(children):
            return any(has_not_above_a_junction(child) for child in children)
        case Not(child):
            return isinstance(child, And | Or | Not | IsNull | IsNotNull | Literal)
        case _:
            return False


@given(TREES)
def test_normal_form_is_true_for_the_same_rows(tree):  # cases B5, B12
    normal = normalise(tree)
    assert truths(normal) == truths(tree)
    assert not has_not_above_a_junction(normal)
    assert normalise(normal) == normal or truths(normalise(normal)) == truths(tree)


@given(TREES)
def test_normal_form_of_the_negation_is_true_for_the_false_rows(tree):
    assert truths(normalise(Not(tree))) == [value_of(tree, row) is False for row in ROWS]


@given(TREES, st.sampled_from(list(DOMAINS)))
def test_points_hold_every_value_of_the_matching_rows(tree, name):  # case B5
    found = points(normalise(tree), (name,))
    if found is None:
        return
    keys = {None if point.value is None else order_key(point.value) for point in found}
    for row, true in zip(ROWS, truths(tree), strict=True):
        if true:
            assert (None if row[name] is None else order_key(row[name])) in keys


@given(TREES)
def test_key_points_hold_every_key_of_the_matching_rows(tree):
    found = key_points(normalise(tree), [("i",), ("j",)], 50)
    if found is None:
        return
    assert len(found) <= 50
    keys = {tuple(part.value for part in key) for key in found}
    matching = {(row["i"], row["j"]) for row, true in zip(ROWS, truths(tree), strict=True) if true}
    assert matching <= keys


NUM, S = column("i"), column("s")


def number(value):
    return Literal(value, INT)


def text(value):
    return Literal(value, TEXT)


@pytest.mark.parametrize(
    ("tree", "normal"),
    [
        (Not(Compare(Op.LT, NUM, number(1))), Compare(Op.GTE, NUM, number(1))),
        (Not(IsNull(NUM)), IsNotNull(NUM)),
        (Not(Not(IsNull(NUM))), IsNull(NUM)),
        (Not(Unknown("udf")), Unknown("udf")),
        (
            Not(In(NUM, (number(1), number(2)))),
            Not(In(NUM, (number(1), number(2)))),
        ),
        (Not(In(NUM, (number(1), number(None)))), FALSE),
        (In(NUM, (number(1), number(None))), Compare(Op.EQ, NUM, number(1))),
        (Compare(Op.EQ_NULL_SAFE, NUM, number(None)), IsNull(NUM)),
        (Not(Compare(Op.EQ_NULL_SAFE, NUM, number(None))), IsNotNull(NUM)),
        (
            Not(Compare(Op.EQ_NULL_SAFE, NUM, number(1))),
            Not(Compare(Op.EQ_NULL_SAFE, NUM, number(1))),
        ),
        (Compare(Op.EQ, NUM, number(None)), FALSE),
        (Not(Compare(Op.EQ, NUM, number(None))), FALSE),
        (Like(S, "ab%"), StartsWith(S, "ab")),
        (Like(S, "%"), StartsWith(S, "")),
        (Like(S, "a\\%b"), Compare(Op.EQ, S, text("a%b"))),
        (Like(S, "ab%c"), And((StartsWith(S, "ab"), Like(S, "ab%c")))),
        (Not(Like(S, "ab%c")), Not(Like(S, "ab%c"))),
        (Not(Like(S, "ab%")), Not(StartsWith(S, "ab"))),
        (column("b"), Compare(Op.EQ, column("b"), TRUE)),
        (Not(column("b")), Compare(Op.EQ, column("b"), FALSE)),
        (Or((Unknown("x"), TRUE)), TRUE),
        (And((Unknown("x"), FALSE)), FALSE),
        (And((IsNull(NUM), NULL)), FALSE),
        (
            Or((Compare(Op.EQ, NUM, number(1)), IsNull(NUM), Compare(Op.EQ, NUM, number(2)))),
            Or((In(NUM, (number(1), number(2))), IsNull(NUM))),
        ),
        (
            Compare(Op.LT, chosen(NUM, number(1)), number(2)),
            And(
                (
                    Compare(Op.LT, chosen(NUM, number(1)), number(2)),
                    Or((Compare(Op.LT, NUM, number(2)), IsNull(NUM))),
                )
            ),
        ),
        (
            Not(In(chosen(NUM, number(1)), (number(1), number(2)))),
            And(
                (
                    Not(In(chosen(NUM, number(1)), (number(1), number(2)))),
                    Not(In(NUM, (number(1), number(2)))),
                )
            ),
        ),
    ],
    ids=str,
)
def test_shapes(tree, normal):  # case B3: prefix predicates
    assert normalise(tree) == normal


def test_ten_thousand_equalities_become_one_in():
    tree = Or(tuple(Compare(Op.EQ, NUM, number(n)) for n in range(10_000)))
    normal = normalise(tree)
    assert isinstance(normal, In)
    assert len(points(normal, ("i",))) == 10_000


def test_a_deep_tree_is_refused():
    tree = column("b")
    for _ in range(3000):
        tree = Not(tree)
    with pytest.raises(InvalidDefinition):
        normalise(tree)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (Compare(Op.EQ, NUM, number(1)), [1]),
        (In(NUM, (number(1), number(2))), [1, 2]),
        (IsNull(NUM), [None]),
        (Compare(Op.EQ_NULL_SAFE, NUM, number(None)), [None]),
        (And((In(NUM, (number(1), number(2))), Compare(Op.EQ, NUM, number(2)))), [2]),
        (And((Compare(Op.EQ, NUM, number(1)), Unknown("udf"))), [1]),
        (Or((Compare(Op.EQ, NUM, number(1)), Unknown("udf"))), None),
        (Or((Compare(Op.EQ, NUM, number(1)), IsNull(S))), None),
        (Compare(Op.EQ, Cast(NUM, DOUBLE), Literal(1.0, DOUBLE)), None),
        (Compare(Op.EQ, Call("upper", (S,)), text("A")), None),
        (Not(In(NUM, (number(1), number(2)))), None),
        (Compare(Op.GT, NUM, number(1)), None),
        (FALSE, []),
        (TRUE, None),
    ],
    ids=str,
)
def test_points_of(tree, expected):  # case B11: casts and functions in predicates
    found = points(tree, ("i",))
    assert (None if found is None else [point.value for point in found]) == expected


def test_key_points_take_each_branch_of_an_or_by_itself():
    def pair(i, j):
        sides = (Compare(Op.EQ, NUM, number(i)), Compare(Op.EQ, column("j"), number(j)))
        return And(sides)

    found = key_points(Or((pair(1, 2), pair(2, 1))), [("i",), ("j",)], 2)
    assert [tuple(part.value for part in key) for key in found] == [(1, 2), (2, 1)]
    assert key_points(Or((pair(1, 2), pair(2, 1))), [("i",), ("j",)], 1) is None
    assert key_points(pair(1, 2), [("i",), ("s",)], 9) is None
