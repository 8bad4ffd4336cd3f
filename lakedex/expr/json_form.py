r"""The tree as JSON, for engines that are not written in Python.

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

`is` defines the form of `value`: `null`; `bool`; `int` (a number, or its digits as a string beyond
2^53, which other JSON readers would round); `float` (a number, or `"NaN"`, `"Infinity"`,
`"-Infinity"`); `decimal` (digits as a string); `string`; `binary` (base64); `date` (`2024-02-29`);
`timestamp` (`2024-02-29T12:00:00.123456+00:00`, with an offset exactly if the type has a zone).

Types are `null`, `bool`, `int8` to `int64`, `float`, `double`, `string`, `large_string`, `binary`,
`large_binary`, `date32`, `decimal(precision,scale)`, `timestamp(unit)`, `timestamp(unit,zone)`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from lakedex.errors import InvalidDefinition
from lakedex.expr.coercion import Family, family
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
    check_depth,
)

_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
}
_NAMES = {kind: name for name, kind in _PLAIN.items()}
_SHAPED = re.compile(
    r"(?P<name>decimal|timestamp)\((?P<first>[0-9]{1,2}|s|ms|us|ns)"
    r"(?:,(?P<second>-?[0-9]{1,2}|[A-Za-z][A-Za-z0-9_+\-/:]{0,63}|[+-][0-9:]{1,8}))?\)"
)
_SAFE_INTEGER = 1 << 53
_INTEGER = re.compile(r"-?[0-9]{1,40}")
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FAMILY_KINDS = {
    Family.NULL: set(),
    Family.BOOLEAN: {"bool"},
    Family.INTEGER: {"int"},
    Family.FLOAT: {"float"},
    Family.DECIMAL: {"decimal"},
    Family.STRING: {"string"},
    Family.BINARY: {"binary"},
    Family.DATE: {"date"},
    Family.TIMESTAMP: {"timestamp"},
    Family.TIMESTAMP_NTZ: {"timestamp"},
}
Json = dict[str, object]


def type_to_json(kind: pa.DataType) -> str:
    """The name of a type.

    Example:
        >>> type_to_json(pa.timestamp("us", "UTC"))
        'timestamp(us,UTC)'
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp({kind.unit})" if kind.tz is None else f"timestamp({kind.unit},{kind.tz})"
    if kind not in _NAMES:
        raise InvalidDefinition(f"the type {kind} has no JSON form")
    return _NAMES[kind]


def type_from_json(name: object) -> pa.DataType:
    """The type of a name.

    Raises:
        InvalidDefinition: There is no such type.
    """
    if not isinstance(name, str):
        raise InvalidDefinition("a type must be a string")
    if name in _PLAIN:
        return _PLAIN[name]
    shape = _SHAPED.fullmatch(name)
    if shape is None:
        raise InvalidDefinition(f"unknown type {name[:80]!r}")
    first, second = shape["first"], shape["second"]
    if shape["name"] == "timestamp" and not first.isdecimal():
        return pa.timestamp(first, second)
    return _decimal_type(first, second, name)


def literal_to_json(literal: Literal) -> dict[str, object]:
    """The JSON object of a constant.

    Example:
        >>> literal_to_json(Literal(b"hi"))
        {'kind': 'literal', 'is': 'binary', 'value': 'aGk=', 'type': None}
    """
    kind, value = _written(literal.value)
    named = None if literal.type is None else type_to_json(literal.type)
    return {"kind": "literal", "is": kind, "value": value, "type": named}


def literal_from_json(data: dict[str, object]) -> Literal:
    """The constant of a JSON object.

    Raises:
        InvalidDefinition: The value does not have the form that `is` names, or not its type.
    """
    kind, value = data.get("is"), data.get("value")
    read = _LITERAL_READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidDefinition(f"unknown kind of constant {str(kind)[:80]!r}")
    try:
        result = read(value)
    except (ValueError, InvalidOperation, binascii.Error, OverflowError) as error:
        raise InvalidDefinition(f"not a constant of kind {kind}") from error
    given = data.get("type")
    arrow_type = None if given is None else type_from_json(given)
    if arrow_type is not None and result is not None:
        _check_fits(kind, result, arrow_type)
    return Literal(result, arrow_type)


