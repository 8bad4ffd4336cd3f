"""Taking in the rows of a write, before its table's timeline hears of it.

Everything that can be wrong with options, columns and rows is found here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pyarrow as pa

from lakedex.config import MergeMode, TableConfig
from lakedex.config.write_option_names import NULL_FOR_MISSING
from lakedex.config.write_options import InsertDuplicates, WriteOptions
from lakedex.engine import Engine
from lakedex.errors import InvalidInput
from lakedex.filegroup.context import DELETED_FLAG
from lakedex.format.hfile import MAX_KEY_BYTES
from lakedex.format.spill import Segment
from lakedex.index.definitions import IndexDefinition
from lakedex.keys.generator import KeyGenerator
from lakedex.schema.conform import columns_left_out
from lakedex.schema.numbered_columns import numbered, plain
from lakedex.schema.reconcile import reconcile
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.txn.transaction import TransactionOptions
from lakedex.write import operation as kinds
from lakedex.write.column_history import Change, history_before
from lakedex.write.intake import Intake, TakenIn, take_in
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import Operation
from lakedex.write.parts import TaggedPart
from lakedex.write.patience import transaction_options
from lakedex.write.row_source import RowSource
from lakedex.write.rows import DELETE, KEY
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.target import (
    StoredSchema,
    WriteSchema,
    check_indexed_columns,
    check_key_indexes,
)
from lakedex.write.time_folders import check_time_folders
from lakedex.write.windowed.day_window import check_partitions
from lakedex.write.write_order import WriteOrder

_OF_WHOLE_ROWS = (
    kinds.UPSERT,
    kinds.INSERT,
    kinds.MERGED_INSERT,
    kinds.BULK_INSERT,
    kinds.INSERT_OVERWRITE,
)
_MOST_NAMED = 10


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

    @property
    def kept_then(self) -> dict[str, str]:
        """What the table is to keep for its next writers."""
        return {**self.kept, **self.options.kept(), **self.keeping}

    @property
    def patience(self) -> TransactionOptions:
        """How long to wait for other writers."""
        return transaction_options(self.options.lock)


@dataclass(frozen=True)
class Taken:
    """The rows of a write after intake."""

    buckets: tuple[tuple[Segment, ...], ...]
    parts: tuple[TaggedPart, ...]
    """Instead of buckets, where all rows are new."""
    rows: int
    spilled_bytes: int
    partitions: tuple[str, ...]
    schema: WriteSchema
    stored: pa.Schema
    """The table's columns when the rows were taken in."""
    order: WriteOrder | None = None
    """How the rows are to be sorted."""
    has_deletes: bool = False
    """Whether rows take records away."""
    changed: pa.Schema | None = None
    """The columns with their ids, where the write is about them and not about rows."""


