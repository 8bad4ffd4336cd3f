"""New files in other folders than the old ones, which stay where they are.

The properties of Hudi stay as they were. Hudi takes the names of folders for values of partition
columns, so it cannot be asked about partitions of a table whose folders have another depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakedex.config import keys
from lakedex.config import write_option_names as options
from lakedex.config.write_index import WriteIndex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.keys.generator import KeyGenerator
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.creation import list_roots
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import update_properties
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.write_schema import StoredSchema, check_writable, refuse_bucket_index


def evolve_partitions(
    address: StorageAddress,
    patience: TransactionOptions,
    *,
    by: str | Sequence[str] | None = None,
    date_format: str | None = None,
    hashed_folders: int | None = None,
    roots: str | Sequence[str] | None = None,
) -> None:
    """Put new files into folders of another form; what is None stays as it is.

    Args:
        address: Where the table lies.
        patience: How long to wait for other writers.
        by: The partition columns of new files, fewer than the table has.
        date_format: The pattern of new folders that are formatted times.
        hashed_folders: So many folders, one of which stands before each new partition.
        roots: Addresses outside of the table, one of which each new partition lies below; the
            storage option of the same name allows them.

    Raises:
        InvalidInput: the table cannot have such folders; it is as it was.
        UnsupportedFeature: writers would not find records in the old folders any more.
    """
    changes: dict[str, str] = {}
    if by is not None:
        changes[keys.NEW_PARTITION_FIELDS] = by if isinstance(by, str) else ",".join(by)
    if date_format is not None:
        changes[keys.NEW_PARTITION_FORMAT] = date_format
    if hashed_folders is not None:
        changes[keys.HASHED_FOLDERS] = str(hashed_folders)
    if roots is not None:
        changes[keys.OTHER_ROOTS] = roots if isinstance(roots, str) else ",".join(roots)
    change_layout(address, patience, changes)


def change_layout(
    address: StorageAddress, patience: TransactionOptions, changes: Mapping[str, str]
) -> None:
    """The same, with the properties of the table that say so.

    Raises:
        InvalidInput: the table cannot have such folders; it is as it was.
        UnsupportedFeature: writers would not find records in the old folders any more.
    """
    if not changes:
        raise InvalidInput("evolving partitions needs columns, a date format, folders or roots")
    storage = address.open()
    with open_lock(storage, patience.lock):
        snapshot = Snapshot.open(storage)
        check_writable(snapshot)
        kept = read_own_properties(storage)
        refuse_bucket_index(snapshot, kept, "evolving the partitions of")
        _check_findable(snapshot, kept)
        _check_folders(snapshot, changes)
        if keys.OTHER_ROOTS in changes:
            list_roots(storage, changes[keys.OTHER_ROOTS])
        update_properties(storage, changes)


def _check_folders(snapshot: Snapshot, changes: Mapping[str, str]) -> None:
    config = snapshot.config
    for name, value in changes.items():
        known = config.raw.get(name)
        if known is not None and known != value:
            raise UnsupportedFeature(
                f"a second change of {name} ({known!r}, then {value!r}) of table {config.name}"
            )
    changed = replace(config, raw={**config.raw, **changes})
    KeyGenerator.of(changed, StoredSchema.of(snapshot).columns)


def _check_findable(snapshot: Snapshot, kept: Mapping[str, str]) -> None:
    """A key is looked for in the folder of its row, unless the write index is global."""
    config = snapshot.config
    said = options.INDEX_TYPE.given(kept)
    index = WriteIndex.parse(said) if said is not None else WriteIndex.SIMPLE
    if config.record_key_fields and not index.is_global:
        raise UnsupportedFeature(
            f"other folders for new files of table {config.name}, whose writers look for a key in "
            f"one partition only ({options.INDEX_TYPE.name}={index.value}; a global index would "
            "do),"
        )
