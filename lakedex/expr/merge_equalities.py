"""`a = 1 OR a = 2 OR a IN (3, 4)` as `a IN (1, 2, 3, 4)`."""

from __future__ import annotations

from lakedex.expr.tree import Compare, Expr, In, Literal, Op


def merge_equalities(parts: list[Expr]) -> list[Expr]:
    """The parts of an OR with the equalities on one expression merged into one `In`.

    Nulls must be gone from the parts: at positive polarity they cannot make anything true.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> a = Column(("a",))
        >>> merged = merge_equalities([Compare(Op.EQ, a, Literal(n)) for n in (1, 2)])
        >>> [value.value for value in merged[0].values]
        [1, 2]
    """
    groups: dict[Expr, list[Literal]] = {}
    for part in parts:
        for child, values in _equality(part):
            groups.setdefault(child, []).extend(values)
    merged: dict[Expr, None] = {}
    for part in parts:
        equality = _equality(part)
        if not equality:
            merged.setdefault(part)
            continue
        child = equality[0][0]
        values = tuple(dict.fromkeys(groups[child]))
        merged.setdefault(In(child, values) if len(values) > 1 else part)
    return list(merged)


def _equality(part: Expr) -> list[tuple[Expr, tuple[Literal, ...]]]:
    match part:
        case Compare(Op.EQ, left, Literal() as right) if right.value is not None:
            return [(left, (right,))]
        case In(child, values):
            return [(child, values)]
        case _:
            return []
