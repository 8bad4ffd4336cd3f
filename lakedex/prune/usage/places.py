"""Where counters are kept: beside the table, or in the user's own state folder.

A table that lakedex writes has them in `.hoodie/.lakedex/usage.json`, which no other engine looks
at. One that lakedex only reads is left as it is, and so is one that may not be written; what was
counted is then kept below `$XDG_STATE_HOME/lakedex`. A file is replaced as a whole, and only if no
other process has replaced it meanwhile; nobody waits for anybody.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from contextlib import suppress
from pathlib import Path

from lakedex.config import keys
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, LakedexError, VersionMismatch
from lakedex.prune.usage.counters import TableUsage
from lakedex.storage import Storage, open_storage
from lakedex.table.own_properties import OWN_PROPERTIES_PATH
from lakedex.timeline.properties_file import PROPERTIES_PATH

USAGE_PATH = f"{keys.META_FOLDER}/.lakedex/usage.json"
_ATTEMPTS = 8
_PAUSE_S = 0.01
_MOST_BYTES = 4 << 20


def stored_usage(table: Storage) -> TableUsage:
    """What is kept of a table, in both places; what cannot be read counts as nothing."""
    usage = TableUsage()
    for storage, path in ((table, USAGE_PATH), _own_place(table)):
        if storage is not None:
            with suppress(LakedexError, OSError):
                usage.add(_read(storage, path)[0])
    return usage


def keep_usage(table: Storage, counted: TableUsage, *, beside_table: bool = True) -> bool:
    """Add to what is kept; False when others were always faster, or there is no place for it.

    Args:
        table: The table.
        counted: What was counted since.
        beside_table: Whether to write to the table's own store, and not to the user's folder.
    """
    if beside_table and not table.exists(PROPERTIES_PATH):
        return True  # The table is gone, and its counters with it.
    if beside_table and table.exists(OWN_PROPERTIES_PATH):
        try:
            return _add(table, USAGE_PATH, counted)
        except (LakedexError, OSError):
            pass  # It may not be written.
    storage, path = _own_place(table, make=True)
    return storage is not None and _add(storage, path, counted)


def _own_place(table: Storage, *, make: bool = False) -> tuple[Storage | None, str]:
    """The user's state folder, unless there is none, and the name of the table's file in it."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(base).expanduser() / "lakedex" / "usage"
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        storage = open_storage(str(folder)) if folder.is_dir() else None
    except (LakedexError, OSError):
        storage = None
    return storage, f"{hashlib.sha256(table.root.encode()).hexdigest()[:32]}.json"


def _read(storage: Storage, path: str) -> tuple[TableUsage, str | None]:
    """The kept counters and the version of their file; None where there is none.

    A file that holds no counters counts as nothing, and is replaced by the next to write.
    """
    try:
        data, version = storage.read_with_version(path)
    except FileMissing:
        return TableUsage(), None
    try:
        if len(data) <= _MOST_BYTES:
            return TableUsage.decode(data, path=path), version
    except CorruptFile:
        pass
    return TableUsage(), version


def _add(storage: Storage, path: str, counted: TableUsage) -> bool:
    for attempt in range(_ATTEMPTS):
        usage, version = _read(storage, path)
        usage.add(counted)
        try:
            if version is None:
                storage.create(path, usage.encode(), durable=False)
            else:
                storage.replace(path, usage.encode(), if_version=version)
        except (AlreadyExists, VersionMismatch):
            time.sleep(random.random() * _PAUSE_S * (attempt + 1))
        else:
            return True
    return False
