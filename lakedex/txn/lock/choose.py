"""Which lock a table has: that of the kind of store on which it lies."""

from __future__ import annotations

from lakedex.storage import Storage
from lakedex.txn.lock.file_lock import FileLock
from lakedex.txn.lock.protocol import LockOptions, TableLock
from lakedex.txn.lock.storage_lock import StorageLock

_FILE_SYSTEMS = ("/", "hdfs:")


def open_lock(storage: Storage, options: LockOptions | None = None) -> TableLock:
    """The lock of the table at the root of a storage; nothing is taken yet."""
    chosen = options or LockOptions()
    if storage.root.startswith(_FILE_SYSTEMS):
        return FileLock(storage, chosen)
    return StorageLock(storage, chosen)
