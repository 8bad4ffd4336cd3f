"""Determines which files may contain a row that satisfies a predicate, for all files at once.

The walk decides for every node whether some row of a file may make it true, or, below a NOT, false.
A null makes it neither, so NOT needs no rewriting, and a node that cannot be decided may be both.
AND needs every child, OR needs one; for false the reverse holds.

For columns with one known value per file, such as partition columns, the predicate is evaluated
exactly on the values, one row per file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, LakedexError
from lakedex.expr.arrays import valid_mask
from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.evaluate import evaluate, true_rows
from lakedex.expr.explicit_casts import with_casts_of_call
from lakedex.expr.functions import canonical_name
from lakedex.expr.leaf_match import Subject, match_leaf
from lakedex.expr.monotonic import carry, operand_of
from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Expr,
    Literal,
    Not,
    Or,
    Unknown,
    check_depth,
    columns_of,
)

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
