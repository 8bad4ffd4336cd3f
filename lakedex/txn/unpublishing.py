"""The first step of taking a completed instant back: from then on nobody reads what it wrote."""

from __future__ import annotations

from contextlib import suppress

from lakedex.errors import AlreadyExists, CorruptFile
from lakedex.storage import Storage
from lakedex.timeline import Instant, State, Timeline, file_name, write_instant
from lakedex.txn.markers import is_file_of
from lakedex.txn.strays import named_files


def files_written(timeline: Timeline, instant: Instant) -> tuple[str, ...]:
    """The data files of a completed write, as its commit names them, or their own names do."""
    try:
        stats = list(timeline.commit_metadata(instant).stats())
    except CorruptFile:
        return files_of(timeline.storage, instant.requested_time)
    paths = {path for stat in stats for path in named_files(stat)}
    return tuple(sorted(path for path in paths if is_file_of(path, instant.requested_time)))


def files_of(storage: Storage, instant: str) -> tuple[str, ...]:
    """All data files of an instant by their names: every folder of the table is listed."""
    found = (info.path for info in storage.list_recursive())
    return tuple(sorted(path for path in found if is_file_of(path, instant)))


def unpublish(storage: Storage, timeline: Timeline, instant: str) -> None:
    """Make a completed instant pend again; one that pends already is left as it is."""
    found = timeline.find(instant)
    if found is None or not found.is_completed:
        return
    config = timeline.config
    action = timeline.requested_action(instant) or found.action
    with suppress(AlreadyExists):
        # Without it the instant would be no more at all, and its log files would count.
        write_instant(storage, config, Instant(instant, action, State.INFLIGHT), b"")
    storage.delete(f"{config.timeline_folder}/{file_name(found, config.timeline_layout)}")
