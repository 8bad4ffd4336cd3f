"""Tasks that write files of the metadata table, and may outlive the instant that they write for.

Nobody looks again for the files of an instant that was taken back, and an old one would count as
committed once younger ones were archived. So a task looks before it writes, and once more after.
"""

from __future__ import annotations

from collections.abc import Callable

from lakedex.errors import StorageError
from lakedex.index.metadata_table.group_files import GroupFile
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline, load_table_config


def write_while_pending(
    storage: Storage,
    instant: str,
    pending_path: str,
    write: Callable[[], GroupFile],
    *,
    is_late: bool = False,
) -> GroupFile:
    """Write a file of an instant, and leave nothing behind when that was taken back meanwhile.

    Args:
        storage: The metadata table.
        instant: The instant.
        pending_path: Its inflight file: once it is gone, nobody waits for the file.
        write: Writes the file.
        is_late: Whether the instant was complete before, so that this says nothing of the file.

    Raises:
        StorageError: The instant does not pend any more.
    """
    if storage.exists(pending_path):
        file = write()
        if storage.exists(pending_path):
            return file
        # An instant that was archived has no such file either, and then this file is the table's.
        timeline = Timeline.load(storage, load_table_config(storage))
        if is_late or not timeline.has_completed(instant):
            storage.delete(f"{file.partition}/{file.name}")
    raise StorageError(f"{instant} is not pending any more in {storage.root}")
