"""The normal form of a bound predicate: AND and OR over leaves, for filtering and pruning.

NOT is pushed down to the leaves by the laws of three-valued logic. After that there is no NOT above
an AND or OR, so null and false are interchangeable: both drop the row. The normal form is therefore
true for exactly the rows for which the predicate is true. The content of a leaf (below a
comparison, a cast, a function, IS NULL) keeps its full three-valued meaning.

Leaves are comparisons, `In`, `IsNull`, `IsNotNull`, `Like`, `StartsWith`, boolean calls and
casts, `Unknown`, and `Not` over `<=>`, `In`, `Like`, `StartsWith`, calls and casts.

`a = 1 OR a = 2 OR a IN (3, 4)` becomes `a IN (1, 2, 3, 4)`, and a condition on `coalesce(a, b)`
becomes conditions on a and b: `coalesce(a, 0) > 5` is true if `a > 5` is, or if a is null and
`0 > 5`. Ranges, null counts and keys belong to columns, so only the second form prunes files.

Comparisons of two constants are folded as Spark compares: NaN equals NaN and is above all other
floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakedex.expr.bind import unknown_in
from lakedex.expr.comparison import NEGATED
from lakedex.expr.like import LikePattern, parse_like
from lakedex.expr.monotonic import type_of
from lakedex.expr.tree import (
    FALSE,
    TRUE,
    And,
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
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
    all_of,
    any_of,
    check_depth,
    columns_of,
)

_MOST_CHOICES = 8
"""Each choice makes the tree deeper."""


def normalise(expr: Expr) -> Expr:
    """The normal form of a predicate.

    Args:
        expr: A bound predicate.

    Returns:
        A tree that is true for the same rows.

    Example:
        >>> a = Column(("a",), pa.int64())
        >>> one = Literal(1, pa.int64())
        >>> normalise(Not(Or((Compare(Op.LT, a, one), IsNull(a))))).children[0].op
        <Op.GTE: '>='>
    """
    check_depth(expr)
    return _normal(expr, negated=False)


def restrict_to_columns(expr: Expr, *columns: tuple[str, ...]) -> Expr:
    """A predicate on `columns` that is implied by a predicate in normal form.

    Parts on other columns, and parts that are not understood, count as true.

    Example:
        >>> from lakedex.expr.tree import Column, IsNull
        >>> a, b = IsNull(Column(("a",))), IsNull(Column(("b",)))
        >>> restrict_to_columns(And((a, b)), ("a",)) == a
        True
        >>> restrict_to_columns(Or((a, b)), ("a",)) == TRUE
        True
    """
    match expr:
        case And(children):
            parts = [restrict_to_columns(child, *columns) for child in children]
            kept = [part for part in parts if part != TRUE]
            return all_of(kept) if kept else TRUE
        case Or(children):
            parts = [restrict_to_columns(child, *columns) for child in children]
            return TRUE if TRUE in parts else any_of(parts)
        case _:
            is_own = all(each.path in columns for each in columns_of(expr))
            return expr if is_own and unknown_in(expr) is None else TRUE


def merge_equalities(parts: list[Expr]) -> list[Expr]:
    """The parts of an OR with the equalities on one expression merged into one `In`.

    The parts must not contain nulls, which at positive polarity cannot make anything true.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> a = Column(("a",))
        >>> merged = merge_equalities([Compare(Op.EQ, a, Literal(n)) for n in (1, 2)])
        >>> [value.value for value in merged[0].values]
        [1, 2]
    """
    groups: dict[Expr, dict[Literal, None]] = {}
    # One equality represents its whole group, at the position of the first one.
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


def spread_choice(subject: Expr, condition: Callable[[Expr], Expr]) -> Expr | None:
    """Convert a condition on a choice into conditions on its arguments, true for the same rows.

    Args:
        subject: The bound expression that the condition tests.
        condition: From an expression to the condition on it, which is never true for null.

    Returns:
        None if the subject is not a choice.

    Example:
        >>> import pyarrow as pa
        >>> from lakedex.expr.tree import Column, Compare, Literal, Op
        >>> from lakedex.expr.tree import tree_text
        >>> a, zero = Column(("a",), pa.int64()), Literal(0, pa.int64())
        >>> choice = Call("coalesce", (a, zero))
        >>> tree_text(spread_choice(choice, lambda each: Compare(Op.GT, each, zero)))
        'a > 0 or (a is null and 0 > 0)'
    """
    if not isinstance(subject, Call) or subject.function != "coalesce":
        return None
    choices = subject.arguments
    types = {type_of(choice) for choice in choices}
    if len(types) > 1 or None in types or len(choices) > _MOST_CHOICES:
        return None
    *before, last = choices
    found = condition(last)
    for choice in reversed(before):
        found = any_of([condition(choice), all_of([IsNull(choice), found])])
    return found


def _normal(expr: Expr, *, negated: bool) -> Expr:
    match expr:
        case Not(child):
            return _normal(child, negated=not negated)
        case And(children) | Or(children):
            parts = [_normal(child, negated=negated) for child in children]
            conjunction = isinstance(expr, And) is not negated
            return _conjunction(parts) if conjunction else _disjunction(parts)
        case Literal(value):
            return TRUE if value is not None and bool(value) is not negated else FALSE
        case IsNull(child):
            return _null_test(child, is_null=not negated)
        case IsNotNull(child):
            return _null_test(child, is_null=negated)
        case Compare(op, left, right):
            return _compare(op, left, right, negated=negated)
        case In(child, values):
            return _member(child, values, negated=negated)
        case _:
            return _leaf(expr, negated=negated)


def _leaf(expr: Expr, *, negated: bool) -> Expr:
    match expr:
        case Column():
            return Compare(Op.EQ, expr, FALSE if negated else TRUE)
        case Like(child, pattern, escape):
            return _like(child, parse_like(pattern, escape), expr, negated=negated)
        case StartsWith(child, prefix):
            if isinstance(child, Literal):
                kept = isinstance(child.value, str) and child.value.startswith(prefix)
                return TRUE if child.value is not None and kept is not negated else FALSE
            return Not(expr) if negated else expr
        case Unknown():
            return expr
        case _:
            return _also_of_choices(expr, lambda each: Not(each) if negated else each)


def _conjunction(parts: list[Expr]) -> Expr:
    if FALSE in parts:
        return FALSE
    kept = _distinct([part for part in parts if part != TRUE])
    return all_of(kept) if kept else TRUE


def _disjunction(parts: list[Expr]) -> Expr:
    if TRUE in parts:
        return TRUE
    kept = [part for part in parts if part != FALSE]
    if not kept:
        return FALSE
    merged = any_of(kept)
    return any_of(merge_equalities(list(merged.children))) if isinstance(merged, Or) else merged


def _distinct(parts: list[Expr]) -> list[Expr]:
    flat = all_of(parts) if parts else TRUE
    children = list(flat.children) if isinstance(flat, And) else parts
    try:
        return list(dict.fromkeys(children))
    except TypeError:
        return children


def _null_test(child: Expr, *, is_null: bool) -> Expr:
    match child:
        case Literal(value):
            return TRUE if (value is None) is is_null else FALSE
        case Unknown():
            return child
        case IsNull() | IsNotNull():
            return FALSE if is_null else TRUE
        case _:
            return IsNull(child) if is_null else IsNotNull(child)


def _compare(op: Op, left: Expr, right: Expr, *, negated: bool) -> Expr:
    if isinstance(left, Literal) and isinstance(right, Literal):
        result = fold_compare(op, left, right)
        return TRUE if result is not None and result is not negated else FALSE
    if op is Op.EQ_NULL_SAFE:
        if isinstance(right, Literal) and right.value is None:
            return _null_test(left, is_null=not negated)
        if negated:
            return Not(Compare(op, left, right))
        op = Op.EQ if isinstance(right, Literal) else op
    elif negated:
        op = NEGATED[op]
    if isinstance(right, Literal) and right.value is None and op is not Op.EQ_NULL_SAFE:
        return FALSE
    if isinstance(right, Literal) and isinstance(right.value, bool) and op in (Op.EQ, Op.NE):
        return _boolean_equality(left, wanted=right.value is (op is Op.EQ))
    if isinstance(right, Literal):
        return _also_of_choices(left, lambda each: Compare(op, each, right))
    return Compare(op, left, right)


def _boolean_equality(left: Expr, *, wanted: bool) -> Expr:
    """`condition = TRUE` is the condition, `condition = FALSE` its negation."""
    if isinstance(left, Column):
        return Compare(Op.EQ, left, TRUE if wanted else FALSE)
    return _normal(left, negated=not wanted)


def _member(child: Expr, values: tuple[Literal, ...], *, negated: bool) -> Expr:
    present = tuple(value for value in values if value.value is not None)
    has_null = len(present) < len(values)
    if isinstance(child, Literal):
        result = fold_in(child, values)
        return TRUE if result is not None and result is not negated else FALSE
    if negated:
        if has_null:
            return FALSE
        if len(present) < 2:
            return _not_equal(child, present)
        return _also_of_choices(child, lambda each: Not(In(each, present)))
    if len(present) == 1:
        return _compare(Op.EQ, child, present[0], negated=False)
    distinct = tuple(dict.fromkeys(present))
    return _also_of_choices(child, lambda each: In(each, distinct)) if present else FALSE


def _also_of_choices(subject: Expr, condition: Callable[[Expr], Expr]) -> Expr:
    """A leaf, and the same condition on the arguments of a choice, for other indexes."""
    leaf = condition(subject)
    spread = spread_choice(subject, condition)
    return leaf if spread is None else _conjunction([leaf, _normal(spread, negated=False)])


def _not_equal(child: Expr, present: tuple[Literal, ...]) -> Expr:
    return _compare(Op.NE, child, present[0], negated=False) if present else TRUE


def _like(child: Expr, pattern: LikePattern, leaf: Expr, *, negated: bool) -> Expr:
    if pattern.is_exact:
        text_type = child.type if isinstance(child, Column | Literal | Cast) else pa.string()
        exact = Literal(pattern.prefix, text_type or pa.string())
        return _compare(Op.NE if negated else Op.EQ, child, exact, negated=False)
    if pattern.is_prefix:
        return _leaf(StartsWith(child, pattern.prefix), negated=negated)
    if negated:
        return Not(leaf)
    if pattern.prefix:
        return And((StartsWith(child, pattern.prefix), leaf))
    return leaf


def fold_compare(op: Op, left: Literal, right: Literal) -> bool | None:
    """The truth of a comparison of constants of one type; None is null.

    Example:
        >>> fold_compare(Op.GT, Literal(float("nan")), Literal(1.0))
        True
    """
    if op is Op.EQ_NULL_SAFE and None in (left.value, right.value):
        return left.value is right.value
    if left.value is None or right.value is None:
        return None
    one, other = order_key(left.value), order_key(right.value)
    match op:
        case Op.EQ | Op.EQ_NULL_SAFE:
            return bool(one == other)
        case Op.NE:
            return bool(one != other)
        case Op.LT:
            return bool(one < other)
        case Op.LTE:
            return bool(one <= other)
        case Op.GT:
            return bool(one > other)
        case _:
            return bool(one >= other)


def fold_in(child: Literal, values: tuple[Literal, ...]) -> bool | None:
    """The truth of membership of a constant; None is null."""
    results = [fold_compare(Op.EQ, child, value) for value in values]
    return True if True in results else None if None in results else False


def order_key(value: Any) -> Any:  # noqa: ANN401
    """A key that orders non-null values of one type as Spark does; equal values share one key.

    Example:
        >>> order_key(float("nan")) > order_key(math.inf), order_key("é") > order_key("z")
        (True, True)
    """
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
