"""Bitmap indexes beside writes: runs that have become many, and files that no run speaks of."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.engine import Engine
from lakedex.errors import LakedexError
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bitmap.collect import BitmapCollector
from lakedex.index.kinds.bitmap.definitions import bitmap_definitions, bitmap_target
from lakedex.index.kinds.bitmap.merging import merge_runs
from lakedex.index.kinds.bitmap.store import list_runs
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.timeline.committed import CommittedInstants
from lakedex.txn.transaction import CommitScope
from lakedex.write.build_ranges import StoredRanges
from lakedex.write.build_survey import shares_of_slices
from lakedex.write.facts import TableFacts

_MOST_RUNS = 16
_TASKS_A_CORE = 4


def bitmap_targets(
    config: TableConfig, columns: pa.Schema, *, with_async: bool = False
) -> tuple[ExpressionTarget, ...]:
    """The bitmap indexes that a write keeps up; of one that cannot be computed files are read.

    Those with `maintenance=async` are not among them, unless asked for.
    """
    found = []
    for definition in bitmap_definitions(config).values():
        if definition.is_async and not with_async:
            continue
        try:
            found.append(bitmap_target(definition, columns))
        except LakedexError:
            continue
    return tuple(found)


@dataclass(frozen=True)
class _Merge:
    address: StorageAddress
    target: ExpressionTarget
    oldest_pending: str


def tend_bitmaps(engine: Engine, facts: TableFacts, scope: CommitScope) -> None:
    """Merge the runs of indexes that have too many; the caller holds the table's lock."""
    due = [
        each
        for each in bitmap_targets(facts.config, facts.schema, with_async=True)
        if len(list_runs(scope.storage, each.definition)) > _MOST_RUNS
    ]
    if due:
        # What a write that goes on has put out already stays.
        pending = (each.requested_time for each in scope.timeline.pending())
        oldest = min([facts.instant, *pending])
        tasks = [_Merge(facts.address, each, oldest) for each in due]
        engine.map("merge the bitmap indexes", _merge, tasks)


def _merge(task: _Merge) -> None:
    storage = task.address.open()
    listed = {
        (partition, name)
        for partition, files in Snapshot.open(storage).listing.files.items()
        for name, _ in files
    }

    def is_kept(partition: str, name: str) -> bool:
        parsed = parse_data_file(name, 0)
        is_new = parsed is not None and parsed.instant_time >= task.oldest_pending
        return is_new or (partition, name) in listed

    merge_runs(storage, task.target.definition, task.target.type, is_kept)


@dataclass(frozen=True)
class _Fill:
    facts: TableFacts
    slices: tuple[FileSlice, ...]


def fill_bitmap(
    engine: Engine, address: StorageAddress, snapshot: Snapshot, definition: IndexDefinition
) -> int:
    """Read the slices that an index does not know, and answer how many they were.

    Raises:
        IndexUnusable: the index cannot be computed here.
        CorruptFile: a run of it is broken.
    """
    target = bitmap_target(definition, snapshot.schema)
    unknown = newer_slices(snapshot, definition)
    facts = TableFacts(
        address=address,
        config=snapshot.config,
        schema=snapshot.schema,
        schema_text="",
        instant="",
        committed=CommittedInstants.of(snapshot.timeline),
        scratch="",
        history=snapshot.history,
        bitmaps=(target,),
    )
    shares = shares_of_slices(unknown, engine.parallelism * _TASKS_A_CORE) if unknown else []
    engine.map("read the data for new indexes", _fill, [_Fill(facts, share) for share in shares])
    return len(unknown)


def _fill(task: _Fill) -> None:
    context = task.facts.read_context()
    taker = BitmapCollector(context.storage, task.facts.bitmaps)
    ranges = StoredRanges(context, (), task.facts.bitmaps, taker)
    for current in task.slices:
        ranges.add(current)
    taker.put_out()
