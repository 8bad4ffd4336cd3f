"""For which files a comparison cannot hold, from the ranges of its two sides.

All rules take two ranges, a constant being the range of one value, and say where no pair of
values inside them can satisfy the operator. Unknown bounds exclude nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.arrays import Datum, as_array
from lakedex.expr.ranges import Form, Range
from lakedex.expr.tree import Op

_FEW = 8


def excluded(op: Op, left: Range, right: Range, count: int) -> np.ndarray:
    """Files in which no row satisfies `left op right`.

    NaN is greater than every number, so a hidden NaN defeats the upper bound of its side.
    """
    match op:
        case Op.EQ | Op.EQ_NULL_SAFE:
            return _apart(left, right, count)
        case Op.NE:
            return _same(left, right, count)
        case Op.LT:
            return _below(pc.greater_equal, left, right, count)
        case Op.LTE:
            return _below(pc.greater, left, right, count)
        case Op.GT:
            return _below(pc.greater_equal, right, left, count)
        case Op.GTE:
            return _below(pc.greater, right, left, count)


def excluded_from_list(subject: Range, values: list[Range], count: int) -> np.ndarray:
    """Files in which no row equals one of the constants."""
    if len(values) <= _FEW or subject.form is Form.FLOAT:
        excluding = np.ones(count, np.bool_)
        for value in values:
            excluding &= excluded(Op.EQ, subject, value, count)
        return excluding
    low, high, constants = _ranks(subject, values, count)
    position = np.searchsorted(constants, low, side="left")
    following = np.append(constants, np.iinfo(np.int64).max)[position]
    outside: np.ndarray = following > high
    return outside


def only_in_list(subject: Range, values: list[Range], count: int) -> np.ndarray:
    """Files in which every row that has a value equals one of the constants."""
    if len(values) <= _FEW:
        inside = np.zeros(count, np.bool_)
        for value in values:
            inside |= excluded(Op.NE, subject, value, count)
        return inside
    if subject.may_hide_nan:
        return np.zeros(count, np.bool_)
    low, high, constants = _ranks(subject, values, count)
    single: np.ndarray = (low == high) & np.isin(low, constants)
    return single


def excluded_by_prefix(subject: Range, prefix: str, count: int) -> np.ndarray:
    """Files in which no string starts with the prefix.

    Cutting to the length of the prefix keeps order, so the cut bounds must enclose it.
    """
    wanted = pa.scalar(prefix.encode(), pa.large_binary())
    width = len(wanted.as_py())
    low = pc.binary_slice(as_array(subject.low, count), 0, width)
    high = pc.binary_slice(as_array(subject.high, count), 0, width)
    return _true(pc.greater(low, wanted), count) | _true(pc.less(high, wanted), count)


def only_with_prefix(subject: Range, prefix: str, count: int) -> np.ndarray:
    """Files in which every string starts with the prefix: both bounds do."""
    wanted = prefix.encode()
    low = pc.starts_with(as_array(subject.low, count), pattern=wanted)
    high = pc.starts_with(as_array(subject.high, count), pattern=wanted)
    return _true(low, count) & _true(high, count)


def _apart(left: Range, right: Range, count: int) -> np.ndarray:
    under = _true(pc.less(left.high, right.low), count)
    apart = under | _true(pc.greater(left.low, right.high), count)
    return apart & ~(_hidden(left, count) & _hidden(right, count))


def _same(left: Range, right: Range, count: int) -> np.ndarray:
    single = _true(pc.equal(left.low, left.high), count)
    single &= _true(pc.equal(right.low, right.high), count)
    single &= ~(_hidden(left, count) | _hidden(right, count))
    return single & _true(pc.equal(left.low, right.low), count)


def _below(exceeds: pc.Function, smaller: Range, larger: Range, count: int) -> np.ndarray:
    return _true(exceeds(smaller.low, larger.high), count) & ~_hidden(larger, count)


def _hidden(side: Range, count: int) -> np.ndarray:
    """Files in which a row of that side may be NaN."""
    return np.zeros(count, np.bool_) if side.nan_hides is None else side.nan_hides


def _true(mask: Datum, count: int) -> np.ndarray:
    filled = pc.fill_null(as_array(mask, count), fill_value=False)
    rows: np.ndarray = filled.to_numpy(zero_copy_only=False)
    # Arrow hands out its own memory as read-only.
    return rows.copy()


def _ranks(
    subject: Range, values: list[Range], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds and constants as numbers that compare as they do, unknown bounds at the far ends."""
    low, high = as_array(subject.low, count), as_array(subject.high, count)
    constants = pa.array([value.low.as_py() for value in values], low.type)
    together = pa.concat_arrays([constants, low, high])
    dense = pc.rank(together, sort_keys="ascending", tiebreaker="dense")
    ranks = dense.to_numpy().astype(np.int64)
    cut = len(constants)
    low_ranks = np.where(_true(pc.is_null(low), count), -1, ranks[cut : cut + count])
    limit = np.iinfo(np.int64).max - 1
    high_ranks = np.where(_true(pc.is_null(high), count), limit, ranks[cut + count :])
    return low_ranks, high_ranks, np.unique(ranks[:cut])
