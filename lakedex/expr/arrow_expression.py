"""Translation of `pyarrow.compute` expressions into the tree, for pruning only.

The Arrow expression itself filters the rows. The tree must be true for every row for which the
Arrow expression is true, and may be true for more. Arrow and Spark differ:

* Arrow's NaN compares false with everything (`!=` true), Spark's NaN is the greatest value:
  NOT(x > 5) keeps NaN in Arrow, so the tree adds NaN there;
* Arrow's `is_in` is never null: NOT(x is_in ..) keeps null rows, and -0.0 differs from 0.0;
* Arrow has its own rules for type conversion: comparisons without a common rule are `Unknown`.

The types of the columns come from a schema. Without one, a comparison is translated under the
assumption that the column has exactly the constant's type; binding checks that.

pyarrow cannot inspect an expression, but it can serialise one: an Arrow IPC file with a
single row. The schema's metadata is the tree in prefix order, as pairs of key and value:
`call`/name opens a call and `end`/name closes it, `field_ref`/name is a column,
`nested_field_ref`/n announces that the next n field_refs are one path, `literal`/i is the constant
in column i of the row, and `options`/i the options of the open call. Constants keep their exact
Arrow types, so nothing is ever parsed from text.

Metadata keys repeat, which pyarrow's dictionary view cannot show; the pairs are read through the
Arrow C data interface: a count, then length-prefixed keys and values, all 32-bit.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.coercion import Family, family
from lakedex.expr.comparison import FLIPPED, NEGATED
from lakedex.expr.tree import (
    FALSE,
    MAX_DEPTH,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Op,
    StartsWith,
    Unknown,
    all_of,
    any_of,
    truth,
)
from lakedex.expr.unwrap_cast import keeps_order

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_EXACT_PAIRS = {
    frozenset({Family.INTEGER}),
    frozenset({Family.INTEGER, Family.FLOAT}),
    frozenset({Family.INTEGER, Family.DECIMAL}),
    frozenset({Family.FLOAT}),
    frozenset({Family.DECIMAL}),
    frozenset({Family.STRING}),
    frozenset({Family.BINARY}),
    frozenset({Family.STRING, Family.BINARY}),
    frozenset({Family.BOOLEAN}),
    frozenset({Family.DATE}),
    frozenset({Family.TIMESTAMP}),
    frozenset({Family.TIMESTAMP_NTZ}),
    frozenset({Family.DATE, Family.TIMESTAMP_NTZ}),
}
_SET_PAIRS = {Family.INTEGER, Family.STRING}
_COMPARISONS = {
    "equal": Op.EQ,
    "not_equal": Op.NE,
    "less": Op.LT,
    "less_equal": Op.LTE,
    "greater": Op.GT,
    "greater_equal": Op.GTE,
}
_JUNCTIONS = {"and": "and", "and_kleene": "and", "or": "or", "or_kleene": "or"}
_MATCH, _SKIP = 0, 1


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a path into struct columns."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    scalar: pa.Scalar


@dataclass(slots=True)
class Function:
    """A call of an Arrow compute function."""

    name: str
    arguments: list[Node] = field(default_factory=list)
    options: pa.StructScalar | None = None


Node = Field | Constant | Function


def read_expression(expression: pc.Expression) -> Node | None:
    """Parse an expression; None if this version of Arrow cannot serialise it.

    Example:
        >>> read_expression(pc.field("a") > 5).name
        'greater'
    """
    try:
        _, (buffer,) = expression.__reduce__()
        table = pa.ipc.open_file(buffer).read_all()
        return _build(_metadata_pairs(table.schema), table)
    except (pa.ArrowException, ValueError, TypeError, IndexError, UnicodeDecodeError):
        return None


def columns_in(expression: pc.Expression) -> frozenset[str] | None:
    """The top-level columns that an expression names; None if they cannot be determined.

    Example:
        >>> sorted(columns_in((pc.field("a") > 5) | pc.field("b", "x").is_null()))
        ['a', 'b']
    """
    root = read_expression(expression)
    if root is None:
        return None
    found: set[str] = set()
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Field):
            found.add(node.path[0])
        elif isinstance(node, Function):
            pending.extend(node.arguments)
    return frozenset(found)


def _build(pairs: Iterator[tuple[bytes, bytes]], table: pa.Table) -> Node:
    root = Function("root")
    open_calls = [root]
    for key, value in pairs:
        match key:
            case b"call":
                call = Function(value.decode())
                open_calls[-1].arguments.append(call)
                open_calls.append(call)
            case b"end":
                open_calls.pop()
            case b"options":
                open_calls[-1].options = table.column(int(value))[0]
            case b"literal":
                open_calls[-1].arguments.append(Constant(table.column(int(value))[0]))
            case b"field_ref":
                open_calls[-1].arguments.append(Field((value.decode(),)))
            case b"nested_field_ref":
                path = tuple(next(pairs)[1].decode() for _ in range(int(value)))
                open_calls[-1].arguments.append(Field(path))
            case _:
                raise ValueError(key)
    if open_calls != [root] or len(root.arguments) != 1:
        raise ValueError(len(open_calls))
    return root.arguments[0]


class _ArrowSchema(ctypes.Structure):
    """The head of the C data interface's ArrowSchema."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata_pairs(schema: pa.Schema) -> Iterator[tuple[bytes, bytes]]:
    # The capsule owns the memory: it must live until the last pair has been read.
    capsule = schema.__arrow_c_schema__()
    place = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if place is None:
        raise ValueError("no metadata")
    count = ctypes.c_int32.from_address(place).value
    place += 4
    for _ in range(count):
        key, place = _bytes_at(place)
        value, place = _bytes_at(place)
        yield key, value
    del capsule


