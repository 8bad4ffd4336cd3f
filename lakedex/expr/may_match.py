"""Determines which files may contain a row that satisfies a predicate, for all files at once.

The walk decides for every node whether some row of a file may make it true, or, below a NOT, false.
A null makes it neither, so NOT needs no rewriting, and a node that cannot be decided may be both.
AND needs every child, OR needs one; for false the reverse holds.

For columns with one known value per file, such as partition columns, the predicate is evaluated
exactly on the values, one row per file. A comparison, IN, LIKE or null test of any other column is
evaluated on the bounds of the column (`match_leaf`). Files in which the column is entirely null
come first: there only null tests and `<=>` can be true or false, whatever the stored bounds are.

The rules that exclude files take two ranges, where a constant is the range of one value, and
determine the files in which no pair of values inside them can satisfy the operator. Unknown bounds
exclude nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidDefinition, InvalidInput, LakedexError
from lakedex.expr.arrays import Datum, as_array, valid_mask
from lakedex.expr.bounds import ColumnBounds, Form, Range, range_of_bounds, range_of_literal
from lakedex.expr.comparison import FLIPPED, NEGATED
from lakedex.expr.evaluate import evaluate, literal_scalar, true_rows
from lakedex.expr.explicit_casts import with_casts_of_call
from lakedex.expr.functions import canonical_name, function, function_names
from lakedex.expr.like import parse_like
from lakedex.expr.monotonic import carry, operand_of, type_of
from lakedex.expr.tree import (
    And,
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
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
    check_depth,
    children_of,
    columns_of,
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


_EITHER_WAY = frozenset("+*&|^")
_JOINED = "concat"
_PARSED_DATE = "to_date"
_CASTS = {
    "to_date": pa.date32(),
    "date": pa.date32(),
    "to_timestamp": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """The files in which the predicate is true, is false, or depends on unknown values."""

    true: np.ndarray
    false: np.ndarray
    unknown: np.ndarray

    def may_be(self, *, truth: bool) -> np.ndarray:
        """Files in which a row may make the predicate true (or false)."""
        mask: np.ndarray = (self.true if truth else self.false) | self.unknown
        return mask


def match_exactly(
    leaf: Expr, subject: Callable[[Expr], Subject | None], time_zone: str
) -> ExactAnswer | None:
    """The result for each file; None if a column of the leaf has no exact values."""
    columns = columns_of(leaf)
    found = [subject(column) for column in columns if len(column.path) == 1]
    bounds = [entry.bounds for entry in found if entry is not None and entry.bounds.exact]
    if not bounds or len(bounds) < len(columns):
        return None
    unknown = np.zeros(len(bounds[0]), np.bool_)
    for entry in bounds:
        unknown |= ~entry.known | (~valid_mask(entry.minimum) & ~entry.all_null)
    try:
        values = [entry.minimum for entry in bounds]
        rows = pa.RecordBatch.from_arrays(values, names=[column.path[0] for column in columns])
        true = true_rows(evaluate(leaf, rows, time_zone=time_zone))
        false = true_rows(evaluate(Not(leaf), rows, time_zone=time_zone))
    except (LakedexError, pa.ArrowException):
        return None
    return ExactAnswer(true, false, unknown)


def may_match(
    predicate: Expr,
    bounds: Mapping[Expr, ColumnBounds],
    count: int,
    *,
    time_zone: str = "UTC",
    used: set[Expr] | None = None,
) -> np.ndarray:
    """True for every file that may contain a matching row; false only if none can.

    Args:
        predicate: A bound tree, with NOT at any level.
        bounds: By column, or by a whole scalar expression that an index covers.
        count: The number of files.
        time_zone: The session time zone, for functions of zoned timestamps.
        used: Receives the keys of `bounds` that were consulted.

    Example:
        >>> from lakedex.expr.bounds import exact_bounds
        >>> from lakedex.expr.tree import Compare, Op
        >>> city = Column(("city",), pa.string())
        >>> files = {city: exact_bounds(pa.array(["oslo", "rome"]))}
        >>> may_match(Compare(Op.EQ, city, Literal("rome", pa.string())), files, 2).tolist()
        [False, True]
    """
    check_depth(predicate)
    for key, value in bounds.items():
        if len(value) != count:
            raise InvalidInput(f"bounds of {key} are for {len(value)} files, not {count}")
    index = {expression_key(key): (key, value) for key, value in bounds.items()}
    return _Walk(index, count, time_zone, set() if used is None else used).possible(
        predicate, truth=True
    )


def expression_key(expr: Expr) -> object:
    """A key that is equal for scalar expressions with the same meaning.

    It ignores types of columns and aliases of functions. A function that is a cast has the key of
    that cast, implicit casts of arguments are made explicit, the operands of sums and products are
    ordered, and nested concatenations are flattened.

    Example:
        >>> ts = Column(("ts",), pa.date32())
        >>> expression_key(Call("day", (ts,))) == expression_key(Call("dayofmonth", (ts,)))
        True
        >>> expression_key(Call("to_date", (ts,))) == expression_key(Cast(ts, pa.date32()))
        True
        >>> text = (Column(("s",), pa.string()), Literal("yyyy"))
        >>> moment = Call("to_timestamp", text)
        >>> expression_key(Call("to_date", text)) == expression_key(Cast(moment, pa.date32()))
        True
        >>> a, b = Column(("a",), pa.string()), Column(("b",), pa.string())
        >>> one_by_one = Call("||", (Call("||", (a, b)), a))
        >>> expression_key(one_by_one) == expression_key(Call("concat", (a, b, a)))
        True
    """
    match expr:
        case Column(path):
            return ("column", path)
        case Literal(value):
            return ("literal", type(value).__name__, value)
        case Call(name, (argument,)) if canonical_name(name) in _CASTS:
            return ("cast", _CASTS[canonical_name(name)], expression_key(argument))
        case Call(name, (_, _) as arguments) if canonical_name(name) == _PARSED_DATE:
            return ("cast", _CASTS[_PARSED_DATE], expression_key(Call("to_timestamp", arguments)))
        case Call():
            whole = with_casts_of_call(expr)
            name = canonical_name(whole.function)
            inner = tuple(map(expression_key, whole.arguments))
            if name == _JOINED:
                inner = tuple(chain.from_iterable(map(_joined_parts, inner)))
            return ("call", name, tuple(sorted(inner, key=repr)) if name in _EITHER_WAY else inner)
        case Cast(child, kind):
            return ("cast", kind, expression_key(child))
        case _:
            return expr


def _joined_parts(key: object) -> tuple[object, ...]:
    """The parts of a concatenation: `a || b || c` has three, like `concat(a, b, c)`."""
    match key:
        case ("call", name, tuple(parts)) if name == _JOINED:
            return parts
        case _:
            return (key,)


@dataclass(frozen=True, slots=True)
class _Walk:
    index: Mapping[object, tuple[Expr, ColumnBounds]]
    count: int
    time_zone: str
    used: set[Expr]
    found: dict[object, Subject | None] = field(default_factory=dict)

    def possible(self, expr: Expr, *, truth: bool) -> np.ndarray:
        match expr:
            case And(children):
                return self._joined(children, truth=truth, every=truth)
            case Or(children):
                return self._joined(children, truth=truth, every=not truth)
            case Not(child):
                return self.possible(child, truth=not truth)
            case Unknown():
                return np.ones(self.count, np.bool_)
            case Literal(value):
                return np.full(self.count, value is truth, np.bool_)
            case _:
                return self._leaf(expr, truth=truth)

    def _joined(self, children: tuple[Expr, ...], *, truth: bool, every: bool) -> np.ndarray:
        result = np.full(self.count, every, np.bool_)
        for child in children:
            answer = self.possible(child, truth=truth)
            result = result & answer if every else result | answer
        return result

    def _leaf(self, expr: Expr, *, truth: bool) -> np.ndarray:
        exact = match_exactly(expr, self.subject, self.time_zone)
        if exact is not None:
            return exact.may_be(truth=truth)
        return match_leaf(expr, self.subject, self.count, truth=truth)

    def subject(self, expr: Expr) -> Subject | None:
        """The bounds of a scalar expression: its own, or derived from those of its operands."""
        key = expression_key(expr)
        if key not in self.found:
            self.found[key] = self._find(key, expr)
        return self.found[key]

    def _find(self, key: object, expr: Expr) -> Subject | None:
        direct = self.index.get(key)
        if direct is not None:
            self.used.add(direct[0])
            return Subject(expr, direct[1])
        operand = operand_of(expr)
        inner = None if operand is None else self.subject(operand)
        if inner is None:
            return None
        carried = carry(expr, inner.bounds, self.time_zone)
        return None if carried is None else Subject(expr, carried)
