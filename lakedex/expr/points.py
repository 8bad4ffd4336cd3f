"""The finite set of values that a column must have for a predicate to be true.

Record and secondary indexes, bloom filters and buckets support lookups of single values. `points`
derives those values from a normalised, bound predicate; the set may be too large, but not too
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod

from lakedex.expr.normal_form import order_key
from lakedex.expr.tree import (
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Op,
    Or,
)

Path = tuple[str, ...]


def points(expr: Expr, column: Path) -> list[Literal] | None:
    """The values that `column` must have, or None if the predicate does not limit them.

    An empty list means that no row can match. `Literal(None)` represents a null value. A column
    below a cast or a function is ignored.

    Example:
        >>> import pyarrow as pa
        >>> a = Column(("a",), pa.int64())
        >>> points(In(a, (Literal(1, pa.int64()), Literal(2, pa.int64()))), ("a",))
        [Literal(value=1, type=DataType(int64)), Literal(value=2, type=DataType(int64))]
    """
    found = _points(expr, column)
    return None if found is None else list(found.values())


def key_points(expr: Expr, columns: Sequence[Path], limit: int) -> list[tuple[Literal, ...]] | None:
    """The values that a composite key must have, at most `limit` of them, else None.

    In an OR every branch may restrict the columns differently; the combinations are collected
    branch by branch and not multiplied over the whole predicate.

    Example:
        >>> import pyarrow as pa
        >>> a, b = (Compare(Op.EQ, Column((n,)), Literal(1, pa.int64())) for n in "ab")
        >>> len(key_points(And((a, b)), [("a",), ("b",)], 10))
        1
    """
    if isinstance(expr, Or):
        return _branch_points(expr, columns, limit)
    sets: list[list[Literal]] = []
    for column in columns:
        found = points(expr, column)
        if found is None:
            return None
        sets.append(found)
    if prod(len(values) for values in sets) > limit:
        return None
    return list(islice(product(*sets), limit))


_Set = dict[object, Literal]


def _points(expr: Expr, column: Path) -> _Set | None:
    match expr:
        case Literal(value):
            return {} if value is None or value is False else None
        case Compare(Op.EQ | Op.EQ_NULL_SAFE as op, Column(path), Literal() as right):
            never = right.value is None and op is Op.EQ
            return None if path != column else {} if never else {_key(right): right}
        case In(Column(path), values) if path == column:
            return {_key(value): value for value in values if value.value is not None}
        case IsNull(Column(path, kind)) if path == column:
            return {None: Literal(None, kind)}
        case And(children):
            return _intersection([_points(child, column) for child in children])
        case Or(children):
            return _union([_points(child, column) for child in children])
        case _:
            return None


def _key(literal: Literal) -> object:
    value = literal.value
    return None if value is None else (isinstance(value, bool), order_key(value))


def _intersection(found: list[_Set | None]) -> _Set | None:
    known = [values for values in found if values is not None]
    if not known:
        return None
    smallest = min(known, key=len)
    return {key: value for key, value in smallest.items() if all(key in values for values in known)}


def _union(found: list[_Set | None]) -> _Set | None:
    union: _Set = {}
    for values in found:
        if values is None:
            return None
        union.update(values)
    return union


def _branch_points(
    expr: Or, columns: Sequence[Path], limit: int
) -> list[tuple[Literal, ...]] | None:
    union: dict[tuple[object, ...], tuple[Literal, ...]] = {}
    for child in expr.children:
        found = key_points(child, columns, limit)
        if found is None:
            return None
        union.update({tuple(_key(value) for value in key): key for key in found})
        if len(union) > limit:
            return None
    return list(union.values())
