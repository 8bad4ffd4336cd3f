"""Avro schemas: their parts as frozen classes, parsed from JSON text and written as such.

The text comes from files of other writers, so its size, its depth and the number of nodes
after resolving names are limited, and a recursive type is refused: it has no Arrow form.

A named type (record, enum, fixed) that occurs in several places is one shared object; `to_json`
spells it out where it first occurs and writes its name afterwards, as Avro requires.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from lakedex.errors import CorruptFile, LakedexError, UnsupportedFeature


class PrimitiveKind(Enum):
    """The eight primitive types of Avro, by their names in JSON."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


class Missing(Enum):
    """The mark of a record field that has no default (a default may well be null)."""

    DEFAULT = "no default"


NO_DEFAULT = Missing.DEFAULT

Properties: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Node:
    """What all kinds of types share: JSON text, and properties that only travel along."""

    def to_json(self) -> str:
        """The schema as compact JSON, with every named type spelled out once.

        Example:
            >>> AvroArray(AvroPrimitive(PrimitiveKind.INT)).to_json()
            '{"type":"array","items":"int"}'
        """
        tree = _as_json(self, "", set())
        return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AvroPrimitive(_Node):
    """A primitive, with the logical type that changes its meaning where there is one."""

    kind: PrimitiveKind
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroFixed(_Node):
    """A named type of exactly `size` bytes; `logical` may make it a decimal."""

    name: str
    namespace: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroEnum(_Node):
    """A named list of symbols, stored as the symbol's number."""

    name: str
    namespace: str
    symbols: tuple[str, ...]
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroArray(_Node):
    """A list of `items`."""

    items: AvroType
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroMap(_Node):
    """A map from string keys to `values`."""

    values: AvroType
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroUnion(_Node):
    """One of several branches, stored as the branch's number and then the value."""

    branches: tuple[AvroType, ...]

    @property
    def null_branch(self) -> int | None:
        """The number of the null branch, None when there is none."""
        for number, branch in enumerate(self.branches):
            if is_null(branch):
                return number
        return None

    @property
    def members(self) -> tuple[tuple[int, AvroType], ...]:
        """The branches other than null, each with its number."""
        return tuple((n, b) for n, b in enumerate(self.branches) if not is_null(b))


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record."""

    name: str
    type: AvroType
    default: Any = field(default=NO_DEFAULT, hash=False)
    doc: str | None = None
    properties: Properties = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AvroRecord(_Node):
    """A named list of fields."""

    name: str
    namespace: str
    fields: tuple[AvroField, ...]
    doc: str | None = None
    properties: Properties = field(default_factory=dict, hash=False)

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return full_name(self.name, self.namespace)


AvroType: TypeAlias = (
    AvroPrimitive | AvroFixed | AvroEnum | AvroArray | AvroMap | AvroUnion | AvroRecord
)
NamedType: TypeAlias = AvroFixed | AvroEnum | AvroRecord


def is_null(node: AvroType) -> bool:
    """Whether the type is plain null."""
    return isinstance(node, AvroPrimitive) and node.kind is PrimitiveKind.NULL


def is_nullable(node: AvroType) -> bool:
    """Whether a value of the type may be null."""
    return is_null(node) or (isinstance(node, AvroUnion) and node.null_branch is not None)


def full_name(name: str, namespace: str) -> str:
    """The dotted name of a named type.

    Example:
        >>> full_name("fixed", "hoodie.t")
        'hoodie.t.fixed'
    """
    return f"{namespace}.{name}" if namespace else name


def _as_json(node: object, namespace: str, spelled: set[str]) -> Any:  # noqa: ANN401
    if isinstance(node, AvroPrimitive):
        return _primitive_json(node)
    if isinstance(node, AvroUnion):
        return [_as_json(branch, namespace, spelled) for branch in node.branches]
    if isinstance(node, AvroArray):
        items = _as_json(node.items, namespace, spelled)
        return {"type": "array", "items": items, **node.properties}
    if isinstance(node, AvroMap):
        values = _as_json(node.values, namespace, spelled)
        return {"type": "map", "values": values, **node.properties}
    if isinstance(node, AvroFixed | AvroEnum | AvroRecord):
        return _named_json(node, namespace, spelled)
    raise TypeError(type(node).__name__)


def _primitive_json(node: AvroPrimitive) -> Any:  # noqa: ANN401
    logical = _logical_json(node)
    if not logical and not node.properties:
        return node.kind.value
    return {"type": node.kind.value, **logical, **node.properties}


def _logical_json(node: AvroPrimitive | AvroFixed) -> dict[str, Any]:
    if node.logical is None:
        return {}
    if node.logical != "decimal":
        return {"logicalType": node.logical}
    return {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}


def _named_json(node: NamedType, namespace: str, spelled: set[str]) -> Any:  # noqa: ANN401
    name = full_name(node.name, node.namespace)
    if name in spelled:
        return node.name if node.namespace == namespace else name
    spelled.add(name)
    out: dict[str, Any] = {"type": _KEYWORDS[type(node)], "name": node.name}
    if node.namespace != namespace:
        out["namespace"] = node.namespace
    if isinstance(node, AvroFixed):
        out.update(size=node.size, **_logical_json(node))
    elif isinstance(node, AvroEnum):
        out["symbols"] = list(node.symbols)
    else:
        if node.doc is not None:
            out["doc"] = node.doc
        out["fields"] = [_field_json(item, node.namespace, spelled) for item in node.fields]
    return {**out, **node.properties}


def _field_json(item: AvroField, namespace: str, spelled: set[str]) -> dict[str, Any]:
    out = {"name": item.name, "type": _as_json(item.type, namespace, spelled)}
    if item.doc is not None:
        out["doc"] = item.doc
    if item.default is not NO_DEFAULT:
        out["default"] = item.default
    return {**out, **item.properties}


_KEYWORDS: Mapping[type, str] = {AvroFixed: "fixed", AvroEnum: "enum", AvroRecord: "record"}


def is_avro_name(name: str) -> bool:
    """Whether Java's Avro library takes a name: letters of any script, digits and `_`.

    Example:
        >>> is_avro_name("Größe_2"), is_avro_name("2nd"), is_avro_name("a b")
        (True, False, False)
    """
    fits = all(each == "_" or each.isalpha() or each.isdecimal() for each in name)
    return bool(name) and fits and not name[0].isdecimal()


__all__ = [
    "MAX_DEPTH",
    "NO_DEFAULT",
    "AvroArray",
    "AvroEnum",
    "AvroField",
    "AvroFixed",
    "AvroMap",
    "AvroPrimitive",
    "AvroRecord",
    "AvroType",
    "AvroUnion",
    "PrimitiveKind",
    "full_name",
    "is_null",
    "is_nullable",
    "parse_avro_record",
    "parse_avro_schema",
]

MAX_DEPTH = 64
_MAX_TEXT_CHARS = 8 << 20
_MAX_NODES = 100_000
_MAX_FIXED_BYTES = 1 << 20
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_PRIMITIVES = {kind.value: kind for kind in PrimitiveKind}
_LOGICAL: Mapping[PrimitiveKind, frozenset[str]] = {
    PrimitiveKind.INT: frozenset({"date", "time-millis"}),
    PrimitiveKind.LONG: frozenset(
        ["time-micros"]
        + [
            f"{local}timestamp-{u}"
            for local in ("", "local-")
            for u in ("millis", "micros", "nanos")
        ]
    ),
    PrimitiveKind.BYTES: frozenset({"decimal"}),
    PrimitiveKind.STRING: frozenset({"uuid"}),
}


def parse_avro_schema(text: str, *, path: str = "<schema>") -> AvroType:
    """Read the JSON text of an Avro schema; `path` names its file in errors.

    Example:
        >>> parse_avro_schema('["null", {"type": "int", "logicalType": "date"}]').to_json()
        '["null",{"type":"int","logicalType":"date"}]'
    """
    if len(text) > _MAX_TEXT_CHARS:
        raise CorruptFile(
            path, 0, expected=f"an Avro schema up to {_MAX_TEXT_CHARS} characters", actual=len(text)
        )
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="an Avro schema in JSON", actual=error) from error
    parser = _Parser(path)
    node, _ = parser.parse(tree, "", 0)
    return node


def parse_avro_record(text: str, *, path: str = "<schema>") -> AvroRecord:
    """Read the JSON text of an Avro schema that must be a record.

    Example:
        >>> parse_avro_record('{"type":"record","name":"r","fields":[]}').full_name
        'r'
    """
    try:
        return _kept_record(text)
    except LakedexError:
        return _record(text, path)  # fails again, and names the file


@lru_cache(maxsize=64)
def _kept_record(text: str) -> AvroRecord:
    """The same few texts stand in all files of a table."""
    return _record(text, "")


def _record(text: str, path: str) -> AvroRecord:
    node = parse_avro_schema(text, path=path)
    if not isinstance(node, AvroRecord):
        raise CorruptFile(path, 0, expected="an Avro record schema", actual=type(node).__name__)
    return node


@dataclass(slots=True)
class _Parser:
    """Walks the JSON tree; `known` maps full names to the type and its node count."""

    path: str
    known: dict[str, tuple[AvroType, int]] = field(default_factory=dict)
    open_names: set[str] = field(default_factory=set)

    def parse(self, tree: object, namespace: str, depth: int) -> tuple[AvroType, int]:
        """The type and the number of nodes it has when every name is spelled out."""
        if depth > MAX_DEPTH:
            raise self._bad(f"an Avro schema at most {MAX_DEPTH} levels deep", "a deeper one")
        if isinstance(tree, str):
            node, count = self._by_name(tree, namespace)
        elif isinstance(tree, list):
            node, count = self._union(tree, namespace, depth)
        elif isinstance(tree, dict):
            node, count = self._object(tree, namespace, depth)
        else:
            raise self._bad("an Avro type", json.dumps(tree)[:80])
        if count > _MAX_NODES:
            raise self._bad(f"an Avro schema of at most {_MAX_NODES} nodes", count)
        return node, count

    def _by_name(self, name: str, namespace: str) -> tuple[AvroType, int]:
        kind = _PRIMITIVES.get(name)
        if kind is not None:
            return AvroPrimitive(kind), 1
        candidates = [name] if "." in name else [full_name(name, namespace), name]
        for candidate in candidates:
            if candidate in self.open_names:
                raise UnsupportedFeature(f"the recursive Avro type {candidate} in {self.path}")
            if candidate in self.known:
                return self.known[candidate]
        raise self._bad("the name of an Avro type", repr(name[:80]))

    def _union(self, tree: list[object], namespace: str, depth: int) -> tuple[AvroType, int]:
        parsed = []
        for item in tree:
            if isinstance(item, list):
                raise self._bad("no union directly in a union", "one")
            parsed.append(self.parse(item, namespace, depth + 1))
        if not parsed:
            raise self._bad("a union with branches", "none")
        if sum(is_null(node) for node, _ in parsed) > 1:
            raise self._bad("at most one null branch in a union", "more")
        return AvroUnion(tuple(node for node, _ in parsed)), 1 + sum(n for _, n in parsed)

    def _object(self, tree: dict[str, Any], namespace: str, depth: int) -> tuple[AvroType, int]:
        keyword = tree.get("type")
        if isinstance(keyword, dict | list):
            return self.parse(keyword, namespace, depth + 1)
        if keyword == "array":
            node, count = self.parse(self._get(tree, "items"), namespace, depth + 1)
            return AvroArray(node, _rest(tree, "type", "items")), count + 1
        if keyword == "map":
            node, count = self.parse(self._get(tree, "values"), namespace, depth + 1)
            return AvroMap(node, _rest(tree, "type", "values")), count + 1
        if keyword in ("record", "error", "enum", "fixed"):
            return self._named(tree, namespace, depth)
        if not isinstance(keyword, str):
            raise self._bad('an Avro type with a "type"', json.dumps(tree)[:80])
        kind = _PRIMITIVES.get(keyword)
        return (self._primitive(kind, tree), 1) if kind else self._by_name(keyword, namespace)

    def _primitive(self, kind: PrimitiveKind, tree: dict[str, Any]) -> AvroPrimitive:
        logical = tree.get("logicalType")
        if not isinstance(logical, str) or logical not in _LOGICAL.get(kind, ()):
            return AvroPrimitive(kind, properties=_rest(tree, "type"))
        if logical != "decimal":
            return AvroPrimitive(kind, logical, properties=_rest(tree, "type", "logicalType"))
        digits = _decimal_digits(tree)
        if digits is None:
            return AvroPrimitive(kind, properties=_rest(tree, "type"))
        rest = _rest(tree, "type", "logicalType", "precision", "scale")
        return AvroPrimitive(kind, logical, *digits, properties=rest)

    def _named(self, tree: dict[str, Any], namespace: str, depth: int) -> tuple[AvroType, int]:
        name, namespace = self._own_name(tree, namespace)
        whole = full_name(name, namespace)
        if whole in self.known or whole in self.open_names:
            raise self._bad("each Avro name defined once", f"{whole} again")
        if tree["type"] == "fixed":
            result: tuple[AvroType, int] = self._fixed(tree, name, namespace), 1
        elif tree["type"] == "enum":
            result = self._enum(tree, name, namespace), 1
        else:
            self.open_names.add(whole)
            result = self._record(tree, name, namespace, depth)
            self.open_names.discard(whole)
        self.known[whole] = result
        return result

    def _own_name(self, tree: dict[str, Any], namespace: str) -> tuple[str, str]:
        name, own = tree.get("name"), tree.get("namespace")
        if not isinstance(name, str):
            raise self._bad("a named Avro type with a name", json.dumps(tree)[:80])
        if "." in name:
            namespace, _, name = name.rpartition(".")
        elif isinstance(own, str):
            namespace = own
        if not is_avro_name(name):
            raise self._bad("an Avro name of letters, digits and _", repr(name[:80]))
        return name, namespace

    def _fixed(self, tree: dict[str, Any], name: str, namespace: str) -> AvroFixed:
        size = tree.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_FIXED_BYTES:
            raise self._bad(f"a fixed size of 0 to {_MAX_FIXED_BYTES}", size)
        own = ("type", "name", "namespace", "size")
        digits = _decimal_digits(tree)
        if tree.get("logicalType") != "decimal" or digits is None:
            return AvroFixed(name, namespace, size, properties=_rest(tree, *own))
        rest = _rest(tree, *own, "logicalType", "precision", "scale")
        return AvroFixed(name, namespace, size, "decimal", *digits, properties=rest)

    def _enum(self, tree: dict[str, Any], name: str, namespace: str) -> AvroEnum:
        symbols = tree.get("symbols")
        if not isinstance(symbols, list) or not all(_is_text(symbol) for symbol in symbols):
            raise self._bad("an enum with a list of symbols", json.dumps(symbols)[:80])
        rest = _rest(tree, "type", "name", "namespace", "symbols")
        return AvroEnum(name, namespace, tuple(symbols), rest)

    def _record(
        self, tree: dict[str, Any], name: str, namespace: str, depth: int
    ) -> tuple[AvroType, int]:
        items = tree.get("fields")
        if not isinstance(items, list):
            raise self._bad("a record with a list of fields", json.dumps(items)[:80])
        parsed = [self._field(item, namespace, depth) for item in items]
        fields = tuple(item for item, _ in parsed)
        if len({item.name for item in fields}) != len(fields):
            raise self._bad(f"each field of {name} once", "a name twice")
        rest = _rest(tree, "type", "name", "namespace", "doc", "fields")
        record = AvroRecord(name, namespace, fields, _text(tree.get("doc")), rest)
        return record, 1 + sum(count for _, count in parsed)

    def _field(self, tree: object, namespace: str, depth: int) -> tuple[AvroField, int]:
        if not isinstance(tree, dict) or not _is_text(tree.get("name")):
            raise self._bad("a record field with a name", json.dumps(tree)[:80])
        node, count = self.parse(self._get(tree, "type"), namespace, depth + 1)
        default = tree.get("default", NO_DEFAULT)
        rest = _rest(tree, "name", "type", "doc", "default")
        return AvroField(tree["name"], node, default, _text(tree.get("doc")), rest), count

    def _get(self, tree: dict[str, Any], key: str) -> object:
        if key not in tree:
            raise self._bad(f'an Avro type with "{key}"', json.dumps(tree)[:80])
        return tree[key]

    def _bad(self, expected: str, actual: object) -> CorruptFile:
        return CorruptFile(self.path, 0, expected=expected, actual=actual)


def _rest(tree: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in known}


def _is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can hold: JSON can escape one half of a character."""
    return isinstance(value, str) and _HALF_CHARACTER.search(value) is None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _decimal_digits(tree: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale, None when they make no decimal and Avro says to ignore it."""
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return (precision, scale) if precision > 0 and 0 <= scale <= precision else None
