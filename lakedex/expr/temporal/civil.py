"""The proleptic Gregorian calendar over numpy: days since 1970-01-01 to year, month, day and back.

Years cover the whole range of Spark's microsecond timestamps (five digits and more, also negative),
which Arrow's own calendar kernels do not.
"""

from __future__ import annotations

import numpy as np

_DAYS_PER_ERA = 146_097
_DAYS_FROM_ERA_START = 719_468


def civil_from_days(days: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Year, month and day of month of each day number.

    Example:
        >>> [part.tolist() for part in civil_from_days(np.array([-1, 0]))]
        [[1969, 1970], [12, 1], [31, 1]]
    """
    shifted = days.astype(np.int64) + _DAYS_FROM_ERA_START
    era = shifted // _DAYS_PER_ERA
    day_of_era = shifted - era * _DAYS_PER_ERA
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = np.where(shifted_month < 10, shifted_month + 3, shifted_month - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def days_from_civil(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """The day number of each date; months must be 1 to 12, days may overflow.

    Example:
        >>> days_from_civil(np.array([1969]), np.array([12]), np.array([31])).tolist()
        [-1]
    """
    shifted_year = year.astype(np.int64) - (month <= 2)
    era = shifted_year // 400
    year_of_era = shifted_year - era * 400
    day_of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days: np.ndarray = era * _DAYS_PER_ERA + day_of_era - _DAYS_FROM_ERA_START
    return days


def month_length(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """The number of days of each month.

    Example:
        >>> month_length(np.array([2000, 1900]), np.array([2, 2])).tolist()
        [29, 28]
    """
    december = month == 12
    following = days_from_civil(
        year + december, np.where(december, 1, month + 1), np.ones_like(month)
    )
    return following - days_from_civil(year, month, np.ones_like(month))
