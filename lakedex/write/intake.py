"""The first stage: the rows of a write get their keys and are spilled in buckets of keys.

A write reads its input once, here, before it is on the timeline. Everything that can be wrong with
options, columns and rows is found here.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import MergeMode, TableConfig
from lakedex.config.write_option_names import NULL_FOR_MISSING
from lakedex.config.write_options import InsertDuplicates, WriteOptions
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import partition_layout
from lakedex.filegroup.context import DELETED_FLAG
from lakedex.filegroup.log_changes import marked_deleted
from lakedex.filegroup.ordering import raw_ordering
from lakedex.format.hfile import MAX_KEY_BYTES
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.keys.generator import KeyGenerator, automatic_keys, key_stamp
from lakedex.schema.conform import columns_left_out, conform
from lakedex.schema.numbered_columns import numbered, plain
from lakedex.schema.reconcile import reconcile
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.write import operation as kinds
from lakedex.write.column_history import Change, history_before
from lakedex.write.context import Target
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import Operation
from lakedex.write.parts import TaggedPart, placed_nowhere, put_out
from lakedex.write.row_source import RowSource
from lakedex.write.rows import DELETE, KEY, LEADING
from lakedex.write.target import StoredSchema, WriteSchema, check_indexed_columns, check_key_indexes
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


_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class Intake:
    """What the workers of the first stage know."""

    address: StorageAddress
    scratch: str
    columns: pa.Schema
    """The table's own columns, as this write commits them."""
    keys: KeyGenerator
    is_delete: bool
    """Whether the rows only name records that go away."""
    buckets: int
    shards: int
    """A key's bucket is its shard modulo the number of buckets."""
    names_records: bool = False
    """Whether rows may name records by keys that are not made of columns."""
    all_new: bool = False
    """Whether nothing is to be found out about the rows: they are put out by partition."""
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """What columns hold in rows that leave them out."""
    ordering: tuple[str, ...] = ()
    """The columns that say which version of a record is the newest."""
    longest_key: int | None = None
    """How many bytes of a key the table's indexes can hold; None where there is no limit."""


@dataclass(frozen=True)
class IngestedPart:
    """What one part of the input came to: its segments by bucket, and rows by partition."""

    segments: tuple[tuple[int, Segment], ...]
    rows_by_partition: dict[str, int]
    parts: tuple[TaggedPart, ...] = ()
    """Instead of segments, where all rows are new."""
    has_deletes: bool = False
    """Whether rows take records away."""


def take_in(intake: Intake, number: int, batches: Iterator[pa.RecordBatch]) -> IngestedPart:
    """Spill one part of the input; the worker of the first stage."""
    storage = intake.address.open()
    writer = SpillWriter(
        storage, f"{intake.scratch}/in-{number}-{uuid.uuid4().hex}", holds_small=True
    )
    segments: list[tuple[int, Segment]] = []
    parts: list[TaggedPart] = []
    counts: Counter[str] = Counter()
    stamp, taken = key_stamp(number), 0
    has_deletes = False
    for piece in _pieces(batches):
        given = _given_keys(intake, piece, stamp, taken)
        taken += piece.num_rows
        rows = _with_keys(intake, piece, given)
        has_deletes = has_deletes or _takes_away(rows)
        for value in rows.column(1).value_counts():
            counts[value["values"].as_py()] += value["counts"].as_py()
        if intake.all_new:
            parts += put_out(writer, placed_nowhere(rows))
        else:
            segments += _spill_by_bucket(intake, rows, writer)
    writer.finish()
    return IngestedPart(tuple(segments), dict(counts), tuple(parts), has_deletes)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables that are worth the work on each."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        kept.append(batch)
        size += batch.nbytes
        if size >= _PIECE_BYTES:
            yield pa.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def _given_keys(intake: Intake, piece: pa.Table, stamp: str, taken: int) -> pa.Array | None:
    """Keys that are not made of columns: those that rows bring along, and new ones for others."""
    if not intake.keys.is_automatic:
        return None
    new = automatic_keys(stamp, taken, piece.num_rows)
    if KEY not in piece.column_names or not intake.names_records:
        return new
    return pc.coalesce(piece[KEY].combine_chunks().cast(pa.string()), new)


