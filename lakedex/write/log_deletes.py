"""File groups whose log files delete records, by what commits say of their files."""

from __future__ import annotations

from collections.abc import Container

from lakedex.filegroup import FileSliceId
from lakedex.table import Snapshot


def groups_with_deletes(snapshot: Snapshot, partitions: Container[str]) -> frozenset[FileSliceId]:
    """Groups of some partitions whose newest slice has a log that may delete a record.

    A log whose commit is archived, or says nothing of deletes, may.
    """
    timeline = snapshot.timeline
    known = {instant.requested_time: instant for instant in timeline.write_instants()}
    harmless: dict[str, frozenset[str]] = {}
    found = set()
    for current in snapshot.slices:
        if current.partition not in partitions:
            continue
        for log in current.logs:
            time = log.instant_time
            if time not in harmless:
                stats = timeline.commit_metadata(known[time]).stats() if time in known else ()
                harmless[time] = frozenset(
                    name
                    for stat in stats
                    if stat.num_deletes == 0
                    for name in (stat.log_files or ())
                )
            if log.name not in harmless[time]:
                found.add(current.id)
                break
    return frozenset(found)
