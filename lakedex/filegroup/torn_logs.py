"""Log files that a completed write left, and that cannot be read any more.

Hudi passes over torn blocks: a writer died half way, and nobody misses what it wrote. But where a
log file bears the time of the one write that made it, and that write is complete, a torn block is
damage. To pass over it would lose changes without a word.

An attempt that died may leave a torn file beside the whole one of the attempt that counted, so a
file is only missed when no other of the slice bears its time. In layout 1 log files bear the time
of the base file, and many writes append to them: there nothing can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakedex.errors import CorruptFile
from lakedex.filegroup.names import LogFile
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import BlockKind, LogBlock


def check_whole(
    file_slice: FileSlice,
    log: LogFile,
    blocks: Sequence[LogBlock],
    is_committed: Callable[[str], bool],
) -> None:
    """Raise `CorruptFile` when a complete write is known to have left more than these blocks."""
    torn = [block.offset for block in blocks if block.kind is BlockKind.CORRUPT]
    torn = torn if blocks else [0]
    if not torn or log.instant_time == file_slice.base_instant:
        return
    bearers = sum(other.instant_time == log.instant_time for other in file_slice.logs)
    if bearers == 1 and is_committed(log.instant_time):
        raise CorruptFile(
            file_slice.path_of(log.name),
            torn[0],
            expected=f"a whole block of the completed write {log.instant_time}",
            actual="a torn one" if blocks else "an empty file",
        )
