"""The engine-free expression tree: predicates and the scalar expressions inside them.

SQL text, `pyarrow.compute` expressions and plans of Spark's optimiser are translated into this
tree, which is used for pruning and for exact filtering. Its semantics are those of Spark SQL:

* three-valued logic: a comparison with null is null, and a row is kept only if the predicate is
  true;
* floats: NaN equals NaN and is greater than every other value; -0.0 equals 0.0;
* strings and binary compare by unsigned UTF-8 bytes; timestamps by instant.

Parts that cannot be translated become `Unknown`, which may be true for any row: it keeps every
file, and so does its negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pyarrow as pa

from lakedex.errors import InvalidDefinition

MAX_DEPTH = 200
"""Deeper trees are rejected, because walking them would exhaust the interpreter's stack."""
Path = tuple[str, ...]


class Op(Enum):
    """The comparison operators."""

    EQ = "="
    NE = "!="
    LT = "<"
    LTE = "<="
    GT = ">"
    GTE = ">="
    EQ_NULL_SAFE = "<=>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside struct columns: `("address", "zip")`.

    `type` is None until the tree is bound to a schema.
    """

    path: tuple[str, ...]
    type: pa.DataType | None = None

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, float, Decimal, str, bytes, bool, date, datetime or None.

    Binding sets the Arrow type in which it is compared. The value of a timestamp literal is a
    datetime, aware (UTC) for zoned timestamps and naive for timestamps without time zone.
    """

    value: object
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    """SQL's CAST: values that cannot be converted become null."""

    child: Expr
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function by its lower-case Spark name."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two scalar expressions."""

    op: Op
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class In:
    """Membership in a list of constants; if one is null, the result is never false, as in SQL."""

    child: Expr
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if the child is null, else false."""

    child: Expr


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """True if the child is not null, else false."""

    child: Expr


@dataclass(frozen=True, slots=True)
class Like:
    """SQL LIKE with `%` and `_`; `escape` is the escape character."""

    child: Expr
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """True if a string starts with the prefix."""

    child: Expr
    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of its children, none of which is an `And`."""

    children: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of its children, none of which is an `Or`."""

    children: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """SQL's NOT: null stays null."""

    child: Expr


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be translated; it may be true for any row."""

    reason: str


Expr = (
    Column
    | Literal
    | Cast
    | Call
    | Compare
    | In
    | IsNull
    | IsNotNull
    | Like
    | StartsWith
    | And
    | Or
    | Not
    | Unknown
)
"""Any node of the tree."""


def all_of(children: list[Expr]) -> Expr:
    """The conjunction of `children`, flattened.

    Example:
        >>> all_of([IsNull(Column(("a",)))])
        IsNull(child=Column(path=('a',), type=None))
    """
    flat = _flatten(children, And)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(children: list[Expr]) -> Expr:
    """The disjunction of `children`, flattened.

    Example:
        >>> a = IsNull(Column(("a",)))
        >>> len(any_of([any_of([a, a]), a]).children)
        3
    """
    flat = _flatten(children, Or)
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def children_of(expr: Expr) -> tuple[Expr, ...]:
    """The direct children of a node, in order."""
    match expr:
        case Compare(_, left, right):
            return (left, right)
        case And(children) | Or(children):
            return children
        case Call(_, arguments):
            return arguments
        case In(child, values):
            return (child, *values)
        case Column() | Literal() | Unknown():
            return ()
        case _:
            return (expr.child,)


def columns_of(expr: Expr) -> list[Column]:
    """Every column of the tree, each once, in order of first occurrence."""
    found: dict[tuple[str, ...], Column] = {}
    pending: list[Expr] = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Column):
            found.setdefault(node.path, node)
        # The values of a list are constants; there may be many.
        inner = (node.child,) if isinstance(node, In) else children_of(node)
        pending.extend(reversed(inner))
    return list(found.values())


def _flatten(children: list[Expr], kind: type[And] | type[Or]) -> list[Expr]:
    flat: list[Expr] = []
    for child in children:
        if isinstance(child, kind):
            flat.extend(child.children)
        else:
            flat.append(child)
    return flat


def check_depth(expr: Expr) -> None:
    """Reject a tree that is too deep to be walked by recursion.

    Raises:
        InvalidDefinition: It has more than `MAX_DEPTH` levels.
    """
    level: list[Expr] = [expr]
    for _ in range(MAX_DEPTH):
        level = [
            child for node in level for child in children_of(node) if not isinstance(child, Literal)
        ]
        if not level:
            return
    raise InvalidDefinition(f"the expression is nested deeper than {MAX_DEPTH} levels")


def tree_text(expr: Expr | None) -> str:
    """The text of a tree; `?` represents unknown parts.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> tree_text(parse_predicate("city = 'austin' AND fare > 20"))
        "city = 'austin' and fare > 20"
    """
    return "-" if expr is None else _TEXTS[type(expr)](expr)


def _inner(expr: Expr) -> str:
    text = tree_text(expr)
    return f"({text})" if isinstance(expr, And | Or) else text


def _list(children: Iterable[Expr]) -> str:
    return ", ".join(map(tree_text, children))


def _value_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value) if isinstance(value, str | bytes) else str(value)


_TEXTS: dict[type[Expr], Callable[[Any], str]] = {
    Column: lambda own: own.name,
    Literal: lambda own: _value_text(own.value),
    Cast: lambda own: f"cast({tree_text(own.child)}, {own.type})",
    Call: lambda own: f"{own.function}({_list(own.arguments)})",
    Compare: lambda own: f"{tree_text(own.left)} {own.op.value} {tree_text(own.right)}",
    In: lambda own: f"{tree_text(own.child)} in ({', '.join(sorted(map(tree_text, own.values)))})",
    IsNull: lambda own: f"{tree_text(own.child)} is null",
    IsNotNull: lambda own: f"{tree_text(own.child)} is not null",
    Like: lambda own: f"{tree_text(own.child)} like {own.pattern!r} escape {own.escape!r}",
    StartsWith: lambda own: f"{tree_text(own.child)} starts {own.prefix!r}",
    Not: lambda own: f"not ({tree_text(own.child)})",
    And: lambda own: " and ".join(map(_inner, own.children)),
    Or: lambda own: " or ".join(map(_inner, own.children)),
    Unknown: lambda _: "?",
}


TRUE = Literal(value=True, type=pa.bool_())
"""Keeps every row."""

FALSE = Literal(value=False, type=pa.bool_())
"""Keeps no row."""

NULL = Literal(value=None, type=pa.bool_())
"""Keeps no row; neither does its negation."""


def truth(*, value: bool) -> Literal:
    """`TRUE` or `FALSE`.

    Example:
        >>> truth(value=True).value
        True
    """
    return TRUE if value else FALSE
