"""Functions of dates and timestamps: their parts, arithmetic, text, epochs and truncation.

Zoned timestamps are converted to wall-clock time in the session time zone. Of the parts only `year`
preserves the order of its argument; all others are periodic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import (
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    array_of,
    is_text,
    numpy_values,
    valid_mask,
)
from lakedex.expr.casting import cast
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always, never
from lakedex.expr.time_patterns import format_time, parse_time, sorts_as_time
from lakedex.expr.time_zones import (
    LARGEST_SHIFT,
    ZONED,
    LocalTime,
    civil_from_days,
    date_days,
    days_from_civil,
    from_local,
    local_time,
    month_length,
    timestamp_micros,
    to_local,
)

_MONTHS_PER_UNIT = {
    "year": 12,
    "yyyy": 12,
    "yy": 12,
    "quarter": 3,
    "month": 1,
    "mon": 1,
    "mm": 1,
}


def month_start(days: np.ndarray, months: int) -> np.ndarray:
    """The first day of the group of `months` months that contains each day.

    Example:
        >>> month_start(np.array([100]), 3).tolist()
        [90]
    """
    year, month, _ = civil_from_days(days)
    first = (month - 1) // months * months + 1
    return days_from_civil(year, first, np.ones_like(first))


def week_start(days: np.ndarray) -> np.ndarray:
    """The Monday of the week of each day."""
    monday: np.ndarray = days - (days + 3) % 7
    return monday


def months_of_unit(unit: str) -> int | None:
    """The number of months in a unit of truncation; None for a unit that is not of months."""
    return _MONTHS_PER_UNIT.get(unit.lower())


def _days(arguments: Arguments, index: int) -> tuple[np.ndarray, np.ndarray]:
    array = cast(arguments.array(index), pa.date32(), time_zone=arguments.time_zone)
    return date_days(array), valid_mask(array)


def _to_date(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    if len(arguments) == 1 or not is_text(array.type):
        return cast(array, pa.date32(), time_zone=arguments.time_zone)
    pattern = arguments.constant_text(1)
    if pattern is None:
        return pa.nulls(arguments.length, pa.date32())
    # It becomes an instant first, whose day is the next one if clocks skip a day.
    parsed = parse_time(array, pattern)
    local = to_local(parsed.instants(arguments.time_zone), arguments.time_zone)
    return array_of(local // MICROS_PER_DAY, parsed.valid, pa.date32())


def date_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    """The order of functions of one date or timestamp whose other arguments are constants."""
    if constants[0] is not ... or any(value is ... for value in constants[1:]):
        return None
    if pa.types.is_timestamp(types[0]):
        return Order(clock=types[0].tz is not None)
    return Order() if pa.types.is_date(types[0]) else None


def _shifted(sign: int) -> Callable[[Arguments], pa.Array]:
    def evaluate(arguments: Arguments) -> pa.Array:
        days, valid = _days(arguments, 0)
        count = cast(arguments.array(1), pa.int32(), time_zone=arguments.time_zone)
        moved = days + sign * numpy_values(count).astype(np.int64)
        return array_of(moved, valid & valid_mask(count), pa.date32())

    return evaluate


def _datediff(arguments: Arguments) -> pa.Array:
    end, end_valid = _days(arguments, 0)
    start, start_valid = _days(arguments, 1)
    return array_of((end - start).astype(np.int32), end_valid & start_valid, pa.int32())


def _last_day(arguments: Arguments) -> pa.Array:
    days, valid = _days(arguments, 0)
    year, month, day = civil_from_days(days)
    return array_of(days - day + month_length(year, month), valid, pa.date32())


def _trunc(arguments: Arguments) -> pa.Array:
    days, valid = _days(arguments, 0)
    unit = (arguments.constant_text(1) or "").lower()
    months = months_of_unit(unit)
    if months is not None:
        return array_of(month_start(days, months), valid, pa.date32())
    if unit == "week":
        return array_of(week_start(days), valid, pa.date32())
    return pa.nulls(arguments.length, pa.date32())


_DATE = always(pa.date32())

_DATES = (
    FunctionSpec("to_date", (1, 2), _DATE, _to_date, date_order),
    FunctionSpec("date", (1, 1), _DATE, _to_date, date_order),
    FunctionSpec("date_add", (2, 2), _DATE, _shifted(1), date_order),
    FunctionSpec("date_sub", (2, 2), _DATE, _shifted(-1), date_order),
    FunctionSpec("datediff", (2, 2), always(pa.int32()), _datediff, date_order),
    FunctionSpec("last_day", (1, 1), _DATE, _last_day, date_order),
    FunctionSpec("trunc", (2, 2), _DATE, _trunc, date_order),
)


_HOUR = 3600 * MICROS_PER_SECOND
_MINUTE = 60 * MICROS_PER_SECOND

Part = Callable[[LocalTime], np.ndarray]


def _week_of_year(time: LocalTime) -> np.ndarray:
    """The ISO week: that of the Thursday in the same Monday-to-Sunday week."""
    thursday = time.days - (time.days + 3) % 7 + 3
    year, _, _ = civil_from_days(thursday)
    first = np.ones_like(year)
    week: np.ndarray = (thursday - days_from_civil(year, first, first)) // 7 + 1
    return week


def _clock_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    if pa.types.is_timestamp(types[0]):
        return Order(clock=types[0].tz is not None)
    return Order() if pa.types.is_date(types[0]) else None


def _of_date(name: str, part: Part) -> FunctionSpec:
    def evaluate(arguments: Arguments) -> pa.Array:
        time = arguments.date(0)
        return array_of(part(time).astype(np.int32), time.valid, pa.int32())

    order = _clock_order if name == "year" else never
    return FunctionSpec(name, (1, 1), always(pa.int32()), evaluate, order)


def _of_time(name: str, part: Part) -> FunctionSpec:
    def evaluate(arguments: Arguments) -> pa.Array:
        time = arguments.time(0)
        return array_of(part(time).astype(np.int32), time.valid, pa.int32())

    return FunctionSpec(name, (1, 1), always(pa.int32()), evaluate)


_PARTS = (
    _of_date("year", lambda time: time.civil()[0]),
    _of_date("quarter", lambda time: (time.civil()[1] + 2) // 3),
    _of_date("month", lambda time: time.civil()[1]),
    _of_date("dayofmonth", lambda time: time.civil()[2]),
    _of_date("dayofweek", lambda time: (time.days + 4) % 7 + 1),
    _of_date("weekday", lambda time: (time.days + 3) % 7),
    _of_date("dayofyear", LocalTime.day_of_year),
    _of_date("weekofyear", _week_of_year),
    _of_time("hour", lambda time: time.micros_of_day // _HOUR),
    _of_time("minute", lambda time: time.micros_of_day // _MINUTE % 60),
    _of_time("second", lambda time: time.micros_of_day // MICROS_PER_SECOND % 60),
)


_LAST_EPOCH_MOMENT = np.iinfo(np.int64).max - LARGEST_SHIFT
_MICROS_PER_MILLI = 1_000


def _moments(name: str, unit: int) -> FunctionSpec:
    """From a count of units; in every mode Spark fails if there is no such instant."""

    def evaluate(arguments: Arguments) -> pa.Array:
        array = arguments.array(0)
        if not pa.types.is_integer(array.type):
            raise UnsupportedFeature(f"{name} of {array.type}")
        counts = numpy_values(array).astype(np.int64)
        if (np.abs(counts.astype(np.float64)) > _LAST_EPOCH_MOMENT // unit).any():
            raise UnsupportedFeature(f"{name} of an instant at the end of the timestamp range")
        return array_of(counts * unit, valid_mask(array), ZONED)

    return FunctionSpec(name, (1, 1), always(ZONED), evaluate, _count_order)


def _count_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    return Order() if constants[0] is ... and pa.types.is_integer(types[0]) else None


def _counts(name: str, unit: int) -> FunctionSpec:
    """To a count of whole units, rounded down."""

    def evaluate(arguments: Arguments) -> pa.Array:
        moments = arguments.array(0)
        if not _is_zoned(moments.type):
            # The other types that Spark accepts differ between versions.
            raise InvalidInput(f"{name} takes a timestamp, not {moments.type}")
        return array_of(timestamp_micros(moments) // unit, valid_mask(moments), pa.int64())

    return FunctionSpec(name, (1, 1), always(pa.int64()), evaluate, _moment_order)


def _moment_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    return Order() if constants[0] is ... and _is_zoned(types[0]) else None


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _unix_date(arguments: Arguments) -> pa.Array:
    days = arguments.array(0)
    if not pa.types.is_date(days.type):
        raise InvalidInput(f"unix_date takes a date, not {days.type}")
    return array_of(date_days(days).astype(np.int32), valid_mask(days), pa.int32())


def _date_from_unix_date(arguments: Arguments) -> pa.Array:
    counts = arguments.array(0)
    if not pa.types.is_integer(counts.type) or counts.type.bit_width > pa.int32().bit_width:
        raise InvalidInput(f"date_from_unix_date takes an int, not {counts.type}")
    return array_of(numpy_values(counts), valid_mask(counts), pa.date32())


def _day_order(_types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    return Order() if constants[0] is ... else None


_EPOCHS = (
    _moments("timestamp_seconds", MICROS_PER_SECOND),
    _moments("timestamp_millis", _MICROS_PER_MILLI),
    _moments("timestamp_micros", 1),
    _counts("unix_seconds", MICROS_PER_SECOND),
    _counts("unix_millis", _MICROS_PER_MILLI),
    _counts("unix_micros", 1),
    FunctionSpec("unix_date", (1, 1), always(pa.int32()), _unix_date, _day_order),
    FunctionSpec(
        "date_from_unix_date", (1, 1), always(pa.date32()), _date_from_unix_date, _day_order
    ),
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

_TIMES = (
    FunctionSpec("date_format", (2, 2), _TEXT, _date_format, _format_order),
    FunctionSpec("from_unixtime", (1, 2), _TEXT, _from_unixtime, _unixtime_order),
    FunctionSpec("to_timestamp", (1, 2), always(ZONED), _to_timestamp, _instant_order),
    FunctionSpec("unix_timestamp", (1, 2), always(pa.int64()), _unix_timestamp, _instant_order),
    FunctionSpec("date_trunc", (2, 2), _trunc_type, _date_trunc, _date_trunc_order),
)

FUNCTIONS = (*_DATES, *_PARTS, *_EPOCHS, *_TIMES)
