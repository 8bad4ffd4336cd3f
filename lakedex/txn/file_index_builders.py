"""Which process fills a file index before the table names it, and what a dead one left behind.

The files of an index are there before its definition is. A process that dies in between leaves a
folder that no definition names; the next clean removes it.
"""

from __future__ import annotations

import json

from lakedex.config import TableConfig
from lakedex.errors import FileMissing
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import ROOT, ROOTS, file_index_definitions, folder_of
from lakedex.storage import Storage
from lakedex.txn.process import ProcessId
from lakedex.txn.store_clock import own_now_ms

_PATIENCE_MS = 3_600_000
"""How long a process of another machine may write nothing before it counts as dead."""
_BUILDER = ".builder"


def name_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Record this process as the one that fills an index."""
    record = json.dumps(ProcessId.current().to_json()).encode()
    storage.replace(folder_of(definition) + _BUILDER, record)


def forget_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Remove that record: the index is complete, or given up."""
    storage.delete(folder_of(definition) + _BUILDER)


def remove_abandoned_indexes(storage: Storage, config: TableConfig) -> None:
    """Remove the files of indexes that no process continues; the caller holds the table's lock."""
    used = {folder_of(each) for each in file_index_definitions(config).values()}
    kinds = [f"{ROOT}/{kind}" for kind in storage.folders(ROOT)]
    for parent in (*kinds, *ROOTS[1:]):
        for name in storage.folders(parent):
            folder = f"{parent}/{name}"
            if folder not in used and not _is_being_filled(storage, folder):
                storage.delete_folder(folder)
                storage.delete(folder + _BUILDER)


def _is_being_filled(storage: Storage, folder: str) -> bool:
    try:
        tree = json.loads(storage.read(folder + _BUILDER))
    except (FileMissing, ValueError, RecursionError):
        tree = None
    process = ProcessId.from_json(tree)
    if process is not None and process.is_surely_dead():
        return False
    newest = max((info.modified_ms for info in storage.list(folder)), default=0)
    return own_now_ms() - newest < _PATIENCE_MS
