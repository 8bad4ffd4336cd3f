"""Instant times that no two writers share: taken under the lock, after every time seen so far.

A time is now, or one millisecond after the newest requested or completion time of the data
table and of its metadata table, whichever is later. So times grow even when clocks of machines
differ or go back. A time that a writer has claimed counts from then on, although its instant is not
on the timeline yet: one that stood still for too long may put it there at any moment.

The age of a file is judged by the time with which the store stamps its files. Clocks of machines
may be minutes apart, and a live writer must not look dead to one of them. The store has one clock:
a file that is written now has its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

from lakedex.config import TableConfig, TimelineZone
from lakedex.storage import Storage, split
from lakedex.timeline import Timeline, from_epoch_ms, instant_key
from lakedex.timeline.instant_time import MILLIS_DIGITS, is_instant_time, next_instant_time
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.working_folders import CLOCK, WRITERS


class InstantClock:
    """Gives growing instant times to the holder of a table's lock, in any of its threads.

    Example:
        >>> clock = InstantClock(TimelineZone.UTC, "20261115183005287", lambda: 0)
        >>> clock.next(), clock.next()
        ('20261115183005288', '20261115183005289')
    """

    def __init__(
        self, zone: TimelineZone, newest: str = "", now_ms: Callable[[], int] | None = None
    ) -> None:
        """Start after the newest time that is known."""
        self._zone = zone
        self._newest = instant_key(newest)[:MILLIS_DIGITS]
        self._now_ms = now_ms or own_now_ms
        self._guard = threading.Lock()

    @classmethod
    def load(cls, storage: Storage, config: TableConfig) -> InstantClock:
        """A clock after all times of a table and of its metadata table; hold the lock."""
        metadata = open_metadata_table(storage)
        timelines = [(storage, config), *(() if metadata is None else (metadata,))]
        return cls.after(storage, [Timeline.load(*each) for each in timelines])

    @classmethod
    def after(
        cls,
        storage: Storage,
        timelines: Sequence[Timeline],
        claims: Collection[str] | None = None,
    ) -> InstantClock:
        """A clock after all times of a table's timelines, its own first, and of claimed times.

        The claims are listed, unless the caller has done that under the same lock.
        """
        seen = [*(claimed_times(storage) if claims is None else claims), ""]
        for timeline in timelines:
            for each in timeline.instants:
                seen += [each.requested_time, each.completion_time or ""]
        newest = max(instant_key(time)[:MILLIS_DIGITS] for time in seen)
        return cls(timelines[0].config.timezone, newest)

    def next(self) -> str:
        """A time after all times given before."""
        with self._guard:
            now = from_epoch_ms(self._now_ms(), self._zone)
            if self._newest and now <= self._newest:
                now = next_instant_time(self._newest)
            self._newest = now
            return now


def newest_time(timeline: Timeline) -> str:
    """The newest requested or completion time of a timeline, to the millisecond."""
    times = (t for i in timeline.instants for t in (i.requested_time, i.completion_time or ""))
    return max((instant_key(time)[:MILLIS_DIGITS] for time in times), default="")


def claimed_times(storage: Storage) -> list[str]:
    """The times that writers have claimed, as long as their records are there."""
    names = (split(info.path)[1].removesuffix(".json") for info in storage.list(WRITERS))
    return [name for name in names if is_instant_time(name)]


_TRIES = 3


def own_now_ms() -> int:
    """The time by the clock of this machine."""
    return time.time_ns() // 1_000_000


def store_now_ms(storage: Storage) -> int:
    """The time by the clock of the store; by that of this machine where the store does not say.

    Example:
        >>> from lakedex.storage.object_store import memory_storage
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
