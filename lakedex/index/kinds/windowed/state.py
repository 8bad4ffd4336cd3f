"""What a windowed record index knows as of one commit: covered file groups, and runs of entries.

A group is covered as the slice that it was then. Which keys lie in files of given names never
changes, so that entries are right for ever for the slice that they are about; what changed since,
by whatever writer, has files of other names and is not covered any more. So an outdated state, or
that of a commit that was taken back, knows less, and nothing wrong.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.errors import CorruptFile, LakedexError
from lakedex.filegroup import FileSliceId
from lakedex.index.catalog import IndexInfo
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant_time import is_instant_time

VERSION = 1
_DIGEST_BYTES = 16
_LINE_END = b"\n"
NAME = "windowed_record_index"
FOLDER = f".hoodie/.lakedex/{NAME}"
STATE_FILE = "state"
_SEQUENCE_DIGITS = 12
log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class RunFile:
    """A sorted file of entries; the path is relative to the folder of the index."""

    path: str
    size_bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Run:
    """The entries of one commit, by shard of the key; None for a shard without any."""

    sequence: int
    files: tuple[RunFile | None, ...]

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return sum(file.entries for file in self.files if file is not None)


@dataclass(frozen=True, slots=True)
class CoveredGroup:
    """A file group whose keys are known."""

    number: int
    """Stands for the group in entries. One that was read again has another number."""
    based: int
    """The sequence that wrote its base file: of deleted keys older entries say nothing."""
    digest: str
    """Of the names of its files, see `digest_of`."""


@dataclass(frozen=True)
class WindowState:
    """A windowed record index as of one commit.

    Example:
        >>> state = WindowState(1, "20260102030405678", 5, (), {})
        >>> WindowState.decode(state.encode(), path="state") == state
        True
    """

    sequence: int
    """Grows with each commit, in the order of completion."""
    instant: str
    next_number: int
    runs: tuple[Run, ...] = ()
    """Oldest first."""
    groups: Mapping[FileSliceId, CoveredGroup] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Where its files lie, relative to the folder of the index."""
        return f"{self.sequence:012d}-{self.instant}"

    def files(self) -> Iterable[RunFile]:
        """All files of all runs."""
        return (file for run in self.runs for file in run.files if file is not None)

    def encode(self) -> bytes:
        """The state as a line with its checksum, and JSON."""
        groups: dict[str, dict[str, list[Any]]] = {}
        for place, group in self.groups.items():
            entry = [group.number, group.based, group.digest]
            groups.setdefault(place.partition, {})[place.file_id] = entry
        runs = [
            [run.sequence, [file and [file.path, file.size_bytes, file.entries] for file in files]]
            for run in self.runs
            for files in [run.files]
        ]
        content = {
            "version": VERSION,
            "sequence": self.sequence,
            "instant": self.instant,
            "nextNumber": self.next_number,
            "runs": runs,
            "groups": groups,
        }
        text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
        return _checksum(text) + _LINE_END + text

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> WindowState:
        """The state in a file.

        Raises:
            CorruptFile: it is no such state.
        """
        checksum, _, text = data.partition(_LINE_END)
        # A changed digit would make another group of a covered one.
        if checksum != _checksum(text):
            raise CorruptFile(path, 0, expected="its checksum", actual=checksum[:40])
        try:
            content = json.loads(text)
            if content["version"] != VERSION:
                raise CorruptFile(path, 0, expected=f"version {VERSION}", actual=content["version"])
            return cls(
                _number(content["sequence"]),
                _text(content["instant"]),
                _number(content["nextNumber"]),
                tuple(map(_run, content["runs"])),
                {
                    FileSliceId(_text(partition), _text(file_id)): _group(*entry)
                    for partition, groups in content["groups"].items()
                    for file_id, entry in groups.items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            expected = "the state of a windowed record index"
            raise CorruptFile(path, 0, expected=expected, actual=repr(error)[:200]) from None


def digest_of(names: Iterable[str]) -> str:
    """What stands for the files of a slice, in whatever order.

    Example:
        >>> digest_of(["b", "a"]) == digest_of(["a", "b"]), len(digest_of(["a"]))
        (True, 32)
    """
    return _checksum("\n".join(sorted(names)).encode()).decode()


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _run(entry: list[Any]) -> Run:
    sequence, files = entry
    if not files:
        raise ValueError("a run without shards")
    return Run(_number(sequence), tuple(None if file is None else _file(*file) for file in files))


def _file(path: object, size: object, entries: object) -> RunFile:
    return RunFile(_text(path), _number(size), _number(entries))


def _group(number: object, based: object, digest: object) -> CoveredGroup:
    return CoveredGroup(_number(number), _number(based), _text(digest))


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 60:
        raise ValueError(f"{value!r} is no number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 (bad bytes, not a bad call)
    return value


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """All that lies in the folder of the index, and the state that counts."""

    state: WindowState | None
    sizes: dict[str, int]
    """Every file with its size; the paths are relative to the folder."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that the state names."""
        return 0 if self.state is None else sum(file.size_bytes for file in self.state.files())


def open_window(storage: Storage, is_committed: Callable[[str], bool]) -> StoredWindow:
    """The index as of the newest commit that has a whole state; without a state none has."""
    inside = storage.sub(FOLDER)
    sizes = {info.path: info.size_bytes for info in inside.list_recursive()}
    folders = {path.partition("/")[0] for path in sizes if path.endswith(f"/{STATE_FILE}")}
    for folder in sorted(folders, reverse=True):
        instant = _instant_of(folder)
        if instant is None or not is_committed(instant):
            continue
        path = f"{folder}/{STATE_FILE}"
        try:
            state = WindowState.decode(inside.read(path), path=f"{FOLDER}/{path}")
            if state.folder != folder:
                raise CorruptFile(path, 0, expected=f"the state {folder}", actual=state.folder)
            _check_files(state, sizes)
        except LakedexError as error:
            log.warning("the windowed record index of %s is not whole: %s", storage.root, error)
            continue
        return StoredWindow(state, sizes)
    return StoredWindow(None, sizes)


def remove_unused(storage: Storage, stored: StoredWindow) -> None:
    """Remove all files but those of the state that counts.

    The caller holds the table's lock, and knows of no other write that goes on.
    """
    used = set()
    if stored.state is not None:
        used = {file.path for file in stored.state.files()}
        used.add(f"{stored.state.folder}/{STATE_FILE}")
    inside = storage.sub(FOLDER)
    unused = sorted(stored.sizes.keys() - used)
    # A state goes first: one without its runs would only be complained about.
    for path in sorted(unused, key=lambda path: not path.endswith(STATE_FILE)):
        inside.delete(path)
    kept = {path.partition("/")[0] for path in used}
    for folder in sorted({path.partition("/")[0] for path in unused} - kept):
        inside.delete_folder(folder)


def _instant_of(folder: str) -> str | None:
    sequence, _, instant = folder.partition("-")
    good = len(sequence) == _SEQUENCE_DIGITS and sequence.isascii() and sequence.isdigit()
    return instant if good and is_instant_time(instant) else None


def _check_files(state: WindowState, sizes: dict[str, int]) -> None:
    for file in state.files():
        if sizes.get(file.path) != file.size_bytes:
            raise CorruptFile(
                f"{FOLDER}/{file.path}",
                0,
                expected=f"a file of {file.size_bytes} bytes",
                actual=sizes.get(file.path),
            )


def list_windowed(storage: Storage, is_committed: Callable[[str], bool]) -> list[IndexInfo]:
    """The windowed record index of a table, if it has one."""
    stored = open_window(storage, is_committed)
    if stored.state is None:
        return []
    return [
        IndexInfo(
            name=NAME,
            kind=NAME,
            columns=(),
            function="",
            state="live",
            file_groups=len(stored.state.groups),
            size_bytes=stored.size_bytes,
        )
    ]
