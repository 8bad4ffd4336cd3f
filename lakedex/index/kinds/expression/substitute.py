"""Predicates as an index on an expression answers them."""

from __future__ import annotations

from lakedex.expr.functions import canonical_name
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.may_match import expression_key
from lakedex.expr.tree import (
    FALSE,
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Or,
    all_of,
    any_of,
    children_of,
)

_MAY_SKIP_NULLS = frozenset(["coalesce", "greatest", "least", "if"])
EXPRESSION_PATH = ("", "expression")
"""A path that no real column can have."""


def with_expression_as_column(predicate: Expr, expression: Expr) -> Expr:
    """The predicate with `expression` replaced by a column of path `EXPRESSION_PATH`.

    Only what stands directly in comparisons and IN lists under AND and OR is replaced: nothing
    else gives values to look up.
    """
    return _replaced(predicate, expression_key(expression))


def with_nulls_of_whole(predicate: Expr, expression: Expr) -> Expr:
    """The predicate where a part of the expression that is null is an expression that is null.

    Null goes through most functions, so that whatever satisfies the first satisfies the second.
    Spark asks for it: in ANSI mode a row whose text is no date satisfies, by its error, everything.

    Example:
        >>> day = Call("to_date", (Column(("s",)),))
        >>> year = Call("year", (day,))
        >>> with_nulls_of_whole(IsNull(day), year) == IsNull(year)
        True
    """
    parts = {expression_key(part) for part in _passing_nulls_on(expression)}
    return _weakened(predicate, expression, parts) if parts else predicate


def without_failures(predicate: Expr, expression: Expr) -> Expr:
    """The predicate without the doubt whether casts within the expression fail.

    For entries that are only made where none of them does.

    Example:
        >>> import pyarrow as pa
        >>> fare, kind = Column(("fare",), pa.float64()), pa.int32()
        >>> fails = Call(CAST_FAILS, (fare, Literal(None, kind)))
        >>> without_failures(Or((IsNull(fare), fails)), Cast(fare, kind)) == IsNull(fare)
        True
    """
    casts = {expression_key(node) for node in _casts_within(expression)}
    return _without(predicate, casts) if casts else predicate


def _casts_within(expression: Expr) -> list[Cast]:
    found: list[Cast] = []
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Cast):
            found.append(node)
        pending.extend(children_of(node))
    return found


def _without(node: Expr, casts: set[object]) -> Expr:
    match node:
        case And(children):
            return all_of([_without(child, casts) for child in children])
        case Or(children):
            kept = [_without(child, casts) for child in children]
            return any_of([child for child in kept if child != FALSE] or [FALSE])
        case Call(name, (child, Literal(_, kind))) if name == CAST_FAILS and kind is not None:
            return FALSE if expression_key(Cast(child, kind)) in casts else node
        case _:
            return node


def _passing_nulls_on(expression: Expr) -> list[Expr]:
    """The calls and casts within an expression with which it is null."""
    found: list[Expr] = []
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and canonical_name(node.function) in _MAY_SKIP_NULLS:
            continue
        inner = [child for child in children_of(node) if isinstance(child, Call | Cast)]
        found += inner
        pending += inner
    return found


def _weakened(node: Expr, expression: Expr, parts: set[object]) -> Expr:
    match node:
        case And(children):
            return And(tuple(_weakened(child, expression, parts) for child in children))
        case Or(children):
            return Or(tuple(_weakened(child, expression, parts) for child in children))
        case IsNull(child) if expression_key(child) in parts:
            return IsNull(expression)
        case _:
            return node


def _replaced(node: Expr, wanted: object) -> Expr:
    match node:
        case And(children):
            return And(tuple(_replaced(child, wanted) for child in children))
        case Or(children):
            return Or(tuple(_replaced(child, wanted) for child in children))
        case Compare(op, left, right) if expression_key(left) == wanted:
            return Compare(op, Column(EXPRESSION_PATH), right)
        case In(child, values) if expression_key(child) == wanted:
            return In(Column(EXPRESSION_PATH), values)
        case _:
            return node
