"""The files that hold index definitions: Hudi's, and that of indexes which Hudi does not know.

A third one is a copy of both, for a repair after one of them was damaged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.config.table_config import is_own_partition
from lakedex.errors import CorruptFile, FileMissing
from lakedex.index.definitions import IndexDefinition, format_definitions, parse_definitions
from lakedex.storage.protocol import Storage

DEFAULT_PATH: Final = f"{keys.META_FOLDER}/.index_defs/index.json"
COPY_PATH: Final = f"{keys.META_FOLDER}/.lakedex/index_defs.json"
_ATTEMPTS = 3
_WAIT_S = 0.02
_MEANT_BY_DEFINITION = ("record_index", "secondary_index_", "expr_index_")
"""How partitions are called that nobody can read rightly without their definition."""


def load_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    """The index definitions of a table, by name; none where it has no file of them.

    Raises:
        CorruptFile: A file is no file of definitions, or gone while indexes need it.
    """
    own, shared = _parted(config.metadata_partitions)
    found = _read(storage, config.index_defs_path, shared)
    if keys.OWN_METADATA_PARTITIONS in config.raw:
        found |= _read(storage, keys.OWN_INDEX_DEFS_PATH, own)
    return found


def saved_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    """The definitions that are left of a table whose files of them were damaged, by name.

    Each file is asked that can be read, before the copy.
    """
    found: dict[str, IndexDefinition] = {}
    for path in (COPY_PATH, keys.OWN_INDEX_DEFS_PATH, config.index_defs_path):
        with suppress(CorruptFile):
            found |= _read(storage, path)
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
    storage.replace(COPY_PATH, format_definitions(definitions))
    return path


def _read(
    storage: Storage, path: str | None, needing: Sequence[str] = ()
) -> dict[str, IndexDefinition]:
    if not path:
        return {}
    for attempt in range(1, _ATTEMPTS):
        # The JVM writes the file in place: for a moment it is half there.
        with suppress(CorruptFile):
            return _read_once(storage, path, needing)
        time.sleep(_WAIT_S * attempt)
    return _read_once(storage, path, needing)


def _read_once(storage: Storage, path: str, needing: Sequence[str]) -> dict[str, IndexDefinition]:
    try:
        return parse_definitions(storage.read(path), path=path)
    except FileMissing:
        if needing:
            expected = f"the definition of {needing[0]}"
            raise CorruptFile(path, 0, expected=expected, actual="no such file") from None
        return {}


def _parted(partitions: Iterable[str]) -> tuple[list[str], list[str]]:
    """The partitions that mean nothing without a definition: lakedex's own, and the others."""
    needing = [name for name in partitions if name.startswith(_MEANT_BY_DEFINITION)]
    own = [name for name in needing if is_own_partition(name)]
    return own, [name for name in needing if name not in own]
