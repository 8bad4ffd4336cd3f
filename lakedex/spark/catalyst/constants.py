"""Constants from the exact texts in which a plan is handed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.tree import Literal
from lakedex.spark.catalyst.spark_types import arrow_type
from lakedex.spark.catalyst.terms import NotUnderstood, Surroundings, Term
from lakedex.spark.catalyst.wire import FilterNode

_FIRST_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


def constant(node: FilterNode, _children: list[Term], _around: Surroundings) -> Term:
    """A literal."""
    kind = arrow_type(node.type_name)
    if kind is None or node.unreadable:
        raise NotUnderstood(f"constant of type {node.type_name}")
    return Term(literal(node.value, kind), kind)


def literal(text: str | None, kind: pa.DataType) -> Literal:
    """The literal of a text.

    Raises:
        NotUnderstood: The value has no counterpart, as a date before the year 1.

    Example:
        >>> literal("19723", pa.date32()).value
        datetime.date(2024, 1, 1)
    """
    if text is None:
        return Literal(None, kind)
    try:
        return Literal(_READERS[family(kind)](text), kind)
    except (ValueError, OverflowError) as error:
        raise NotUnderstood(f"{family(kind).value} outside the years 1 to 9999") from error


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
