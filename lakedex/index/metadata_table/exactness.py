"""Which indexes of keys have the entry of every row, as their writers note it.

To find that out a reader has to count entries and rows, which takes longer than any lookup. A
writer knows it: whoever looks its keys up in an index that has every row, and adds the entries of
the rows that it writes, leaves one that has every row. So each deltacommit of the metadata table
notes these indexes, each with a digest of the names and sizes of its files as it leaves them.

A note holds for a reader as long as

* it is that of the newest commit which changed rows, or of a compaction of the metadata table
  since. A commit of another engine notes nothing, and one that passed the metadata table by, or
  whose metadata were put back to an older copy, has no instant there;
* the files are the noted ones. Whatever another engine writes to the index, rebuilds or compacts
  of it, and whatever is taken back, lost or cut short, makes another digest.

Where no note holds, entries and rows are counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakedex.errors import CorruptFile, FileMissing
from lakedex.filegroup.slices import FileSlice
from lakedex.timeline import Action, Instant, Timeline, newest_placing

_NOTE = "lakedex.indexes.exact"
_SERVICES = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True)
class NotedFiles:
    """A metadata table as far as its notes are concerned."""

    timeline: Timeline
    """Its own timeline."""
    data: Timeline
    """The timeline of the data table."""
    is_visible: Callable[[str], bool]
    """Whether what an instant wrote to the metadata table counts."""
    slices_of: Callable[[str], Sequence[FileSlice]]
    """The newest slices of a partition."""

    def exact(self, names: Iterable[str]) -> frozenset[str]:
        """Those of some indexes that have the entry of every row, by a note that holds."""
        left, found = {*names}, set()
        for instant in self._noting():
            if not left:
                break
            noted = _noted(self.timeline, instant)
            for name in left.intersection(noted):
                if noted[name] == files_digest(self.slices_of(name)):
                    found.add(name)
            left -= found
        return frozenset(found)

    def _noting(self) -> list[Instant]:
        """The instants whose notes say something of the table as it is now, newest first."""
        newest = newest_placing(self.data)
        own = None if newest is None else self.timeline.find(newest.requested_time)
        if own is None or not own.is_completed:
            return []
        services = [
            each
            for each in self.timeline.writes_after(own)
            if self.timeline.requested_action(each.requested_time) in _SERVICES
        ]
        return [each for each in (*reversed(services), own) if self.is_visible(each.requested_time)]


def files_digest(slices: Iterable[FileSlice]) -> str:
    """What tells the files of an index from any others.

    Example:
        >>> from lakedex.filegroup.names import BaseFile
        >>> one, longer = (
        ...     FileSlice("p", "f", "1", BaseFile("f_0_1.hfile", size, "f", "0", "1", "hfile"))
        ...     for size in (5, 6)
        ... )
        >>> files_digest([one]) == files_digest([longer])
        False
    """
    files = sorted(
        (file.name, file.size_bytes)
        for each in slices
        for file in (*((each.base,) if each.base else ()), *each.logs)
    )
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:32]


def exact_note(slices: Mapping[str, Iterable[FileSlice]]) -> dict[str, str]:
    """What a deltacommit says of indexes that have the entry of every row, with their slices.

    Example:
        >>> list(exact_note({"record_index": []})), exact_note({})
        (['lakedex.indexes.exact'], {})
    """
    digests = {name: files_digest(each) for name, each in sorted(slices.items())}
    return {_NOTE: json.dumps(digests)} if digests else {}


def _noted(timeline: Timeline, instant: Instant) -> Mapping[str, str]:
    try:
        tree = json.loads(timeline.commit_summary(instant).extra.get(_NOTE, "{}"))
    except (ValueError, RecursionError, CorruptFile, FileMissing):
        return {}
    return tree if isinstance(tree, dict) else {}
