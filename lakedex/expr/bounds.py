"""What is known of one column (or expression) in each of many files: the input of pruning.

Every array has one entry per file. Hudi's own statistics have quirks, which readers of bounds
must respect (`ranges` does):

* a column that is all null in a base file has min = max = 0, so null count is looked at first;
* bounds of floats never cover NaN, and a row group that holds one is written as [0, 0], unless
  the writer noted that it looked for one;
* bounds of strings are merged in UTF-16 order by the writer, in UTF-8 order by Parquet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import is_bytes, is_text, masked, valid_mask

_BEYOND_PLAIN = r"(?s)[\x{E000}-\x{10FFFF}].*"
_FIRST_BYTE_BEYOND_PLAIN = 0xEE
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The bounds of one column in every file.

    Attributes:
        type: The type of `minimum` and `maximum`.
        minimum: Null where it is unknown.
        maximum: Null where it is unknown.
        null_count: Rows that are null; negative where it is unknown.
        value_count: Rows, nulls included; negative where it is unknown.
        known: Where there is an entry for the file at all.
        exact: Whether `minimum` = `maximum` is the one value of every row, as a partition value
            is; a null value then has null count = value count.
        no_nan: Files of which it is known that no row is NaN; None when nothing is known.
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
        """Files in which no row has a value, for certain; files without rows among them."""
        mask: np.ndarray = (
            self.known & (self.value_count >= 0) & (self.null_count == self.value_count)
        )
        return mask

    @property
    def no_rows(self) -> np.ndarray:
        """Files without any row, for certain: logs that only delete."""
        mask: np.ndarray = self.known & (self.value_count == 0)
        return mask

    @property
    def no_nulls(self) -> np.ndarray:
        """Files without a null, for certain.

        Where a bound is missing although there are values, the statistics of some part of the
        file were missing, and its nulls may not have been counted.
        """
        bounded = valid_mask(self.minimum) & valid_mask(self.maximum)
        mask: np.ndarray = self.no_rows | (self.known & (self.null_count == 0) & bounded)
        return mask

    def where(self, trusted: np.ndarray) -> ColumnBounds:
        """The same bounds, unknown where they are not trusted."""
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

    A group is unknown when one of its files is, or when it has none. Files without rows and
    files that are all null do not widen the range.

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
    silent = bounds.all_null
    minimum, maximum = _safe_to_merge(bounds)
    if len(groups) == count and np.array_equal(groups, np.arange(count)):
        # Slices without log files: there is nothing to widen.
        return replace(
            bounds,
            minimum=masked(minimum, known & ~silent),
            maximum=masked(maximum, known & ~silent),
            exact=False,
            no_nan=None if bounds.no_nan is None else bounds.no_nan | silent,
        )
    lowest = _first_by_group(minimum, groups, count, "ascending", silent)
    highest = _first_by_group(maximum, groups, count, "descending", silent)
    return ColumnBounds(
        bounds.type,
        masked(lowest, known),
        masked(highest, known),
        _sum(bounds.null_count, groups, count),
        _sum(bounds.value_count, groups, count),
        known,
        no_nan=None if bounds.no_nan is None else _every(bounds.no_nan | silent, groups, count),
    )


def plain_minimum(text: pa.Array) -> pa.Array:
    """A lower bound in every order of characters, from a minimum in any of them.

    UTF-16 and UTF-8 order agree but for characters from U+E000 on, which surrogates precede in
    the one and follow in the other. What comes before the first such character is a bound in
    both, whichever order the statistics were made in, or even both in turn.
    """
    if is_plain(text):
        return text
    return pc.replace_substring_regex(text, pattern=_BEYOND_PLAIN, replacement="")


def plain_maximum(text: pa.Array) -> pa.Array:
    """As `plain_minimum`, an upper bound: the part before, then the highest character."""
    if is_plain(text):
        return text
    return pc.replace_substring_regex(text, pattern=_BEYOND_PLAIN, replacement=_HIGHEST)


def is_plain(text: pa.Array) -> bool:
    """Whether no character from U+E000 on occurs: none of their first bytes is in the data."""
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
        # Writers compare bytes as signed, Parquet as unsigned: no common bound is left.
        nothing = pa.nulls(len(bounds), bounds.type)
        return nothing, nothing
    return minimum, maximum


def _without_nan(values: pa.Array) -> pa.Array:
    nan = pc.fill_null(pc.is_nan(values), fill_value=False)
    return pc.if_else(nan, pa.scalar(None, values.type), values)


def _first_by_group(
    values: pa.Array, groups: np.ndarray, count: int, order: str, silent: np.ndarray
) -> pa.Array:
    """The first value of every group in the given order; null when a speaking file has none."""
    speaking = np.flatnonzero(~silent)
    table = pa.table({"group": groups[speaking], "value": values.take(pa.array(speaking))})
    ordered = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("value", order)])
    rows = speaking[ordered.to_numpy()]
    found, first = np.unique(groups[rows], return_index=True)
    complete = _every(valid_mask(values) | silent, groups, count)
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
