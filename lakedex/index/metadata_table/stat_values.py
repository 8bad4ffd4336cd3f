"""Bounds of statistics records: their stored form, and the typed values read from it.

Stored is a wrapper of the plain value and a type. The plain value of a date is its days, of a
timestamp its ticks, of a decimal the bytes of its unscaled value; the type's ordinal says how to
read it.

The wrapper is a union with one member for each form (boolean, int, long, float, double, bytes,
string, date, decimal, time, timestamp, local date, array). Index version 2 stores the primitive
value and says in `valueType` how to read it; version 1 has wrappers for dates and decimals instead.
A value that does not fit the column's type for sure is left out, which means "unknown".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
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
_STORED_FORMS: dict[pa.DataType, tuple[int, int, pa.DataType]] = {
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
_STORED_TIMESTAMPS = {"ms": (15, 18), "us": (16, 19), "ns": (17, 20)}
"""By unit: the ordinal of moments, and that of local times."""
_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL = range(9)
_TIMESTAMP_MICROS, _LOCAL_DATE = 10, 11
_ORDINALS_V1 = frozenset([-1, 0])
_ORDINAL_DECIMAL, _ORDINAL_DATE = 10, 12
_ORDINALS_BYTES = frozenset([8, 9])
_TIMESTAMPS = {15: ("ms", True), 16: ("us", True), 17: ("ns", True)}
_LOCAL_TIMESTAMPS = {18: ("ms", False), 19: ("us", False), 20: ("ns", False)}
_LEFT_OUT_FROM_BYTES = 4_096
# The usual context would round to 28 digits, and a rounded bound may exclude its own value.

_Ints = npt.NDArray[np.int64]


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
    if pa.types.is_timestamp(kind) and kind.unit in _STORED_TIMESTAMPS:
        moment, local = _STORED_TIMESTAMPS[kind.unit]
        return _LONG, local if kind.tz is None else moment, None, _to(pa.int64())
    if kind not in _STORED_FORMS:
        raise InvalidInput(f"column {column} of type {kind} cannot have statistics")
    member, ordinal, stored = _STORED_FORMS[kind]
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


@dataclass(frozen=True, slots=True)
class StatValues:
    """The bounds and counts of some statistics records; -1 is an unknown count."""

    minimum: pa.Array
    maximum: pa.Array
    null_count: _Ints
    value_count: _Ints
    no_nan: npt.NDArray[np.bool_]
    """Where the writer of the record looked for a NaN and found none."""
    notes: pa.Array
    """What is noted beside the bounds, null for nothing."""

    def take(self, places: pa.Array) -> StatValues:
        """The values at some places; at one that is null nothing is known.

        Records have some forty columns, so they are put in another order only after what counts
        was taken out of them.
        """
        known = places.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(known)
        chosen = places.drop_null().to_numpy()
        counts = np.full((2, len(places)), -1, dtype=np.int64)
        counts[:, rows] = self.null_count[chosen], self.value_count[chosen]
        no_nan = np.zeros(len(places), dtype=np.bool_)
        no_nan[rows] = self.no_nan[chosen]
        return StatValues(
            self.minimum.take(places),
            self.maximum.take(places),
            counts[0],
            counts[1],
            no_nan,
            self.notes.take(places),
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """A member that may hold values of a type, under which `typeOrdinal`s, and how to read it."""

    member: int
    ordinals: frozenset[int] | None
    convert: Callable[[pa.Array, pa.Array], pa.Array]


def stat_values(
    stats: pa.StructArray, column_type: pa.DataType, *, as_written: bool = False
) -> StatValues:
    """The bounds in records of `ColumnStatsMetadata`, in the column's type.

    `as_written` gives bounds and nulls of text also where long values may hide among the nulls.
    """
    value_type = pc.struct_field(stats, "valueType")
    ordinals = _numbers(pc.struct_field(value_type, "typeOrdinal"))
    info = pc.struct_field(value_type, "additionalInfo")
    sources = _sources(column_type)
    minimum = _unwrap(pc.struct_field(stats, "minValue"), ordinals, info, sources, column_type)
    maximum = _unwrap(pc.struct_field(stats, "maxValue"), ordinals, info, sources, column_type)
    null_count = _numbers(pc.struct_field(stats, "nullCount"))
    value_count = _numbers(pc.struct_field(stats, "valueCount"))
    if _may_be_left_out(column_type) and not as_written:
        null_count = np.where(_may_hide_long_values(stats, null_count), -1, null_count)
    # Without a null count the file had no statistics, and zeros then stand for "not known".
    unknown = pa.array(null_count < 0)
    nothing = pa.scalar(None, column_type)
    return StatValues(
        pc.if_else(unknown, nothing, minimum),
        pc.if_else(unknown, nothing, maximum),
        np.maximum(null_count, -1),
        np.maximum(value_count, -1),
        pc.equal(info, NO_NAN).fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False),
        info,
    )


def _unwrap(
    union: pa.StructArray,
    ordinals: _Ints,
    info: pa.Array,
    sources: list[_Source],
    column_type: pa.DataType,
) -> pa.Array:
    result = pa.nulls(len(union), column_type)
    for source in sources:
        member = pc.struct_field(union, [source.member, 0])
        valid = member.is_valid().to_numpy(zero_copy_only=False)
        if source.ordinals is not None:
            valid &= np.isin(ordinals, list(source.ordinals))
        if not valid.any():
            continue
        chosen = pa.array(valid)
        values = pc.if_else(chosen, member, pa.scalar(None, member.type))
        result = pc.coalesce(result, source.convert(values, info))
    return result


def _sources(column_type: pa.DataType) -> list[_Source]:
    """Where values of a column type may stand; empty when none can be trusted."""
    is_a = pa.types
    if is_a.is_timestamp(column_type):
        return _timestamp_sources(column_type)
    if is_a.is_decimal(column_type):
        return [
            _Source(_BYTES, frozenset([_ORDINAL_DECIMAL]), _decimals(column_type)),
            _Source(_DECIMAL, None, _exact(column_type)),
        ]
    if is_a.is_date32(column_type):
        return [
            _Source(_INT, frozenset([_ORDINAL_DATE]), _exact(column_type)),
            _Source(_DATE, None, _exact(column_type)),
            _Source(_LOCAL_DATE, None, _exact(column_type)),
        ]
    for matches, members in _PLAIN:
        if matches(column_type):
            return [_Source(member, ordinals, _exact(column_type)) for member, ordinals in members]
    return []


# A float column that became double reads its old values through their text, so the bounds of
# a FloatWrapper are not bounds of what a query sees; an int that became long is the same value.
_PLAIN: list[tuple[Callable[[pa.DataType], bool], list[tuple[int, frozenset[int] | None]]]] = [
    (pa.types.is_boolean, [(_BOOLEAN, None)]),
    (pa.types.is_int64, [(_LONG, frozenset([-1, 0, 4])), (_INT, frozenset([-1, 0, 3]))]),
    (pa.types.is_integer, [(_INT, frozenset([-1, 0, 3]))]),
    (pa.types.is_float32, [(_FLOAT, None)]),
    (pa.types.is_float64, [(_DOUBLE, None)]),
    (pa.types.is_string, [(_STRING, frozenset([-1, 0, 7]))]),
    (pa.types.is_binary, [(_BYTES, _ORDINALS_V1 | _ORDINALS_BYTES)]),
]


def _timestamp_sources(column_type: pa.DataType) -> list[_Source]:
    zoned = column_type.tz is not None
    sources = [
        _Source(_LONG, frozenset([ordinal]), _timestamps(unit, column_type))
        for ordinal, (unit, with_zone) in (_TIMESTAMPS | _LOCAL_TIMESTAMPS).items()
        if with_zone == zoned
    ]
    sources.append(_Source(_LONG, _ORDINALS_V1, _timestamps(column_type.unit, column_type)))
    sources.append(_Source(_TIMESTAMP_MICROS, _ORDINALS_V1, _timestamps("us", column_type)))
    return sources


def _exact(column_type: pa.DataType) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def convert(values: pa.Array, _info: pa.Array) -> pa.Array:
        try:
            return values.cast(column_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.nulls(len(values), column_type)

    return convert


def _timestamps(unit: str, column_type: pa.DataType) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def convert(values: pa.Array, _info: pa.Array) -> pa.Array:
        try:
            stored = values.cast(pa.int64()).cast(pa.timestamp(unit, column_type.tz))
            return stored.cast(column_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.nulls(len(values), column_type)

    return convert


def _decimals(column_type: pa.DataType) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Unscaled big-endian bytes with `precision,scale` beside them."""

    def convert(values: pa.Array, info: pa.Array) -> pa.Array:
        pairs = zip(values.to_pylist(), info.to_pylist(), strict=True)
        found = [_decimal(raw, text, column_type.scale) for raw, text in pairs]
        try:
            return pa.array(found, column_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.nulls(len(values), column_type)

    return convert


def _decimal(raw: bytes | None, info: str | None, scale: int) -> Decimal | None:
    stored_scale = info.rpartition(",")[2].strip() if info else ""
    if raw is None or not stored_scale.isdigit() or int(stored_scale) > scale:
        return None
    unscaled = Decimal(int.from_bytes(raw, "big", signed=True))
    return unscaled.scaleb(-int(stored_scale), _ALL_DIGITS)


def _may_be_left_out(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(column_type) or pa.types.is_binary(column_type))


def _may_hide_long_values(stats: pa.StructArray, null_count: _Ints) -> npt.NDArray[np.bool_]:
    """Records whose nulls may be long values.

    Parquet writes no statistics for a row group whose smallest and largest value have 4,096
    bytes together, and Hudi then counts all its rows as nulls; the bounds are those of the other
    row groups. A column chunk with fewer bytes cannot be such a one.
    """
    stored = _numbers(pc.struct_field(stats, "totalUncompressedSize"))
    return (null_count > 0) & ((stored < 0) | (stored >= _LEFT_OUT_FROM_BYTES))


def _numbers(values: pa.Array) -> _Ints:
    return values.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
