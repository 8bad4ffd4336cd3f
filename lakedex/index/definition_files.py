"""Where the definitions of indexes lie: those for all engines, and apart those of lakedex only.

Hudi 1.2.0 fails to write a table that has an index on a function that it does not know. What it
does not know is defined in a file of its own, which has the same form and which Hudi passes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.errors import FileMissing
from lakedex.index.definitions import IndexDefinition, format_definitions, parse_definitions
from lakedex.storage import Storage

DEFAULT_PATH: Final = f"{keys.META_FOLDER}/.index_defs/index.json"
"""Where Hudi keeps definitions in tables that do not say another place."""
OWN_PATH: Final = f"{keys.META_FOLDER}/.index_defs/lakedex.json"


def load_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    """The index definitions of a table; none where it has no file of them."""
    # A table that never had an index of its own costs no look at the second file.
    own = OWN_PATH if keys.OWN_METADATA_PARTITIONS in config.raw else None
    return _read(storage, own) | _read(storage, config.index_defs_path)


def store_definitions(
    storage: Storage, config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> str | None:
    """Put definitions in the place of all that there are; the caller holds the table's lock.

    Returns:
        Where those lie that all engines see; None where there are none and never were.
    """
    own = {name: each for name, each in definitions.items() if each.is_own}
    shared = {name: each for name, each in definitions.items() if not each.is_own}
    if own or keys.OWN_METADATA_PARTITIONS in config.raw:
        storage.replace(OWN_PATH, format_definitions(own))
    path = config.index_defs_path or (DEFAULT_PATH if shared else None)
    if path is not None:
        storage.replace(path, format_definitions(shared))
    return path


def _read(storage: Storage, path: str | None) -> dict[str, IndexDefinition]:
    if path is None:
        return {}
    try:
        return parse_definitions(storage.read(path), path=path)
    except FileMissing:
        return {}
