"""Conversions between instants or days and their counts since 1970."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import MICROS_PER_SECOND, array_of, numpy_values, valid_mask
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always
from lakedex.expr.temporal.zones import LARGEST_SHIFT, ZONED, date_days, timestamp_micros

_LAST_MOMENT = np.iinfo(np.int64).max - LARGEST_SHIFT
_MICROS_PER_MILLI = 1_000


def _moments(name: str, unit: int) -> FunctionSpec:
    """From a count of units; in every mode Spark fails if there is no such instant."""

    def evaluate(arguments: Arguments) -> pa.Array:
        array = arguments.array(0)
        if not pa.types.is_integer(array.type):
            raise UnsupportedFeature(f"{name} of {array.type}")
        counts = numpy_values(array).astype(np.int64)
        if (np.abs(counts.astype(np.float64)) > _LAST_MOMENT // unit).any():
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


FUNCTIONS = (
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
