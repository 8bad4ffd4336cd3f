"""The table to write, in the driver: its snapshot, options and engine; and its lock for services.

`Target` derives the `WriteContext` that workers get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakedex.config import TableConfig
from lakedex.config.write_index import WriteIndex
from lakedex.config.write_option_names import BLOOM_ERROR_RATE
from lakedex.config.write_options import WriteOptions
from lakedex.engine import Engine
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.maintenance import MaintainedFileIndex
from lakedex.index.kinds.windowed.run_writer import shards_for
from lakedex.index.registry import file_indexes
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.begin import locked_table
from lakedex.txn.conflicts import EarlyLook
from lakedex.txn.lock import open_lock
from lakedex.txn.rollback import LockedTable
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.context import WriteContext
from lakedex.write.metadata_plan import MetadataPlan
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.write_schema import WriteSchema


@dataclass(frozen=True)
class Target:
    """The table to write, with what runs the work and how."""

    address: StorageAddress
    engine: Engine
    options: WriteOptions
    snapshot: Snapshot
    """The table when the options were resolved, which allow to write it."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """What the table kept before."""
    conflict_retries: int = 0
    batch: StreamBatch | None = None
    """The batch of a stream that the rows are."""
    new_indexes: tuple[IndexDefinition, ...] = ()
    """Secondary indexes that the write is to make."""
    refreshed: tuple[str, ...] = ()
    """Indexes with `maintenance=async` that the write is to bring up to date."""
    keeping: Mapping[str, str] = field(default_factory=dict)
    """What the table is to keep beside the options of the write."""
    leaves_settings: bool = False
    """Whether the table keeps what it kept, as not all of it is known."""

    @property
    def kept_then(self) -> dict[str, str]:
        """What the table is to keep for its next writers."""
        if self.leaves_settings:
            return {**self.kept, **self.keeping}
        return {**self.kept, **self.options.kept(), **self.keeping}

    @property
    def patience(self) -> TransactionOptions:
        """How long to wait for other writers."""
        return TransactionOptions.of(self.options.lock)


def maintained_file_indexes(config: TableConfig) -> tuple[MaintainedFileIndex, ...]:
    """The file indexes that a write maintains: not those with `maintenance=async`."""
    return tuple(
        MaintainedFileIndex(each)
        for each in file_indexes(config).values()
        if not each.definition.is_async
    )


_LOOSE_ERROR_RATE = 1e-4
"""For filters that no writer of the table asks."""


def write_context(
    target: Target,
    snapshot: Snapshot,
    schema: WriteSchema,
    plan: MetadataPlan,
    *,
    instant: str,
    scratch: str,
    rows: int,
) -> WriteContext:
    """The facts of the write of an instant that began with a snapshot."""
    options = target.options
    is_bloom = options.lookup_index in (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
    usual_rate = float(BLOOM_ERROR_RATE.default) if is_bloom else _LOOSE_ERROR_RATE
    shards, buckets = plan.record_shards or 1, plan.note_buckets
    if options.window is not None and not plan.has_record_index:
        shards = buckets = shards_for(rows)
    return WriteContext(
        address=target.address,
        config=snapshot.config,
        schema=schema.full,
        schema_text=schema.file_text,
        instant=instant,
        committed=CommittedInstants.of(snapshot.timeline),
        scratch=scratch,
        compression=options.compression,
        bloom_entries=options.bloom.entries,
        bloom_error_rate=options.bloom.error_rate or usual_rate,
        history=snapshot.history,
        repeats_tasks=target.engine.repeats_tasks,
        note_buckets=buckets,
        note_shards=shards,
        early_look=(
            EarlyLook(instant, target.patience.heartbeat) if options.lock.looks_early else None
        ),
        indexes=(*plan.maintained, *maintained_file_indexes(snapshot.config)),
    )


@contextmanager
def locked(target: Target) -> Iterator[LockedTable]:
    """The table with its lock held."""
    storage = target.address.open()
    with open_lock(storage, target.patience.lock) as lock:
        yield locked_table(storage, lock, target.patience.heartbeat)
