"""The shapes of a predicate: which column is compared how, not with what."""

from __future__ import annotations

from textwrap import shorten
from typing import NamedTuple

from lakedex.expr.tree import (
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Op,
    StartsWith,
    children_of,
    columns_of,
)
from lakedex.expr.tree_text import tree_text

_MOST_SHAPES = 32
_MOST_NODES = 1_000
_LONGEST = 80
_OPERATORS = {
    Op.EQ: "equal",
    Op.EQ_NULL_SAFE: "equal",
    Op.NE: "not equal",
    Op.LT: "range",
    Op.LTE: "range",
    Op.GT: "range",
    Op.GTE: "range",
}


class Shape(NamedTuple):
    """One comparison of a predicate."""

    column: str
    operator: str
    """`equal`, `in`, `range`, `not equal`, `null`, `not null`, `like` or `other`."""
    expression: str = ""
    """What is compared, where that is not the bare column: `upper(name)`."""


def shapes_of(predicate: Expr | None) -> tuple[Shape, ...]:
    """Every comparison of a column in a predicate, each once, in order.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> for shape in shapes_of(parse_predicate("a = 1 AND (upper(b) > 'X' OR a IN (2, 3))")):
        ...     print(shape.column, shape.operator, shape.expression)
        a equal
        b range upper(b)
        a in
    """
    found: dict[Shape, None] = {}
    pending = [] if predicate is None else [predicate]
    for _ in range(_MOST_NODES):
        if not pending or len(found) >= _MOST_SHAPES:
            break
        node = pending.pop()
        told = _told(node)
        if told is None:
            pending.extend(reversed(children_of(node)))
            continue
        subjects, operator = told
        for subject in subjects:
            for column in columns_of(subject)[:1]:
                bare = isinstance(subject, Column)
                text = "" if bare else shorten(tree_text(subject), _LONGEST)
                found[Shape(column.name, operator, text)] = None
    return tuple(found)


def _told(node: Expr) -> tuple[list[Expr], str] | None:
    """The sides of a comparison that are no constants, and its operator."""
    match node:
        case Compare(op, left, right):
            return [side for side in (left, right) if not isinstance(side, Literal)], _OPERATORS[op]
        case In(child, _):
            return [child], "in"
        case IsNull(child):
            return [child], "null"
        case IsNotNull(child):
            return [child], "not null"
        case Like() | StartsWith():
            return [node.child], "like"
        case Column():
            return [node], "other"
        case _:
            return None
