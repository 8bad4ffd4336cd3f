"""Casts of dates and timestamps to text, as Spark shows them."""

from __future__ import annotations

import pyarrow as pa

from lakedex.expr.temporal.formatting import iso_date_text, iso_timestamp_text
from lakedex.expr.temporal.moments import local_time


def date_to_text(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """`yyyy-MM-dd`."""
    return iso_date_text(local_time(value, zone)).cast(target)


def timestamp_to_text(value: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """`yyyy-MM-dd HH:mm:ss` and the fraction without trailing zeros, in the session zone."""
    return iso_timestamp_text(local_time(value, zone)).cast(target)
