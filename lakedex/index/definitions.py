"""Index definitions: what `.hoodie/.index_defs/index.json` says about each index.

The file maps index names to `{indexName, indexType, indexFunction, sourceFields, indexOptions,
version}`. Files, bloom filters and partition stats have no entry. An entry alone does not make an
index usable: its partition must also be in the table's list of metadata partitions.

A second file has the definitions of indexes which Hudi does not know. A third one is a copy of
both, for a repair after one of them was damaged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from lakedex.config import TableConfig, keys
from lakedex.config.table_config import COMPOSITE_PREFIX, OWN_EXPRESSION_PREFIX, is_own_partition
from lakedex.errors import CorruptFile, FileMissing
from lakedex.storage.protocol import Storage

_FIRST_VERSION_PLACED_BY_VALUE = 2
MAINTENANCE = "maintenance"
"""The option that says who keeps an index up to date: `sync` (every write), or `async`."""
ASYNC = "async"
COVERING = "lakedex.covering"
"""The option by which the entries of a secondary index name their file groups."""
OWN_EXPRESSION = "lakedex.expression"
"""The option that holds the tree of an expression that other engines cannot compute."""
PINNED_ZONE = "lakedex.zone"
"""The option of a definition that says in which time zone it is computed."""
BUILT_AFTER = "lakedex.built.after"
"""The option by which an index that other engines do not know names the write before its build."""
DEFAULT_PATH: Final = f"{keys.META_FOLDER}/.index_defs/index.json"
COPY_PATH: Final = f"{keys.META_FOLDER}/.lakedex/index_defs.json"
_ATTEMPTS = 3
_WAIT_S = 0.02
_MEANT_BY_DEFINITION = ("record_index", "secondary_index_", "expr_index_")
"""How names of partitions begin that cannot be read correctly without a definition."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """One index, as its definition describes it."""

    name: str
    index_type: str
    function: str
    source_fields: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @property
    def is_partitioned(self) -> bool:
        """Whether a record index has file groups of its own for each data partition."""
        return self.options.get("isPartitioned", "false").lower() == "true"

    @property
    def is_placed_by_value(self) -> bool:
        """Whether a secondary key's file group is that of its value, not of the whole key."""
        return self.version >= _FIRST_VERSION_PLACED_BY_VALUE

    @property
    def is_composite(self) -> bool:
        """Whether it is a secondary index on several columns, which lakedex alone knows."""
        return self.name.startswith(COMPOSITE_PREFIX)

    @property
    def names_columns(self) -> bool:
        """Whether it names the columns of a secondary index: one, or several that may be known."""
        columns = len(self.source_fields)
        if self.is_async:
            return columns > 0
        return columns > 1 if self.is_composite else columns == 1

    @property
    def is_async(self) -> bool:
        """Whether writers leave the index alone: it covers the file slices of its last refresh."""
        return self.options.get(MAINTENANCE) == ASYNC

    @property
    def is_own(self) -> bool:
        """Whether it is on an expression that other engines can neither compute nor see."""
        return OWN_EXPRESSION in self.options or self.name.startswith(OWN_EXPRESSION_PREFIX)

    @property
    def is_covering(self) -> bool:
        """Whether the entries of a secondary index name the file groups of their rows."""
        return self.options.get(COVERING, "false").lower() == "true"


def parse_definitions(data: bytes, *, path: str) -> dict[str, IndexDefinition]:
    """The definitions in an `index.json`, by index name.

    Example:
        >>> text = b'{"indexDefinitions": {"secondary_index_i": {"indexName": "secondary_index_i", \
"indexType": "secondary_index", "sourceFields": ["rider"], "version": "V2"}}}'
        >>> parse_definitions(text, path="index.json")["secondary_index_i"].version
        2
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="index definitions as JSON", actual=error) from error
    entries = document.get("indexDefinitions") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise CorruptFile(path, 0, expected="an object `indexDefinitions`", actual=type(entries))
    return {name: _definition(name, entry, path) for name, entry in entries.items()}


def format_definitions(definitions: Mapping[str, IndexDefinition]) -> bytes:
    """The bytes of an `index.json` that holds the definitions.

    Example:
        >>> one = IndexDefinition("secondary_index_i", "secondary_index", "identity", ("rider",))
        >>> parse_definitions(format_definitions({one.name: one}), path="x")[one.name] == one
        True
    """
    entries = {
        name: {
            "indexName": definition.name,
            "indexType": definition.index_type,
            "indexFunction": definition.function,
            "sourceFields": list(definition.source_fields),
            "indexOptions": dict(definition.options),
            "version": f"V{definition.version}",
        }
        for name, definition in definitions.items()
    }
    return json.dumps({"indexDefinitions": entries}, indent=2).encode()


def _definition(name: str, entry: object, path: str) -> IndexDefinition:
    if not isinstance(entry, dict):
        raise CorruptFile(path, 0, expected=f"an object for index {name!r}", actual=type(entry))
    fields = entry.get("sourceFields") or []
    options = entry.get("indexOptions") or {}
    version = str(entry.get("version") or "V1")
    well_formed = (
        isinstance(fields, list)
        and all(isinstance(column, str) for column in fields)
        and isinstance(options, dict)
        and version in ("V1", "V2")
    )
    if not well_formed:
        raise CorruptFile(path, 0, expected=f"a definition of index {name!r}", actual=entry)
    return IndexDefinition(
        name=str(entry.get("indexName") or name),
        index_type=str(entry.get("indexType") or ""),
        function=str(entry.get("indexFunction") or ""),
        source_fields=tuple(fields),
        options={str(key): str(value) for key, value in options.items()},
        version=int(version[1:]),
    )


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

    Every file that can be read counts before the copy.
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
