"""Conflicts that show before the work is done: another writer has marked the same file group.

Whether two writes exclude each other is decided when the second one commits (`conflicts`). A
writer that looks at the markers of others before it writes a file group spares itself the work.
That is a guess about the future: the other one may fail, and then both did.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.config import TableConfig
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.storage import Storage, split
from lakedex.timeline import Action, Instant, Timeline
from lakedex.timeline.instant_time import is_instant_time
from lakedex.txn.heartbeat import HeartbeatOptions, SignsOfLife
from lakedex.txn.markers import marked_files
from lakedex.txn.places import MARKERS

_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, slots=True)
class EarlyLook:
    """How a writer looks for others that are at work on its file groups."""

    instant: str
    """Its own time."""
    heartbeat: HeartbeatOptions

    def conflict(
        self, storage: Storage, config: TableConfig, group: FileSliceId, *, rewrites: bool
    ) -> str | None:
        """The living writer that has marked a file of a group, in words.

        Log files are welcome beside a compaction, as they are when writes commit.

        Args:
            storage: Where the table lies.
            config: Its properties.
            group: The file group that is about to be written.
            rewrites: Whether it gets a new base file.
        """
        others = self._others(storage)
        if not others:
            return None  # nearly always, and for one listing
        pending = {each.requested_time: each for each in Timeline.load(storage, config).pending()}
        life: SignsOfLife | None = None
        for time in others:
            other = pending.get(time)
            if other is None or not _excludes(other, rewrites=rewrites):
                continue
            if group not in _marked_groups(storage, time):
                continue
            life = life or SignsOfLife.load(storage, self.heartbeat)
            if life.is_alive(time):
                place = f" of partition {group.partition}" if group.partition else ""
                return (
                    f"file group {group.file_id}{place} is being written by {other.action.value} "
                    f"{time}, whose writer lives"
                )
        return None

    def _others(self, storage: Storage) -> list[str]:
        found = storage.folders(MARKERS)
        return [each for each in found if is_instant_time(each) and each != self.instant]


def _excludes(other: Instant, *, rewrites: bool) -> bool:
    return rewrites or other.action not in _COMPACTIONS


def _marked_groups(storage: Storage, instant: str) -> set[FileSliceId]:
    found = set()
    for path in marked_files(storage, instant):
        folder, name = split(path)
        parsed = parse_data_file(name, 0)
        if parsed is not None:
            found.add(FileSliceId(folder, parsed.file_id))
    return found
