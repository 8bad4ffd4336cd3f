"""Whether statistics entries hold for the real values: bounds by containment, counts exactly.

A bound that is wider than the data is fine. What Hudi is known to write is taken for what it
means: zeros where a column is all null, [0, 0] where a row group holds NaN, no bounds for long
text, -1 for counts that it did not know. Bounds of binary columns are not judged, as writers
compare bytes as signed and Parquet as unsigned; no query uses them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import valid_mask
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.ranges import Form, form_of, range_of_bounds
from lakedex.index.stat_values import StatValues, stat_values
from lakedex.services.verifying.statistics import Actual

_Mask = npt.NDArray[np.bool_]


def excluded(stats: pa.StructArray, actual: Actual) -> _Mask:
    """Where an entry leaves out a value that the file really has; null entries do not."""
    claimed = stat_values(stats, actual.type, as_written=True)
    nothing_there = (claimed.value_count >= 0) & (claimed.null_count == claimed.value_count)
    return actual.has_values & (nothing_there | _outside(claimed, actual))


def miscounted(stats: pa.StructArray, actual: Actual) -> _Mask:
    """Where an entry counts other rows or nulls than the file really has."""
    claimed = stat_values(stats, actual.type, as_written=True)
    rows = (claimed.value_count >= 0) & (claimed.value_count != actual.value_count)
    # A missing bound tells that some part of the file had no statistics, nulls included.
    bounded = _has_bounds(stats) | ~actual.has_values
    nulls = (claimed.null_count >= 0) & (claimed.null_count != actual.null_count) & bounded
    return rows | nulls


def describe_bounds(stats: pa.StructArray, row: int, actual: Actual) -> str:
    """An entry and the data in words."""
    claimed = stat_values(stats.slice(row, 1), actual.type, as_written=True)
    low, high = claimed.minimum[0].as_py(), claimed.maximum[0].as_py()
    real = f"{actual.minimum[row].as_py()!r} to {actual.maximum[row].as_py()!r}"
    return (
        f"it says {low!r} to {high!r}, {claimed.null_count[0]} nulls in "
        f"{claimed.value_count[0]} rows; the data has {real}, "
        f"{actual.null_count[row]} nulls in {actual.value_count[row]} rows"
    )


def _outside(claimed: StatValues, actual: Actual) -> _Mask:
    low, high = _believed(claimed, actual)
    if low is None:
        return np.zeros(len(actual.files), dtype=np.bool_)
    smallest, largest = _comparable(actual)
    below = pc.less(smallest, low)
    above = pc.greater(largest, high)
    return _true(below) | _true(above)


def _believed(claimed: StatValues, actual: Actual) -> tuple[pa.Array | None, pa.Array | None]:
    """The range that queries take an entry for, in a comparable form."""
    count = len(actual.files)
    bounds = ColumnBounds(
        actual.type,
        claimed.minimum,
        claimed.maximum,
        claimed.null_count,
        claimed.value_count,
        np.ones(count, dtype=np.bool_),
    )
    trusted = range_of_bounds(bounds, actual.type)
    if trusted is None:
        return None, None
    if trusted.form is not Form.FLOAT:
        return trusted.low, trusted.high
    # Without NaN in the data nothing excuses a range that leaves values out.
    plain = pa.array(~actual.has_nan)
    return (
        pc.if_else(plain, claimed.minimum.cast(pa.float64()), trusted.low),
        pc.if_else(plain, claimed.maximum.cast(pa.float64()), trusted.high),
    )


def _comparable(actual: Actual) -> tuple[pa.Array, pa.Array]:
    """The real bounds in the form that `range_of_bounds` gives."""
    form = form_of(actual.type)
    if form is Form.TEXT:
        return actual.minimum.cast(pa.large_binary()), actual.maximum.cast(pa.large_binary())
    if form is Form.FLOAT:
        return actual.minimum.cast(pa.float64()), actual.maximum.cast(pa.float64())
    count = len(actual.files)
    unknown = np.full(count, -1, dtype=np.int64)
    bounds = ColumnBounds(
        actual.type, actual.minimum, actual.maximum, unknown, unknown, np.ones(count, np.bool_)
    )
    real = range_of_bounds(bounds, actual.type)
    if real is None:
        return pa.nulls(count), pa.nulls(count)
    return real.low, real.high


def _has_bounds(stats: pa.StructArray) -> _Mask:
    low, high = (pc.struct_field(stats, name) for name in ("minValue", "maxValue"))
    return valid_mask(low) & valid_mask(high)


def _true(mask: pa.Array) -> _Mask:
    found: _Mask = mask.fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    return found.astype(np.bool_)
