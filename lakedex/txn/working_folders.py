"""The folders below `.hoodie` that are not part of the table: heartbeats, markers, spill files.

Most are named by instant time. The spill files of a write are there before it has one:

    .hoodie/.lakedex/spill/write-<id>-<process>/files/...

The name contains the process, so the folder of a writer that died can be removed as a whole.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Final

from lakedex.errors import LakedexError
from lakedex.format.spill import is_filled
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.txn.process import ProcessId

HEARTBEATS: Final = ".hoodie/.heartbeat"
MARKERS: Final = ".hoodie/.temp"
WRITERS: Final = ".hoodie/.lakedex/writers"
SPILL: Final = ".hoodie/.lakedex/spill"
CLOCK: Final = ".hoodie/.lakedex/clock"


def heartbeat_path(instant: str) -> str:
    """The file whose modification time says that the writer of an instant lives."""
    return f"{HEARTBEATS}/{instant}"


def writer_path(instant: str) -> str:
    """The file that names the process that writes an instant."""
    return f"{WRITERS}/{instant}.json"


def marker_folder(instant: str) -> str:
    """The folder of an instant's markers."""
    return f"{MARKERS}/{instant}"


def spill_folder(instant: str) -> str:
    """The folder of an instant's spill files.

    Example:
        >>> spill_folder("20261115183005287")
        '.hoodie/.lakedex/spill/20261115183005287'
    """
    return f"{SPILL}/{instant}"


_FILES = "files"
_PREFIX = "write-"
_ID_DIGITS = 32
_LONG_SECONDS = 3600
log = logging.getLogger("lakedex")


class Scratch:
    """A folder for spill files, with the process that it belongs to; used with `with`."""

    def __init__(self, address: StorageAddress, *, is_local: bool = False) -> None:
        """Make nothing yet: the first file makes the folder.

        With `is_local` all spill files are of this process, which then knows whether there are any.
        """
        self._is_local = is_local
        self._folder = f"{SPILL}/{_PREFIX}{uuid.uuid4().hex}-{ProcessId.current().token}"
        self.path = f"{self._folder}/{_FILES}"
        self._storage = address.open()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the files; what cannot be removed now is removed by a later write."""
        if not is_filled(self.path) and self._is_local:
            return
        try:
            self._storage.delete_folder(self._folder)
        except LakedexError as problem:
            log.warning("could not remove %s: %s", self._folder, problem)


def remove_dead_scratch(storage: Storage, names: Iterable[str]) -> None:
    """Remove the folders of writers that died before they were on the timeline.

    Args:
        storage: The table.
        names: The names of the folders below `SPILL`, those of instants too.
    """
    for name in names:
        if not name.startswith(_PREFIX):
            continue
        folder = f"{SPILL}/{name}"
        token = name[len(_PREFIX) + _ID_DIGITS + 1 :]
        owner = ProcessId.from_token(token)
        try:
            if owner is not None and owner.is_surely_dead():
                log.info("removing what %s left in %s", owner, folder)
                storage.delete_folder(folder)
            elif not token and _is_old(storage, folder):
                # Of an earlier version, which wrote the owner into a file.
                storage.delete_folder(folder)
        except LakedexError as problem:
            log.warning("could not remove %s: %s", folder, problem)


def _is_old(storage: Storage, folder: str) -> bool:
    newest = max((info.modified_ms for info in storage.list_recursive(folder)), default=None)
    return newest is not None and newest < (time.time() - _LONG_SECONDS) * 1000
