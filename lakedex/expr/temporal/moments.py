"""Arrow dates and timestamps as microseconds, and as wall-clock time in a session zone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import MICROS_PER_DAY, numpy_values, valid_mask
from lakedex.expr.temporal.civil import civil_from_days, days_from_civil
from lakedex.expr.temporal.zones import to_local

_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MILLIS_PER_DAY = 86_400_000

ZONED = pa.timestamp("us", "UTC")
"""Spark's TIMESTAMP: an instant."""


@dataclass(frozen=True, slots=True)
class LocalTime:
    """Wall-clock times: microseconds since 1970-01-01 00:00, and which rows have one."""

    micros: np.ndarray
    valid: np.ndarray

    @property
    def days(self) -> np.ndarray:
        """The day numbers."""
        days: np.ndarray = self.micros // MICROS_PER_DAY
        return days

    @property
    def micros_of_day(self) -> np.ndarray:
        """Microseconds since midnight."""
        rest: np.ndarray = self.micros - self.days * MICROS_PER_DAY
        return rest

    def civil(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Year, month and day of month."""
        return civil_from_days(self.days)

    def day_of_year(self) -> np.ndarray:
        """1 for the first of January."""
        year, _, _ = self.civil()
        first = np.ones_like(year)
        return self.days - days_from_civil(year, first, first) + 1


def timestamp_micros(array: pa.Array) -> np.ndarray:
    """Timestamps of any unit as microseconds, rounded down."""
    values = numpy_values(array).astype(np.int64)
    if array.type.unit == "ns":
        micros: np.ndarray = values // 1_000
        return micros
    return values * _MICROS_PER_UNIT[array.type.unit]


def date_days(array: pa.Array) -> np.ndarray:
    """Dates of either Arrow type as day numbers."""
    values = numpy_values(array).astype(np.int64)
    if pa.types.is_date64(array.type):
        days: np.ndarray = values // _MILLIS_PER_DAY
        return days
    return values


def local_time(array: pa.Array, zone: str) -> LocalTime:
    """The wall-clock time of dates (midnight), of unzoned and of zoned timestamps in `zone`.

    Example:
        >>> local_time(pa.array([0], pa.timestamp("s", "UTC")), "+01:00").micros.tolist()
        [3600000000]
    """
    valid = valid_mask(array)
    if pa.types.is_date(array.type):
        return LocalTime(date_days(array) * MICROS_PER_DAY, valid)
    if not pa.types.is_timestamp(array.type):
        raise InvalidInput(f"expected a date or timestamp, not {array.type}")
    micros = timestamp_micros(array)
    return LocalTime(micros if array.type.tz is None else to_local(micros, zone), valid)
