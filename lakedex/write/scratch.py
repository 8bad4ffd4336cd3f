"""The folder of a write's spill files: below the table's own folder, gone when the write ends.

    write-<id>/owner.json     whose it is
    write-<id>/files/...      the spill files

The owner's name is there before the first file and is removed after the last one, so that what a
writer leaves who dies in between is known to be of no use.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from types import TracebackType

from lakedex.errors import FileMissing, LakedexError
from lakedex.storage.address import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.txn.places import SPILL
from lakedex.txn.process import ProcessId

_OWNER = "owner.json"
_FILES = "files"
_PREFIX = "write-"
_LONG_SECONDS = 3600
log = logging.getLogger("lakedex")


class Scratch:
    """A folder for spill files, with the process that it belongs to; used with `with`."""

    def __init__(self, address: StorageAddress) -> None:
        """Make nothing yet."""
        self._folder = f"{SPILL}/{_PREFIX}{uuid.uuid4().hex}"
        self.path = f"{self._folder}/{_FILES}"
        self._storage = address.open()

    def __enter__(self) -> Scratch:
        """Remove what writers left that died before they were on the timeline; make the folder."""
        _sweep(self._storage)
        owner = json.dumps(ProcessId.current().to_json()).encode()
        self._storage.create(f"{self._folder}/{_OWNER}", owner)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the files; what cannot be removed now is removed by a later write."""
        try:
            _remove(self._storage, self._folder)
        except LakedexError as problem:
            log.warning("could not remove %s: %s", self._folder, problem)


def _sweep(storage: Storage) -> None:
    for name in storage.folders(SPILL):
        if not name.startswith(_PREFIX):
            continue
        folder = f"{SPILL}/{name}"
        try:
            owner = ProcessId.from_json(json.loads(storage.read(f"{folder}/{_OWNER}")))
        except FileMissing:
            # Its owner died while it made or removed the folder, unless that is just going on.
            storage.remove_leftovers(folder)
            newest = _newest_ms(storage, folder)
            if newest is not None and newest < (time.time() - _LONG_SECONDS) * 1000:
                storage.delete_folder(folder)
            continue
        except (LakedexError, ValueError):
            continue
        if owner is not None and owner.is_surely_dead():
            log.info("removing what %s left in %s", owner, folder)
            _remove(storage, folder)


def _remove(storage: Storage, folder: str) -> None:
    """Remove the files, and only then the name of their owner."""
    storage.delete_folder(f"{folder}/{_FILES}")
    storage.delete_folder(folder)


def _newest_ms(storage: Storage, folder: str) -> int | None:
    """None for a folder without files: another write may be about to use it."""
    return max((info.modified_ms for info in storage.list_recursive(folder)), default=None)
