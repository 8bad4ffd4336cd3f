"""Where a windowed record index lies, which of its states counts, and what may be removed.

    .hoodie/.lakedex/windowed_record_index/<sequence>-<instant>/state
                                                               /run-<shard>-<attempt>.hfile

A state belongs to a commit and counts when that is completed: what a writer left that died, or that
was rolled back, is passed over and removed by a later writer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from lakedex.errors import CorruptFile, LakedexError
from lakedex.index.catalog import IndexInfo
from lakedex.index.kinds.windowed.state import WindowState
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant_time import is_instant_time

NAME = "windowed_record_index"
FOLDER = f".hoodie/.lakedex/{NAME}"
STATE_FILE = "state"
_SEQUENCE_DIGITS = 12
log = logging.getLogger("lakedex")


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
