"""Statistics records as typed bounds: the values inside the wrapper union of min and max.

The union has one member for each wrapper (boolean, int, long, float, double, bytes, string, date,
decimal, time, timestamp, local date, array). Index version 2 stores the primitive value and says
in `valueType` how to read it; version 1 has wrappers for dates and decimals instead. A value
that does not fit the column's type for sure is left out, which means "unknown".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.stat_bounds import NO_NAN

_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL = range(9)
_TIMESTAMP_MICROS, _LOCAL_DATE = 10, 11
_ORDINALS_V1 = frozenset([-1, 0])
_ORDINAL_DECIMAL, _ORDINAL_DATE = 10, 12
_ORDINALS_BYTES = frozenset([8, 9])
_TIMESTAMPS = {15: ("ms", True), 16: ("us", True), 17: ("ns", True)}
_LOCAL_TIMESTAMPS = {18: ("ms", False), 19: ("us", False), 20: ("ns", False)}
_LEFT_OUT_FROM_BYTES = 4_096
# The usual context would round to 28 digits, and a rounded bound may exclude its own value.
_ALL_DIGITS = Context(prec=1000)

_Ints = npt.NDArray[np.int64]


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
