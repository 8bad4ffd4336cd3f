"""The schema-on-read history: columns by id through renames, drops and type changes.

`.hoodie/.schema/*.schemacommit` holds `{"schemas": [...]}` newest first, `latest_schema` in commit
metadata holds one entry. Each version numbers its columns; a renamed column keeps its number, a
dropped number never comes back. The schema of a file is the version with the largest id that is
not above the file's instant.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakedex.errors import CorruptFile

_MAX_DEPTH = 64
_MAX_TEXT_CHARS = 64 << 20
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_LEAF_NAMES = frozenset(
    {
        *("boolean", "int", "long", "float", "double", "string", "binary", "uuid"),
        *("date", "time", "time-millis", "time-micros"),
        *("timestamp", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    }
)
_SIZED_LEAF = re.compile(
    r"(fixed\[\d{1,9}\]|decimal(_bytes|_fixed)?\(\d{1,4},\s*\d{1,4}\)(\[\d{1,9}\])?)\Z"
)


@dataclass(frozen=True, slots=True)
class LeafType:
    """A plain type by its name, e.g. `long` or `decimal(10, 2)`."""

    name: str


@dataclass(frozen=True, slots=True)
class ListType:
    """A list whose element has an id of its own."""

    element: HistoryField


@dataclass(frozen=True, slots=True)
class MapType:
    """A map whose key and value have ids of their own."""

    key: HistoryField
    value: HistoryField


@dataclass(frozen=True, slots=True)
class RecordType:
    """The fields of a struct."""

    fields: tuple[HistoryField, ...]


HistoryType: TypeAlias = LeafType | ListType | MapType | RecordType


@dataclass(frozen=True, slots=True)
class HistoryField:
    """One column or nested field: its lasting id and its name in this version."""

    id: int
    name: str
    type: HistoryType
    optional: bool = True


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The columns as they were from the instant `version_id` on (0: before the first change)."""

    version_id: int
    max_column_id: int
    record: RecordType


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """All versions of a table's schema, oldest first.

    Example:
        >>> text = '{"schemas":[{"version_id":0,"max_column_id":0,"type":"record","fields":[]}]}'
        >>> parse_history(text).version_at("20260101000000000").version_id
        0
    """

    versions: tuple[SchemaVersion, ...]

    @property
    def newest(self) -> SchemaVersion:
        """The version in force now."""
        return self.versions[-1]

    def version_at(self, instant: str) -> SchemaVersion:
        """The version that a file or log block of that instant was written with."""
        digits = re.match(r"\d*", instant)
        number = int(digits.group()[:24]) if digits and digits.group() else 0
        position = bisect_right([v.version_id for v in self.versions], number)
        return self.versions[max(position - 1, 0)]


def parse_history(text: str, *, path: str = "<schema history>") -> SchemaHistory:
    """Read the JSON of a `.schemacommit` file, or of `latest_schema` as a history of one."""
    if len(text) > _MAX_TEXT_CHARS:
        raise CorruptFile(path, 0, expected="a schema history of sane size", actual=len(text))
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="a schema history in JSON", actual=error) from error
    entries = tree.get("schemas") if isinstance(tree, dict) and "schemas" in tree else [tree]
    if not isinstance(entries, list) or not entries:
        raise CorruptFile(path, 0, expected='a list of "schemas"', actual=str(entries)[:80])
    versions = {version.version_id: version for version in (_version(e, path) for e in entries)}
    return SchemaHistory(tuple(versions[key] for key in sorted(versions)))


def _version(tree: object, path: str) -> SchemaVersion:
    record = _type(tree, path, 0)
    if not isinstance(tree, dict) or not isinstance(record, RecordType):
        raise CorruptFile(path, 0, expected="a schema of type record", actual=str(tree)[:80])
    version_id = _number(tree, "version_id", path, default=0)
    return SchemaVersion(version_id, _number(tree, "max_column_id", path, default=-1), record)


def _type(tree: object, path: str, depth: int) -> HistoryType:
    if depth > _MAX_DEPTH:
        raise CorruptFile(path, 0, expected=f"at most {_MAX_DEPTH} levels", actual="more")
    if isinstance(tree, str):
        name = tree.lower()
        # Hudi writes a dash, and reads back an underscore only.
        if name.replace("_", "-") in _LEAF_NAMES:
            name = name.replace("_", "-")
        if name in _LEAF_NAMES or _SIZED_LEAF.match(name):
            return LeafType(name)
        raise CorruptFile(path, 0, expected="a known type name", actual=repr(tree[:80]))
    if not isinstance(tree, dict):
        raise CorruptFile(path, 0, expected="a type", actual=str(tree)[:80])
    kind = tree.get("type")
    if kind == "record":
        return _record(tree, path, depth)
    if kind == "array":
        return ListType(_inner(tree, "element", path, depth))
    if kind == "map":
        key = _inner(tree, "key", path, depth)
        return MapType(key, _inner(tree, "value", path, depth))
    raise CorruptFile(path, 0, expected="type record, array or map", actual=str(kind)[:80])


def _record(tree: Mapping[str, Any], path: str, depth: int) -> RecordType:
    items = tree.get("fields")
    if not isinstance(items, list):
        raise CorruptFile(path, 0, expected="a list of fields", actual=str(items)[:80])
    fields = []
    for item in items:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or _HALF_CHARACTER.search(name):
            raise CorruptFile(path, 0, expected="a field with a name", actual=str(item)[:80])
        inner = _type(item.get("type"), path, depth + 1)
        optional = item.get("optional") is not False
        fields.append(HistoryField(_number(item, "id", path), name, inner, optional))
    return RecordType(tuple(fields))


def _inner(tree: Mapping[str, Any], name: str, path: str, depth: int) -> HistoryField:
    inner = _type(tree.get(name), path, depth + 1)
    optional = tree.get(f"{name}_optional") is not False
    return HistoryField(_number(tree, f"{name}_id", path), name, inner, optional)


def _number(tree: Mapping[str, Any], key: str, path: str, *, default: int | None = None) -> int:
    """Older writers spelled `version-id` where newer ones write `version_id`."""
    value = tree.get(key, tree.get(key.replace("_id", "-id"), default))
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptFile(path, 0, expected=f"a number in {key!r}", actual=str(value)[:80])
    return value
