"""Constants of Arrow expressions, and the pairs of types that Arrow and Spark compare alike."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.tree import Literal

_EXACT_PAIRS = {
    frozenset({Family.INTEGER}),
    frozenset({Family.INTEGER, Family.FLOAT}),
    frozenset({Family.INTEGER, Family.DECIMAL}),
    frozenset({Family.FLOAT}),
    frozenset({Family.DECIMAL}),
    frozenset({Family.STRING}),
    frozenset({Family.BINARY}),
    frozenset({Family.STRING, Family.BINARY}),
    frozenset({Family.BOOLEAN}),
    frozenset({Family.DATE}),
    frozenset({Family.TIMESTAMP}),
    frozenset({Family.TIMESTAMP_NTZ}),
    frozenset({Family.DATE, Family.TIMESTAMP_NTZ}),
}
_SET_PAIRS = {Family.INTEGER, Family.STRING}


def shared_meaning(column: pa.DataType, literal: pa.DataType) -> bool:
    """Whether Arrow and Spark compare these types alike, or Arrow refuses to.

    Arrow casts safely: a whole number that a float cannot hold is an error, not a rounding.

    Example:
        >>> shared_meaning(pa.int32(), pa.float64()), shared_meaning(pa.int32(), pa.string())
        (True, False)
    """
    return frozenset({family(column), family(literal)}) in _EXACT_PAIRS


def constant(scalar: pa.Scalar) -> Literal | None:
    """The literal of an Arrow scalar, or None for a type or value that has none."""
    kind = scalar.type
    if pa.types.is_null(kind):
        return Literal(None, kind)
    if family(kind) is Family.OTHER or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return None
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
        kind = pa.timestamp(kind.unit, "UTC")
    return Literal(value, kind)


def constants(values: pa.Array, column: pa.DataType | None) -> list[Literal] | None:
    """The non-null members of a value set in the column's type; None where that is uncertain."""
    if column is None or family(column) is Family.OTHER:
        return None
    literals = [constant(value) for value in values if value.is_valid]
    known = [literal for literal in literals if literal is not None]
    if len(known) < len(literals):
        return None
    if values.type == column:
        return known
    if values.type == pa.float64() and column == pa.float32():
        with np.errstate(over="ignore"):
            numbers = pa.array(values.drop_null().to_numpy().astype(np.float32))
        return [Literal(number, column) for number in numbers.to_pylist()]
    families = {family(values.type), family(column)}
    return known if len(families) == 1 and families <= _SET_PAIRS else None
