"""Tree nodes for the tests and calls of SQL that have a node of their own."""

from __future__ import annotations

import pyarrow as pa

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_spoken import part_of_time
from lakedex.expr.tree import (
    Call,
    Cast,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    StartsWith,
    all_of,
    any_of,
)
from lakedex.expr.truth import truth
from lakedex.schema.sql_type import CAST_FUNCTIONS, TYPE_NAMES


def membership(child: Expr, items: list[Expr]) -> Expr:
    """`child IN (items)`: an `In` over constants, else a chain of equalities."""
    constants = [item for item in items if isinstance(item, Literal)]
    if len(constants) == len(items):
        return In(child, tuple(constants))
    return any_of([Compare(Op.EQ, child, item) for item in items])


def between_node(child: Expr, low: Expr, high: Expr) -> Expr:
    """`child BETWEEN low AND high`, both ends included."""
    return all_of([Compare(Op.GTE, child, low), Compare(Op.LTE, child, high)])


def like_node(child: Expr, pattern: Expr, escape: str) -> Expr:
    """`child LIKE pattern`; a pattern that is no constant stays a call."""
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        return Like(child, pattern.value, escape)
    return Call("like", (child, pattern, Literal(escape, pa.string())))


def is_node(child: Expr, word: str, *, negative: bool) -> Expr:
    """`child IS [NOT] NULL | TRUE | FALSE | UNKNOWN`."""
    if word in ("NULL", "UNKNOWN"):
        return IsNotNull(child) if negative else IsNull(child)
    same = Compare(Op.EQ_NULL_SAFE, child, truth(value=word == "TRUE"))
    return Not(same) if negative else same


def call_node(name: str, arguments: list[Expr]) -> Expr:
    """A function call, or the node that means the same."""
    match name, arguments:
        case ("isnull", [child]):
            return IsNull(child)
        case ("isnotnull", [child]):
            return IsNotNull(child)
        case ("startswith", [child, Literal(str() as prefix, _)]):
            return StartsWith(child, prefix)
        case ("trim" | "ltrim" | "rtrim", [characters, child]):
            # Only btrim has the text first.
            return Call(name, (child, characters))
        case ("date_part" | "datepart", [Literal(str() as field, _), child]):
            return part_of_time(field, child)
        case ("regexp_extract", [child, pattern]):
            return Call(name, (child, pattern, Literal(1, pa.int32())))
        case (_, [child]) if name in CAST_FUNCTIONS:
            return Cast(child, TYPE_NAMES[name.upper()])
        case ("isnull" | "isnotnull" | "startswith", _):
            raise InvalidDefinition(f"wrong number of arguments for {name}")
    return Call(name, tuple(arguments))
