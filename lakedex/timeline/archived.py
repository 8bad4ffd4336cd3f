"""Instants that were moved out of the active timeline.

Layout 2 has Parquet files under a manifest (`lsm_history`), layout 1 has log files (`ArchiveLog`).
Both are read when they are first needed, through the same interface.

The log files of layout 1 are `.hoodie/archived/.commits_.archive.<n>_<token>`. Each Avro block
contains `HoodieArchivedMetaEntry` records, one for every state that an instant went through, with
the metadata in the field for its kind:

    block content: int version | int count | count x (int length, Avro record)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from lakedex.config.table_config import TableConfig
from lakedex.errors import CorruptFile, InvalidInput
from lakedex.format.logfile.blocks import BlockKind, LogBlock, read_blocks
from lakedex.storage.paths import split
from lakedex.storage.protocol import Storage
from lakedex.timeline.container import decode_datum, encode_record
from lakedex.timeline.instant import Action, Instant, State
from lakedex.timeline.instant_time import instant_key, is_instant_time
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


_FILE_NAME = re.compile(r"\.commits_\.archive\.([0-9]{1,9})_[0-9A-Za-z-]+")
_INT = struct.Struct(">i")
_NEWEST_BLOCK_VERSION = 3
_ACTIONS = {action.value: action for action in Action}

# Field of the archived entry -> type of the record in it.
_OUTCOMES = {
    "hoodieCommitMetadata": "HoodieCommitMetadata",
    "hoodieReplaceCommitMetadata": "HoodieReplaceCommitMetadata",
    "hoodieCleanMetadata": "HoodieCleanMetadata",
    "hoodieRollbackMetadata": "HoodieRollbackMetadata",
    "hoodieSavePointMetadata": "HoodieSavepointMetadata",
}
_PLANS = {
    "hoodieCompactionPlan": "HoodieCompactionPlan",
    "hoodieCleanerPlan": "HoodieCleanerPlan",
    "hoodieRequestedReplaceMetadata": "HoodieRequestedReplaceMetadata",
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One archived record, still encoded."""

    datum: bytes
    schema_text: str
    path: str

    def decode(self) -> dict[str, Any]:
        return decode_datum(self.datum, self.schema_text, None, path=self.path)


class ArchiveLog:
    """The archived instants of a layout 1 table; all files are read on the first question."""

    __slots__ = ("_completed", "_folder", "_instants", "_plans", "_storage")

    def __init__(self, storage: Storage, folder: str) -> None:
        """Look in this folder of the storage; nothing is read yet."""
        self._storage = storage
        self._folder = folder
        self._instants: dict[str, Instant] | None = None
        self._completed: dict[str, _Entry] = {}
        self._plans: dict[str, _Entry] = {}

    def instants(self, begin: str | None, end: str | None) -> dict[str, Instant]:
        """Every archived instant: the files do not tell which range they hold."""
        del begin, end
        if self._instants is None:
            found: dict[str, Instant] = {}
            for entry in self._entries():
                self._take(entry, found)
            self._instants = found
        return self._instants

    def newest(self) -> str | None:
        """The newest requested time; all files are read for it."""
        return max(self.instants(None, None), key=instant_key, default=None)

    def metadata(self, requested_time: str) -> bytes | None:
        """The outcome of an instant, as the container file that layout 2 would have."""
        return self._reencoded(self._completed, requested_time, _OUTCOMES)

    def plan(self, requested_time: str) -> bytes | None:
        """The plan of an instant, as the bytes of its requested file."""
        return self._reencoded(self._plans, requested_time, _PLANS)

    def _take(self, entry: _Entry, found: dict[str, Instant]) -> None:
        """Note an entry under the instant that it belongs to."""
        record = entry.decode()
        time, action = record.get("commitTime"), _ACTIONS.get(str(record.get("actionType")))
        if not isinstance(time, str) or not is_instant_time(time) or action is None:
            actual = f"{time!r:.40} {record.get('actionType')!r:.40}"
            raise CorruptFile(entry.path, 0, expected="an archived instant", actual=actual)
        if any(record.get(name) is not None for name in _PLANS):
            self._plans.setdefault(time, entry)
        # Writers before actionState archived completed instants only.
        if str(record.get("actionState") or "COMPLETED") == "COMPLETED":
            if action is Action.SAVEPOINT and time in found:
                return
            found[time] = Instant(time, action.completed, State.COMPLETED)
            self._completed[time] = entry

    def _reencoded(
        self, entries: dict[str, _Entry], time: str, fields: dict[str, str]
    ) -> bytes | None:
        self.instants(None, None)
        entry = entries.get(time)
        if entry is None:
            return None
        record = entry.decode()
        name = next((name for name in fields if record.get(name) is not None), None)
        if name is None:
            return None
        try:
            return encode_record(record[name], fields[name])
        except InvalidInput as error:
            raise CorruptFile(entry.path, 0, expected=fields[name], actual=error) from None

    def _entries(self) -> Iterator[_Entry]:
        """The records of all files, oldest file first."""
        numbered = []
        for info in self._storage.list(self._folder):
            match = _FILE_NAME.fullmatch(split(info.path)[1])
            if match is not None:
                numbered.append((int(match[1]), info))
        for _, info in sorted(numbered):
            for block in read_blocks(self._storage.source(info.path, info.size_bytes)):
                if block.kind is BlockKind.AVRO_DATA:
                    yield from _records(block)


def _records(block: LogBlock) -> Iterator[_Entry]:
    """The encoded records of one Avro block."""
    content, path, base = block.content, block.content.path, block.content.base_offset
    data = content.read(0, content.size)
    schema_text = block.schema_text

    def number(at: int, most: int) -> int:
        value: int = _INT.unpack_from(data, at)[0] if at + _INT.size <= len(data) else -1
        if not 0 <= value <= most:
            raise CorruptFile(path, base + at, expected=f"a number up to {most}", actual=value)
        return value

    number(0, _NEWEST_BLOCK_VERSION)
    at = 2 * _INT.size
    for _ in range(number(_INT.size, len(data))):
        length = number(at, len(data) - at - _INT.size)
        at += _INT.size
        yield _Entry(data[at : at + length], schema_text, path)
        at += length
