"""Creates a table: its properties, its folders, nothing else.

Everything is checked before the first byte is written, and `hoodie.properties` comes last and
only if there is none yet: of two creators at once one wins, and a killed one leaves no table.

A table may have other roots, for files outside of its own one; their list is stored here.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lakedex.config import TableConfig, format_properties, keys
from lakedex.config.properties_text import with_checksum
from lakedex.errors import AlreadyExists, InvalidInput
from lakedex.filegroup import parse_data_file
from lakedex.index.registry import store_buckets
from lakedex.storage import Storage
from lakedex.storage.roots import RootsStorage, root_addresses
from lakedex.table.own_properties import propose_own_properties, settle_own_properties
from lakedex.table.spec import TableSpec
from lakedex.timeline.properties_file import BACKUP_PATH, PROPERTIES_PATH, keep_backup

_DATA_SUFFIXES = (".parquet", ".orc", ".avro", ".hfile")
_FOLDER_MARK = ".lakedex-folder.tmp"


def create_table(storage: Storage, spec: TableSpec) -> TableConfig:
    """Create an empty table of version 9 at the root of the storage.

    Raises:
        InvalidInput: something in the spec is wrong, there is a table already, or the folder
            holds data files of something else. Nothing was written then.
        UnsupportedFeature: the table would need something that lakedex does not have.
    """
    resolved = spec.resolve()
    _check_place(storage)
    _make_folders(storage, resolved.config)
    if keys.OTHER_ROOTS in resolved.config.raw:
        list_roots(storage, resolved.config.raw[keys.OTHER_ROOTS])
    kept = resolved.kept
    now = datetime.now(UTC)
    comment = f"Updated at {now:%Y-%m-%dT%H:%M:%S.%f}Z\n{now:%a %b %d %H:%M:%S} UTC {now:%Y}"
    text = format_properties(with_checksum(resolved.config.raw), comment=comment)
    try:
        propose_own_properties(storage, kept)
        storage.create(PROPERTIES_PATH, text.encode("ascii"))
    except AlreadyExists:
        raise _occupied(storage) from None
    settle_own_properties(storage, kept)
    if resolved.options.buckets is not None:
        store_buckets(storage, resolved.options.buckets)
    keep_backup(storage, text.encode("ascii"))
    return resolved.config


def _check_place(storage: Storage) -> None:
    """Refuse a place that holds a table, or data that would become part of one."""
    if storage.exists(PROPERTIES_PATH) or storage.exists(BACKUP_PATH):
        raise _occupied(storage)
    for info in storage.list_recursive():
        name = info.path.rpartition("/")[2]
        if name.endswith(_DATA_SUFFIXES) or parse_data_file(name, info.size_bytes) is not None:
            raise InvalidInput(
                f"{storage.root} is no table and holds the data file {info.path}; "
                "choose an empty folder"
            )


def _make_folders(storage: Storage, config: TableConfig) -> None:
    """Leave the folders that other engines list, on stores that have folders."""
    for folder in (keys.META_FOLDER, config.timeline_folder, config.history_folder):
        mark = f"{folder}/{_FOLDER_MARK}"
        storage.replace(mark, b"")
        storage.delete(mark)


def _occupied(storage: Storage) -> InvalidInput:
    return InvalidInput(f"there is a table already at {storage.root}, or one is just being made")


def list_roots(storage: Storage, text: str) -> None:
    """Make some roots those of the table at the root of the storage, which no one else writes.

    Args:
        storage: The table, opened with the option that allows the roots.
        text: Addresses separated by commas.

    Raises:
        InvalidInput: They are not allowed, or are inside of each other or of the table.
    """
    if not isinstance(storage, RootsStorage):
        raise InvalidInput(
            f"{keys.OTHER_ROOTS}={text} of the table at {storage.root}: whoever opens the table "
            f"must allow it by the storage option {keys.OTHER_ROOTS}"
        )
    storage.list_roots(root_addresses(text))
