"""Whether a file that a late attempt finds, or made, is one of the table."""

from __future__ import annotations

from lakedex.storage.protocol import Storage
from lakedex.table import Snapshot
from lakedex.write.handles.work import GroupWork


def is_in_table(storage: Storage, instant: str, group: GroupWork) -> bool:
    """Whether a group's file of an instant that has ended belongs to the table.

    It does when the instant completed, and was perhaps archived since, unless the table's own list
    of files no longer has it: then it was cleaned away, and is there again by mistake. A table
    without such a list is asked no further: there the folder is the list.
    """
    snapshot = Snapshot.open(storage)
    if not snapshot.timeline.has_completed(instant):
        return False
    if snapshot.metadata is None:
        return True
    files = snapshot.listing.files.get(group.partition, [])
    return any(name == group.file_name for name, _ in files)
