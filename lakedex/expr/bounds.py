"""The statistics of one column (or expression) in each of many files: the input of pruning.

Every array has one entry per file. Hudi's own statistics have special cases, which users of
`ColumnBounds` must handle (as `Range` does):

* a column that is entirely null in a base file has min = max = 0, so null counts come first;
* floating-point bounds never include NaN, and a row group that contains one has bounds [0, 0],
  unless the writer recorded that there is none;
* the writer merges bounds of strings in UTF-16 order, Parquet in UTF-8 order.

A `Range` contains for each file the least and greatest value that a row can have, in one of four
comparable forms: 64-bit integers (numbers, booleans, dates, timestamps in microseconds), doubles,
wide decimals, or bytes (UTF-8). A bound that cannot be trusted is null, which excludes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import Datum, array_of, is_bytes, is_text, masked, numpy_values, valid_mask

_BEYOND_PLAIN = r"(?s)[\x{E000}-\x{10FFFF}].*"
_FIRST_BYTE_BEYOND_PLAIN = 0xEE
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The bounds of one column in every file.

    Attributes:
        type: The type of `minimum` and `maximum`.
        minimum: Null if unknown.
        maximum: Null if unknown.
        null_count: The number of nulls; negative if unknown.
        value_count: The number of rows, nulls included; negative if unknown.
        known: Whether there is an entry for the file.
        exact: Whether `minimum` = `maximum` is the value of every row, as for a partition value;
            a null value then has null count = value count.
        no_nan: Whether it is known that no row of the file is NaN; None if nothing is known.
    """

    type: pa.DataType
    minimum: pa.Array
    maximum: pa.Array
    null_count: np.ndarray
    value_count: np.ndarray
    known: np.ndarray
    exact: bool = False
    no_nan: np.ndarray | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.minimum), len(self.maximum), len(self.null_count)}
        if len(lengths | {len(self.value_count), len(self.known)}) != 1:
            raise InvalidInput("the arrays of column bounds differ in length")

    def __len__(self) -> int:
        return len(self.known)

    @property
    def all_null(self) -> np.ndarray:
        """Files in which certainly no row has a value, including files without rows."""
        mask: np.ndarray = (
            self.known & (self.value_count >= 0) & (self.null_count == self.value_count)
        )
        return mask

    @property
    def no_rows(self) -> np.ndarray:
        """Files that certainly have no rows, such as log files that only delete."""
        mask: np.ndarray = self.known & (self.value_count == 0)
        return mask

    @property
    def no_nulls(self) -> np.ndarray:
        """Files that certainly have no nulls.

        If a bound is missing although there are values, the statistics of some part of the file
        were missing, and its nulls may not have been counted.
        """
        bounded = valid_mask(self.minimum) & valid_mask(self.maximum)
        mask: np.ndarray = self.no_rows | (self.known & (self.null_count == 0) & bounded)
        return mask

    def where(self, trusted: np.ndarray) -> ColumnBounds:
        """The same bounds, unknown for the files that are not trusted."""
        return replace(self, known=self.known & trusted)

    def take(self, rows: np.ndarray) -> ColumnBounds:
        """The bounds of some of the files, in that order."""
        chosen = pa.array(rows)
        return replace(
            self,
            minimum=self.minimum.take(chosen),
            maximum=self.maximum.take(chosen),
            null_count=self.null_count[rows],
            value_count=self.value_count[rows],
            known=self.known[rows],
            no_nan=None if self.no_nan is None else self.no_nan[rows],
        )


def exact_bounds(values: pa.Array) -> ColumnBounds:
    """The bounds of a column with one value per file, such as a partition value.

    Example:
        >>> exact_bounds(pa.array(["berlin", None])).all_null.tolist()
        [False, True]
    """
    count = len(values)
    nulls = (~valid_mask(values)).astype(np.int64)
    ones = np.ones(count, np.int64)
    return ColumnBounds(
        values.type, values, values, nulls, ones, np.ones(count, np.bool_), exact=True
    )


