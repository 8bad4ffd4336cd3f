"""The archive of layout 2: `.hoodie/timeline/history/`.

    _version_                     text: the number of the newest manifest
    manifest_<n>                  JSON {"files": [{"fileName": ..., "fileLen": ...}, ...]}
    <min>_<max>_<level>.parquet   instantTime, completionTime, action, metadata, plan

Only files that the manifest names are live: files that were merged into a higher level stay in
the folder for a while, so the folder is not listed unless the version file is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing
from lakedex.storage.paths import split
from lakedex.storage.protocol import Storage
from lakedex.timeline.container import parse_json
from lakedex.timeline.instant import Action, Instant, State
from lakedex.timeline.instant_time import instant_key, is_instant_time

_FILE_NAME = re.compile(r"([0-9]{1,26})_([0-9]{1,26})_([0-9]{1,4})\.parquet")
_MANIFEST_NAME = re.compile(r"manifest_([0-9]{1,18})")
_VERSION_FILE = "_version_"
_NUMBER = re.compile(r"[0-9]{1,18}")
_ACTIONS = {member.value: member for member in Action}
_INDEX_COLUMNS = ["instantTime", "completionTime", "action"]
_MOST_ROWS = 300_000
_MOST_BYTES = 256 << 20
_MANIFEST_ATTEMPTS = 3
_PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One live Parquet file: its path, its size, and the range of its instants."""

    path: str
    size_bytes: int
    first: str
    last: str
    level: int = 0


class LsmHistory:
    """The archived instants under one manifest, read file by file as they are asked for."""

    __slots__ = ("_files", "_folder", "_loaded", "_storage")

    def __init__(self, storage: Storage, folder: str) -> None:
        """Look in this folder of the storage; nothing is read yet."""
        self._storage = storage
        self._folder = folder
        self._files: tuple[HistoryFile, ...] | None = None
        self._loaded: dict[str, dict[str, Instant]] = {}

    def files(self) -> tuple[HistoryFile, ...]:
        """The live files that the newest manifest names; none when there is no history.

        Raises:
            CorruptFile: version file or manifest is not what it should be.
        """
        if self._files is None:
            self._files = self._read_manifest()
        return self._files

    def instants(self, begin: str | None, end: str | None) -> dict[str, Instant]:
        """Instants by requested time from the files that overlap the range."""
        found: dict[str, Instant] = {}
        for file in self._overlapping(begin, end):
            found |= self._index(file)
        return found

    def newest(self) -> str | None:
        """The newest requested time, by the names of the files."""
        return max((file.last for file in self.files()), key=instant_key, default=None)

    def metadata(self, requested_time: str) -> bytes | None:
        """The bytes of the completed file of an instant."""
        return self._cell(requested_time, "metadata")

    def plan(self, requested_time: str) -> bytes | None:
        """The bytes of the requested file of an instant."""
        return self._cell(requested_time, "plan")

    def _overlapping(self, begin: str | None, end: str | None) -> list[HistoryFile]:
        low = None if begin is None else instant_key(begin)
        high = None if end is None else instant_key(end)
        return [
            file
            for file in self.files()
            if (low is None or instant_key(file.last) >= low)
            and (high is None or instant_key(file.first) <= high)
        ]

    def _index(self, file: HistoryFile) -> dict[str, Instant]:
        if file.path not in self._loaded:
            rows = zip(*self._read(file, _INDEX_COLUMNS), strict=True)
            instants = [_instant(row, file.path) for row in rows]
            _check_range(instants, file)
            self._loaded[file.path] = {instant.requested_time: instant for instant in instants}
        return self._loaded[file.path]

    def _cell(self, requested_time: str, column: str) -> bytes | None:
        for file in self._overlapping(requested_time, requested_time):
            if requested_time in self._index(file):
                times, values = self._read(file, ["instantTime", column])
                value = dict(zip(times, values, strict=True)).get(requested_time)
                return value if isinstance(value, bytes) else None
        return None

    def _read(self, file: HistoryFile, columns: list[str]) -> list[list[Any]]:
        """The values of some columns of a file, one row for each instant."""
        try:
            with self._storage.open_parquet_input(file.path, file.size_bytes) as source:
                opened = pq.ParquetFile(source, read_dictionary=columns)
                _check_size(opened.metadata, file)
                table = opened.read(columns=columns, use_threads=False)
                return [_values(table.column(name)) for name in columns]
        except _PARQUET_ERRORS as error:
            raise CorruptFile(
                file.path,
                0,
                expected="a Parquet file of archived instants",
                actual=str(error)[:200],
            ) from None

    def _read_manifest(self) -> tuple[HistoryFile, ...]:
        """The manifest of the newest version, which may change while it is being read."""
        for attempt in range(_MANIFEST_ATTEMPTS):
            number = history_version(self._storage, self._folder)
            if number is None:
                return ()
            path = f"{self._folder}/manifest_{number}"
            try:
                data = self._storage.read(path)
            except FileMissing:
                if attempt == _MANIFEST_ATTEMPTS - 1:
                    raise
                continue
            return parse_manifest(data, path, self._folder)
        return ()


