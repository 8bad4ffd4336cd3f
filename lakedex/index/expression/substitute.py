"""A predicate with an indexed expression in it, as if that expression were a column."""

from __future__ import annotations

from lakedex.expr.may_match import expression_key
from lakedex.expr.tree import And, Column, Compare, Expr, In, Or

EXPRESSION_PATH = ("", "expression")
"""A path that no real column can have."""


def with_expression_as_column(predicate: Expr, expression: Expr) -> Expr:
    """The predicate with `expression` replaced by a column of path `EXPRESSION_PATH`.

    Only what stands directly in comparisons and IN lists under AND and OR is replaced: nothing
    else gives values to look up.
    """
    return _replaced(predicate, expression_key(expression))


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
