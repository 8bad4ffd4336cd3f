"""Functions from dates to dates, and between dates and numbers of days."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lakedex.expr.arrays import MICROS_PER_DAY, array_of, is_text, numpy_values, valid_mask
from lakedex.expr.casting import cast
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always
from lakedex.expr.temporal.patterns import parse_time
from lakedex.expr.temporal.zones import (
    civil_from_days,
    date_days,
    days_from_civil,
    month_length,
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

FUNCTIONS = (
    FunctionSpec("to_date", (1, 2), _DATE, _to_date, date_order),
    FunctionSpec("date", (1, 1), _DATE, _to_date, date_order),
    FunctionSpec("date_add", (2, 2), _DATE, _shifted(1), date_order),
    FunctionSpec("date_sub", (2, 2), _DATE, _shifted(-1), date_order),
    FunctionSpec("datediff", (2, 2), always(pa.int32()), _datediff, date_order),
    FunctionSpec("last_day", (1, 1), _DATE, _last_day, date_order),
    FunctionSpec("trunc", (2, 2), _DATE, _trunc, date_order),
)
