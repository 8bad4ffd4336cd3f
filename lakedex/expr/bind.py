"""Binding: names become columns of a schema, and both sides of every comparison get one type.

The rules are those of Spark 3.5 without ANSI mode: names are case-insensitive, and `coercion`
defines the common type. Constants are converted while binding and moved to the right side. A cast
that Spark adds to the column becomes a `Cast`, unless it can be removed exactly (`unwrap_cast`), so
that statistics on the raw column apply.

Both pruning and exact filtering use bound trees. `Unknown` propagates: every node that contains it
becomes `Unknown` up to the nearest AND, OR or NOT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from difflib import get_close_matches

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.coercion import Family, comparison_type, family, membership_type
from lakedex.expr.comparison import FLIPPED
from lakedex.expr.functions import constants_of, function
from lakedex.expr.like import parse_like
from lakedex.expr.literal_cast import cast_literal, typed_literal, zone_of
from lakedex.expr.sql_literal import decimal_literal
from lakedex.expr.tree import (
    NULL,
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
    all_of,
    any_of,
    check_depth,
    children_of,
)
from lakedex.expr.unwrap_cast import never, unwrap_compare, unwrap_in
from lakedex.schema.hudi_types import type_name

_ARITHMETIC = frozenset("+-*/%")
_ONE_TEXT = {Family.INTEGER, Family.DATE, Family.DECIMAL}


def resolve_column(column: Column, schema: pa.Schema, *, case_sensitive: bool) -> Expr:
    """Resolve a column to its name in the schema, with its type.

    A column to which a translator gave another type than the schema is `Unknown`, because it was
    translated for that type.

    Raises:
        InvalidInput: No column has that name, or several do.

    Example:
        >>> resolve_column(Column(("ID",)), pa.schema([("id", pa.int64())]), case_sensitive=False)
        Column(path=('id',), type=DataType(int64))
    """
    fields: Sequence[pa.Field] = list(schema)
    path: list[str] = []
    kind: pa.DataType = pa.null()
    for depth, name in enumerate(column.path):
        field = _find(column, name, fields, case_sensitive=case_sensitive)
        path.append(field.name)
        kind = field.type
        last = depth == len(column.path) - 1
        if not last and not pa.types.is_struct(kind):
            raise InvalidInput(f"{column.name}: {'.'.join(path)} is {kind}, which has no fields")
        fields = [] if last else [kind.field(index) for index in range(kind.num_fields)]
    if not path:
        raise InvalidInput("a column needs a name")
    if column.type is not None and column.type != kind:
        return Unknown(f"{column.name} was translated as {column.type} but is {kind}")
    return Column(tuple(path), kind)


def _find(
    column: Column, name: str, fields: Sequence[pa.Field], *, case_sensitive: bool
) -> pa.Field:
    if case_sensitive:
        found = [field for field in fields if field.name == name]
    else:
        found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(field.name for field in found)
        raise InvalidInput(f"{column.name[:200]} is ambiguous; it can be any of {names}")
    by_lower = {field.name.lower(): field.name for field in fields}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InvalidInput(f"there is no column {column.name[:200]}{hint}")


def bind(
    expr: Expr, schema: pa.Schema, *, time_zone: str = "UTC", case_sensitive: bool = False
) -> Expr:
    """Resolve the names of `expr` in `schema` and type it.

    Args:
        expr: A tree from any translator.
        schema: The table's schema.
        time_zone: The session's time zone, for strings and dates that become timestamps.
        case_sensitive: Whether names are case-sensitive.

    Raises:
        InvalidInput: A name is unknown or ambiguous, or two types cannot be compared.
        InvalidDefinition: The tree is too deep, or a LIKE pattern is malformed.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> late = Compare(Op.GT, Column(("Fare",)), Literal(2.5))
        >>> bind(late, pa.schema([("fare", pa.int32())]))
        Compare(op=<Op.GT: '>'>, left=Column(path=('fare',), type=DataType(int32)),
                right=Literal(value=2, type=DataType(int32)))
    """
    check_depth(expr)
    zone_of(time_zone)
    return _Binder(schema, time_zone, case_sensitive).node(expr)


def bind_predicate(
    expr: Expr, schema: pa.Schema, *, time_zone: str = "UTC", case_sensitive: bool = False
) -> Expr:
    """Like `bind`, for a condition, which must be boolean."""
    bound = bind(expr, schema, time_zone=time_zone, case_sensitive=case_sensitive)
    return _condition(bound)


def bound_type(expr: Expr) -> pa.DataType:
    """The Arrow type of a bound expression; null type for `Unknown`.

    Example:
        >>> bound_type(IsNull(Literal(1, pa.int32())))
        DataType(bool)
    """
    match expr:
        case Column(_, kind) | Literal(_, kind):
            return pa.null() if kind is None else kind
        case Cast(_, kind):
            return kind
        case Call(name, arguments):
            types = [bound_type(argument) for argument in arguments]
            return function(name).type_of(types, constants_of(arguments))
        case Unknown():
            return pa.null()
        case _:
            return pa.bool_()


def unknown_in(expr: Expr) -> Unknown | None:
    """The first `Unknown` of a tree; a tree that has one can prune, but not filter exactly."""
    pending: list[Expr] = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Unknown):
            return node
        pending.extend(reversed(children_of(node)))
    return None


@dataclass(frozen=True, slots=True)
class _Binder:
    schema: pa.Schema
    time_zone: str
    case_sensitive: bool

    def node(self, expr: Expr) -> Expr:
        match expr:
            case And(children):
                return all_of([self.condition(child) for child in children])
            case Or(children):
                return any_of([self.condition(child) for child in children])
            case Not(child):
                return Not(self.condition(child))
            case Column():
                return resolve_column(expr, self.schema, case_sensitive=self.case_sensitive)
            case Literal():
                return typed_literal(expr)
            case Unknown():
                return expr
            case _:
                return self.inner(expr)

    def inner(self, expr: Expr) -> Expr:
        children = [self.node(child) for child in children_of(expr)]
        unknown = next((child for child in children if isinstance(child, Unknown)), None)
        if unknown is not None:
            return unknown
        match expr:
            case Compare(op):
                return self.compare(op, *children)
            case In():
                values = [child for child in children[1:] if isinstance(child, Literal)]
                return self.member(children[0], values)
            case Call(name):
                return self.call(name, children)
            case Cast(_, kind):
                return self.cast(children[0], kind)
            case Like(_, pattern, escape):
                parse_like(pattern, escape)
                return Like(self.text(children[0], "LIKE"), pattern, escape)
            case StartsWith(_, prefix):
                return StartsWith(self.text(children[0], "startswith"), prefix)
            case _:
                return IsNull(children[0]) if isinstance(expr, IsNull) else IsNotNull(children[0])

    def condition(self, expr: Expr) -> Expr:
        return _condition(self.node(expr))

    def cast(self, child: Expr, kind: pa.DataType) -> Expr:
        if bound_type(child) == kind:
            return child
        if isinstance(child, Literal):
            return cast_literal(child, kind, self.time_zone)
        if Family.OTHER in (family(bound_type(child)), family(kind)):
            raise InvalidInput(f"cannot cast {type_name(bound_type(child))} to {type_name(kind)}")
        return Cast(child, kind)

    def text(self, child: Expr, what: str) -> Expr:
        kind = family(bound_type(child))
        if kind is Family.STRING:
            return child
        if kind in (Family.OTHER, Family.BINARY):
            raise InvalidInput(f"{what} needs a string, not {type_name(bound_type(child))}")
        return self.cast(child, pa.string())

    def call(self, name: str, arguments: list[Expr]) -> Expr:
        types = [bound_type(argument) for argument in arguments]
        shifted = {"+": "date_add", "-": "date_sub"}.get(name)
        if shifted and [family(kind) for kind in types] == [Family.DATE, Family.INTEGER]:
            name = shifted
        spec = function(name)
        spec.check_arity(len(arguments))
        nested = next((kind for kind in types if family(kind) is Family.OTHER), None)
        if nested is not None:
            raise InvalidInput(f"{name} cannot take {type_name(nested)}")
        decimal = next((kind for kind in types if pa.types.is_decimal(kind)), None)
        if decimal is not None and name in _ARITHMETIC:
            arguments = [
                _narrow(argument, decimal) if isinstance(argument, Literal) else argument
                for argument in arguments
            ]
        call = Call(name, tuple(arguments))
        bound_type(call)
        return call

    def compare(self, op: Op, left: Expr, right: Expr) -> Expr:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            op, left, right = FLIPPED[op], right, left
        if isinstance(right, Literal):
            right = _narrow(right, bound_type(left))
        kind = comparison_type(bound_type(left), bound_type(right))
        if family(kind) is Family.OTHER:
            raise InvalidInput(f"{type_name(kind)} cannot be compared; compare its fields")
        one, other = self.cast(left, kind), self.cast(right, kind)
        if isinstance(one, Cast) and isinstance(other, Literal):
            source = bound_type(one.child)
            return self.unwrapped(op, one, other, source)
        return Compare(op, one, other)

    def unwrapped(self, op: Op, cast: Cast, literal: Literal, source: pa.DataType) -> Expr:
        """Remove one cast after the other, as long as each step is exact."""
        result = unwrap_compare(op, cast, literal, source, self.time_zone)
        while isinstance(result, Compare) and isinstance(result.left, Cast):
            inner, right = result.left, result.right
            if inner is cast or not isinstance(right, Literal):
                break
            cast = inner
            source = bound_type(cast.child)
            result = unwrap_compare(result.op, cast, right, source, self.time_zone)
        return result

    def member(self, child: Expr, given: list[Literal]) -> Expr:
        own = bound_type(child)
        values = [_narrow(value, own) for value in given]
        kind = membership_type([own, *(bound_type(value) for value in values)])
        if family(kind) is Family.OTHER:
            raise InvalidInput(f"{type_name(kind)} cannot be used with IN; compare its fields")
        if family(kind) is Family.STRING and family(own) not in (Family.STRING, Family.NULL):
            return self.member_as_text(child, values)
        cast = self.cast(child, kind)
        converted = tuple(cast_literal(value, kind, self.time_zone) for value in values)
        if isinstance(cast, Cast) and not isinstance(child, Literal):
            return unwrap_in(cast, converted, bound_type(cast.child), self.time_zone)
        return In(cast, converted)

    def member_as_text(self, child: Expr, values: list[Literal]) -> Expr:
        """`child IN ('..')` compares strings: keep the values with exactly that text."""
        own = bound_type(child)
        if family(own) is Family.FLOAT:
            raise InvalidInput("write the numbers of the IN list without quotes")
        texts = [cast_literal(value, pa.string(), self.time_zone) for value in values]
        cast = self.cast(child, pa.string())
        if not self.has_one_text(own) or not isinstance(cast, Cast):
            return In(cast, tuple(texts))
        backs = [cast_literal(text, own, self.time_zone) for text in texts]
        kept = [
            back
            for text, back in zip(texts, backs, strict=True)
            if cast_literal(back, pa.string(), self.time_zone).value == text.value
        ]
        return In(child, tuple(kept)) if kept else never(child)

    def has_one_text(self, kind: pa.DataType) -> bool:
        """Whether no two values of the type have the same text in the session's time zone."""
        if family(kind) is Family.TIMESTAMP:
            return zone_of(self.time_zone) is UTC and kind.unit != "ns"
        return family(kind) in _ONE_TEXT


def _narrow(literal: Literal, other: pa.DataType) -> Literal:
    """Give an integer that is compared with a decimal the fewest possible digits, as Spark does."""
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_decimal(other):
        return decimal_literal(Decimal(value), str(value))
    return literal


def _condition(expr: Expr) -> Expr:
    kind = family(bound_type(expr))
    if kind is Family.NULL and isinstance(expr, Literal):
        return NULL
    if kind in (Family.BOOLEAN, Family.NULL):
        return expr
    raise InvalidInput(
        f"a condition must be true or false, but one part is {type_name(bound_type(expr))}"
    )
