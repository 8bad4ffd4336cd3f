"""How deep a tree is, found without recursion."""

from __future__ import annotations

from lakedex.errors import InvalidDefinition
from lakedex.expr.tree import MAX_DEPTH, Expr, Literal, children_of


def check_depth(expr: Expr) -> None:
    """Refuse a tree that is too deep to be walked by recursion.

    Raises:
        InvalidDefinition: It has more than `MAX_DEPTH` levels.
    """
    level: list[Expr] = [expr]
    for _ in range(MAX_DEPTH):
        level = [
            child for node in level for child in children_of(node) if not isinstance(child, Literal)
        ]
        if not level:
            return
    raise InvalidDefinition(f"the expression is nested deeper than {MAX_DEPTH} levels")
