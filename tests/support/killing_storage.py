"""A storage that dies at a chosen change, as a killed process does: from then on nothing works."""

from __future__ import annotations

import threading
from typing import Any


class Killed(BaseException):
    """Not an `Exception`, so that nothing handles it."""


class Fuse:
    """Counts the changes of a storage and of all rooted deeper; blows at the chosen one."""

    def __init__(self, blow_at: int | None = None, *, after: bool = False) -> None:
        """Blow at change number `blow_at`, before it is done or just after."""
        self.blow_at = blow_at
        self.after = after
        self.count = 0
        self.blown = False
        self._guard = threading.Lock()

    def change(self, work: Any) -> Any:
        """Do a change, unless the fuse blows."""
        with self._guard:
            if self.blown:
                raise Killed
            self.count += 1
            is_last = self.count == self.blow_at
            if is_last:
                self.blown = True
                if not self.after:
                    raise Killed
        answer = work()
        if is_last:
            raise Killed
        return answer


class KillingStorage:
    """A storage whose changes go through a fuse."""

    _CHANGES = ("create", "replace", "delete", "delete_folder")

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        """Wrap a storage."""
        self._inner = inner
        self._fuse = fuse

    def sub(self, prefix: str) -> KillingStorage:
        """The same fuse, rooted deeper."""
        return KillingStorage(self._inner.sub(prefix), self._fuse)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in self._CHANGES:
            return lambda *args, **named: self._fuse.change(lambda: found(*args, **named))
        return found


class KillingAddress:
    """An address that opens a killing storage, in this process only."""

    def __init__(self, address: Any, fuse: Fuse) -> None:
        """Wrap an address."""
        self._storage = KillingStorage(address.open(), fuse)

    def open(self) -> KillingStorage:
        """The storage."""
        return self._storage