def _with_keys(intake: Intake, piece: pa.Table, given_keys: pa.Array | None) -> pa.Table:
    count = piece.num_rows
    marks = piece[DELETE].combine_chunks() if DELETE in piece.column_names else None
    if intake.is_delete:
        # Of a record that goes away only the key counts, whatever else the row says.
        wanted = [column for column in intake.columns if column.name in intake.keys.columns]
        given = [column for column in wanted if column.name in piece.column_names]
        piece = conform(piece, pa.schema(given))
    else:
        piece = conform(piece, intake.columns, defaults=intake.defaults)
    piece = piece.combine_chunks()
    if intake.is_delete:
        removed = pa.repeat(pa.scalar(value=True), count)
    else:
        removed = pa.array(unversioned_deletes(piece, intake.ordering))
    if marks is not None:
        removed = pc.or_(removed, marks)
    leading = [
        _checked(intake, intake.keys.keys(piece)) if given_keys is None else given_keys,
        _partition_paths(intake, piece, count),
        removed,
    ]
    own = [
        piece[column.name] if column.name in piece.column_names else pa.nulls(count, column.type)
        for column in intake.columns
    ]
    # Deletes leave required columns empty, so nothing is required on the way.
    fields = [*LEADING, *(column.with_nullable(nullable=True) for column in intake.columns)]
    return pa.Table.from_arrays([*leading, *own], schema=pa.schema(fields))


def _takes_away(rows: pa.Table) -> bool:
    return bool(pc.any(rows[DELETE]).as_py() or marked_deleted(rows).any())


def _checked(intake: Intake, keys: pa.Array) -> pa.Array:
    """The keys, none of them longer than an index can hold."""
    if intake.longest_key is None:
        return keys
    sizes = pc.binary_length(keys)
    at = pc.index(pc.greater(sizes, intake.longest_key), value=True).as_py()
    if at >= 0:
        names = ", ".join(intake.keys.key_fields)
        raise InvalidInput(
            f"record key column {names}: the value in row {at} makes a key of {sizes[at]} bytes, "
            f"and the record index holds at most {intake.longest_key}"
        )
    return keys


def _partition_paths(intake: Intake, piece: pa.Table, count: int) -> pa.Array:
    levels = {level.field.partition(".")[0] for level in intake.keys.levels}
    if not levels or (intake.is_delete and not levels <= set(piece.column_names)):
        # A global index knows where the record is.
        return pa.repeat(pa.scalar("", pa.string()), count)
    return intake.keys.partition_paths(piece)


def _spill_by_bucket(
    intake: Intake, rows: pa.Table, writer: SpillWriter
) -> list[tuple[int, Segment]]:
    if intake.buckets == 1:
        return [(0, writer.add(rows))]
    keys = rows.column(0).combine_chunks()
    return writer.add_by_number(rows, shards_of(keys, intake.shards) % intake.buckets)


def unversioned_deletes(rows: pa.Table, ordering: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Rows that delete their record whatever its ordering value; none without ordering columns.

    Example:
        >>> rows = pa.table({"ver": [7, None], "_hoodie_is_deleted": [False, True]})
        >>> unversioned_deletes(rows, ["ver"]).tolist()
        [False, True]

    Raises:
        InvalidInput: a row that is no such delete has no value in an ordering column.
    """
    deletes = np.zeros(rows.num_rows, dtype=np.bool_)
    found = zip(ordering, raw_ordering(rows, ordering), strict=True)
    missing = {
        name: values.is_null().to_numpy(zero_copy_only=False)
        for name, values in found
        if values.null_count
    }
    if not missing:
        return deletes
    if len(missing) == len(ordering):
        deletes = np.logical_and.reduce(list(missing.values())) & marked_deleted(rows)
    for name, is_missing in missing.items():
        count = int((is_missing & ~deletes).sum())
        if count:
            raise InvalidInput(
                f"the ordering column {name!r} is null in {count} of {rows.num_rows} rows that "
                "were read together; give every row a value, as rows without one cannot be "
                "compared with other versions of their record"
            )
    return deletes


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
