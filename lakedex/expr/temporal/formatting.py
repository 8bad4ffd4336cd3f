"""Times to text by a pattern, one string column per field, joined.

Names are English. Years follow Java's rule: `yyyy` pads to four digits, writes a plus sign before
years with more digits and a minus sign before negative ones; `yy` is the year modulo 100.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import MICROS_PER_SECOND, masked
from lakedex.expr.temporal.moments import LocalTime
from lakedex.expr.temporal.pattern import Field, parse_pattern

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_HOUR = 3600 * MICROS_PER_SECOND
_MINUTE = 60 * MICROS_PER_SECOND


def format_time(time: LocalTime, pattern: str) -> pa.Array:
    """The times as strings, null where there is no time.

    Example:
        >>> from lakedex.expr.temporal.moments import local_time
        >>> day = local_time(pa.array([0], pa.date32()), "UTC")
        >>> format_time(day, "EEE d MMM yyyy, hh:mm a").to_pylist()
        ['Thu 1 Jan 1970, 12:00 AM']
    """
    pieces = [_piece(token, time) for token in parse_pattern(pattern)]
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        text = "".join(piece.as_py() for piece in pieces)
        joined = pa.repeat(pa.scalar(text), len(time.micros))
    else:
        joined = pc.binary_join_element_wise(*pieces, "")
    return masked(joined, time.valid)


def year_text(years: np.ndarray, width: int = 4) -> pa.Array:
    """Years as `yyyy` writes them.

    Example:
        >>> year_text(np.array([5, 12345, -3])).to_pylist()
        ['0005', '+12345', '-0003']
    """
    digits = padded(np.abs(years), width)
    if (years >= 0).all() and (years < 10**width).all():
        return digits
    signed = pc.binary_join_element_wise("-", digits, "")
    plus = pc.binary_join_element_wise("+", digits, "")
    large = width >= 4
    return pc.case_when(
        pc.make_struct(pa.array(years < 0), pa.array((years >= 10**width) & large)),
        signed,
        plus,
        digits,
    )


def padded(values: np.ndarray, width: int) -> pa.Array:
    """Numbers that are not negative as decimal digits, zeros in front up to `width`."""
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), width=width, padding="0")


def _piece(token: str | Field, time: LocalTime) -> pa.Array | pa.Scalar:
    if isinstance(token, str):
        return pa.scalar(token)
    return _FIELDS[token.letter](time, token.count)


def _year(time: LocalTime, count: int) -> pa.Array:
    year, _, _ = time.civil()
    if count == 2:
        return padded(np.abs(year) % 100, 2)
    return year_text(year, count)


def _month(time: LocalTime, count: int) -> pa.Array:
    _, month, _ = time.civil()
    if count <= 2:
        return padded(month, count)
    return _names(_MONTHS, month - 1, 3 if count == 3 else None)


def _weekday(time: LocalTime, count: int) -> pa.Array:
    return _names(_WEEKDAYS, (time.days + 3) % 7, None if count == 4 else 3)


def _names(names: list[str], index: np.ndarray, width: int | None) -> pa.Array:
    return pa.array([name[:width] for name in names]).take(pa.array(index))


def _half_day_hour(time: LocalTime, count: int) -> pa.Array:
    return padded((time.micros_of_day // _HOUR - 1) % 12 + 1, count)


def _half_of_day(time: LocalTime, count: int) -> pa.Array:
    return _names(["AM", "PM"], time.micros_of_day // (12 * _HOUR), None)


def _fraction(time: LocalTime, count: int) -> pa.Array:
    micros = time.micros_of_day % MICROS_PER_SECOND
    nanos = micros * 1_000
    return padded(nanos // 10 ** (9 - count), count)


def _clock(unit: int, modulo: int) -> Callable[[LocalTime, int], pa.Array]:
    return lambda time, count: padded(time.micros_of_day // unit % modulo, count)


_FIELDS: dict[str, Callable[[LocalTime, int], pa.Array]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "d": lambda time, count: padded(time.civil()[2], count),
    "H": _clock(_HOUR, 24),
    "h": _half_day_hour,
    "m": _clock(_MINUTE, 60),
    "s": _clock(MICROS_PER_SECOND, 60),
    "S": _fraction,
    "E": _weekday,
    "a": _half_of_day,
}


def iso_date_text(time: LocalTime) -> pa.Array:
    """Dates as a cast to string writes them: `yyyy-MM-dd`."""
    return format_time(time, "yyyy-MM-dd")


def iso_timestamp_text(time: LocalTime) -> pa.Array:
    """Times as a cast to string writes them: a fraction without trailing zeros, if any."""
    seconds = format_time(time, "yyyy-MM-dd HH:mm:ss")
    micros = time.micros_of_day % MICROS_PER_SECOND
    if not micros.any():
        return seconds
    digits = pc.utf8_rtrim(padded(micros, 6), characters="0")
    with_fraction = pc.binary_join_element_wise(seconds, digits, ".")
    return pc.if_else(pa.array(micros > 0), with_fraction, seconds)