def _bytes_at(place: int) -> tuple[bytes, int]:
    length = ctypes.c_int32.from_address(place).value
    return ctypes.string_at(place + 4, length), place + 4 + length


def shared_meaning(column: pa.DataType, literal: pa.DataType) -> bool:
    """Whether Arrow and Spark compare these types in the same way, or Arrow raises an error.

    Arrow casts safely: an integer that a float cannot represent is an error, not a rounding.

    Example:
        >>> shared_meaning(pa.int32(), pa.float64()), shared_meaning(pa.int32(), pa.string())
        (True, False)
    """
    return frozenset({family(column), family(literal)}) in _EXACT_PAIRS


def constant(scalar: pa.Scalar) -> Literal | None:
    """The literal of an Arrow scalar, or None if its type or value has none."""
    kind = scalar.type
    if pa.types.is_null(kind):
        return Literal(None, kind)
    if family(kind) is Family.OTHER or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return None
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
        kind = pa.timestamp(kind.unit, "UTC")
    return Literal(value, kind)


def constants(values: pa.Array, column: pa.DataType | None) -> list[Literal] | None:
    """The non-null members of a value set in the column's type; None if that is uncertain."""
    if column is None or family(column) is Family.OTHER:
        return None
    literals = [constant(value) for value in values if value.is_valid]
    known = [literal for literal in literals if literal is not None]
    if len(known) < len(literals):
        return None
    if values.type == column:
        return known
    if values.type == pa.float64() and column == pa.float32():
        with np.errstate(over="ignore"):
            numbers = pa.array(values.drop_null().to_numpy().astype(np.float32))
        return [Literal(number, column) for number in numbers.to_pylist()]
    families = {family(values.type), family(column)}
    return known if len(families) == 1 and families <= _SET_PAIRS else None


def from_arrow(expression: pc.Expression, schema: pa.Schema | None = None) -> Expr:
    """The tree of an Arrow expression: true wherever the expression is true.

    Args:
        expression: Any expression; parts that cannot be translated become `Unknown`.
        schema: The schema that the expression will be applied to.

    Example:
        >>> schema = pa.schema([("a", pa.int32())])
        >>> from_arrow(pc.field("a") > 5, schema).op
        <Op.GT: '>'>
    """
    node = read_expression(expression)
    if node is None:
        return Unknown("an Arrow expression that cannot be serialised")
    return _Translator(schema).predicate(node, negated=False, depth=0)


