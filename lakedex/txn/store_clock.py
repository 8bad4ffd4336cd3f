"""The time as the store stamps its files, for whoever judges the age of one.

Clocks of machines may be minutes apart, and a writer that lives must not look dead to one of
them. The store has one clock: a file that is written now has its time.
"""

from __future__ import annotations

import time

from lakedex.storage import Storage
from lakedex.txn.places import CLOCK

_TRIES = 3


def own_now_ms() -> int:
    """The time by the clock of this machine."""
    return time.time_ns() // 1_000_000


def store_now_ms(storage: Storage) -> int:
    """The time by the clock of the store; by that of this machine where the store does not say.

    Example:
        >>> from lakedex.storage.memory import memory_storage
        >>> abs(store_now_ms(memory_storage()) - own_now_ms()) < 60_000
        True
    """
    stamp = store_stamp_ms(storage)
    return own_now_ms() if stamp is None else stamp


def store_stamp_ms(storage: Storage) -> int | None:
    """The time by the clock of the store; None where it does not say.

    Others may ask at the same moment and remove the file first.
    """
    folder = CLOCK.rpartition("/")[0]
    for _ in range(_TRIES):
        storage.replace(CLOCK, b"")
        stamps = [info.modified_ms for info in storage.list(folder) if info.path == CLOCK]
        if stamps:
            storage.delete(CLOCK)
            return stamps[0]
    return None
