r"""The tree as JSON, for engines that are not Python.

Every node is an object with a `kind` and the node's parts:

* `{"kind": "column", "path": ["address", "zip"], "type": "int32"}`; `type` may be null
* `{"kind": "literal", "is": "decimal", "value": "20.5", "type": "decimal(3,1)"}`
* `{"kind": "cast", "child": .., "type": "int64"}`
* `{"kind": "call", "function": "upper", "arguments": [..]}`
* `{"kind": "compare", "op": "<=", "left": .., "right": ..}`
* `{"kind": "in", "child": .., "values": [literal, ..]}`
* `{"kind": "is_null" | "is_not_null" | "not", "child": ..}`
* `{"kind": "like", "child": .., "pattern": "a%", "escape": "\\"}`
* `{"kind": "starts_with", "child": .., "prefix": "a"}`
* `{"kind": "and" | "or", "children": [..]}`
* `{"kind": "unknown", "reason": ".."}`

The values of literals and the names of types are described in `json_literal`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakedex.errors import InvalidDefinition
from lakedex.expr.depth import check_depth
from lakedex.expr.json_literal import (
    literal_from_json,
    literal_to_json,
    type_from_json,
    type_to_json,
)
from lakedex.expr.tree import (
    MAX_DEPTH,
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
)

Json = dict[str, object]


def to_json(expr: Expr) -> Json:
    """The JSON object of a tree.

    Example:
        >>> to_json(IsNull(Column(("a",))))
        {'kind': 'is_null', 'child': {'kind': 'column', 'path': ['a'], 'type': None}}
    """
    check_depth(expr)
    return _object(expr)


def from_json(data: object) -> Expr:
    """The tree of a JSON object.

    Raises:
        InvalidDefinition: The object is not of the documented form, or nested too deeply.

    Example:
        >>> from_json({"kind": "unknown", "reason": "udf"})
        Unknown(reason='udf')
    """
    expr = _expr(data, 0)
    check_depth(expr)
    return expr


def _object(expr: Expr) -> Json:
    match expr:
        case Literal():
            return literal_to_json(expr)
        case Compare(op, left, right):
            sides = {"left": _object(left), "right": _object(right)}
            return {"kind": "compare", "op": op.value, **sides}
        case And(children) | Or(children):
            kind = "and" if isinstance(expr, And) else "or"
            return {"kind": kind, "children": [_object(child) for child in children]}
        case Call(function, arguments):
            inner = [_object(argument) for argument in arguments]
            return {"kind": "call", "function": function, "arguments": inner}
        case Column(path, kind):
            return {"kind": "column", "path": list(path), "type": _column_type(kind)}
        case Unknown(reason):
            return {"kind": "unknown", "reason": reason}
        case _:
            return _object_with_child(expr)


def _object_with_child(
    expr: Cast | In | IsNull | IsNotNull | Like | StartsWith | Not,
) -> Json:
    child = _object(expr.child)
    match expr:
        case Cast(_, kind):
            return {"kind": "cast", "child": child, "type": type_to_json(kind)}
        case In(_, values):
            return {"kind": "in", "child": child, "values": [_object(value) for value in values]}
        case Like(_, pattern, escape):
            return {"kind": "like", "child": child, "pattern": pattern, "escape": escape}
        case StartsWith(_, prefix):
            return {"kind": "starts_with", "child": child, "prefix": prefix}
        case IsNull():
            return {"kind": "is_null", "child": child}
        case IsNotNull():
            return {"kind": "is_not_null", "child": child}
        case _:
            return {"kind": "not", "child": child}


def _column_type(kind: pa.DataType | None) -> str | None:
    """Nested types have no name in JSON; whoever reads the tree binds it again."""
    return None if kind is None or pa.types.is_nested(kind) else type_to_json(kind)


class _Reader:
    """One object under reading: typed access to its parts, with errors that name the part."""

    def __init__(self, data: Json, depth: int) -> None:
        self.data = data
        self.depth = depth

    def text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or (not value.isascii() and not _is_text(value)):
            raise InvalidDefinition(f"{name!r} must be a text in {_shown(self.data)}")
        return value

    def items(self, name: str) -> list[object]:
        value = self.data.get(name)
        if not isinstance(value, list):
            raise InvalidDefinition(f"{name!r} must be a list in {_shown(self.data)}")
        return value

    def expr(self, name: str) -> Expr:
        return _expr(self.data.get(name), self.depth + 1)

    def exprs(self, name: str) -> list[Expr]:
        return [_expr(item, self.depth + 1) for item in self.items(name)]


def _expr(data: object, depth: int) -> Expr:
    if depth > MAX_DEPTH:
        raise InvalidDefinition(f"the expression is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(data, dict):
        raise InvalidDefinition(f"expected an object with a 'kind', found {_shown(data)}")
    kind = data.get("kind")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidDefinition(f"unknown kind {_shown(kind)}; known are {', '.join(_READERS)}")
    return read(_Reader(data, depth))


def _column(reader: _Reader) -> Expr:
    names = reader.items("path")
    path = tuple(name for name in names if isinstance(name, str) and _is_text(name))
    if not path or len(path) != len(names):
        raise InvalidDefinition(f"'path' must be a list of names, found {_shown(names)}")
    given = reader.data.get("type")
    return Column(path, None if given is None else type_from_json(given))


def _compare(reader: _Reader) -> Expr:
    sign = reader.text("op")
    op = next((op for op in Op if op.value == sign), None)
    if op is None:
        raise InvalidDefinition(f"unknown comparison {_shown(sign)}")
    return Compare(op, reader.expr("left"), reader.expr("right"))


def _in(reader: _Reader) -> Expr:
    values = reader.exprs("values")
    literals = tuple(value for value in values if isinstance(value, Literal))
    if not literals or len(literals) != len(values):
        raise InvalidDefinition("'values' must be a list of literals with at least one")
    return In(reader.expr("child"), literals)


def _like(reader: _Reader) -> Expr:
    escape = reader.text("escape") if "escape" in reader.data else "\\"
    return Like(reader.expr("child"), reader.text("pattern"), escape)


def _joined(join: Callable[[list[Expr]], Expr]) -> Callable[[_Reader], Expr]:
    def read(reader: _Reader) -> Expr:
        children = reader.exprs("children")
        if not children:
            raise InvalidDefinition("'children' must not be empty")
        return join(children)

    return read


_READERS: dict[str, Callable[[_Reader], Expr]] = {
    "column": _column,
    "literal": lambda reader: literal_from_json(reader.data),
    "cast": lambda reader: Cast(reader.expr("child"), type_from_json(reader.data.get("type"))),
    "call": lambda reader: Call(reader.text("function").lower(), tuple(reader.exprs("arguments"))),
    "compare": _compare,
    "in": _in,
    "is_null": lambda reader: IsNull(reader.expr("child")),
    "is_not_null": lambda reader: IsNotNull(reader.expr("child")),
    "like": _like,
    "starts_with": lambda reader: StartsWith(reader.expr("child"), reader.text("prefix")),
    "and": _joined(all_of),
    "or": _joined(any_of),
    "not": lambda reader: Not(reader.expr("child")),
    "unknown": lambda reader: Unknown(reader.text("reason")),
}


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """A short text for messages that never walks a hostile value to its bottom."""
    if isinstance(value, dict):
        return "an object with " + ", ".join(sorted(map(str, list(value)[:8])))[:80]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return repr(value)[:80]
