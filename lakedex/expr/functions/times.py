"""Functions of timestamps: to and from text by patterns, to seconds, and truncation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import UnsupportedFeature
from lakedex.expr.arrays import (
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    array_of,
    is_text,
    numpy_values,
    valid_mask,
)
from lakedex.expr.casting import cast
from lakedex.expr.functions.dates import date_order, month_start, months_of_unit, week_start
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always
from lakedex.expr.temporal.patterns import format_time, parse_time, sorts_as_time
from lakedex.expr.temporal.zones import (
    LARGEST_SHIFT,
    ZONED,
    LocalTime,
    from_local,
    local_time,
    timestamp_micros,
    to_local,
)

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
_LAST_MOMENT = np.iinfo(np.int64).max - 2 * LARGEST_SHIFT
"""The last instant whose wall-clock time fits into 64 bits in every time zone."""

_MICROS_PER_UNIT = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": MICROS_PER_SECOND,
    "minute": 60 * MICROS_PER_SECOND,
    "hour": 3600 * MICROS_PER_SECOND,
    "day": MICROS_PER_DAY,
    "dd": MICROS_PER_DAY,
}


def _date_format(arguments: Arguments) -> pa.Array:
    pattern = arguments.constant_text(1)
    if pattern is None:
        return pa.nulls(arguments.length, pa.string())
    time = arguments.array(0)
    if pa.types.is_timestamp(time.type) and time.type.tz is None:
        # It becomes an instant first, which is later if clocks skip the time.
        zoned = cast(time, ZONED, time_zone=arguments.time_zone)
        return format_time(local_time(zoned, arguments.time_zone), pattern)
    return format_time(arguments.time(0), pattern)


def _format_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    order = date_order(types, constants)
    if order is None or not isinstance(constants[1], str) or not sorts_as_time(constants[1]):
        return None
    return Order(clock=pa.types.is_timestamp(types[0]), years=True)


def _from_unixtime(arguments: Arguments) -> pa.Array:
    pattern = arguments.constant_text(1) if len(arguments) == 2 else DEFAULT_PATTERN
    if pattern is None:
        return pa.nulls(arguments.length, pa.string())
    seconds = cast(arguments.array(0), pa.int64(), time_zone=arguments.time_zone)
    instants = numpy_values(seconds) * MICROS_PER_SECOND
    if arguments.certain and (np.abs(instants.astype(np.float64)) > _LAST_MOMENT).any():
        raise UnsupportedFeature("an instant at the end of the timestamp range")
    local = LocalTime(to_local(instants, arguments.time_zone), valid_mask(seconds))
    return format_time(local, pattern)


def _unixtime_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    if constants[0] is not ... or not pa.types.is_integer(types[0]):
        return None
    pattern = constants[1] if len(constants) == 2 else DEFAULT_PATTERN
    if not isinstance(pattern, str) or not sorts_as_time(pattern):
        return None
    return Order(clock=True, years=True)


def _instants(arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
    array = arguments.array(0)
    if is_text(array.type) and len(arguments) == 2:
        parsed = parse_time(array, arguments.constant_text(1) or DEFAULT_PATTERN)
        valid = parsed.valid & (arguments.constant_text(1) is not None)
        return parsed.instants(arguments.time_zone), valid
    zoned = cast(array, ZONED, time_zone=arguments.time_zone)
    return timestamp_micros(zoned), valid_mask(zoned)


def _to_timestamp(arguments: Arguments) -> pa.Array:
    instants, valid = _instants(arguments)
    return array_of(instants, valid, ZONED)


def _unix_timestamp(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    if is_text(array.type) and len(arguments) == 1:
        pattern = pa.scalar(DEFAULT_PATTERN)
        values = [array, pattern]
        arguments = Arguments(arguments.name, values, arguments.length, arguments.time_zone)
    instants, valid = _instants(arguments)
    seconds = instants // MICROS_PER_SECOND
    # Spark truncates the fraction here, also before 1970; a cast to BIGINT rounds down instead.
    cut = (instants < 0) & (instants % MICROS_PER_SECOND != 0)
    return array_of(seconds + cut, valid, pa.int64())


def _instant_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    if constants[0] is not ... or any(value is ... for value in constants[1:]):
        return None
    zoned = pa.types.is_timestamp(types[0]) and types[0].tz is not None
    return Order() if zoned or pa.types.is_date(types[0]) else None


def _date_trunc(arguments: Arguments) -> pa.Array:
    array = arguments.array(1)
    if not pa.types.is_timestamp(array.type):
        array = cast(array, ZONED, time_zone=arguments.time_zone)
    kind = pa.timestamp("us", array.type.tz)
    unit = (arguments.constant_text(0) or "").lower()
    time = local_time(array, arguments.time_zone)
    micros = _truncated(time, unit)
    if micros is None:
        return pa.nulls(arguments.length, kind)
    if array.type.tz is not None:
        micros = from_local(micros, arguments.time_zone)
    return array_of(micros, time.valid, kind)


def _truncated(time: LocalTime, unit: str) -> np.ndarray | None:
    months = months_of_unit(unit)
    if months is not None:
        return month_start(time.days, months) * MICROS_PER_DAY
    if unit == "week":
        return week_start(time.days) * MICROS_PER_DAY
    size = _MICROS_PER_UNIT.get(unit)
    if size is None:
        return None
    micros: np.ndarray = time.micros // size * size
    return micros


def _date_trunc_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    if constants[0] is ... or constants[1] is not ...:
        return None
    if pa.types.is_timestamp(types[1]):
        return Order(clock=types[1].tz is not None)
    return Order() if pa.types.is_date(types[1]) else None


def _trunc_type(types: Sequence[pa.DataType]) -> pa.DataType:
    return pa.timestamp("us", types[1].tz) if pa.types.is_timestamp(types[1]) else ZONED


_TEXT = always(pa.string())

FUNCTIONS = (
    FunctionSpec("date_format", (2, 2), _TEXT, _date_format, _format_order),
    FunctionSpec("from_unixtime", (1, 2), _TEXT, _from_unixtime, _unixtime_order),
    FunctionSpec("to_timestamp", (1, 2), always(ZONED), _to_timestamp, _instant_order),
    FunctionSpec("unix_timestamp", (1, 2), always(pa.int64()), _unix_timestamp, _instant_order),
    FunctionSpec("date_trunc", (2, 2), _trunc_type, _date_trunc, _date_trunc_order),
)
