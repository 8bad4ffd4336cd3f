"""Which bitmap indexes a table has: one property of it, in the form of Hudi's definitions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakedex.config import TableConfig, keys
from lakedex.config.folders import inside_table
from lakedex.errors import LakedexError
from lakedex.index.definitions import (
    PINNED_ZONE,
    IndexDefinition,
    format_definitions,
    parse_definitions,
)
from lakedex.index.kinds.expression.target import PREFIX as EXPRESSION
from lakedex.index.kinds.expression.target import ExpressionTarget

KIND: Final = "bitmap"
PREFIX: Final = "bitmap_index_"
ROOT: Final = f"{keys.META_FOLDER}/.lakedex/{KIND}"
_FOLDER = "lakedex.folder"


def bitmap_definitions(config: TableConfig) -> dict[str, IndexDefinition]:
    """The bitmap indexes of a table, by name.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties")
        >>> bitmap_definitions(config)
        {}

    Raises:
        CorruptFile: the property is no list of definitions.
    """
    text = config.raw.get(keys.BITMAP_INDEXES)
    return {} if not text else parse_definitions(text.encode(), path=keys.BITMAP_INDEXES)


def bitmap_expressions(config: TableConfig) -> dict[str, IndexDefinition]:
    """The bitmap indexes by what expression indexes of their names are called; for queries."""
    try:
        known = bitmap_definitions(config)
    except LakedexError:
        return {}  # no query fails by an index
    return {EXPRESSION + name.removeprefix(PREFIX): each for name, each in known.items()}


def bitmap_property(definitions: Mapping[str, IndexDefinition]) -> str | None:
    """The value of the property; None where there is no index left."""
    return json.dumps(json.loads(format_definitions(definitions))) if definitions else None


def new_definition(target: ExpressionTarget, name: str) -> IndexDefinition:
    """The definition of a new index on what an expression index would be on."""
    own = {_FOLDER: uuid.uuid4().hex}
    if target.zone is not None:
        own[PINNED_ZONE] = target.zone
    known = target.definition
    return replace(known, name=PREFIX + name, index_type=KIND, options={**known.options, **own})


def bitmap_target(definition: IndexDefinition, schema: pa.Schema) -> ExpressionTarget:
    """What is computed of rows, in the time zone that the index keeps.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    zone = definition.options.get(PINNED_ZONE, "")
    return ExpressionTarget.of(definition, schema, {definition.name: zone}, "")


def folder_of(definition: IndexDefinition) -> str:
    """Where the runs of an index lie, relative to the table."""
    return f"{ROOT}/{inside_table(definition.options.get(_FOLDER, ''), key=keys.BITMAP_INDEXES)}"


def source_columns(definition: IndexDefinition) -> list[str]:
    """The columns that values are made of, without the fields inside."""
    return list(dict.fromkeys(each.partition(".")[0] for each in definition.source_fields))
