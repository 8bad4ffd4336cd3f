"""Which rule converts which kind of type into which.

Casts that are not listed, or whose text form differs between Java versions (float to string),
are refused by name: an error is better than another answer than Spark's.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import Datum, is_bytes, is_text
from lakedex.expr.casting import from_numbers, from_text, from_times, to_text

Rule = Callable[[pa.Array, pa.DataType, str], pa.Array]


class _Kind(Enum):
    TEXT = "text"
    BYTES = "bytes"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "timestamp"
    OTHER = "other"


def cast(value: Datum, target: pa.DataType, *, time_zone: str = "UTC") -> Datum:
    """Convert to `target` as Spark's CAST does.

    Raises:
        UnsupportedFeature: for a cast that is not implemented exactly.

    Example:
        >>> cast(pa.array([" 12 ", "1.9", "x"]), pa.int32()).to_pylist()
        [12, 1, None]
    """
    if value.type == target:
        return value
    if isinstance(value, pa.Scalar):
        single = pa.array([value.as_py()], value.type)
        return cast(single, target, time_zone=time_zone)[0]
    if pa.types.is_null(value.type):
        return pa.nulls(len(value), target)
    if pa.types.is_dictionary(value.type):
        return cast(value.dictionary_decode(), target, time_zone=time_zone)
    rule = _RULES.get((_kind(value.type), _kind(target)))
    if rule is None:
        raise UnsupportedFeature(f"cast from {value.type} to {target}")
    try:
        return rule(value, target, time_zone)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"cast from {value.type} to {target}: {error}") from error


_TESTS: tuple[tuple[Callable[[pa.DataType], bool], _Kind], ...] = (
    (is_text, _Kind.TEXT),
    (is_bytes, _Kind.BYTES),
    (pa.types.is_boolean, _Kind.BOOLEAN),
    (pa.types.is_integer, _Kind.INTEGER),
    (pa.types.is_floating, _Kind.FLOAT),
    (pa.types.is_decimal, _Kind.DECIMAL),
    (pa.types.is_date, _Kind.DATE),
    (pa.types.is_timestamp, _Kind.TIME),
)


def _kind(kind: pa.DataType) -> _Kind:
    return next((name for test, name in _TESTS if test(kind)), _Kind.OTHER)


def _arrow(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    return value.cast(target)


_RULES: dict[tuple[_Kind, _Kind], Rule] = {
    (_Kind.TEXT, _Kind.TEXT): _arrow,
    (_Kind.TEXT, _Kind.BYTES): _arrow,
    (_Kind.TEXT, _Kind.BOOLEAN): from_text.to_boolean,
    (_Kind.TEXT, _Kind.INTEGER): from_text.to_integer,
    (_Kind.TEXT, _Kind.FLOAT): from_text.to_float,
    (_Kind.TEXT, _Kind.DECIMAL): from_text.to_decimal,
    (_Kind.TEXT, _Kind.DATE): from_text.to_date,
    (_Kind.TEXT, _Kind.TIME): from_text.to_timestamp,
    (_Kind.BYTES, _Kind.BYTES): _arrow,
    (_Kind.BYTES, _Kind.TEXT): _arrow,
    (_Kind.BOOLEAN, _Kind.TEXT): _arrow,
    (_Kind.BOOLEAN, _Kind.INTEGER): _arrow,
    (_Kind.BOOLEAN, _Kind.FLOAT): from_numbers.boolean_to_float,
    (_Kind.INTEGER, _Kind.TEXT): _arrow,
    (_Kind.INTEGER, _Kind.BOOLEAN): from_numbers.to_boolean,
    (_Kind.INTEGER, _Kind.INTEGER): from_numbers.integer_to_integer,
    (_Kind.INTEGER, _Kind.FLOAT): from_numbers.integer_to_float,
    (_Kind.INTEGER, _Kind.DECIMAL): from_numbers.integer_to_decimal,
    (_Kind.INTEGER, _Kind.TIME): from_times.integer_to_timestamp,
    (_Kind.FLOAT, _Kind.BOOLEAN): from_numbers.to_boolean,
    (_Kind.FLOAT, _Kind.INTEGER): from_numbers.float_to_integer,
    (_Kind.FLOAT, _Kind.FLOAT): from_numbers.float_to_float,
    (_Kind.DECIMAL, _Kind.TEXT): _arrow,
    (_Kind.DECIMAL, _Kind.BOOLEAN): from_numbers.decimal_to_boolean,
    (_Kind.DECIMAL, _Kind.INTEGER): from_numbers.decimal_to_integer,
    (_Kind.DECIMAL, _Kind.FLOAT): from_numbers.decimal_to_float,
    (_Kind.DECIMAL, _Kind.DECIMAL): from_numbers.decimal_to_decimal,
    (_Kind.DATE, _Kind.TEXT): to_text.date_to_text,
    (_Kind.DATE, _Kind.DATE): _arrow,
    (_Kind.DATE, _Kind.TIME): from_times.date_to_timestamp,
    (_Kind.TIME, _Kind.TEXT): to_text.timestamp_to_text,
    (_Kind.TIME, _Kind.INTEGER): from_times.timestamp_to_integer,
    (_Kind.TIME, _Kind.DATE): from_times.timestamp_to_date,
    (_Kind.TIME, _Kind.TIME): from_times.timestamp_to_timestamp,
}
