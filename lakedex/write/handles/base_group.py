"""Writes a file group's base file: a first one, or a new one with changes merged in.

Of rows that stay as they are, commit time and sequence number stay too; the file name is the new
file's in all rows. Which version of a record wins is decided by the code that merges log files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import META_COLUMNS, FileSlice, ReadContext, read_slice
from lakedex.filegroup.ordering import ordering_of
from lakedex.index.maintenance import ChangedRows
from lakedex.merge import ChangeSet, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.write.context import WriteContext
from lakedex.write.handles.base_file import encode_base_file
from lakedex.write.handles.incoming import Incoming, Mask, Positions, with_file_name
from lakedex.write.handles.outcome import Outcome
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import NO_COMMIT, GroupWork, WrittenFile
from lakedex.write.rows import KEY

_ROW = "row"


@dataclass(frozen=True)
class _Merged:
    """The rows of the new file, and how they came about."""

    rows: pa.Table
    added: pa.Array
    gone: pa.Array
    updates: int
    deletes: int
    changed: ChangedRows | None = None

    @property
    def is_unchanged(self) -> bool:
        return not (len(self.added) or self.updates or self.deletes)


def write_base(
    facts: WriteContext,
    context: ReadContext,
    publisher: Publisher,
    group: GroupWork,
    incoming: Incoming,
) -> Outcome | None:
    """Write the base file; None when nothing in the group changes."""
    stored = _stored_rows(context, group.current)
    merged = _merge(context, stored, incoming, facts.row_columns)
    if merged.is_unchanged:
        return None
    rows = with_file_name(merged.rows, group.file_name)
    encoded = encode_base_file(facts, rows)
    size = publisher.publish(group, encoded.data)
    base = None if group.current is None else group.current.base
    file = WrittenFile(
        partition=group.partition,
        file_id=group.file_id,
        name=group.file_name,
        is_log=False,
        size=size,
        previous_base=None if base is None else base.name,
        prev_commit=NO_COMMIT if group.current is None else group.current.base_instant,
        num_writes=rows.num_rows,
        num_inserts=len(merged.added),
        num_updates=merged.updates,
        num_deletes=merged.deletes,
    )
    bloom = encoded.bloom(group.partition, file.name)
    return Outcome(
        file, rows, encoded.sizes, merged.added, merged.gone, bloom, changed=merged.changed
    )


def _stored_rows(context: ReadContext, current: FileSlice | None) -> pa.Table:
    schema = context.schema
    if current is None:
        return schema.empty_table()
    parts = list(read_slice(context, current, schema.names, batch_rows=None))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _merge(
    context: ReadContext, stored: pa.Table, incoming: Incoming, indexed: list[str]
) -> _Merged:
    """Lay the incoming rows over the stored ones.

    Rows are numbered, stored ones first, and only the numbers go through the merge.
    """
    tell = partial(_changed_rows, stored, incoming.rows, indexed)
    count = stored.num_rows
    nothing = pa.nulls(0, pa.string())
    if not incoming.is_here.any():
        new = np.flatnonzero(incoming.is_new)
        rows = _taken(stored, incoming.rows, np.concatenate([np.arange(count), count + new]))
        changed = tell(np.zeros(0, dtype=np.int64), new, None)
        return _Merged(rows, incoming.keys.take(pa.array(new)), nothing, 0, 0, changed)
    keys = context.record_keys(stored)
    # Of a key that stands twice no version may stay that is older than the new one.
    merged, inserted = merged_numbers(context, stored, keys, incoming, every_copy=True)
    kept = merged[merged < count]
    lost = np.ones(count, dtype=np.bool_)
    lost[kept] = False
    updates = len(merged) - len(kept)
    added = np.sort(np.concatenate([inserted, count + np.flatnonzero(incoming.is_new)]))
    rows = _taken(stored, incoming.rows, np.concatenate([merged, added]))
    left = keys.filter(pa.array(lost)).unique()
    return _Merged(
        rows=rows,
        added=incoming.keys.take(pa.array(added - count)),
        gone=left.filter(pa.array(_has_none_of(left, flat(rows[KEY])))),
        updates=updates,
        deletes=int(lost.sum()) - updates,
        changed=tell(
            np.flatnonzero(lost),
            np.concatenate([np.unique(merged[merged >= count]), added]) - count,
            left,
        ),
    )


def _changed_rows(
    stored: pa.Table,
    incoming: pa.Table,
    indexed: list[str],
    lost: Positions,
    came: Positions,
    lost_keys: pa.Array | None,
) -> ChangedRows | None:
    """The rows that went and those that came; None where no index needs them."""
    if not indexed:
        return None
    columns = list(dict.fromkeys([KEY, *indexed]))
    before = stored.select(columns)
    others = None
    if lost_keys is not None and len(lost_keys):
        # Where a key stands twice one of its rows may stay.
        is_same = pc.is_in(before[KEY], value_set=lost_keys).to_numpy().astype(np.bool_)
        is_same[lost] = False
        others = before.filter(pa.array(is_same)) if is_same.any() else None
    after = incoming.select(columns).take(pa.array(came))
    return ChangedRows(before.take(pa.array(lost)), after, others)


def merged_numbers(
    context: ReadContext,
    stored: pa.Table,
    keys: pa.Array,
    incoming: Incoming,
    *,
    every_copy: bool = False,
) -> tuple[Positions, Positions]:
    """Which rows take the places of the stored ones, and which have no place among them.

    Of a key that stands twice the first row is replaced, as a reader of log files does it, or
    `every_copy`.
    """
    here = np.flatnonzero(incoming.is_here)
    entries = incoming.entries(context, here)
    numbers = pa.table({_ROW: stored.num_rows + here})
    changes = ChangeSet(
        entries, newest_per_key(entries), numbers, np.arange(len(here)), every_copy=every_copy
    )
    ordering = ordering_of(stored, context.ordering_fields)
    merged = changes.apply(pa.table({_ROW: np.arange(stored.num_rows)}), keys, ordering)
    return merged[_ROW].to_numpy(), changes.inserts()[_ROW].to_numpy()


def _taken(stored: pa.Table, incoming: pa.Table, numbers: Positions) -> pa.Table:
    """Rows by their numbers; file names are not worth the copy, as they are set after."""
    both = pa.concat_tables([_without_names(stored), _without_names(incoming)])
    if len(numbers) != both.num_rows or not np.array_equal(numbers, np.arange(len(numbers))):
        both = both.take(pa.array(numbers))
    number = META_COLUMNS.index("_hoodie_file_name")
    field = stored.schema.field(number)
    return both.add_column(number, field, pa.nulls(both.num_rows, field.type))


def _without_names(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["_hoodie_file_name"])


def _has_none_of(keys: pa.Array, others: pa.Array) -> Mask:
    return ~pc.is_in(keys, value_set=others).to_numpy(zero_copy_only=False).astype(np.bool_)