def _written(value: object) -> tuple[str, object]:
    match value:
        case None:
            return "null", None
        case bool():
            return "bool", value
        case int():
            return "int", value if abs(value) < _SAFE_INTEGER else str(value)
        case float():
            return "float", value if math.isfinite(value) else _special(value)
        case str():
            return "string", value
        case _:
            return _written_as_text(value)


def _written_as_text(value: object) -> tuple[str, str]:
    match value:
        case Decimal():
            return "decimal", str(value)
        case bytes():
            return "binary", base64.b64encode(value).decode()
        case datetime():
            zoned = value if value.tzinfo is None else value.astimezone(UTC)
            return "timestamp", zoned.isoformat(timespec="microseconds")
        case date():
            return "date", value.isoformat()
        case _:
            raise InvalidDefinition(f"{type(value).__name__} has no JSON form")


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: object) -> str:
    if isinstance(value, str):
        value.encode()
        return value
    raise ValueError(value)


def _read_null(value: object) -> None:
    if value is not None:
        raise ValueError(value)


def _read_bool(value: object) -> bool:
    if value is True or value is False:
        return value
    raise ValueError(value)


def _read_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = _text(value)
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _read_float(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise ValueError(value)


def _read_decimal(value: object) -> Decimal:
    text = _text(value)
    number = Decimal(text) if len(text) <= 100 and text.isascii() else Decimal("nan")
    if not number.is_finite() or abs(number.adjusted()) > 100:
        raise ValueError(text)
    return number


def _read_timestamp(value: object) -> datetime:
    stamp = datetime.fromisoformat(_text(value))
    return stamp if stamp.tzinfo is None else stamp.astimezone(UTC)


_LITERAL_READERS: dict[str, Callable[[object], object]] = {
    "null": _read_null,
    "bool": _read_bool,
    "int": _read_int,
    "float": _read_float,
    "decimal": _read_decimal,
    "string": _text,
    "binary": lambda value: base64.b64decode(_text(value), validate=True),
    "date": lambda value: date.fromisoformat(_text(value)),
    "timestamp": _read_timestamp,
}


def _check_fits(kind: object, value: object, arrow_type: pa.DataType) -> None:
    fits = kind in _FAMILY_KINDS[family(arrow_type)]
    if isinstance(value, datetime):
        fits = fits and (value.tzinfo is None) == (arrow_type.tz is None)
    if fits:
        try:
            pa.scalar(value, arrow_type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            fits = False
    if not fits:
        raise InvalidDefinition(f"the constant of kind {kind} is not of type {arrow_type}")


def _decimal_type(first: str, second: str | None, name: str) -> pa.DataType:
    if not first.isdecimal() or second is None or not second.isdecimal():
        raise InvalidDefinition(f"unknown type {name!r}")
    precision, scale = int(first), int(second)
    if not 1 <= precision <= 76 or scale > precision:
        raise InvalidDefinition(f"unknown type {name!r}")
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


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
    """The name of a type; nested types have none in JSON, and the reader binds the tree again."""
    return None if kind is None or pa.types.is_nested(kind) else type_to_json(kind)


class _Reader:
    """Typed access to the parts of one object, with errors that name the part."""

    def __init__(self, data: Json, depth: int) -> None:
        self.data = data
        self.depth = depth

    def text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or (not value.isascii() and not _is_text(value)):
            raise InvalidDefinition(f"{name!r} must be a string in {_shown(self.data)}")
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
    """A short text for messages, without traversing the whole value, which may be malicious."""
    if isinstance(value, dict):
        return "an object with " + ", ".join(sorted(map(str, list(value)[:8])))[:80]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return repr(value)[:80]
