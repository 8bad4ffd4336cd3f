"""How long a lock file has been as it is, by clocks that can be compared.

What a holder wrote about the end of its lease is a time of its own clock, and those of two
machines may be further apart than any lease. So whether a lease ran out is told by two moments of
one clock: the store's, which stamps the lock file and a file that is written now, or the own one,
for as long as the file is watched.
"""

from __future__ import annotations

import time

from lakedex.errors import StorageError
from lakedex.storage import Storage
from lakedex.storage.paths import split
from lakedex.txn.store_clock import store_stamp_ms


class Watch:
    """A lock file that others hold, looked at again and again."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Nothing was seen yet."""
        self._storage = storage
        self._path = path
        self._version: str | None = None
        self._since = 0.0
        self._age_then: float | None = None

    def age(self, version: str) -> float:
        """For how many seconds the file has had that version at least, as far as is known."""
        now = time.monotonic()
        if version != self._version:
            self._version, self._since, self._age_then = version, now, None
        return now - self._since + (self._age_then or 0.0)

    def age_in_store(self, version: str) -> float:
        """The same, by the clock of the store too; that is asked once for a version."""
        watched = self.age(version)
        if self._age_then is None:
            self._age_then = max(0.0, self._stamped_age() - watched)
        return self.age(version)

    def _stamped_age(self) -> float:
        """How old the file is at least by its stamp; 0 where the store does not tell."""
        try:
            listed = self._storage.list(split(self._path)[0])
            stamps = [info.modified_ms for info in listed if info.path == self._path]
            now_ms = store_stamp_ms(self._storage) if stamps else None
        except StorageError:
            return 0.0
        if now_ms is None:
            return 0.0
        # Most stores cut their stamps to whole seconds.
        is_cut = now_ms % 1000 == 0 or stamps[0] % 1000 == 0
        return (now_ms - stamps[0]) / 1000 - (1.0 if is_cut else 0.0)
