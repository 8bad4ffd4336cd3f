"""Instants that were moved out of the active timeline.

Layout 2 keeps them as Parquet files under a manifest (`lsm_history`), layout 1 as log files
(`archive_log`). Both are read on the first question and answer alike.
"""

from __future__ import annotations

from typing import Protocol

from lakedex.config.table_config import TableConfig
from lakedex.storage.protocol import Storage
from lakedex.timeline.archive_log import ArchiveLog
from lakedex.timeline.instant import Instant
from lakedex.timeline.instant_time import instant_key
from lakedex.timeline.lsm_history import LsmHistory


class ArchiveFiles(Protocol):
    """What the two forms of an archive can answer."""

    def instants(self, begin: str | None, end: str | None) -> dict[str, Instant]:
        """Completed instants by requested time, at least those from `begin` to `end`."""

    def newest(self) -> str | None:
        """The newest requested time; None where nothing was archived."""

    def metadata(self, requested_time: str) -> bytes | None:
        """The bytes of the completed file of an instant."""

    def plan(self, requested_time: str) -> bytes | None:
        """The bytes of the requested file of an instant, where it had a plan."""


class ArchivedTimeline:
    """The archived instants of a table, read lazily; an absent archive is an empty one."""

    __slots__ = ("_files",)

    def __init__(self, files: ArchiveFiles) -> None:
        """Answer from these files."""
        self._files = files

    @classmethod
    def load(cls, storage: Storage, config: TableConfig) -> ArchivedTimeline:
        """The archive of a table; nothing is read yet."""
        if config.timeline_layout == 1:
            return cls(ArchiveLog(storage, config.archive_folder))
        return cls(LsmHistory(storage, config.history_folder))

    def instants(self, begin: str | None = None, end: str | None = None) -> tuple[Instant, ...]:
        """Completed instants in order, whose requested time lies in `begin` to `end`, both in.

        Raises:
            CorruptFile: a file of the archive is not what it should be.
        """
        low = None if begin is None else instant_key(begin)
        high = None if end is None else instant_key(end)
        found = sorted(self._files.instants(begin, end).values())
        return tuple(
            instant
            for instant in found
            if (low is None or instant_key(instant.requested_time) >= low)
            and (high is None or instant_key(instant.requested_time) <= high)
        )

    def find(self, requested_time: str) -> Instant | None:
        """The archived instant of this requested time."""
        return self._files.instants(requested_time, requested_time).get(requested_time)

    def newest(self) -> str | None:
        """The newest archived requested time; `None` when nothing was archived."""
        return self._files.newest()

    def completion_time(self, requested_time: str) -> str | None:
        """When the instant completed; `None` when it is not here, and always in layout 1."""
        instant = self.find(requested_time)
        return None if instant is None else instant.completion_time

    def metadata(self, requested_time: str) -> bytes | None:
        """The bytes of the completed file of an instant; `None` when it is not here."""
        return self._files.metadata(requested_time)

    def plan(self, requested_time: str) -> bytes | None:
        """The bytes of the requested file, for actions that have a plan."""
        return self._files.plan(requested_time)
