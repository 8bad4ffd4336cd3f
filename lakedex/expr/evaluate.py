"""Exact evaluation of a bound expression on Arrow data, with the semantics of Spark SQL.

The tree is walked with an explicit stack: every node is computed once, after its children, by
kernels over whole columns. There is no recursion, so deep trees need no interpreter stack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import Datum, as_array
from lakedex.expr.casting import cast, lost_in_cast
from lakedex.expr.comparison import compare, contains
from lakedex.expr.functions import Arguments, function
from lakedex.expr.like import matches_like, parse_like
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
    Or,
    StartsWith,
    Unknown,
    children_of,
)


def evaluate(
    expr: Expr,
    table: pa.Table | pa.RecordBatch,
    *,
    time_zone: str = "UTC",
    certain: bool = False,
) -> pa.Array | pa.ChunkedArray:
    """The value of a bound expression for every row.

    Args:
        expr: The bound tree.
        table: The rows, with struct fields in their column.
        time_zone: The session time zone, for zoned timestamps.
        certain: Whether to reject arithmetic and casts of numbers that fail in ANSI mode and have
            another result without it, such as an overflowing sum.

    Raises:
        InvalidInput: For an unknown column or function, or an `Unknown` node.
        UnsupportedFeature: For a cast or pattern that is not implemented exactly, or a value for
            which Spark's result is not certain.

    Example:
        >>> from lakedex.expr.tree import Op
        >>> rows = pa.table({"a": pa.array([1, 2, None], pa.int64())})
        >>> positive = Compare(Op.GT, Column(("a",), pa.int64()), Literal(1, pa.int64()))
        >>> evaluate(positive, rows).to_pylist()
        [False, True, None]
    """
    if isinstance(table, pa.RecordBatch):
        return _Evaluation(table, table.num_rows, time_zone, certain).run(expr)
    batches = table.to_batches()
    if not batches or table.num_columns == 0:
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)
        found = _Evaluation(empty, table.num_rows, time_zone, certain).run(expr)
        return pa.chunked_array([found])
    runs = [_Evaluation(batch, batch.num_rows, time_zone, certain).run(expr) for batch in batches]
    return pa.chunked_array(runs)


def filter_table(
    table: pa.Table | pa.RecordBatch, predicate: Expr, *, time_zone: str = "UTC"
) -> pa.Table | pa.RecordBatch:
    """Return the rows for which the predicate is true; null counts as not true.

    Example:
        >>> rows = pa.table({"a": ["x", None]})
        >>> filter_table(rows, IsNull(Column(("a",), pa.string()))).num_rows
        1
    """
    mask = evaluate(predicate, table, time_zone=time_zone)
    if pa.types.is_null(mask.type):
        return table.slice(0, 0)
    if not pa.types.is_boolean(mask.type):
        raise InvalidInput(f"a filter must be boolean, not {mask.type}")
    return table.filter(mask)


def literal_scalar(literal: Literal) -> pa.Scalar:
    """The Arrow scalar of a bound literal.

    Raises:
        InvalidInput: The value does not belong to the type.
    """
    try:
        return pa.scalar(literal.value, literal.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{literal.value!r} is not a value of {literal.type}") from error


@dataclass(frozen=True, slots=True)
class _Evaluation:
    batch: pa.RecordBatch
    length: int
    time_zone: str
    certain: bool = False

    def run(self, expr: Expr) -> pa.Array:
        results: list[Datum] = []
        # A node is visited twice: first to push its children on the stack, then to combine them.
        pending: list[tuple[Expr, bool]] = [(expr, False)]
        while pending:
            node, ready = pending.pop()
            inner = _inner(node)
            if inner and not ready:
                pending.append((node, True))
                pending.extend((child, False) for child in reversed(inner))
                continue
            first = len(results) - len(inner)
            results[first:] = [self._apply(node, results[first:])]
        return as_array(results[0], self.length)

    def _apply(self, node: Expr, inner: list[Datum]) -> Datum:
        match node:
            case Column():
                return self._column(node)
            case Literal():
                return literal_scalar(node)
            case Cast(_, kind):
                return self._cast(inner[0], kind)
            case Call(name):
                return self._call(name, inner)
            case Compare(op):
                return compare(op, inner[0], inner[1])
            case Unknown(reason):
                raise InvalidInput(f"cannot evaluate: {reason}")
            case _:
                return _predicate(node, inner)

    def _column(self, column: Column) -> pa.Array:
        index = self.batch.schema.get_field_index(column.path[0])
        if index < 0:
            raise InvalidInput(f"there is no column {column.name!r} in the data")
        values = self.batch.column(index)
        for name in column.path[1:]:
            if not pa.types.is_struct(values.type) or values.type.get_field_index(name) < 0:
                raise InvalidInput(f"there is no field {column.name!r} in the data")
            values = pc.struct_field(values, name)
        # An empty batch may represent rows without columns.
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if column.type is None or values.type == column.type:
            return values
        try:
            return values.cast(column.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(
                f"column {column.name!r} is {values.type}, not {column.type}"
            ) from error

    def _cast(self, value: Datum, kind: pa.DataType) -> Datum:
        if self.certain and lost_in_cast(as_array(value, 1), kind).any():
            raise UnsupportedFeature(f"a cast of {value.type} to {kind} that does not hold it")
        return cast(value, kind, time_zone=self.time_zone)

    def _call(self, name: str, inner: list[Datum]) -> Datum:
        spec = function(name)
        spec.check_arity(len(inner))
        constant = all(isinstance(value, pa.Scalar) for value in inner)
        length = 1 if constant else self.length
        try:
            result = spec.evaluate(Arguments(name, inner, length, self.time_zone, self.certain))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            types = ", ".join(str(value.type) for value in inner)
            raise UnsupportedFeature(f"{name}({types})") from error
        return result[0] if constant else result


def _inner(node: Expr) -> tuple[Expr, ...]:
    # The constants of IN become one array instead of one evaluation each.
    return (node.child,) if isinstance(node, In) else children_of(node)


def _predicate(node: Expr, inner: list[Datum]) -> Datum:
    match node:
        case In(_, values):
            return contains(inner[0], _literals(values, inner[0].type))
        case IsNull():
            return pc.is_null(inner[0])
        case IsNotNull():
            return pc.is_valid(inner[0])
        case Like(_, pattern, escape):
            return matches_like(_text(inner[0]), parse_like(pattern, escape))
        case StartsWith(_, prefix):
            return pc.starts_with(_text(inner[0]), pattern=prefix)
        case Not():
            return pc.invert(_truth(inner[0]))
        case And():
            return _fold(pc.and_kleene, inner, empty=True)
        case Or():
            return _fold(pc.or_kleene, inner, empty=False)
    raise InvalidInput(f"cannot evaluate {type(node).__name__}")


def _fold(kernel: pc.Function, inner: list[Datum], *, empty: bool) -> Datum:
    result: Datum = pa.scalar(empty)
    for value in inner:
        result = kernel(result, _truth(value))
    return result


def _truth(value: Datum) -> Datum:
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise InvalidInput(f"expected a boolean, not {value.type}")
    return value


def _text(value: Datum) -> Datum:
    return value.cast(pa.string()) if pa.types.is_null(value.type) else value


def _literals(values: tuple[Literal, ...], kind: pa.DataType) -> pa.Array:
    wanted = next((value.type for value in values if value.type is not None), kind)
    try:
        return pa.array([value.value for value in values], wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"the list of IN does not hold values of {wanted}") from error


def true_rows(mask: pa.Array) -> np.ndarray:
    """A mask of the rows in which a boolean column is true."""
    rows: np.ndarray = pc.fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False)
    return rows
