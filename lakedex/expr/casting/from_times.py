"""Casts from dates and timestamps, and from numbers of seconds to timestamps.

Between instants and wall-clock values the session time zone decides.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakedex.expr.arrays import (
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    array_of,
    numpy_type,
    numpy_values,
    valid_mask,
)
from lakedex.expr.temporal.moments import date_days, local_time, timestamp_micros
from lakedex.expr.temporal.zones import from_local, to_local

_INT64 = np.iinfo(np.int64)


def integer_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Seconds since 1970 in UTC; out of range they stop at the bounds."""
    seconds = numpy_values(value).astype(np.int64)
    limit = _INT64.max // MICROS_PER_SECOND
    inside = np.clip(seconds, -limit, limit) * MICROS_PER_SECOND
    micros = np.where(seconds > limit, _INT64.max, np.where(seconds < -limit, _INT64.min, inside))
    return _times(micros, valid_mask(value), target)


def date_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Midnight, in the session zone for a zoned target."""
    local = date_days(value) * MICROS_PER_DAY
    micros = local if target.tz is None else from_local(local, zone)
    return _times(micros, valid_mask(value), target)


def timestamp_to_date(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """The day on the wall calendar.

    Example:
        >>> times = pa.array([-1], pa.timestamp("us", "UTC"))
        >>> str(timestamp_to_date(times, pa.date32(), "UTC")[0])
        '1969-12-31'
    """
    time = local_time(value, zone)
    return array_of(time.days, time.valid, pa.date32()).cast(target)


def timestamp_to_integer(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Whole seconds since 1970, rounded down, then the low bits."""
    seconds = timestamp_micros(value) // MICROS_PER_SECOND
    return array_of(seconds.astype(numpy_type(target)), valid_mask(value), target)


def timestamp_to_timestamp(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Between zoned and unzoned by the session zone; finer units are cut off."""
    micros = timestamp_micros(value)
    if value.type.tz is not None and target.tz is None:
        micros = to_local(micros, zone)
    elif value.type.tz is None and target.tz is not None:
        micros = from_local(micros, zone)
    elif value.type.unit == target.unit:
        return value.cast(target)
    return _times(micros, valid_mask(value), target)


def _times(micros: np.ndarray, valid: np.ndarray, target: pa.DataType) -> pa.Array:
    if target.unit in ("us", "ns"):
        return array_of(micros, valid, pa.timestamp("us", target.tz)).cast(target)
    units = {"s": 1_000_000, "ms": 1_000}
    return array_of(micros // units[target.unit], valid, target)
