"""Avro schema text to a tree of frozen classes.

The text comes from files of other writers, so its size, its depth and the number of nodes
after resolving names are limited, and a recursive type is refused: it has no Arrow form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakedex.errors import CorruptFile, LakedexError, UnsupportedFeature
from lakedex.schema.avro_nodes import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
    full_name,
    is_avro_name,
    is_null,
    is_nullable,
)

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