def history_version(storage: Storage, folder: str) -> int | None:
    """The number of the newest manifest; None when there is no history.

    Where the version file is gone, the newest manifest that is there counts. One that was written
    and not yet named by the version file adds instants that are still active, and loses none.

    Raises:
        CorruptFile: the version file holds no number.
    """
    path = f"{folder}/{_VERSION_FILE}"
    try:
        version = storage.read(path)
    except FileMissing:
        return _newest_manifest(storage, folder)
    number = version[:32].decode("latin-1").strip()
    if _NUMBER.fullmatch(number) is None:
        raise CorruptFile(path, 0, expected="a manifest number", actual=repr(number))
    return int(number)


def history_problem(storage: Storage, folder: str) -> str | None:
    """What is wrong with the list of the files of a history; None where it is whole."""
    try:
        LsmHistory(storage, folder).files()
    except (CorruptFile, FileMissing) as error:
        return str(error)
    path = f"{folder}/{_VERSION_FILE}"
    if storage.exists(path):
        return None
    names = [split(info.path)[1] for info in storage.list(folder)]
    is_used = any(_FILE_NAME.fullmatch(name) or _MANIFEST_NAME.fullmatch(name) for name in names)
    # The first file of a history is written before its list.
    return f"{path} is missing" if is_used and not storage.exists(path) else None


def _newest_manifest(storage: Storage, folder: str) -> int | None:
    names = (split(info.path)[1] for info in storage.list(folder))
    found = (_MANIFEST_NAME.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match is not None), default=None)


def parse_manifest(data: bytes, path: str, folder: str) -> tuple[HistoryFile, ...]:
    """The files that a manifest names.

    Raises:
        CorruptFile: it is no manifest.
    """
    tree = parse_json(data, path=path)
    entries = tree.get("files") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise CorruptFile(path, 0, expected='a manifest with "files"', actual=repr(tree)[:80])
    files = []
    for entry in entries:
        name = entry.get("fileName") if isinstance(entry, dict) else None
        size = entry.get("fileLen") if isinstance(entry, dict) else None
        file = history_file(folder, name, 0) if isinstance(name, str) else None
        if file is None or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise CorruptFile(path, 0, expected="a file and its length", actual=repr(entry)[:80])
        files.append(replace(file, size_bytes=size))
    return tuple(files)


def history_file(folder: str, name: str, size_bytes: int) -> HistoryFile | None:
    """The file of that name, None where it is no file of archived instants.

    Example:
        >>> history_file("history", "001_009_0.parquet", 7).last
        '009'
    """
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    return HistoryFile(f"{folder}/{name}", size_bytes, match[1], match[2], int(match[3]))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; equal ones are one object, however often a file repeats them."""
    if not pa.types.is_dictionary(column.type):
        return column.to_pylist()
    found: list[Any] = []
    for chunk in column.chunks:
        different = [*chunk.dictionary.to_pylist(), None]
        found += [different[at] for at in chunk.indices.fill_null(-1).to_pylist()]
    return found


def _check_size(metadata: Any, file: HistoryFile) -> None:  # noqa: ANN401 - stubs lack the type
    """Refuse a footer that promises more than an archive can hold."""
    promised = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    if metadata.num_rows > _MOST_ROWS or promised > _MOST_BYTES:
        raise CorruptFile(
            file.path,
            0,
            expected="archived instants of a believable size",
            actual=f"{metadata.num_rows} rows, {promised} bytes",
        )


def _check_range(instants: Sequence[Instant], file: HistoryFile) -> None:
    """Refuse the content of another file: the name of each says from when to when it goes."""
    times = sorted(instant_key(each.requested_time) for each in instants)
    if times and not instant_key(file.first) <= times[0] <= times[-1] <= instant_key(file.last):
        raise CorruptFile(
            file.path,
            0,
            expected=f"instants from {file.first} to {file.last}",
            actual=f"instants from {times[0]} to {times[-1]}",
        )


def _instant(row: tuple[Any, ...], path: str) -> Instant:
    requested, completed, action = row
    if (
        not isinstance(requested, str)
        or not is_instant_time(requested)
        or (completed is not None and not (isinstance(completed, str) and completed.isdigit()))
        or action not in _ACTIONS
    ):
        raise CorruptFile(path, 0, expected="an archived instant", actual=repr(row)[:120])
    return Instant(requested, _ACTIONS[action].completed, State.COMPLETED, completed)
