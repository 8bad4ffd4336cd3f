"""A schema history as the JSON of a `.schemacommit` file and of `latest_schema`."""

from __future__ import annotations

import json
from typing import Any

from lakedex.schema.internal_schema import (
    HistoryField,
    HistoryType,
    LeafType,
    ListType,
    MapType,
    SchemaHistory,
    SchemaVersion,
)


def history_text(history: SchemaHistory) -> str:
    """All versions, the newest first."""
    return _spelled({"schemas": [_version(each) for each in reversed(history.versions)]})


def version_text(version: SchemaVersion) -> str:
    """One version.

    Example:
        >>> from lakedex.schema.internal_schema import RecordType
        >>> version_text(SchemaVersion(0, -1, RecordType(())))
        '{"max_column_id":-1,"version_id":0,"type":"record","fields":[]}'
    """
    return _spelled(_version(version))


def _spelled(tree: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _version(version: SchemaVersion) -> dict[str, Any]:
    numbers = {"max_column_id": version.max_column_id, "version_id": version.version_id}
    return {**numbers, **_type(version.record)}


def _type(node: HistoryType) -> Any:  # noqa: ANN401 - JSON
    if isinstance(node, LeafType):
        # Hudi fails on the dashes that it would write itself.
        return node.name.replace("-", "_")
    if isinstance(node, ListType):
        inner = node.element
        return {
            "type": "array",
            "element_id": inner.id,
            "element": _type(inner.type),
            "element_optional": inner.optional,
        }
    if isinstance(node, MapType):
        return {
            "type": "map",
            "key_id": node.key.id,
            "key": _type(node.key.type),
            "value_id": node.value.id,
            "value": _type(node.value.type),
            "value_optional": node.value.optional,
        }
    return {"type": "record", "fields": [_field(each) for each in node.fields]}


def _field(field: HistoryField) -> dict[str, Any]:
    return {
        "id": field.id,
        "name": field.name,
        "optional": field.optional,
        "type": _type(field.type),
    }
