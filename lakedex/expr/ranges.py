"""Bounds as ranges that can be compared safely.

A `Range` contains for each file the least and greatest value that a row can have, in one of four
comparable forms: 64-bit integers (numbers, booleans, dates, timestamps in microseconds), doubles,
wide decimals, or bytes (UTF-8). A bound that cannot be trusted is null, which excludes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import Datum, array_of, is_text, masked, numpy_values, valid_mask
from lakedex.expr.bounds import ColumnBounds, is_plain, plain_maximum, plain_minimum

_UNITS = ("s", "ms", "us", "ns")
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DECIMAL = pa.decimal256(76, 38)
_INT64 = np.iinfo(np.int64)
_ZERO = pa.scalar(0.0)


class Form(Enum):
    """The comparable forms."""

    INTEGER = "integer"
    TIME = "time"
    ZONED_TIME = "zoned time"
    DATE = "date"
    BOOLEAN = "boolean"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Range:
    """The values that rows can have: `low` to `high`, each null if unknown.

    If `nan_hides` is true for a file, its rows may also be NaN, which the range does not include.
    """

    form: Form
    low: Datum
    high: Datum
    nan_hides: np.ndarray | None = None
    """By file; None if no row can be NaN, or if the range is that of a constant."""

    @property
    def may_hide_nan(self) -> bool:
        """Whether a row of some file may be NaN."""
        return self.nan_hides is not None and bool(self.nan_hides.any())


def form_of(kind: pa.DataType) -> Form | None:
    """The comparable form of a type; None for types whose bounds are not used.

    Binary has none: writers compare bytes as signed and Parquet as unsigned.
    """
    if pa.types.is_timestamp(kind):
        return Form.TIME if kind.tz is None else Form.ZONED_TIME
    tests = (
        (pa.types.is_boolean, Form.BOOLEAN),
        (pa.types.is_integer, Form.INTEGER),
        (pa.types.is_floating, Form.FLOAT),
        (pa.types.is_decimal, Form.DECIMAL),
        (pa.types.is_date, Form.DATE),
        (is_text, Form.TEXT),
    )
    return next((form for test, form in tests if test(kind)), None)


def range_of_bounds(bounds: ColumnBounds, kind: pa.DataType | None) -> Range | None:
    """The range of a column of type `kind` that may be used; None if there is none.

    `kind` may differ from the type of the bounds: files keep the type with which they were written,
    and an index may store another unit or scale.
    """
    column = bounds.type if kind is None else kind
    form = form_of(bounds.type)
    if form is None or not _convertible(bounds.type, column):
        return None
    try:
        low, high = _comparable(bounds.minimum, form), _comparable(bounds.maximum, form)
    except pa.ArrowInvalid:
        return None
    low, high = masked(low, bounds.known), masked(high, bounds.known)
    if form in (Form.TIME, Form.ZONED_TIME) and _finer(column.unit, bounds.type.unit):
        # A coarser unit may have rounded the bounds in either direction.
        step = max(1_000_000 // _PER_SECOND[bounds.type.unit], 1)
        low, high = _shifted(low, -step), _shifted(high, step)
    if form_of(column) is Form.FLOAT:
        return _trusted_floats(low.cast(pa.float64()), high.cast(pa.float64()), bounds.no_nan)
    if form is Form.TEXT:
        return _trusted_text(low, high)
    return Range(form, low, high)


def range_of_literal(value: pa.Scalar) -> Range | None:
    """A constant as the range of one value; None for null and for types without form."""
    form = form_of(value.type)
    if form is None or not value.is_valid:
        return None
    single = pa.repeat(value, 1)
    low = _comparable(single, form)
    high = low
    if form in (Form.TIME, Form.ZONED_TIME) and value.type.unit == "ns":
        high = array_of(-(-numpy_values(single) // 1_000), None, pa.int64())
    if form is Form.TEXT:
        low = high = low.cast(pa.large_binary())
    return Range(form, low[0], high[0])


def _comparable(values: pa.Array, form: Form) -> pa.Array:
    match form:
        case Form.TIME | Form.ZONED_TIME:
            return _micros(values)
        case Form.DATE:
            return values.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
        case Form.BOOLEAN:
            return values.cast(pa.int8()).cast(pa.int64())
        case Form.INTEGER:
            return values.cast(pa.int64())
        case Form.FLOAT:
            return values.cast(pa.float64())
        case Form.DECIMAL:
            return values.cast(_DECIMAL)
        case Form.TEXT:
            return values.cast(pa.large_string())


def _micros(values: pa.Array) -> pa.Array:
    if values.type.unit == "ns":
        return array_of(numpy_values(values) // 1_000, valid_mask(values), pa.int64())
    return values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())


def _convertible(stored: pa.DataType, column: pa.DataType) -> bool:
    """Whether bounds of the stored type are valid for a column of the other type."""
    ours, theirs = form_of(stored), form_of(column)
    if ours is Form.INTEGER and theirs is Form.FLOAT:
        return True
    if ours is Form.DECIMAL and theirs is Form.DECIMAL:
        # With fewer digits than the column the bounds would be rounded.
        return bool(stored.scale >= column.scale)
    return ours is theirs


def _finer(unit: str, than: str) -> bool:
    return _UNITS.index(unit) > _UNITS.index(than) or than == "ns"


def _shifted(values: pa.Array, step: int) -> pa.Array:
    numbers = numpy_values(values)
    limit = _INT64.max - abs(step)
    return array_of(np.clip(numbers, -limit, limit) + step, valid_mask(values), pa.int64())


def _trusted_floats(low: pa.Array, high: pa.Array, no_nan: np.ndarray | None) -> Range:
    """Float bounds that are on one side of zero, or whose files certainly have no NaN.

    Other bounds may be those of a row group with a NaN.
    """
    told = np.zeros(len(low), np.bool_) if no_nan is None else no_nan
    above = pc.fill_null(pc.greater(low, _ZERO), fill_value=False)
    below = pc.fill_null(pc.less(high, _ZERO), fill_value=False)
    nan = [pc.fill_null(pc.is_nan(side), fill_value=False) for side in (low, high)]
    trusted = pc.and_not(pc.or_(pc.or_(above, below), pa.array(told)), pc.or_(*nan))
    keep = trusted.to_numpy(zero_copy_only=False)
    return Range(Form.FLOAT, masked(low, keep), masked(high, keep), nan_hides=~told)


def _trusted_text(low: pa.Array, high: pa.Array) -> Range:
    """Strings as bytes, cut at the first character on which UTF-8 and UTF-16 order differ."""
    lower = plain_minimum(low).cast(pa.large_binary())
    if is_plain(high):
        return Range(Form.TEXT, lower, high.cast(pa.large_binary()))
    cut = plain_maximum(high)
    # The cut represents all strings with that prefix; no UTF-8 text has a byte this high.
    start = plain_minimum(high)
    is_cut = pc.not_equal(pc.utf8_length(cut), pc.utf8_length(start))
    start = start.cast(pa.large_binary())
    after = [pa.scalar(value, pa.large_binary()) for value in (b"\xff", b"")]
    upper = pc.if_else(is_cut, pc.binary_join_element_wise(start, *after), start)
    return Range(Form.TEXT, lower, upper)
