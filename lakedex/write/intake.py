"""The first stage: the rows of a write get their keys and are spilled in buckets of keys.

A write reads its input once, here, before it is on the timeline. Everything that can be wrong with
options, columns and rows is found here.

It also resolves how the write sorts new rows (`WriteOrder`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa

from lakedex.config import MergeMode, TableConfig
from lakedex.config.service_options import BulkSort, LayoutOptions
from lakedex.config.write_option_names import NULL_FOR_MISSING
from lakedex.config.write_options import InsertDuplicates, WriteOptions
from lakedex.engine import Engine
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import partition_layout
from lakedex.filegroup.context import DELETED_FLAG
from lakedex.format.hfile import MAX_KEY_BYTES
from lakedex.format.spill import Segment
from lakedex.index.maintenance import MaintainedIndex
from lakedex.keys.generator import KeyGenerator
from lakedex.schema.conform import columns_left_out
from lakedex.schema.numbered_columns import numbered, plain
from lakedex.schema.reconcile import reconcile
from lakedex.table import Snapshot
from lakedex.write import operation as kinds
from lakedex.write.assign import FileSizes
from lakedex.write.context import WriteContext
from lakedex.write.intake_worker import (
    IngestedPart,
    Intake,
    take_in,
)
from lakedex.write.layout.arranging import Arranged, Part, Unarranged, arrange
from lakedex.write.layout.order import RowOrder, Strategy
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import Operation
from lakedex.write.row_source import RowSource
from lakedex.write.rows import DELETE, KEY, TaggedPart
from lakedex.write.windowed_index import check_partitions
from lakedex.write.write_schema import (
    Change,
    StoredSchema,
    WriteSchema,
    check_indexed_columns,
    check_key_indexes,
    history_before,
)
from lakedex.write.write_target import Target

_OF_WHOLE_ROWS = (
    kinds.UPSERT,
    kinds.INSERT,
    kinds.MERGED_INSERT,
    kinds.BULK_INSERT,
    kinds.INSERT_OVERWRITE,
)
_MOST_NAMED = 10


@dataclass(frozen=True)
class IngestedRows:
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
) -> IngestedRows:
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
        return IngestedRows((), (), 0, 0, (), schema, stored.columns)
    snapshot.list_metadata()
    plan = plan_metadata(snapshot, target.options.metadata, columns, rows=0)
    order = WriteOrder.of(operation, target.options.layout, schema.full, plan.maintained)
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
        and target.options.buckets is None
        and target.options.insert_duplicates is InsertDuplicates.NONE,
        defaults=stored.defaults,
        ordering=_ordering(config),
        longest_key=MAX_KEY_BYTES if plan.has_record_index else None,
    )
    answers: list[IngestedPart] = source.run("read the rows", partial(take_in, intake))
    by_bucket: list[list[Segment]] = [[] for _ in range(buckets)]
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update(answer.rows_by_partition)
        for bucket, segment in answer.segments:
            by_bucket[bucket].append(segment)
    parts = tuple(part for answer in answers for part in answer.parts)
    if target.options.window is not None and not operation.is_delete:
        check_partitions(config, target.options.window, counts)
    return IngestedRows(
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


def take_change(target: Target, change: Change) -> IngestedRows:
    """Change the columns of a table, or refuse that with the table as it was."""
    snapshot = target.snapshot
    check_key_indexes(snapshot.config)
    stored = StoredSchema.of(snapshot)
    newest = history_before(snapshot, stored).newest
    changed = change(numbered(stored.columns, newest))
    schema = WriteSchema.of(plain(changed), stored)
    check_indexed_columns(snapshot, stored.columns, schema.columns)
    return IngestedRows((), (), 0, 0, (), schema, stored.columns, changed=changed)


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


def check_time_folders(snapshot: Snapshot) -> None:
    """Refuse to write where a moment has a folder of another name than ours.

    Hudi names such a folder by the stored number where a DataFrame is written, as we do, and by
    the time as text (`at=2024-01-01 00%3A00%3A00`) where SQL is. In a table of the second kind a
    record would get a second folder, and be there twice.

    Raises:
        UnsupportedFeature: The table has such a folder.
    """
    layout = partition_layout(snapshot.config)
    names = [
        name
        for name in snapshot.config.partition_fields
        if name in snapshot.schema.names
        and name not in layout.derived_fields
        and pa.types.is_timestamp(snapshot.schema.field(name).type)
    ]
    if not names:
        return
    for path in sorted(snapshot.slices.partitions):
        texts = layout.texts(path)
        for name in names:
            text = texts.get(name)
            if text is not None and not text.removeprefix("-").isdigit():
                raise UnsupportedFeature(
                    f"writing a table whose partitions by the timestamp {name} are folders such as "
                    f"{path!r}, named by Hudi's SQL (write it with Hudi, or copy it: "
                    "CREATE TABLE ... AS SELECT)"
                )


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """The order of new rows, inside of files or across all files of a partition."""

    order: RowOrder
    across_files: bool

    @classmethod
    def of(
        cls,
        operation: Operation,
        options: LayoutOptions,
        schema: pa.Schema,
        indexes: Sequence[MaintainedIndex] = (),
    ) -> WriteOrder | None:
        """What the options ask for; None leaves rows as they come.

        Raises:
            InvalidInput: the table lacks a column, or rows cannot be sorted by it.
        """
        names, sort = options.write_columns, BulkSort.NONE
        if operation.sorts:
            names, sort = options.bulk_columns or names, options.bulk_sort
        if operation.is_delete or not (names or sort is not BulkSort.NONE):
            return None
        order = RowOrder.of(names or (KEY,), Strategy.parse(options.strategy), schema, indexes)
        return cls(order, across_files=sort is not BulkSort.IN_FILES)

    def arranged(
        self, engine: Engine, facts: WriteContext, parts: Sequence[TaggedPart], sizes: FileSizes
    ) -> list[Arranged]:
        """The rows of each new file."""
        segments: dict[str, list[Segment]] = defaultdict(list)
        for part in parts:
            segments[part.partition].append(part.segment)
        partitions = {}
        for path, own in segments.items():
            rows = sum(segment.rows for segment in own)
            files = -(-rows // sizes.most_rows())
            partitions[path] = Unarranged(tuple(Part(path, each) for each in own), rows, files)
        return arrange(engine, facts, self.order, partitions)
