"""The parts of an Avro schema as frozen classes, and their JSON text.

A named type (record, enum, fixed) that occurs in several places is one shared object; `to_json`
spells it out where it first occurs and writes its name afterwards, as Avro wants it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias


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
