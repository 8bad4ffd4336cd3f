"""Putting instants on a timeline: new times, and files that are created but never overwritten."""

from __future__ import annotations

from lakedex.config.table_config import TableConfig
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant import Instant, file_name
from lakedex.timeline.instant_time import (
    MILLIS_DIGITS,
    from_epoch_ms,
    instant_key,
    next_instant_time,
)
from lakedex.timeline.timeline import Timeline


def write_instant(storage: Storage, config: TableConfig, instant: Instant, data: bytes) -> str:
    """Create the file of an instant in its state and answer its path.

    Raises:
        AlreadyExists: another writer took the same instant time.
        InvalidInput: the times are not instant times.
    """
    path = f"{config.timeline_folder}/{file_name(instant, config.timeline_layout)}"
    storage.create(path, data)
    return path


def new_instant_time(timeline: Timeline, now_ms: int) -> str:
    """A time for a new instant: now, but after every time that the timeline has.

    Raises:
        InvalidInput: the moment cannot be written as an instant time.
    """
    now = from_epoch_ms(now_ms, timeline.config.timezone)
    used = [instant.requested_time for instant in timeline.instants]
    used += [
        instant.completion_time
        for instant in timeline.instants
        if instant.completion_time is not None
    ]
    newest = max((instant_key(time)[:MILLIS_DIGITS] for time in used), default="")
    return now if now > newest else next_instant_time(newest)
