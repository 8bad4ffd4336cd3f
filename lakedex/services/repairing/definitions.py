"""Restores the definitions of indexes where their file is damaged or gone.

A copy has what writers of lakedex defined. An index whose definition is lost is dropped: no reader
could use it, and no writer maintain it.
"""

from __future__ import annotations

import logging

from lakedex.config import keys
from lakedex.errors import CorruptFile, FileMissing, TableNotFound
from lakedex.index.definitions import saved_definitions, write_definitions
from lakedex.index.metadata_table.creation import remove_partition_of
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.registry import find_metadata_kind, is_named_index
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table.lost_instants import metadata_problem
from lakedex.timeline import Timeline, load_table_config, update_properties
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.transaction import TransactionOptions

_log = logging.getLogger("lakedex")


def restore_definitions(address: StorageAddress) -> tuple[str, ...]:
    """Write the definitions again that are known; return the indexes that were dropped."""
    forget_unreadable_metadata(address)
    storage, patience = address.open(), TransactionOptions()
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        recover(table)
        config = table.config
        known = saved_definitions(storage, config)
        live = config.metadata_partitions
        named = [name for name in live if is_named_index(name)]
        lost = tuple(sorted(set(named).difference(known)))
        for name in set(live).difference(known):
            kind = find_metadata_kind(name)
            recovered = None if kind is None else kind.recovered_definition(storage)
            if recovered is not None:
                known[name] = recovered
        if lost:
            _log.warning("the definitions of %s of %s are lost", ", ".join(lost), config.name)
            left = sorted(set(live).difference(lost))
            config = update_properties(storage, {keys.METADATA_PARTITIONS: ",".join(left)})
        write_definitions(storage, config, known)
        for name in lost:
            remove_partition_of(storage, name)
    return lost


def forget_unreadable_metadata(address: StorageAddress) -> None:
    """Give a metadata table up whose own files cannot be read: without properties it is none."""
    storage = address.open()
    with open_lock(storage, TransactionOptions().lock):
        if not is_metadata_whole(storage):
            inner = storage.sub(keys.METADATA_TABLE_FOLDER)
            inner.delete(f"{keys.META_FOLDER}/{keys.PROPERTIES_FILE}")


def is_metadata_whole(storage: Storage) -> bool:
    """Whether properties and timeline of the metadata table can be read, the archived one too.

    One whose timeline lacks writes of the data table is not whole either.
    """
    try:
        config, store = load_table_config(storage), MetadataStore.at(storage)
        store.timeline.archived.instants()
        if config.metadata_enabled:
            return metadata_problem(Timeline.load(storage, config), store.timeline) is None
    except TableNotFound:
        return True
    except (CorruptFile, FileMissing):
        return False
    return True
