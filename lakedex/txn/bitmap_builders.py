"""Who fills a bitmap index that the table does not know of yet, and what such a process left.

The files of an index are there before its definition is. A process that dies in between leaves a
folder that nothing names; the next clean removes it.
"""

from __future__ import annotations

import json

from lakedex.config import TableConfig
from lakedex.errors import FileMissing
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bitmap.definitions import ROOT, bitmap_definitions, folder_of
from lakedex.storage import Storage
from lakedex.txn.process import ProcessId
from lakedex.txn.store_clock import own_now_ms

_PATIENCE_MS = 3_600_000
"""How long a process of another machine may write nothing before it counts as dead."""


def name_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Name this process as the one that fills an index."""
    record = json.dumps(ProcessId.current().to_json()).encode()
    storage.replace(_builder_path(folder_of(definition)), record)


def forget_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Nobody fills it any more, or the table knows of it."""
    storage.delete(_builder_path(folder_of(definition)))


def remove_dead_bitmaps(storage: Storage, config: TableConfig) -> None:
    """Remove the files of indexes that nobody goes on with; the caller holds the table's lock."""
    used = {folder_of(each) for each in bitmap_definitions(config).values()}
    for name in storage.folders(ROOT):
        folder = f"{ROOT}/{name}"
        if folder not in used and not _is_filled(storage, folder):
            storage.delete_folder(folder)
            storage.delete(_builder_path(folder))


def _is_filled(storage: Storage, folder: str) -> bool:
    try:
        tree = json.loads(storage.read(_builder_path(folder)))
    except (FileMissing, ValueError, RecursionError):
        tree = None
    process = ProcessId.from_json(tree)
    if process is not None and process.is_surely_dead():
        return False
    newest = max((info.modified_ms for info in storage.list(folder)), default=0)
    return own_now_ms() - newest < _PATIENCE_MS


def _builder_path(folder: str) -> str:
    return f"{folder}.builder"
