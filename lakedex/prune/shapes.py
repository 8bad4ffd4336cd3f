"""The shapes of a predicate: which column is compared how, not with what.

Shapes are kept beside the table, so constants never stand in them, except those that choose what a
function gives out, as the format of `date_format` does.
"""

from __future__ import annotations

from textwrap import shorten
from typing import NamedTuple

from lakedex.expr.tree import (
    Call,
    Cast,
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
    tree_text,
)

_MOST_SHAPES = 32
_MOST_NODES = 1_000
_LONGEST = 80
_CHOOSING = frozenset(
    [
        "date_format",
        "date_trunc",
        "trunc",
        "to_date",
        "to_timestamp",
        "from_unixtime",
        "unix_timestamp",
        "substr",
        "substring",
        "left",
        "right",
        "bucket",
    ]
)
"""Functions whose constants choose a form; they are no values of the table."""
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
    values: int = 0
    """With how many constants it is compared."""


def shapes_of(predicate: Expr | None) -> tuple[Shape, ...]:
    """Every comparison of a column in a predicate, each once, in order.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> for shape in shapes_of(parse_predicate("a = 1 AND (upper(b) > 'X' OR a IN (2, 3))")):
        ...     print(shape.column, shape.operator, shape.expression, shape.values)
        a equal  1
        b range upper(b) 1
        a in  2
    """
    found: dict[tuple[str, str, str], int] = {}
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
                text = "" if bare else shorten(_text(subject), _LONGEST)
                key = (column.name, operator, text)
                found[key] = found.get(key, 0) + _constants(node)
    return tuple(Shape(*key, values) for key, values in found.items())


def _constants(node: Expr) -> int:
    return len(node.values) if isinstance(node, In) else int(not isinstance(node, Column))


def _text(expr: Expr, *, shows: bool = False) -> str:
    """What is compared, on one line; constants show only where they choose a form."""
    match expr:
        case Column():
            return tree_text(expr)
        case Literal():
            return tree_text(expr) if shows else "?"
        case Cast(child, kind):
            return f"cast({_text(child)}, {kind})"
        case Call(function, arguments):
            keeps = function.lower() in _CHOOSING
            return f"{function}({', '.join(_text(each, shows=keeps) for each in arguments)})"
        case _:
            return "?"


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
