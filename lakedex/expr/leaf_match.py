"""Evaluation of one comparison, IN, LIKE or null test on the bounds of its column, for all files.

`truth` selects the question: may a row make the leaf true, or false? Files in which the column is
entirely null come first: there only null tests and `<=>` can be true or false, whatever the stored
bounds are.

The rules that exclude files take two ranges, where a constant is the range of one value, and
determine the files in which no pair of values inside them can satisfy the operator. Unknown bounds
exclude nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidDefinition
from lakedex.expr.arrays import Datum, as_array
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.comparison import FLIPPED, NEGATED
from lakedex.expr.evaluate import literal_scalar
from lakedex.expr.functions import function, function_names
from lakedex.expr.like import parse_like
from lakedex.expr.monotonic import type_of
from lakedex.expr.ranges import Form, Range, range_of_bounds, range_of_literal
from lakedex.expr.tree import (
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Op,
    StartsWith,
    children_of,
)

_FEW = 8


def excluded(op: Op, left: Range, right: Range, count: int) -> np.ndarray:
    """Files in which no row satisfies `left op right`.

    NaN is greater than every number, so a hidden NaN invalidates the upper bound of its side.
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

    Cutting to the length of the prefix preserves order, so the cut bounds must enclose it.
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
    # Arrow's own memory is read-only.
    return rows.copy()


