"""How large a row is in a base file, and how many rows a table's base files hold, about."""

from __future__ import annotations

from lakedex.errors import CorruptFile
from lakedex.format.parquet import read_footer
from lakedex.table import Snapshot

_COMMITS = 5
_ENOUGH_BYTES = 1 << 20


def row_bytes(snapshot: Snapshot, rows: int, spilled_bytes: int) -> float:
    """The bytes that a row takes, from the newest commit with base files of some size.

    Spilled rows are compressed as rows in files are, if not as well, so they tell enough. Where all
    base files of the table are small, so were those of its commits, and none is read.
    """
    timeline = snapshot.timeline
    stored = sum(each.base.size_bytes for each in snapshot.slices if each.base is not None)
    newest = timeline.write_instants()[-_COMMITS:] if stored >= _ENOUGH_BYTES else ()
    for instant in reversed(newest):
        try:
            written = timeline.commit_metadata(instant).stats()
        except CorruptFile:
            continue  # `verify` names it; a guess can do without
        stats = [s for s in written if s.num_writes and s.file_size_bytes and not s.log_files]
        size = sum(stat.file_size_bytes or 0 for stat in stats)
        if size >= _ENOUGH_BYTES:
            return size / sum(stat.num_writes or 0 for stat in stats)
    return spilled_bytes / rows if rows and spilled_bytes else 1.0


def stored_rows(snapshot: Snapshot) -> int:
    """About how many rows the base files hold, taking all for as dense as the largest one."""
    bases = [(each.path_of(each.base.name), each.base) for each in snapshot.slices if each.base]
    if not bases:
        return 0
    path, largest = max(bases, key=lambda found: found[1].size_bytes)
    footer = read_footer(snapshot.storage.source(path, largest.size_bytes))
    total = sum(base.size_bytes for _, base in bases)
    return -(-footer.row_count * total // max(1, largest.size_bytes))