def take_rows(
    target: Target,
    operation: Operation,
    source: RowSource | None,
    scratch: str,
    partitions: Sequence[str],
) -> Taken:
    """Read the rows once and spill them, or refuse them with the table as it was."""
    snapshot = target.snapshot
    check_key_indexes(snapshot.config)
    stored = StoredSchema.of(snapshot)
    columns = stored.columns
    config = snapshot.config
    if not operation.is_delete and source is not None:
        columns = reconcile(
            stored.columns,
            _without_mark(source.schema),
            defaults=stored.defaults,
            key_columns=(*config.record_key_fields, *config.partition_fields),
        )
    check_indexed_columns(snapshot, stored.columns, columns)
    target.options.metadata.check_columns(columns.names, target.kept)
    schema = WriteSchema.of(columns, stored)
    if source is not None:
        _check_columns(config, source.schema, target.options, operation)
        _check_left_out(stored, source.schema, target.options, operation)
    if source is None:
        _check_partitions(snapshot, partitions)
        return Taken((), (), 0, 0, (), schema, stored.columns)
    snapshot.list_metadata()
    plan = plan_metadata(snapshot, target.options.metadata, columns, rows=0)
    order = WriteOrder.of(operation, target.options.layout, schema.full, plan.expressions)
    check_time_folders(snapshot)
    keys = KeyGenerator.of(config, columns)
    if operation.is_delete and target.options.index_type.is_global:
        keys = keys.for_keys_only(source.schema.names)
    buckets = max(2, target.engine.parallelism * 2)
    intake = Intake(
        address=target.address,
        scratch=scratch,
        columns=columns,
        keys=keys,
        is_delete=operation.is_delete,
        names_records=operation.looks_up,
        buckets=buckets,
        shards=plan.lookup_shards or buckets,
        all_new=not (operation.looks_up or target.options.combine_before_insert)
        and target.options.insert_duplicates is InsertDuplicates.NONE,
        defaults=stored.defaults,
        ordering=_ordering(config),
        longest_key=MAX_KEY_BYTES if plan.has_record_index else None,
    )
    answers: list[TakenIn] = source.run("read the rows", partial(take_in, intake))
    by_bucket: list[list[Segment]] = [[] for _ in range(buckets)]
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update(answer.rows_by_partition)
        for bucket, segment in answer.segments:
            by_bucket[bucket].append(segment)
    parts = tuple(part for answer in answers for part in answer.parts)
    if target.options.window is not None and not operation.is_delete:
        check_partitions(config, target.options.window, counts)
    return Taken(
        parts=parts,
        buckets=tuple(tuple(segments) for segments in by_bucket),
        rows=sum(counts.values()),
        spilled_bytes=sum(
            segment.length
            for segment in (*chain.from_iterable(by_bucket), *(part.segment for part in parts))
        ),
        partitions=tuple(sorted(counts)),
        schema=schema,
        stored=stored.columns,
        order=order,
        has_deletes=any(answer.has_deletes for answer in answers),
    )


def take_change(target: Target, change: Change) -> Taken:
    """Change the columns of a table, or refuse that with the table as it was."""
    snapshot = target.snapshot
    check_key_indexes(snapshot.config)
    stored = StoredSchema.of(snapshot)
    newest = history_before(snapshot, stored).newest
    changed = change(numbered(stored.columns, newest))
    schema = WriteSchema.of(plain(changed), stored)
    check_indexed_columns(snapshot, stored.columns, schema.columns)
    return Taken((), (), 0, 0, (), schema, stored.columns, changed=changed)


def _check_partitions(snapshot: Snapshot, named: Sequence[str]) -> None:
    """Refuse to replace partitions that the table does not have."""
    present = {current.partition for current in snapshot.slices}
    for partition in named:
        if partition not in present:
            raise InvalidInput(f"the table has no partition {partition!r}")


def _without_mark(incoming: pa.Schema) -> pa.Schema:
    """The columns of rows, but for their keys and the mark of those that are to go away."""
    return pa.schema([column for column in incoming if column.name not in (KEY, DELETE)])


def _check_columns(
    config: TableConfig, incoming: pa.Schema, options: WriteOptions, operation: Operation
) -> None:
    """Refuse rows without the columns that say which record they are, and which version."""
    roles = {"record key": config.record_key_fields}
    if operation.is_delete and not config.record_key_fields:
        roles["record key"] = (KEY,)
    if not (operation.is_delete and options.index_type.is_global):
        roles["partition"] = config.partition_fields
    if not operation.is_delete:
        roles["ordering"] = _ordering(config)
    for role, names in roles.items():
        for name in names:
            if name.partition(".")[0] not in incoming.names:
                raise InvalidInput(f"the rows lack the {role} column {name!r}")


def _check_left_out(
    stored: StoredSchema, incoming: pa.Schema, options: WriteOptions, operation: Operation
) -> None:
    """Refuse rows that lack columns: null would take the place of what records have there."""
    if operation not in _OF_WHOLE_ROWS or options.fills_missing:
        return
    found = columns_left_out(stored.columns, incoming, optional={*stored.defaults, DELETED_FLAG})
    if found:
        raise InvalidInput(
            f"the rows lack {'the column' if len(found) == 1 else 'the columns'} "
            f"{', '.join(map(repr, found[:_MOST_NAMED]))}; give values, or set "
            f"{NULL_FOR_MISSING.name}=true if null is meant"
        )


def _ordering(config: TableConfig) -> tuple[str, ...]:
    """The columns that every row must have a value in, so that versions can be compared."""
    by_event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    return config.ordering_fields if by_event_time else ()
