"""Refuses writer schemas that would let a few bytes run for ever or fill memory.

The schema in the header of a container file is as untrusted as its data. Before it drives a
decoder it is rebuilt from the attributes that matter for decoding, and refused when it is too
deep, refers to itself, repeats items that take no bytes, or unfolds into too many fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakedex.errors import CorruptFile

_PRIMITIVE_SIZES = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
_MOST_DEPTH = 64
_MOST_FIELDS = 20_000
_MOST_FIXED_BYTES = 1 << 20
_MOST_SCHEMA_CHARS = 4 << 20


def guarded_schema(text: str, *, path: str = "<schema>") -> Any:  # noqa: ANN401 - Avro JSON
    """The schema as plain Avro JSON that is safe to decode with.

    Example:
        >>> guarded_schema('{"type":"string","avro.java.string":"String"}')
        'string'

    Raises:
        CorruptFile: the text is not a schema, or one that is refused.
    """
    try:
        return _guarded(text)
    except _Refused as error:
        expected = "an Avro schema that can be decoded with"
        raise CorruptFile(path, 0, expected=expected, actual=error) from None


def record_widths(schema: Any) -> dict[str, int]:  # noqa: ANN401 - Avro JSON
    """How many fields each record has, by full name, of a schema from `guarded_schema`.

    Example:
        >>> record_widths(guarded_schema('{"type":"record","name":"r","fields":[]}'))
        {'r': 0}
    """
    if isinstance(schema, list):
        inner = schema
    elif isinstance(schema, dict):
        inner = [entry["type"] for entry in schema.get("fields", ())]
        inner += [schema[slot] for slot in ("items", "values") if slot in schema]
    else:
        return {}
    is_record = isinstance(schema, dict) and schema["type"] == "record"
    widths = {schema["name"]: len(schema["fields"])} if is_record else {}
    for part in inner:
        widths |= record_widths(part)
    return widths


class _Refused(Exception):
    """The schema is refused; the message says what was found."""


@lru_cache(maxsize=64)
def _guarded(text: str) -> Any:  # noqa: ANN401 - Avro JSON
    if len(text) > _MOST_SCHEMA_CHARS:
        raise _Refused(f"{len(text)} characters")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Refused(str(error)) from None
    return _Guard().visit(tree, "", 0).json


@dataclass(frozen=True, slots=True)
class _Visited:
    """A rebuilt type, the fewest bytes it takes, and how many fields it unfolds into."""

    json: Any
    least_bytes: int
    fields: int = 1


@dataclass(slots=True)
class _Guard:
    """One walk over a schema; named types are remembered once they are whole."""

    named: dict[str, _Visited] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def visit(self, node: Any, namespace: str, depth: int) -> _Visited:  # noqa: ANN401
        """Rebuild one type."""
        if depth > _MOST_DEPTH:
            raise _Refused("types nested too deep")
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if isinstance(node, str):
            return self._reference(node, namespace)
        kind = node.get("type") if isinstance(node, dict) else None
        if isinstance(kind, dict | list):
            return self.visit(kind, namespace, depth + 1)
        if kind == "record":
            return self._record(node, namespace, depth)
        if kind in ("enum", "fixed"):
            return self._leaf(node, namespace, kind)
        if kind in ("array", "map"):
            return self._repeated(node, namespace, depth)
        if isinstance(kind, str):
            return self._reference(kind, namespace)
        raise _Refused(repr(node)[:80])

    def _reference(self, name: str, namespace: str) -> _Visited:
        if name in _PRIMITIVE_SIZES:
            return _Visited(name, _PRIMITIVE_SIZES[name])
        full = _full_name(name, namespace)
        if full in self.open:
            raise _Refused(f"{full}, which contains itself")
        seen = self.named.get(full) or self.named.get(name)
        if seen is None:
            raise _Refused(f"the unknown type {name[:80]!r}")
        return _Visited(full if full in self.named else name, seen.least_bytes, seen.fields)

    def _union(self, branches: list[Any], namespace: str, depth: int) -> _Visited:
        if not branches or any(isinstance(branch, list) for branch in branches):
            raise _Refused("an empty or nested union")
        visited = [self.visit(branch, namespace, depth + 1) for branch in branches]
        least = 1 + min(branch.least_bytes for branch in visited)
        return _Visited([branch.json for branch in visited], least, self._sum(visited))

    def _repeated(self, node: dict[str, Any], namespace: str, depth: int) -> _Visited:
        slot = "items" if node["type"] == "array" else "values"
        item = self.visit(node.get(slot), namespace, depth + 1)
        if slot == "items" and item.least_bytes == 0:
            raise _Refused("an array of items that take no bytes")
        return _Visited({"type": node["type"], slot: item.json}, 1, item.fields)

    def _record(self, node: dict[str, Any], namespace: str, depth: int) -> _Visited:
        full = self._define(node, namespace)
        inner = full.rpartition(".")[0]
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise _Refused(f"the record {full} without fields")
        self.open.add(full)
        rebuilt: list[dict[str, Any]] = []
        visited: list[_Visited] = []
        for entry in fields:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise _Refused(f"a field of {full} without a name")
            visited.append(self.visit(entry.get("type"), inner, depth + 1))
            rebuilt.append({"name": entry["name"], "type": visited[-1].json})
        self.open.remove(full)
        schema = {"type": "record", "name": full, "fields": rebuilt}
        least = sum(part.least_bytes for part in visited)
        return self._close(full, _Visited(schema, least, 1 + self._sum(visited)))

    def _leaf(self, node: dict[str, Any], namespace: str, kind: str) -> _Visited:
        full = self._define(node, namespace)
        if kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or not 0 <= size <= _MOST_FIXED_BYTES:
                raise _Refused(f"a fixed of {size!r:.40} bytes")
            return self._close(full, _Visited({"type": kind, "name": full, "size": size}, size))
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(text, str) for text in symbols):
            raise _Refused(f"the enum {full} without symbols")
        return self._close(full, _Visited({"type": kind, "name": full, "symbols": symbols}, 1))

    def _define(self, node: dict[str, Any], namespace: str) -> str:
        name, own = node.get("name"), node.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise _Refused("a named type without a name")
        full = _full_name(name, own)
        if full in self.open or full in self.named or full in _PRIMITIVE_SIZES:
            raise _Refused(f"a second type named {full[:80]}")
        return full

    def _close(self, full: str, visited: _Visited) -> _Visited:
        self.named[full] = visited
        return visited

    def _sum(self, visited: list[_Visited]) -> int:
        total = sum(part.fields for part in visited)
        if total > _MOST_FIELDS:
            raise _Refused("a schema that unfolds into too many fields")
        return total


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
