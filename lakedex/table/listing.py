"""Lists the data files of a table by partition: from its metadata table, else from the store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pyarrow.compute as pc

from lakedex.errors import IndexUnusable, LakedexError
from lakedex.filegroup import parse_data_file
from lakedex.index.metadata_table import (
    ALL_PARTITIONS_KEY,
    FILES_PAYLOAD,
    NON_PARTITIONED_KEY,
    MetadataTable,
)
from lakedex.storage import Storage
from lakedex.storage.paths import normalise

_META_FOLDER = ".hoodie/"


@dataclass(frozen=True, slots=True)
class Listing:
    """Data files with their sizes by partition path, and where the list came from."""

    files: dict[str, list[tuple[str, int]]]
    source: str


def list_files(storage: Storage, metadata: MetadataTable | None) -> Listing:
    """All data files of a table.

    A metadata table that cannot be read costs time, never rows: the store is listed instead.
    """
    if metadata is None:
        return Listing(_from_store(storage), "file listing")
    try:
        return Listing(_from_metadata(metadata), "metadata table")
    except LakedexError as error:
        return Listing(_from_store(storage), f"file listing, as the metadata table failed: {error}")


def _from_metadata(metadata: MetadataTable) -> dict[str, list[tuple[str, int]]]:
    records = metadata.scan("files")
    maps = records[FILES_PAYLOAD].combine_chunks()
    is_list = pc.equal(records["key"], ALL_PARTITIONS_KEY).to_pylist()
    if not any(is_list):
        raise IndexUnusable("the files index has no list of partitions")
    names = maps.keys.to_pylist()
    sizes = pc.struct_field(maps.items, "size").to_pylist()
    offsets = maps.offsets.to_pylist()
    found: dict[str, list[tuple[str, int]]] = {}
    for row, key in enumerate(records["key"].to_pylist()):
        if is_list[row]:
            continue
        partition = "" if key == NON_PARTITIONED_KEY else normalise(key)
        begin, end = offsets[row], offsets[row + 1]
        files = list(zip(names[begin:end], sizes[begin:end], strict=True))
        for name, _ in files:
            if "/" in name:
                normalise(f"{key}/{name}")
        found[partition] = files
    return found


def _from_store(storage: Storage) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for info in storage.list_recursive():
        if info.path.startswith(_META_FOLDER):
            continue
        partition, _, name = info.path.rpartition("/")
        if parse_data_file(name, info.size_bytes) is not None:
            found[partition].append((name, info.size_bytes))
    return dict(found)