def _ranks(
    subject: Range, values: list[Range], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds and constants as numbers of the same order, with unknown bounds at the ends."""
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


@dataclass(frozen=True, slots=True)
class Subject:
    """A scalar expression and its bounds."""

    expr: Expr
    bounds: ColumnBounds

    @property
    def range(self) -> Range | None:
        """The range that may be used for pruning."""
        return range_of_bounds(self.bounds, type_of(self.expr))

    @property
    def portable(self) -> bool:
        """Whether every engine has the same result for every character."""
        return is_portable(self.expr)


Lookup = Callable[[Expr], Subject | None]


def is_portable(expr: Expr) -> bool:
    """Whether every engine has the same result of an expression for every character."""
    known = set(function_names())
    return all(
        call.function.lower() in known and function(call.function).portable for call in _calls(expr)
    )


def match_leaf(leaf: Expr, lookup: Lookup, count: int, *, truth: bool) -> np.ndarray:
    """Files in which a row may make the leaf true (or false)."""
    match leaf:
        case Compare(op, left, right):
            return _comparison(op, (left, right), lookup, count, truth=truth)
        case IsNull(child):
            return _null_test(lookup(child), count, is_null=truth)
        case IsNotNull(child):
            return _null_test(lookup(child), count, is_null=not truth)
        case In(child, values):
            return _in(lookup(child), values, count, truth=truth)
        case Like() | StartsWith():
            return _like(leaf, lookup(leaf.child), count, truth=truth)
        case Column() | Call() | Cast():
            return _compare(Op.EQ, leaf, Literal(truth, pa.bool_()), lookup, count)
        case _:
            return np.ones(count, np.bool_)


def _comparison(
    op: Op, sides: tuple[Expr, Expr], lookup: Lookup, count: int, *, truth: bool
) -> np.ndarray:
    left, right = sides
    if isinstance(left, Literal) and not isinstance(right, Literal):
        op, left, right = FLIPPED[op], right, left
    if op is not Op.EQ_NULL_SAFE:
        return _compare(op if truth else NEGATED[op], left, right, lookup, count)
    if isinstance(right, Literal) and not isinstance(left, Literal):
        return _null_safe(left, right, lookup, count, truth=truth)
    return np.ones(count, np.bool_)


def _compare(op: Op, left: Expr, right: Expr, lookup: Lookup, count: int) -> np.ndarray:
    possible = np.ones(count, np.bool_)
    ranges: list[Range | None] = []
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Literal):
            if side.value is None:
                return np.zeros(count, np.bool_)
            ranges.append(range_of_literal(literal_scalar(side)))
            continue
        subject = lookup(side)
        ranges.append(None if subject is None else _usable_range(subject, [other]))
        if subject is not None:
            possible &= ~subject.bounds.all_null
    return possible & ~_excluded(op, ranges[0], ranges[1], count)


def _excluded(op: Op, left: Range | None, right: Range | None, count: int) -> np.ndarray:
    if left is None or right is None or left.form is not right.form:
        return np.zeros(count, np.bool_)
    return excluded(op, left, right, count)


def _usable_range(subject: Subject, others: list[Expr]) -> Range | None:
    """The range, unless a function that engines compute differently produced the text.

    For upper and lower case all engines agree on ASCII, and on almost all other characters.
    """
    found = subject.range
    if found is None or found.form is not Form.TEXT or subject.portable:
        return found
    texts = [other.value for other in others if isinstance(other, Literal)]
    ascii_only = len(texts) == len(others) and all(str(text).isascii() for text in texts)
    return found if ascii_only else None


def _null_safe(
    child: Expr, literal: Literal, lookup: Lookup, count: int, *, truth: bool
) -> np.ndarray:
    subject = lookup(child)
    if literal.value is None:
        return _null_test(subject, count, is_null=truth)
    if truth:
        return _compare(Op.EQ, child, literal, lookup, count)
    differs = _compare(Op.NE, child, literal, lookup, count)
    return differs | _null_test(subject, count, is_null=True)


def _null_test(subject: Subject | None, count: int, *, is_null: bool) -> np.ndarray:
    if subject is None:
        return np.ones(count, np.bool_)
    return ~(subject.bounds.no_nulls if is_null else subject.bounds.all_null)


def _in(
    subject: Subject | None, values: tuple[Literal, ...], count: int, *, truth: bool
) -> np.ndarray:
    given = [value for value in values if value.value is not None]
    has_null = len(given) < len(values)
    if (truth and not given) or (not truth and has_null):
        # No value equals a null or certainly differs from it.
        return np.zeros(count, np.bool_)
    if subject is None or not given:
        return np.ones(count, np.bool_)
    possible = ~subject.bounds.all_null
    found = _usable_range(subject, list(given))
    constants = [range_of_literal(literal_scalar(value)) for value in given]
    usable = [value for value in constants if value is not None]
    if found is None or any(value.form is not found.form for value in usable):
        return possible
    if truth and len(usable) == len(given):
        return possible & ~excluded_from_list(found, usable, count)
    return possible if truth else possible & ~only_in_list(found, usable, count)


def _like(
    leaf: Like | StartsWith, subject: Subject | None, count: int, *, truth: bool
) -> np.ndarray:
    if subject is None:
        return np.ones(count, np.bool_)
    possible = ~subject.bounds.all_null
    prefix, whole, exact = _pattern(leaf)
    found = _usable_range(subject, [Literal(prefix, pa.string())])
    if found is None or found.form is not Form.TEXT:
        return possible
    if exact:
        constant = range_of_literal(pa.scalar(prefix))
        return possible & ~_excluded(Op.EQ if truth else Op.NE, found, constant, count)
    if truth:
        return possible & ~excluded_by_prefix(found, prefix, count)
    return possible & ~only_with_prefix(found, prefix, count) if whole else possible


def _pattern(leaf: Like | StartsWith) -> tuple[str, bool, bool]:
    """The prefix, whether it is the whole condition, and whether the string must equal it."""
    if isinstance(leaf, StartsWith):
        return leaf.prefix, True, False
    try:
        pattern = parse_like(leaf.pattern, leaf.escape)
    except InvalidDefinition:
        return "", False, False
    return pattern.prefix, pattern.is_prefix, pattern.is_exact


def _calls(expr: Expr) -> list[Call]:
    found: list[Call] = []
    pending = [expr]
    while pending:
        node = pending.pop()
        found += [node] if isinstance(node, Call) else []
        pending.extend(children_of(node))
    return found
