"""Casts that mean the same in Spark and here, by the mode in which Spark does them.

Between most types a cast cannot fail, and the mode is of no account. Where it can, LEGACY gives
null or a changed number, as the tree's own cast does. ANSI raises an error instead: the failing
rows are named, so that their files are kept and the error is still seen. Casts of TRY are not
translated, unless they give null as LEGACY does.
"""

from __future__ import annotations

import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.tree import And, Call, Cast, Expr, IsNotNull, IsNull, Literal
from lakedex.schema.hudi_types import type_name
from lakedex.spark.catalyst.spark_types import arrow_type
from lakedex.spark.catalyst.terms import NotUnderstood, Surroundings, Term, plain_type
from lakedex.spark.catalyst.wire import FilterNode

_TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
_NEVER_FAIL = {
    (Family.INTEGER, Family.FLOAT),
    (Family.INTEGER, Family.STRING),
    (Family.INTEGER, Family.BOOLEAN),
    (Family.INTEGER, Family.TIMESTAMP),
    (Family.FLOAT, Family.FLOAT),
    (Family.FLOAT, Family.BOOLEAN),
    (Family.DECIMAL, Family.FLOAT),
    (Family.DECIMAL, Family.BOOLEAN),
    (Family.BOOLEAN, Family.INTEGER),
    (Family.BOOLEAN, Family.FLOAT),
    (Family.BOOLEAN, Family.STRING),
    (Family.STRING, Family.BINARY),
    *((source, target) for source in _TIMES for target in _TIMES),
    *((source, Family.STRING) for source in _TIMES),
}
_MAY_FAIL = {
    (Family.INTEGER, Family.INTEGER),
    (Family.INTEGER, Family.DECIMAL),
    (Family.FLOAT, Family.INTEGER),
    (Family.DECIMAL, Family.INTEGER),
    (Family.DECIMAL, Family.DECIMAL),
    (Family.TIMESTAMP, Family.INTEGER),
}
_FROM_TEXT = {
    Family.BOOLEAN,
    Family.INTEGER,
    Family.FLOAT,
    Family.DECIMAL,
    Family.DATE,
    Family.TIMESTAMP,
    Family.TIMESTAMP_NTZ,
}
_NULL_AS_LEGACY = {Family.BOOLEAN, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ}
"""Where TRY accepts the very texts that LEGACY accepts."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def cast(node: FilterNode, children: list[Term], around: Surroundings) -> Term:
    """A change of type."""
    source = plain_type(children[0], f"cast to {node.type_name}")
    target = arrow_type(node.type_name)
    if target is None:
        raise NotUnderstood(f"cast to {node.type_name}")
    child = children[0]
    if source == target:
        return child
    if _needs_zone(source, target):
        around.check_zone(node)
    result = Cast(child.expr, target)
    families = (family(source), family(target))
    if families in _NEVER_FAIL or _widens(source, target):
        return Term(result, target, child.failures)
    if families[0] is Family.STRING and families[1] in _FROM_TEXT:
        return Term(result, target, child.failures + _text_failures(node, child.expr, result))
    if families in _MAY_FAIL and node.mode == "LEGACY":
        return Term(result, target, child.failures)
    if families in _MAY_FAIL and node.mode == "ANSI":
        lost = Call(CAST_FAILS, (child.expr, Literal(None, target)))
        return Term(result, target, (*child.failures, lost))
    told = "" if node.mode == "LEGACY" else f" in {node.mode.lower()} mode"
    raise NotUnderstood(f"cast {type_name(source).lower()} to {node.type_name}{told}")


def _text_failures(node: FilterNode, child: Expr, result: Cast) -> tuple[Expr, ...]:
    if node.mode == "ANSI":
        return (fails(child, result),)
    if node.mode == "LEGACY" or family(result.type) in _NULL_AS_LEGACY:
        return ()
    raise NotUnderstood(f"cast string to {node.type_name} in {node.mode.lower()} mode")


def fails(child: Expr, result: Expr) -> Expr:
    """Where there is something to convert and nothing comes out of it."""
    return And((IsNotNull(child), IsNull(result)))


def _needs_zone(source: pa.DataType, target: pa.DataType) -> bool:
    families = {family(source), family(target)}
    return Family.TIMESTAMP in families and Family.INTEGER not in families


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of the source fits the target."""
    match family(source), family(target):
        case Family.INTEGER, Family.INTEGER:
            return bool(source.bit_width <= target.bit_width)
        case Family.INTEGER, Family.DECIMAL:
            return bool(target.precision - target.scale >= _DIGITS[source.bit_width])
        case Family.DECIMAL, Family.DECIMAL:
            whole = target.precision - target.scale >= source.precision - source.scale
            return bool(whole and target.scale >= source.scale)
        case Family.TIMESTAMP, Family.INTEGER:
            return bool(target == pa.int64())
        case _:
            return False
