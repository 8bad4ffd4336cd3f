"""How large a row is in a base file: what recent commits say, else what was spilled."""

from __future__ import annotations

from lakedex.timeline import Timeline

_COMMITS = 5
_ENOUGH_BYTES = 1 << 20


def row_bytes(timeline: Timeline, rows: int, spilled_bytes: int) -> float:
    """The bytes that a row takes, from the newest commit with base files of some size.

    Spilled rows are compressed as rows in files are, if not as well, so they tell enough.
    """
    for instant in reversed(timeline.write_instants()[-_COMMITS:]):
        stats = [
            stat
            for stat in timeline.commit_metadata(instant).stats()
            if stat.num_writes and stat.file_size_bytes and not stat.log_files
        ]
        size = sum(stat.file_size_bytes or 0 for stat in stats)
        if size >= _ENOUGH_BYTES:
            return size / sum(stat.num_writes or 0 for stat in stats)
    return spilled_bytes / rows if rows and spilled_bytes else 1.0
