"""The Avro schemas of timeline metadata, kept as `schemas/<type>.avsc` beside this file.

They have the names, types and defaults that Hudi 1.2 writes, in namespace
`org.apache.hudi.avro.model`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from lakedex.timeline.avro_library import fastavro

COMMIT_METADATA = "HoodieCommitMetadata"
REPLACE_COMMIT_METADATA = "HoodieReplaceCommitMetadata"


@cache
def known_schema_text(type_name: str) -> str:
    """The schema of a wire type as compact JSON, as it stands in a file header.

    Example:
        >>> known_schema_text("HoodieIndexPlan")[:40]
        '{"type":"record","name":"HoodieIndexPlan'
    """
    folder = resources.files("lakedex.timeline") / "schemas"
    tree = json.loads((folder / f"{type_name}.avsc").read_text(encoding="utf-8"))
    return json.dumps(tree, separators=(",", ":"))


@cache
def known_schema(type_name: str) -> Any:  # noqa: ANN401 - fastavro's own form
    """The schema of a wire type, parsed for fastavro."""
    return fastavro.parse_schema(json.loads(known_schema_text(type_name)))


@cache
def known_schema_without(type_name: str, field: str) -> Any:  # noqa: ANN401 - fastavro's own form
    """The schema of a wire type less one field, which a reader then skips without building it."""
    tree = json.loads(known_schema_text(type_name))
    tree["fields"] = [item for item in tree["fields"] if item["name"] != field]
    return fastavro.parse_schema(tree)
