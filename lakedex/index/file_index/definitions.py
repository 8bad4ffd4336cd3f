"""Which file indexes a table has: one property, in the form of Hudi's index definitions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.config.table_config import inside_table
from lakedex.errors import LakedexError
from lakedex.index.definitions import IndexDefinition, format_definitions, parse_definitions

OWN_FOLDER: Final = f"{keys.META_FOLDER}/.lakedex"
ROOT: Final = f"{OWN_FOLDER}/index"
"""The folder of all file indexes; `<kind>/<id>` inside it is the folder of one."""
_OLDER_FOLDER = "bitmap"
"""Where bitmap indexes were, whose definitions name a folder without its path."""
ROOTS: Final = (ROOT, f"{OWN_FOLDER}/{_OLDER_FOLDER}")
FOLDER_OPTION: Final = "lakedex.folder"
_INFIX = "_index_"


def index_prefix(kind: str) -> str:
    """How the full names of indexes of a kind begin.

    Example:
        >>> index_prefix("bitmap")
        'bitmap_index_'
    """
    return kind + _INFIX


def file_index_definitions(config: TableConfig) -> dict[str, IndexDefinition]:
    """The file indexes of a table, by full name.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties")
        >>> file_index_definitions(config)
        {}

    Raises:
        CorruptFile: the property is no list of definitions.
    """
    definitions: dict[str, IndexDefinition] = {}
    for key in (keys.BITMAP_INDEXES, keys.FILE_INDEXES):
        text = config.raw.get(key)
        if text:
            definitions |= parse_definitions(text.encode(), path=key)
    return definitions


def readable_file_indexes(config: TableConfig) -> dict[str, IndexDefinition]:
    """The same for queries, which no damaged property fails."""
    try:
        return file_index_definitions(config)
    except LakedexError:
        return {}


def file_index_properties(definitions: Mapping[str, IndexDefinition]) -> dict[str, str | None]:
    """The properties of a table that has these file indexes; None removes one."""
    text = json.dumps(json.loads(format_definitions(definitions))) if definitions else None
    return {keys.FILE_INDEXES: text, keys.BITMAP_INDEXES: None}


def with_folder(definition: IndexDefinition) -> IndexDefinition:
    """A new definition with a folder of its own."""
    folder = f"index/{definition.index_type}/{uuid.uuid4().hex}"
    return replace(definition, options={**definition.options, FOLDER_OPTION: folder})


def folder_of(definition: IndexDefinition) -> str:
    """The folder of an index, relative to the table.

    Raises:
        UnsafePath: the definition names a place outside of the table.
    """
    folder = inside_table(definition.options.get(FOLDER_OPTION, ""), key=keys.FILE_INDEXES)
    return f"{OWN_FOLDER}/{folder}" if "/" in folder else f"{ROOTS[1]}/{folder}"


def is_file_index(definition: IndexDefinition) -> bool:
    """Whether a definition is that of a file index, of whatever kind."""
    return definition.name.startswith(index_prefix(definition.index_type))


def given_name(definition: IndexDefinition) -> str:
    """The name that the user gave a file index."""
    return definition.name.removeprefix(index_prefix(definition.index_type))


def source_columns(definition: IndexDefinition) -> list[str]:
    """The columns that an index reads; of a field of a struct the whole column."""
    return list(dict.fromkeys(each.partition(".")[0] for each in definition.source_fields))
