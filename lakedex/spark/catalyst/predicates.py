"""Catalyst's predicates as those of the tree, exact in three-valued logic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.tree import (
    NULL,
    TRUE,
    And,
    Call,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
    all_of,
    any_of,
)
from lakedex.spark.catalyst.columns import literal
from lakedex.spark.catalyst.terms import (
    FilterNode,
    NotTranslatable,
    Rule,
    Term,
    TranslationContext,
    arrow_type,
    failures_of,
    plain_type,
    same_meaning,
)

_NAN = float("nan")


def _term(expr: Expr, children: list[Term]) -> Term:
    return Term(expr, pa.bool_(), failures_of(children))


def _comparison(op: Op) -> Rule:
    def translate(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
        left, right = (plain_type(child, f"comparison {op.value}") for child in children)
        if left != right:
            raise NotTranslatable(f"comparison of {left} and {right}")
        return _term(Compare(op, children[0].expr, children[1].expr), children)

    return translate


def _all(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(all_of([child.expr for child in children]), children)


def _any(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(any_of([child.expr for child in children]), children)


def _not(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(Not(children[0].expr), children)


def _is_null(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    plain_type(children[0], "null test")
    return _term(IsNull(children[0].expr), children)


def _is_not_null(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    plain_type(children[0], "null test")
    return _term(IsNotNull(children[0].expr), children)


def _is_nan(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kind = plain_type(children[0], "isnan")
    # Of null it is false, not null.
    equal = Compare(Op.EQ_NULL_SAFE, children[0].expr, Literal(_NAN, kind))
    return _term(equal, children)


def _in(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kinds = {plain_type(child, "IN") for child in children}
    if len(kinds) != 1:
        raise NotTranslatable("IN over several types")
    subject, values = children[0].expr, [child.expr for child in children[1:]]
    constants = tuple(value for value in values if isinstance(value, Literal))
    if len(constants) == len(values):
        return _term(In(subject, constants), children)
    return _term(any_of([Compare(Op.EQ, subject, value) for value in values]), children)


def _in_set(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    kind = plain_type(children[0], "IN")
    if node.unreadable:
        raise NotTranslatable("IN with a value that has no text form")
    values = tuple(literal(text, kind) for text in node.values)
    if family(kind) is Family.FLOAT and any(value.value == 0 for value in values):
        # A hashed set distinguishes -0.0 from 0.0, which no comparison does.
        raise NotTranslatable("IN with a hashed floating-point zero")
    return _term(In(children[0].expr, values), children)


def _like(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    pattern = _constant_text(node, children)
    return _term(Like(children[0].expr, pattern, node.escape), children)


def _starts_with(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    return _term(StartsWith(children[0].expr, _constant_text(node, children)), children)


def _constant_text(node: FilterNode, children: list[Term]) -> str:
    subject, pattern = children
    if family(plain_type(subject, node.kind)) is not Family.STRING:
        raise NotTranslatable(f"{node.kind} of {subject.type}")
    value = pattern.expr.value if isinstance(pattern.expr, Literal) else None
    if not isinstance(value, str):
        raise NotTranslatable(f"{node.kind} with a pattern that is no constant")
    return value


def _if(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
    return _case_when(node, children, context)


def _case_when(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """CASE over values is a function; over conditions it is AND and OR, through which they show."""
    kind = arrow_type(node.type_name)
    if kind is None:
        raise NotTranslatable(f"{node.kind} that gives {node.type_name}")
    given = list(children)
    otherwise = given.pop().expr if len(given) % 2 else Literal(None, kind)
    branches = [(given[at].expr, given[at + 1]) for at in range(0, len(given), 2)]
    if any(not same_meaning(plain_type(value, node.kind), kind) for _, value in branches):
        raise NotTranslatable(f"{node.kind} over several types")
    choose = _chosen_condition if kind == pa.bool_() else _chosen_value
    expr = reduce(
        lambda rest, branch: choose(branch[0], branch[1].expr, rest),
        reversed(branches),
        NULL if otherwise == Literal(None, pa.bool_()) else otherwise,
    )
    return Term(expr, kind, failures_of(children))


def _chosen_condition(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    holds = Compare(Op.EQ_NULL_SAFE, condition, TRUE)
    return Or((And((holds, value)), And((Not(holds), otherwise))))


def _chosen_value(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    return Call("if", (condition, value, otherwise))


def passed_through(_node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """An expression that only says something about its child."""
    return children[0]


CONNECTIVES: Mapping[str, Rule] = {"And": _all, "Or": _any, "Not": _not}
"""The classes that go on over what was not understood."""

PREDICATES: Mapping[str, Rule] = {
    "EqualTo": _comparison(Op.EQ),
    "EqualNullSafe": _comparison(Op.EQ_NULL_SAFE),
    "LessThan": _comparison(Op.LT),
    "LessThanOrEqual": _comparison(Op.LTE),
    "GreaterThan": _comparison(Op.GT),
    "GreaterThanOrEqual": _comparison(Op.GTE),
    "IsNull": _is_null,
    "IsNotNull": _is_not_null,
    "IsNaN": _is_nan,
    "In": _in,
    "InSet": _in_set,
    "Like": _like,
    "StartsWith": _starts_with,
    "If": _if,
    "CaseWhen": _case_when,
    "DynamicPruningExpression": passed_through,
    "KnownNotNull": passed_through,
    "KnownNullable": passed_through,
    "KnownFloatingPointNormalized": passed_through,
    "NormalizeNaNAndZero": passed_through,
}
"""The rule of every other class that gives a condition, or only marks one."""
