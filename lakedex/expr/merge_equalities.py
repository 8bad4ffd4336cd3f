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
    groups: dict[Expr, dict[Literal, None]] = {}
    # An equality stands for its whole group, at the place of the first one.
    kept: dict[Expr, bool] = {}
    for part in parts:
        equality = _equality(part)
        if equality is None:
            kept.setdefault(part, False)
        else:
            groups.setdefault(equality[0], {}).update(dict.fromkeys(equality[1]))
            kept.setdefault(In(equality[0], ()), True)
    return [
        _membership(expr.child, list(groups[expr.child]))
        if is_group and isinstance(expr, In)
        else expr
        for expr, is_group in kept.items()
    ]


def _membership(child: Expr, values: list[Literal]) -> Expr:
    return In(child, tuple(values)) if len(values) > 1 else Compare(Op.EQ, child, values[0])


def _equality(part: Expr) -> tuple[Expr, tuple[Literal, ...]] | None:
    match part:
        case Compare(Op.EQ, left, Literal() as right) if right.value is not None:
            return left, (right,)
        case In(child, values) if values:
            return child, values
        case _:
            return None