class _Translator:
    def __init__(self, schema: pa.Schema | None) -> None:
        self.schema = schema

    def predicate(self, node: Node, *, negated: bool, depth: int) -> Expr:
        while isinstance(node, Function) and node.name == "invert" and len(node.arguments) == 1:
            node, negated = node.arguments[0], not negated
        if depth >= MAX_DEPTH // 2:
            return Unknown("a deeply nested Arrow expression")
        if isinstance(node, Function):
            if node.name in _JUNCTIONS:
                return self.junction(node, negated=negated, depth=depth)
            return self.leaf(node, negated=negated)
        if isinstance(node, Constant):
            value = node.scalar.as_py() if pa.types.is_boolean(node.scalar.type) else None
            return truth(value=value is not None and value is not negated)
        column = self.column(node, pa.bool_())
        if column is None or column.type != pa.bool_():
            return Unknown(f"{'.'.join(node.path)} as a condition")
        return Compare(Op.EQ, column, truth(value=not negated))

    def junction(self, node: Function, *, negated: bool, depth: int) -> Expr:
        kind = _JUNCTIONS[node.name]
        # Arrow chains operators to the left; walking the chain keeps the depth of the tree low.
        parts: list[Node] = []
        pending: list[Node] = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, Function) and _JUNCTIONS.get(part.name) == kind:
                pending.extend(reversed(part.arguments))
            else:
                parts.append(part)
        inner = [self.predicate(part, negated=negated, depth=depth + 1) for part in parts]
        return all_of(inner) if (kind == "and") is not negated else any_of(inner)

    def leaf(self, node: Function, *, negated: bool) -> Expr:
        match node.name, node.arguments:
            case name, [left, right] if name in _COMPARISONS:
                return self.comparison(_COMPARISONS[name], left, right, negated=negated)
            case (("is_valid" | "true_unless_null"), [Field() as child]):
                return self.null_test(child, is_null=negated)
            case "is_null", [Field() as child]:
                if node.options is not None and node.options["nan_is_null"].as_py():
                    return Unknown("is_null with nan_is_null")
                return self.null_test(child, is_null=not negated)
            case "is_in", [Field() as child]:
                return self.member(child, node, negated=negated)
            case (("starts_with" | "match_like"), [Field() as child]):
                return self.text_match(child, node, negated=negated)
        return Unknown(f"Arrow's {node.name}")

    def column(self, field: Field, assumed: pa.DataType | None) -> Column | None:
        """The column with its type, or with the assumed one if there is no schema."""
        if self.schema is None:
            return Column(field.path, assumed)
        kind: pa.DataType = pa.struct(list(self.schema))
        for name in field.path:
            if not pa.types.is_struct(kind) or len(kind.get_all_field_indices(name)) != 1:
                return None
            kind = kind.field(name).type
        return Column(field.path, kind)

    def null_test(self, field: Field, *, is_null: bool) -> Expr:
        column = self.column(field, None)
        if column is None:
            return Unknown(f"the column {'.'.join(field.path)}")
        return IsNull(column) if is_null else IsNotNull(column)

    def operand(self, node: Node, assumed: pa.DataType | None) -> Column | Cast | None:
        match node:
            case Field():
                return self.column(node, assumed)
            case Function("cast", [Field() as child], options) if options is not None:
                column = self.column(child, None)
                target = options.type.field("to_type").type
                if column is None or column.type is None or not keeps_order(column.type, target):
                    return None
                return Cast(column, target)
        return None

    def comparison(self, op: Op, left: Node, right: Node, *, negated: bool) -> Expr:
        if isinstance(left, Constant):
            op, left, right = FLIPPED[op], right, left
        if not isinstance(right, Constant):
            return self.column_comparison(op, left, right, negated=negated)
        literal = constant(right.scalar)
        column = self.operand(left, None if literal is None else literal.type)
        if literal is None or literal.type is None or column is None or column.type is None:
            return Unknown("a comparison that has no exact translation")
        if literal.value is None:
            return FALSE
        if not shared_meaning(column.type, literal.type):
            return Unknown(f"a comparison of {column.type} with {literal.type}")
        return _compare(NEGATED[op] if negated else op, column, literal, negated=negated)

    def column_comparison(self, op: Op, left: Node, right: Node, *, negated: bool) -> Expr:
        one, other = self.operand(left, None), self.operand(right, None)
        if one is None or other is None or one.type is None or one.type != other.type:
            return Unknown("a comparison of two expressions")
        kind = family(one.type)
        if kind is Family.OTHER or (kind is Family.FLOAT and (negated or op is Op.NE)):
            return Unknown(f"a comparison of two columns of type {one.type}")
        return Compare(NEGATED[op] if negated else op, one, other)

    def member(self, field: Field, node: Function, *, negated: bool) -> Expr:
        if node.options is None or node.options["null_matching_behavior"].as_py() not in (
            _MATCH,
            _SKIP,
        ):
            return Unknown("is_in with unusual treatment of nulls")
        skips = node.options["null_matching_behavior"].as_py() == _SKIP
        values = node.options["value_set"].values
        column = self.column(field, values.type)
        literals = None if column is None else constants(values, column.type)
        if column is None or literals is None:
            return Unknown("is_in over values of another type")
        has_null = len(literals) < len(values) and not skips
        if negated:
            certain = tuple(value for value in literals if value.value and not _is_nan(value))
            outside: Expr = Not(In(column, certain)) if certain else IsNotNull(column)
            return outside if has_null else any_of([outside, IsNull(column)])
        inside: Expr = In(column, tuple(literals)) if literals else FALSE
        return any_of([inside, IsNull(column)]) if has_null else inside

    def text_match(self, field: Field, node: Function, *, negated: bool) -> Expr:
        column = self.column(field, pa.string())
        if node.options is None or column is None or column.type is None:
            return Unknown(f"Arrow's {node.name}")
        if family(column.type) is not Family.STRING or node.options["ignore_case"].as_py():
            return Unknown(f"Arrow's {node.name} over {column.type}")
        pattern = _pattern_text(node.options["pattern"].as_py())
        if pattern is None:
            return Unknown(f"Arrow's {node.name} with a pattern that is no text")
        if node.name == "starts_with":
            found = StartsWith(column, pattern)
            return Not(found) if negated else found
        prefix = pattern[: min(_ends(pattern))]
        return StartsWith(column, prefix) if prefix and not negated else IsNotNull(column)


def _compare(op: Op, column: Column | Cast, literal: Literal, *, negated: bool) -> Expr:
    """Translate a comparison; `op` is already the negated operator if `negated` is set."""
    if _is_nan(literal):
        # Arrow: only != is true, and NOT of everything else.
        asked = NEGATED[op] if negated else op
        return IsNotNull(column) if (asked is Op.NE) is not negated else FALSE
    found = Compare(op, column, literal)
    if negated and op in (Op.LT, Op.LTE) and family(column.type) is Family.FLOAT:
        return any_of([found, Compare(Op.EQ, column, Literal(math.nan, column.type))])
    return found


def _is_nan(literal: Literal) -> bool:
    return isinstance(literal.value, float) and math.isnan(literal.value)


def _pattern_text(pattern: str | bytes) -> str | None:
    if isinstance(pattern, str):
        return pattern
    try:
        return pattern.decode()
    except UnicodeDecodeError:
        return None


def _ends(pattern: str) -> list[int]:
    return [pattern.find(sign) for sign in "%_\\" if sign in pattern] or [len(pattern)]
