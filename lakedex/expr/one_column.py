"""The part of a predicate that is about one column alone, or a few."""

from __future__ import annotations

from lakedex.expr.bind import unknown_in
from lakedex.expr.tree import And, Expr, Or, all_of, any_of, columns_of
from lakedex.expr.truth import TRUE

Path = tuple[str, ...]


def about(expr: Expr, *columns: Path) -> Expr:
    """A predicate on `columns` that is true wherever a predicate in normal form is.

    What says something about other columns, or is not understood, counts as true.

    Example:
        >>> from lakedex.expr.tree import Column, IsNull
        >>> a, b = IsNull(Column(("a",))), IsNull(Column(("b",)))
        >>> about(And((a, b)), ("a",)) == a, about(Or((a, b)), ("a",)) == TRUE
        (True, True)
    """
    match expr:
        case And(children):
            parts = [about(child, *columns) for child in children]
            kept = [part for part in parts if part != TRUE]
            return all_of(kept) if kept else TRUE
        case Or(children):
            parts = [about(child, *columns) for child in children]
            return TRUE if TRUE in parts else any_of(parts)
        case _:
            is_own = all(each.path in columns for each in columns_of(expr))
            return expr if is_own and unknown_in(expr) is None else TRUE
