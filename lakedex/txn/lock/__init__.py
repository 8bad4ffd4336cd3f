"""The lock of a table, shared with every engine that uses the same lock provider of Hudi."""

from __future__ import annotations

from lakedex.storage import Storage
from lakedex.txn.lock.lease import LockOptions, TableLock
from lakedex.txn.lock.providers import FileLock, StorageLock

__all__ = ["LockOptions", "TableLock", "open_lock"]

_FILE_SYSTEMS = ("/", "hdfs:")


def open_lock(storage: Storage, options: LockOptions | None = None) -> TableLock:
    """The lock for the kind of store on which a table lies; it is not acquired yet."""
    chosen = options or LockOptions()
    if storage.root.startswith(_FILE_SYSTEMS):
        return FileLock(storage, chosen)
    return StorageLock(storage, chosen)
