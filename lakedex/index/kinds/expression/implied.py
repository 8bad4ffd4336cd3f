"""What a predicate on the bare column says of the indexed expression.

`ts >= a AND ts < b` says `f(a) <= f(ts) <= f(b)` where `f` rises from `a` to `b`, and `ts = a` says
`f(ts) = f(a)` of any function at all. What comes out is weaker than the predicate, so that no row
is lost by it; what says nothing of the expression counts as true, and so does every doubt:

* floats, of which -0.0 equals 0.0 although functions tell them apart;
* letters outside ASCII under a function that engines compute differently for them;
* a function that gives null for a value, as parsing does, where engines and settings differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bounds import Form, form_of
from lakedex.expr.evaluate import evaluate, literal_scalar
from lakedex.expr.may_match import is_portable
from lakedex.expr.monotonic import Interval, image
from lakedex.expr.tree import (
    TRUE,
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Op,
    Or,
    StartsWith,
    all_of,
    any_of,
    columns_of,
)

_COUNTED = frozenset([Form.INTEGER, Form.DATE, Form.TIME, Form.ZONED_TIME])
"""Forms whose values have a next one, so that `<` is `<=` of the one before."""
_RANGES = frozenset([Op.LT, Op.LTE, Op.GT, Op.GTE])
_MOST_POINTS = 10_000


def implied(predicate: Expr, expression: Expr, zone: str) -> Expr | None:
    """A predicate on the expression that is true wherever `predicate` is; None if it says nothing.

    Args:
        predicate: Bound and in normal form.
        expression: Bound; only one of a single column follows from that column.
        zone: The time zone in which the expression is computed, whatever that of the query is.

    Example:
        >>> name = Column(("name",), pa.string())
        >>> bob = Compare(Op.EQ, name, Literal("bob", pa.string()))
        >>> implied(bob, Call("upper", (name,)), "UTC").right.value
        'BOB'
    """
    columns = columns_of(expression)
    if len(columns) != 1 or not isinstance(expression, Call | Cast):
        return None
    column = columns[0]
    if column.type is None or form_of(column.type) in (None, Form.FLOAT):
        return None
    found = _Walk(expression, column.path, column.type, zone).of(predicate, Interval(column.type))
    return None if found == TRUE else found


@dataclass(frozen=True, slots=True)
class _Walk:
    expression: Expr
    path: tuple[str, ...]
    type: pa.DataType
    zone: str

    def of(self, node: Expr, within: Interval) -> Expr:
        """What a node says of rows whose column is `within` an interval."""
        match node:
            case And(children):
                return self._every(children, within)
            case Or(children):
                parts = [self.of(child, within) for child in children]
                return TRUE if TRUE in parts else any_of(parts)
            case Compare(Op.EQ | Op.EQ_NULL_SAFE, Column(self.path), Literal() as value):
                return self._points([value])
            case In(Column(self.path), values):
                return self._points(values)
            case IsNull(Column(self.path)):
                return self._null()
            case _:
                return self._every([node], within)

    def _every(self, children: Sequence[Expr], within: Interval) -> Expr:
        narrowed, rest = within, []
        for child in children:
            found = self._range(child)
            if found is not None:
                narrowed = narrowed.meet(found)
            elif len(children) > 1:
                rest.append(child)
        parts = [] if narrowed == within else [self._inside(narrowed)]
        parts += [self.of(child, narrowed) for child in rest]
        kept = [part for part in parts if part != TRUE]
        return all_of(kept) if kept else TRUE

    def _range(self, leaf: Expr) -> Interval | None:
        """The values that a leaf leaves to the column; None if it is no range of it."""
        match leaf:
            case Compare(op, Column(self.path), Literal() as value) if op in _RANGES:
                end = self._own(value)
                if end is None:
                    return None
                if op in (Op.LT, Op.GT):
                    end = _neighbour(end, -1 if op is Op.LT else 1)
                return Interval(self.type, *((end, None) if op in (Op.GT, Op.GTE) else (None, end)))
            case StartsWith(Column(self.path), prefix) if prefix:
                return Interval(self.type, *_texts_from(prefix, self.type))
            case _:
                return None

    def _own(self, value: Literal) -> pa.Scalar | None:
        """A constant as a value of the column; None if it is none."""
        try:
            scalar = literal_scalar(value)
            is_alike = scalar.is_valid and form_of(scalar.type) is form_of(self.type)
            return scalar.cast(self.type) if is_alike else None
        except (LakedexError, pa.ArrowException):
            return None

    def _inside(self, interval: Interval) -> Expr:
        found = image(self.expression, interval, self.zone)
        if found is None:
            return TRUE
        parts: list[Expr] = []
        for op, end in ((Op.GTE, found.low), (Op.LTE, found.high)):
            literal = None if end is None else _constant(end)
            if literal is not None:
                parts.append(Compare(op, self.expression, literal))
        if found.beside is not None and parts:
            return any_of([all_of(parts), StartsWith(self.expression, found.beside)])
        return all_of(parts) if parts else TRUE

    def _points(self, values: Sequence[Literal]) -> Expr:
        given = [value for value in values if value.value is not None]
        found = [self._own(value) for value in given[: _MOST_POINTS + 1]]
        own = [value for value in found if value is not None]
        if not own or len(own) > _MOST_POINTS or len(own) < len(found):
            return TRUE
        if not is_portable(self.expression) and not all(str(each).isascii() for each in own):
            return TRUE
        results = self._evaluated(pa.array([each.as_py() for each in own], self.type))
        if results is None or results.null_count:
            return TRUE
        literals = [_constant(result) for result in results.unique()]
        told = tuple(literal for literal in literals if literal is not None)
        if len(told) < len(literals):
            return TRUE
        if len(told) == 1:
            return Compare(Op.EQ, self.expression, told[0])
        return In(self.expression, told)

    def _null(self) -> Expr:
        results = self._evaluated(pa.nulls(1, self.type))
        is_null = results is not None and results.null_count == 1
        return IsNull(self.expression) if is_null else TRUE

    def _evaluated(self, values: pa.Array) -> pa.Array | None:
        for name in reversed(self.path[1:]):
            values = pa.StructArray.from_arrays([values], [name])
        try:
            rows = pa.RecordBatch.from_arrays([values], [self.path[0]])
            return evaluate(self.expression, rows, time_zone=self.zone, certain=True)
        except (LakedexError, pa.ArrowException):
            return None


def _constant(value: pa.Scalar) -> Literal | None:
    """A value as a constant of the tree; None beyond the years that Python knows."""
    try:
        return Literal(value.as_py(), value.type)
    except (OverflowError, ValueError):
        return None


def _neighbour(end: pa.Scalar, step: int) -> pa.Scalar:
    """The next value in a direction, or the same where there is none or it is not known."""
    if form_of(end.type) not in _COUNTED:
        return end
    number = pa.int32() if end.type.bit_width == 32 else pa.int64()
    try:
        return pa.scalar(end.cast(number).as_py() + step, number).cast(end.type)
    except (OverflowError, pa.ArrowException):
        return end


def _texts_from(prefix: str, kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar | None]:
    """Texts that begin so lie between the prefix and the next text of its length."""
    following = chr(ord(prefix[-1]) + 1) if ord(prefix[-1]) < _LAST_PLAIN else None
    high = None if following is None else pa.scalar(prefix[:-1] + following, kind)
    return pa.scalar(prefix, kind), high


_LAST_PLAIN = 0xD7FF - 1
"""The characters before the surrogates have each a next one."""
