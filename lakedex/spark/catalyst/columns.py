"""The leaves of a filter: columns, fields of struct columns, constants, and casts of them.

A cast is translated only where it means the same in Spark and here, by the mode in which Spark runs
it. Between most types a cast cannot fail, and the mode makes no difference. Where it can fail,
LEGACY gives null or a changed number, as the tree's own cast does. ANSI raises an error instead:
the files of the rows that fail are kept, so that the query still fails. Casts of TRY are not
translated, unless they give null as LEGACY does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.bind import resolve_column
from lakedex.expr.coercion import Family, family
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.tree import And, Call, Cast, Column, Expr, IsNotNull, IsNull, Literal
from lakedex.schema.hudi_types import type_name
from lakedex.spark.catalyst.terms import (
    FilterNode,
    NotTranslatable,
    Term,
    TranslationContext,
    arrow_type,
    plain_type,
    same_meaning,
)

_STRUCT = "struct"


def column(node: FilterNode, _children: list[Term], context: TranslationContext) -> Term:
    """A column of the table."""
    return _found((node.name,), node, context)


def struct_field(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
    """A field of a struct column, however deep."""
    parent = children[0].expr
    if not isinstance(parent, Column):
        raise NotTranslatable(f"field {node.name} of something that is no column")
    return _found((*parent.path, node.name), node, context)


def _found(path: tuple[str, ...], node: FilterNode, context: TranslationContext) -> Term:
    name = ".".join(path)
    resolved = _resolved(path, context.columns)
    if not isinstance(resolved, Column) or resolved.type is None:
        raise NotTranslatable(f"column {name}, which the table does not have")
    if node.type_name == _STRUCT and pa.types.is_struct(resolved.type):
        return Term(resolved)
    seen = arrow_type(node.type_name)
    if seen is None:
        raise NotTranslatable(f"column of type {node.type_name}")
    if not same_meaning(resolved.type, seen):
        raise NotTranslatable(
            f"column {name} read as {node.type_name} but stored as {resolved.type}"
        )
    return Term(resolved, seen)


def _resolved(path: tuple[str, ...], columns: pa.Schema) -> Expr | None:
    # A plan has the names as the query wrote them; only without regard to case if need be.
    for case_sensitive in (True, False):
        try:
            return resolve_column(Column(path), columns, case_sensitive=case_sensitive)
        except InvalidInput:
            continue
    return None


_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


def constant(node: FilterNode, _children: list[Term], _context: TranslationContext) -> Term:
    """A literal."""
    kind = arrow_type(node.type_name)
    if kind is None or node.unreadable:
        raise NotTranslatable(f"constant of type {node.type_name}")
    return Term(literal(node.value, kind), kind)


def literal(text: str | None, kind: pa.DataType) -> Literal:
    """The literal of a text.

    Raises:
        NotTranslatable: The value has no counterpart, as a date before the year 1.

    Example:
        >>> literal("19723", pa.date32()).value
        datetime.date(2024, 1, 1)
    """
    if text is None:
        return Literal(None, kind)
    try:
        return Literal(_READERS[family(kind)](text), kind)
    except (ValueError, OverflowError) as error:
        raise NotTranslatable(f"{family(kind).value} outside the years 1 to 9999") from error


def _date(text: str) -> date:
    return date.fromordinal(_FIRST_DAY + int(text))


def _wall_clock(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(text))


_READERS: Mapping[Family, Callable[[str], object]] = {
    Family.BOOLEAN: lambda text: text == "true",
    Family.INTEGER: int,
    Family.FLOAT: float,
    Family.DECIMAL: Decimal,
    Family.STRING: str,
    Family.BINARY: bytes.fromhex,
    Family.DATE: _date,
    Family.TIMESTAMP: lambda text: _wall_clock(text).replace(tzinfo=UTC),
    Family.TIMESTAMP_NTZ: _wall_clock,
}


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


def cast(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
    """A change of type."""
    source = plain_type(children[0], f"cast to {node.type_name}")
    target = arrow_type(node.type_name)
    if target is None:
        raise NotTranslatable(f"cast to {node.type_name}")
    child = children[0]
    if source == target:
        return child
    if _needs_zone(source, target):
        context.check_zone(node)
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
    suffix = "" if node.mode == "LEGACY" else f" in {node.mode.lower()} mode"
    raise NotTranslatable(f"cast {type_name(source).lower()} to {node.type_name}{suffix}")


def _text_failures(node: FilterNode, child: Expr, result: Cast) -> tuple[Expr, ...]:
    if node.mode == "ANSI":
        return (fails(child, result),)
    if node.mode == "LEGACY" or family(result.type) in _NULL_AS_LEGACY:
        return ()
    raise NotTranslatable(f"cast string to {node.type_name} in {node.mode.lower()} mode")


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