def merge_by_group(bounds: ColumnBounds, groups: np.ndarray, count: int) -> ColumnBounds:
    """Widen the bounds of files to bounds of groups of files, such as file slices.

    A group is unknown if one of its files is, or if it has none. Files without rows and files
    that are entirely null do not widen the range.

    Args:
        bounds: The bounds of the files.
        groups: The group of every file, from 0 to `count` - 1.
        count: The number of groups.

    Example:
        >>> files = exact_bounds(pa.array([3, 5, 9]))
        >>> merge_by_group(files, np.array([0, 0, 1]), 2).maximum.to_pylist()
        [5, 9]
    """
    known = _every(bounds.known, groups, count)
    ignored = bounds.all_null
    minimum, maximum = _safe_to_merge(bounds)
    if len(groups) == count and np.array_equal(groups, np.arange(count)):
        # Slices without log files need no widening.
        return replace(
            bounds,
            minimum=masked(minimum, known & ~ignored),
            maximum=masked(maximum, known & ~ignored),
            exact=False,
            no_nan=None if bounds.no_nan is None else bounds.no_nan | ignored,
        )
    lowest = _first_by_group(minimum, groups, count, "ascending", ignored)
    highest = _first_by_group(maximum, groups, count, "descending", ignored)
    return ColumnBounds(
        bounds.type,
        masked(lowest, known),
        masked(highest, known),
        _sum(bounds.null_count, groups, count),
        _sum(bounds.value_count, groups, count),
        known,
        no_nan=None if bounds.no_nan is None else _every(bounds.no_nan | ignored, groups, count),
    )


def plain_minimum(text: pa.Array) -> pa.Array:
    """A lower bound in UTF-8 and in UTF-16 order, from a minimum in either of them.

    The two orders agree except for characters from U+E000 on, which surrogates precede in one
    order and follow in the other. The part before the first such character is a bound in both
    orders, in whichever order, or mixture of orders, the statistics were computed.
    """
    if is_plain(text):
        return text
    return pc.replace_substring_regex(text, pattern=_BEYOND_PLAIN, replacement="")


def plain_maximum(text: pa.Array) -> pa.Array:
    """Like `plain_minimum`, an upper bound: the part before, then the highest character."""
    if is_plain(text):
        return text
    return pc.replace_substring_regex(text, pattern=_BEYOND_PLAIN, replacement=_HIGHEST)


def is_plain(text: pa.Array) -> bool:
    """Whether no character from U+E000 on occurs, as none of their first bytes is in the data."""
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        return False
    data = text.buffers()[2]
    if data is None or data.size == 0:
        return True
    return bool(np.frombuffer(data, np.uint8).max() < _FIRST_BYTE_BEYOND_PLAIN)


def _safe_to_merge(bounds: ColumnBounds) -> tuple[pa.Array, pa.Array]:
    minimum, maximum = bounds.minimum, bounds.maximum
    if is_text(bounds.type):
        return plain_minimum(minimum), plain_maximum(maximum)
    if pa.types.is_floating(bounds.type):
        return _without_nan(minimum), _without_nan(maximum)
    if is_bytes(bounds.type):
        # Writers compare bytes as signed, Parquet as unsigned, so there is no common bound.
        nothing = pa.nulls(len(bounds), bounds.type)
        return nothing, nothing
    return minimum, maximum


def _without_nan(values: pa.Array) -> pa.Array:
    nan = pc.fill_null(pc.is_nan(values), fill_value=False)
    return pc.if_else(nan, pa.scalar(None, values.type), values)


def _first_by_group(
    values: pa.Array, groups: np.ndarray, count: int, order: str, ignored: np.ndarray
) -> pa.Array:
    """The first value of every group in the given order; null if a relevant file has none."""
    relevant = np.flatnonzero(~ignored)
    table = pa.table({"group": groups[relevant], "value": values.take(pa.array(relevant))})
    ordered = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("value", order)])
    rows = relevant[ordered.to_numpy()]
    found, first = np.unique(groups[rows], return_index=True)
    complete = _every(valid_mask(values) | ignored, groups, count)
    source = np.full(count, -1, np.int64)
    source[found] = rows[first]
    usable = complete & (source >= 0)
    return values.take(pa.array(source, mask=~usable))


def _every(mask: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    members = np.bincount(groups, minlength=count)
    holding = np.bincount(groups[mask], minlength=count)
    every: np.ndarray = (members > 0) & (members == holding)
    return every


def _sum(counts: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    totals = np.zeros(count, np.int64)
    np.add.at(totals, groups, np.maximum(counts, 0))
    return np.where(_every(counts >= 0, groups, count), totals, -1)


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
