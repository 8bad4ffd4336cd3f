"""A table that services change with its lock held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.rollback import LockedTable
from lakedex.write.context import Target


@contextmanager
def locked(target: Target) -> Iterator[LockedTable]:
    """The table with its lock held."""
    storage = target.address.open()
    with open_lock(storage, target.patience.lock) as lock:
        yield locked_table(storage, lock, target.patience.heartbeat)
