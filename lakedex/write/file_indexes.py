"""File indexes beside writes: which of them a write maintains, merging their runs, filling gaps."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakedex.engine import Engine
from lakedex.errors import LakedexError
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.index.file_index import FileIndex
from lakedex.index.file_index.maintenance import MaintainedFileIndex, merge_runs
from lakedex.index.file_index.run import list_runs
from lakedex.index.registry import file_indexes
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.transaction import CommitScope
from lakedex.write.build_survey import StoredFiles, shares_of_slices
from lakedex.write.context import WriteContext

_MOST_RUNS = 16
BUILD_TASKS_A_CORE: Final = 4
log = logging.getLogger("lakedex")


@dataclass(frozen=True)
class _Merge:
    facts: WriteContext
    index: FileIndex
    oldest_pending: str
    listed: pa.Array
    """The paths of all files of the table: executors cannot read its metadata table."""


def merge_file_indexes(engine: Engine, facts: WriteContext, scope: CommitScope) -> None:
    """Merge the runs of indexes that have too many; the caller holds the table's lock."""
    due = [
        each
        for each in file_indexes(facts.config).values()
        if len(list_runs(scope.storage, each.definition)) > _MOST_RUNS
    ]
    if due:
        # What a pending write has stored already stays.
        pending = (each.requested_time for each in scope.timeline.pending())
        oldest = min([facts.instant, *pending])
        listing = Snapshot.open(scope.storage).listing.files
        listed = pa.array(
            [_path(partition, name) for partition, files in listing.items() for name, _ in files],
            pa.string(),
        )
        tasks = [_Merge(facts, each, oldest, listed) for each in due]
        engine.map("merge the runs of file indexes", _merge, tasks)


def _merge(task: _Merge) -> None:
    listed = frozenset(task.listed.to_pylist())

    def is_kept(partition: str, name: str) -> bool:
        parsed = parse_data_file(name, 0)
        is_new = parsed is not None and parsed.instant_time >= task.oldest_pending
        return is_new or _path(partition, name) in listed

    try:
        merge_runs(task.facts.read_context(), task.index, is_kept)
    except LakedexError as error:
        # The commit goes on: queries say what is wrong, and REFRESH INDEX builds the index again.
        log.warning("the runs of %s are not merged: %s", task.index.name, error)


def _path(partition: str, name: str) -> str:
    return f"{partition}/{name}"


@dataclass(frozen=True)
class _Fill:
    facts: WriteContext
    slices: tuple[FileSlice, ...]


def fill_file_index(
    engine: Engine, address: StorageAddress, snapshot: Snapshot, index: FileIndex
) -> int:
    """Read the slices that an index does not describe; returns how many they were.

    Raises:
        IndexUnusable: the index cannot be computed here.
        CorruptFile: a run of it is broken.
    """
    unknown = newer_slices(snapshot, index.definition)
    facts = WriteContext(
        address=address,
        config=snapshot.config,
        schema=snapshot.schema,
        schema_text="",
        instant="",
        committed=CommittedInstants.of(snapshot.timeline),
        scratch="",
        history=snapshot.history,
        indexes=(MaintainedFileIndex(index),),
    )
    shares = shares_of_slices(unknown, engine.parallelism * BUILD_TASKS_A_CORE) if unknown else []
    engine.map("read the data for new indexes", _fill, [_Fill(facts, share) for share in shares])
    return len(unknown)


def _fill(task: _Fill) -> None:
    context = task.facts.read_context()
    collectors = task.facts.collectors(context.storage)
    stored = StoredFiles(context, collectors)
    for current in task.slices:
        stored.add(current)
    collectors.finish()
