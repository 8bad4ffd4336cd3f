"""The lock of a table, shared with every engine that uses the same lock provider of Hudi."""

from __future__ import annotations

from lakedex.txn.lock.choose import open_lock
from lakedex.txn.lock.protocol import LockOptions, TableLock

__all__ = ["LockOptions", "TableLock", "open_lock"]
