"""Bounds of statistics records in their stored form: a wrapper of the plain value, and a type.

The plain value of a date is its days, of a timestamp its ticks, of a decimal the bytes of its
unscaled value; the type's ordinal says how to read it (see `stat_values` for the way back).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput

_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING = range(7)
_ORDINAL_FIXED, _ORDINAL_DECIMAL = 9, 10
_ALL_DIGITS = Context(prec=1000)
NO_NAN = "no NaN"
"""The note beside bounds of floats that were taken from the values, none of which is NaN.

Hudi has no use for a note there, leaves it out where it joins or makes a record anew, and copies
the bytes of a record that it leaves as it is; so where it stands, it is true.
"""
_ZONE = "time zone "
_HIGHEST_TEXT = "\U0010ffff" * 8
_PLAIN: dict[pa.DataType, tuple[int, int, pa.DataType]] = {
    pa.bool_(): (_BOOLEAN, 2, pa.bool_()),
    pa.int8(): (_INT, 3, pa.int32()),
    pa.int16(): (_INT, 3, pa.int32()),
    pa.int32(): (_INT, 3, pa.int32()),
    pa.int64(): (_LONG, 4, pa.int64()),
    pa.float32(): (_FLOAT, 5, pa.float32()),
    pa.float64(): (_DOUBLE, 6, pa.float64()),
    pa.string(): (_STRING, 7, pa.string()),
    pa.large_string(): (_STRING, 7, pa.string()),
    pa.binary(): (_BYTES, 8, pa.binary()),
    pa.large_binary(): (_BYTES, 8, pa.binary()),
    pa.date32(): (_INT, 12, pa.int32()),
    pa.time32("ms"): (_INT, 13, pa.int32()),
    pa.time64("us"): (_LONG, 14, pa.int64()),
}
_TIMESTAMPS = {"ms": (15, 18), "us": (16, 19), "ns": (17, 20)}
"""By unit: the ordinal of moments, and that of local times."""


@dataclass(frozen=True, slots=True)
class StoredBounds:
    """The bounds of one column in the union of wrappers, with their type."""

    minimum: pa.StructArray
    maximum: pa.StructArray
    ordinal: int
    info: str | None


def stored_bounds(column: str, minimum: pa.Array, maximum: pa.Array) -> StoredBounds:
    """The bounds of a column as records store them.

    Example:
        >>> bounds = stored_bounds("n", pa.array([1], pa.int32()), pa.array([7], pa.int32()))
        >>> bounds.minimum.to_pylist(), bounds.ordinal
        ([{'member1': {'value': 1}}], 3)

    Raises:
        InvalidInput: values of that type have no place in statistics.
    """
    member, ordinal, info, convert = _form(column, minimum.type)
    return StoredBounds(
        _union(member, convert(minimum)), _union(member, convert(maximum)), ordinal, info
    )


def notes(bounds: StoredBounds, minimum: pa.Array, maximum: pa.Array) -> pa.Array:
    """The note beside each pair of bounds of files: of decimals their scale, of floats `NO_NAN`.

    A column with a NaN has bounds without end (see `column_ranges`); some others have, too.
    """
    if not pa.types.is_floating(minimum.type):
        return pa.repeat(pa.scalar(bounds.info, pa.string()), len(minimum))
    endless = pc.and_(pc.is_inf(minimum), pc.is_inf(maximum))
    nothing = pa.scalar(None, pa.string())
    return pc.if_else(pc.fill_null(endless, fill_value=True), nothing, pa.scalar(NO_NAN))


def zone_note(zone: str) -> str:
    """The note beside bounds of an expression that was computed in a time zone.

    Other engines write no such note, and compute in the zone of whoever writes. As with `NO_NAN`,
    where the note stands it is true.

    Example:
        >>> zone_note("Europe/Oslo")
        'time zone Europe/Oslo'
    """
    return f"{_ZONE}{zone}"


def is_zone_note(note: str | None) -> bool:
    """Whether a note tells a time zone.

    Example:
        >>> is_zone_note(zone_note("UTC")), is_zone_note(NO_NAN), is_zone_note(None)
        (True, False, False)
    """
    return note is not None and note.startswith(_ZONE)


def outermost(kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """Bounds that no value of a type lies outside of.

    Example:
        >>> [bound.as_py() for bound in outermost(pa.int8())]
        [-128, 127]
    """
    low, high = _extremes(kind)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(low, width).cast(kind), pa.scalar(high, width).cast(kind)
    return pa.scalar(low, kind), pa.scalar(high, kind)


def _extremes(kind: pa.DataType) -> tuple[Any, Any]:
    if pa.types.is_boolean(kind):
        return False, True
    if pa.types.is_floating(kind):
        return float("-inf"), float("inf")
    if pa.types.is_decimal(kind):
        # A minus sign would round to the digits of the usual context.
        nines = (9,) * kind.precision
        return Decimal((1, nines, -kind.scale)), Decimal((0, nines, -kind.scale))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "", _HIGHEST_TEXT
    if pa.types.is_fixed_size_binary(kind):
        return b"\0" * kind.byte_width, b"\xff" * kind.byte_width
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b"", b"\xff" * 32
    width = np.iinfo(np.dtype(f"i{kind.bit_width // 8}"))
    return int(width.min), int(width.max)


_Convert = Callable[[pa.Array], pa.Array]


def _form(column: str, kind: pa.DataType) -> tuple[int, int, str | None, _Convert]:
    """Wrapper, type ordinal, what more to know of the type, and the way to plain values."""
    if pa.types.is_decimal(kind):
        return _BYTES, _ORDINAL_DECIMAL, f"{kind.precision},{kind.scale}", _unscaled
    if pa.types.is_fixed_size_binary(kind):
        return _BYTES, _ORDINAL_FIXED, None, _to(pa.binary())
    if pa.types.is_timestamp(kind) and kind.unit in _TIMESTAMPS:
        moment, local = _TIMESTAMPS[kind.unit]
        return _LONG, local if kind.tz is None else moment, None, _to(pa.int64())
    if kind not in _PLAIN:
        raise InvalidInput(f"column {column} of type {kind} cannot have statistics")
    member, ordinal, stored = _PLAIN[kind]
    return member, ordinal, None, _to(stored)


def _to(stored: pa.DataType) -> _Convert:
    return lambda values: values.cast(stored)


def _unscaled(values: pa.Array) -> pa.Array:
    """Decimals as the shortest big-endian bytes of their unscaled value."""
    scale = values.type.scale
    numbers = [
        None if value is None else int(value.scaleb(scale, _ALL_DIGITS))
        for value in values.to_pylist()
    ]
    texts = [
        None
        if number is None
        else number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
        for number in numbers
    ]
    return pa.array(texts, pa.binary())


def _union(member: int, values: pa.Array) -> pa.StructArray:
    """Values in their wrapper, under the name that the union's member has."""
    missing = values.is_null()
    boxed = pa.StructArray.from_arrays([values], ["value"], mask=missing)
    return pa.StructArray.from_arrays([boxed], [f"member{member}"], mask=missing)
