"""Writes the timeline of layout 1 again in layout 2, beside the old one.

Nobody looks at the new folder before the table's properties say so; whatever an earlier attempt
left in it is removed first. The old files stay until then, and are removed by `remove_old`.

Layout 1 does not say when an instant completed. The time at which its file was written does, as
long as it lies before the next instant: a table that was copied has other times. Else an instant
counts as completed a millisecond after it was requested, which keeps the order of instants and
leaves every log file in its file slice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

from lakedex.config import TableConfig, keys
from lakedex.errors import CorruptFile, LakedexError
from lakedex.storage import FileInfo, Storage, split
from lakedex.timeline import (
    Action,
    ArchivedTimeline,
    Instant,
    RequestedReplace,
    State,
    decode_commit_metadata,
    encode_commit_metadata,
    file_name,
    from_epoch_ms,
    instant_key,
    parse_instant_file,
)
from lakedex.timeline.history_writer import ArchivedInstant, start_history
from lakedex.timeline.instant_time import next_instant_time

NEW_FOLDER = f"{keys.META_FOLDER}/timeline"
_NEW_HISTORY = f"{NEW_FOLDER}/history"
_OLD_LAYOUT, _NEW_LAYOUT = 1, 2
_ARCHIVE_FILE = re.compile(r"\.commits_\.archive\.[0-9]{1,9}_[0-9A-Za-z-]+")


@dataclass(frozen=True)
class Moved:
    """How much was written again."""

    instants: int
    archived: int


@dataclass(frozen=True)
class _OldFile:
    instant: Instant
    info: FileInfo


def stage_timeline(storage: Storage, config: TableConfig, now: str) -> Moved:
    """Write the new timeline, history included, while the old one still counts.

    Raises:
        CorruptFile: an old file does not hold what it should.
    """
    storage.delete_folder(NEW_FOLDER)
    files = _old_files(storage)
    known = sorted({instant_key(file.instant.requested_time) for file in files} | {now})
    clustering = {
        file.instant.requested_time for file in files if _asks_for_clustering(storage, file)
    }
    for file in files:
        moved = _renamed(file, config, known, clustering)
        data = _rewritten(storage, file, moved)
        storage.create(f"{NEW_FOLDER}/{file_name(moved, _NEW_LAYOUT)}", data)
    return Moved(len(files), _stage_history(storage, config, files))


def remove_old(storage: Storage, archive_folder: str) -> None:
    """Remove the timeline of layout 1 and its archive; those of layout 2 count by now."""
    for file in _old_files(storage):
        storage.delete(file.info.path)
    if not archive_folder:
        return
    for info in storage.list(archive_folder):
        if _ARCHIVE_FILE.fullmatch(split(info.path)[1]):
            storage.delete(info.path)
    if archive_folder != keys.META_FOLDER and not storage.list_recursive(archive_folder):
        storage.delete_folder(archive_folder)


def _old_files(storage: Storage) -> list[_OldFile]:
    found = []
    for info in storage.list(keys.META_FOLDER):
        instant = parse_instant_file(split(info.path)[1], _OLD_LAYOUT)
        if instant is not None:
            found.append(_OldFile(instant, info))
    return found


def _asks_for_clustering(storage: Storage, file: _OldFile) -> bool:
    """Whether a requested replacecommit has a clustering plan: it has a name of its own now."""
    instant = file.instant
    if instant.action is not Action.REPLACECOMMIT or instant.state is not State.REQUESTED:
        return False
    data = storage.read(file.info.path)
    return bool(data) and RequestedReplace.decode(data, path=file.info.path).clustering is not None


def _renamed(
    file: _OldFile, config: TableConfig, known: list[str], clustering: set[str]
) -> Instant:
    instant = file.instant
    if instant.is_completed:
        return replace(instant, completion_time=_completion_time(file, config, known))
    if instant.action is Action.REPLACECOMMIT and instant.requested_time in clustering:
        return replace(instant, action=Action.CLUSTERING)
    return instant


def _completion_time(file: _OldFile, config: TableConfig, known: list[str]) -> str:
    requested = instant_key(file.instant.requested_time)
    written = from_epoch_ms(file.info.modified_ms, config.timezone)
    at = bisect_right(known, requested)
    if requested < written and (at == len(known) or written < known[at]):
        return written
    return next_instant_time(requested)


def _rewritten(storage: Storage, file: _OldFile, moved: Instant) -> bytes:
    """The bytes of an instant file as layout 2 has them: commit metadata is Avro there."""
    data = storage.read(file.info.path)
    action, path = file.instant.action, file.info.path
    if not action.is_write or action is not action.completed or not data:
        if moved.is_completed and action.is_write:
            raise CorruptFile(path, 0, expected="commit metadata", actual="an empty file")
        return data
    if moved.action is Action.CLUSTERING:
        return data if moved.state is State.REQUESTED else b""
    if moved.state is State.REQUESTED:
        return data
    try:
        metadata = decode_commit_metadata(data, path=path)
    except LakedexError:
        # What a write was about to do is of no use once it is done.
        if not moved.is_completed:
            return b""
        raise
    return encode_commit_metadata(replace(metadata, version=metadata.version or 1), action=action)


def _stage_history(storage: Storage, config: TableConfig, active: list[_OldFile]) -> int:
    archive = ArchivedTimeline.load(storage, config)
    # A crashed archival may have left an instant in both places.
    still = {file.instant.requested_time for file in active if file.instant.is_completed}
    found = [
        ArchivedInstant(
            instant.requested_time,
            next_instant_time(instant.requested_time),
            instant.action,
            archive.metadata(instant.requested_time),
            archive.plan(instant.requested_time),
        )
        for instant in archive.instants()
        if instant.requested_time not in still
    ]
    if found:
        start_history(storage, _NEW_HISTORY, found)
    return len(found)
