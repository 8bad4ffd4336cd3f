"""The files that hold index definitions: Hudi's, and that of indexes which Hudi does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.config.own_partitions import is_own_partition
from lakedex.errors import FileMissing
from lakedex.index.definitions import IndexDefinition, format_definitions, parse_definitions
from lakedex.storage.protocol import Storage

DEFAULT_PATH: Final = f"{keys.META_FOLDER}/.index_defs/index.json"


def load_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    """The index definitions of a table, by name; none where it has no file of them.

    Raises:
        CorruptFile: A file is no file of definitions.
    """
    found = _read(storage, config.index_defs_path)
    if keys.OWN_METADATA_PARTITIONS in config.raw:
        found |= _read(storage, keys.OWN_INDEX_DEFS_PATH)
    return found


def write_definitions(
    storage: Storage, config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> str:
    """Put definitions in the place of all that there were; answers the path of Hudi's file.

    The caller holds the table's lock.
    """
    own = {name: each for name, each in definitions.items() if is_own_partition(name)}
    if own or keys.OWN_METADATA_PARTITIONS in config.raw:
        storage.replace(keys.OWN_INDEX_DEFS_PATH, format_definitions(own))
    path = config.index_defs_path or DEFAULT_PATH
    shared = {name: each for name, each in definitions.items() if name not in own}
    storage.replace(path, format_definitions(shared))
    return path


def _read(storage: Storage, path: str | None) -> dict[str, IndexDefinition]:
    if not path:
        return {}
    try:
        return parse_definitions(storage.read(path), path=path)
    except FileMissing:
        return {}
