"""Parts of dates and timestamps: year, month, day, hour and similar functions.

Zoned timestamps are converted to wall-clock time in the session time zone. Only `year` preserves
the order of its argument; all other parts are periodic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lakedex.expr.arrays import MICROS_PER_SECOND, array_of
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always, never
from lakedex.expr.temporal.zones import LocalTime, civil_from_days, days_from_civil

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


FUNCTIONS = (
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
