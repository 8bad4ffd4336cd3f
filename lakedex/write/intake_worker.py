"""The worker of the first stage: rows get their keys and are spilled in buckets of keys.

It imports only what executors need for that.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup.log_changes import marked_deleted
from lakedex.filegroup.ordering import raw_ordering
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.keys.generator import KeyGenerator, automatic_keys, key_stamp
from lakedex.schema.conform import conform
from lakedex.storage.open import StorageAddress
from lakedex.write.rows import DELETE, KEY, LEADING, TaggedPart, spill_by_target, tagged_as_new

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
            parts += spill_by_target(writer, tagged_as_new(rows))
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
