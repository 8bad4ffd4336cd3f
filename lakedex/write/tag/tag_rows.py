"""Tags every row of a bucket with the location of its key: its file group, and how it is written.

A row may become several: one for each copy of its record, and for a record that moves to another
partition a delete at the old location and an insert at the new one. The `TagPlan` of the write
travels with each task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.write_index import WriteIndex
from lakedex.filegroup.log_changes import marked_deleted
from lakedex.format.spill import Segment, read_segments
from lakedex.index.kinds.windowed.lookup import WindowAccess
from lakedex.keys.generator import values_of, with_values
from lakedex.schema.field_paths import flat
from lakedex.write.context import WriteContext
from lakedex.write.rows import DELETE, FILE_ID, KEY, LIVE, PARTITION, TAGS
from lakedex.write.tag.index_lookup import RecordIndexAccess, record_locations, windowed_locations
from lakedex.write.tag.locations import (
    LOCATIONS,
    Mask,
    Positions,
    distinct,
    group_names,
    mask_of,
    row_of_location,
)
from lakedex.write.tag.stored_rows import SliceCatalog, late_rows, read_stored


@dataclass(frozen=True)
class TagPlan:
    """How one write finds the places of its keys."""

    index: WriteIndex
    update_partition_path: bool
    """Whether a record of a global index moves with its partition value."""
    matches: tuple[tuple[Segment, ...], ...] = ()
    """Places found in file slices, by bucket; not for record indexes."""
    record_index: RecordIndexAccess | None = None
    """None also while the table has no rows."""
    slices: Segment | None = None
    """The catalog of the snapshot's slices, where a worker may need one."""
    window: WindowAccess | None = None
    """A windowed record index, whose places come to those in `matches`."""
    closed: frozenset[str] = frozenset()
    """Groups (see `group_names`) that take nothing back which their logs deleted."""


_NOWHERE = -1


@dataclass(frozen=True)
class _Target:
    """Where rows go; all arrays are equally long."""

    row: Positions
    place: Positions
    """The place, or -1 for a new record."""
    live: bool
    deletes: bool = False
    """Whether the old version of a moved record is taken away."""


@dataclass(frozen=True)
class _Elsewhere:
    """What is known of live places in other partitions than their rows'."""

    late: Mask
    """By row: a stored version is newer."""
    missing: Mask
    """By place: an index names it, but the record is not there."""
    stored_of_place: Positions
    """By place: the number of the stored row, or -1."""
    stored: pa.Table | None = None


def tag_bucket(facts: WriteContext, plan: TagPlan, bucket: int, rows: pa.Table) -> pa.Table:
    """The rows of a bucket with file group and liveness of their keys.

    Args:
        facts: The table.
        plan: What `plan_tagging` found out.
        bucket: The number of the bucket.
        rows: Its rows: one for each key, for indexes per partition one for each key and partition.

    Returns:
        The rows with the columns `TAGS`. Deletes of keys that are not in the table are gone, as
        are rows that would move a record and are older than it.
    """
    places = _find(facts, plan, bucket, rows)
    row = row_of_location(places, rows, per_partition=not plan.index.is_global)
    if (row < 0).any():
        places, row = places.filter(pa.array(row >= 0)), row[row >= 0]
    own = flat(rows[PARTITION]).take(pa.array(row))
    here = mask_of(pc.equal(flat(places[PARTITION]), own))
    live = mask_of(places[LIVE])
    gone = mask_of(rows[DELETE]) | marked_deleted(rows)
    elsewhere = _look_elsewhere(facts, plan, rows, places, row, live & ~here & ~gone[row])
    live = live & ~elsewhere.missing
    targets = _targets(plan, row, here, live, gone, elsewhere.late)
    copies = np.bincount(row[live], minlength=rows.num_rows)
    places = places.append_column(TAGS[3], pa.array(live & (copies[row] > 1)))
    partition_columns = [] if plan.update_partition_path else _partition_columns(facts, rows)
    return _assembled(rows, places, targets, elsewhere, partition_columns)


def _find(facts: WriteContext, plan: TagPlan, bucket: int, rows: pa.Table) -> pa.Table:
    storage = facts.address.open()
    if not plan.index.uses_record_index:
        segments = plan.matches[bucket] if plan.matches else ()
        found = read_segments(storage, segments)
        places = LOCATIONS.empty_table() if found is None else found
        if plan.window is not None:
            known = windowed_locations(storage, plan.window, flat(rows[KEY]))
            places = pa.concat_tables([places, known])
        places = distinct(places)
        return _without_closed(places, plan.closed) if plan.closed else places
    if plan.record_index is None or plan.slices is None or not rows.num_rows:
        return LOCATIONS.empty_table()
    places = record_locations(storage, plan.record_index, rows)
    # Entries may outlive their file group, as after an overwrite by a writer that forgot them.
    known = SliceCatalog(storage, plan.slices).has(group_names(places[PARTITION], places[FILE_ID]))
    return places if known.all() else places.filter(pa.array(known))


def _without_closed(places: pa.Table, closed: frozenset[str]) -> pa.Table:
    """The places without those of deleted records in groups that take none back."""
    names = group_names(places[PARTITION], places[FILE_ID])
    is_closed = mask_of(pc.is_in(names, value_set=pa.array(sorted(closed), pa.string())))
    return places.filter(pa.array(mask_of(places[LIVE]) | ~is_closed))


def _partition_columns(facts: WriteContext, rows: pa.Table) -> list[str]:
    fields = facts.config.partition_fields
    return [name for name in fields if name.partition(".")[0] in rows.column_names]


def _look_elsewhere(
    facts: WriteContext,
    plan: TagPlan,
    rows: pa.Table,
    places: pa.Table,
    row: Positions,
    asked: Mask,
) -> _Elsewhere:
    """Read the stored versions of records that the write would put into another partition."""
    nothing = _Elsewhere(
        np.zeros(rows.num_rows, dtype=np.bool_),
        np.zeros(len(row), dtype=np.bool_),
        np.full(len(row), _NOWHERE, dtype=np.int64),
    )
    numbers = np.flatnonzero(asked)
    if not len(numbers) or plan.slices is None:
        return nothing
    context = facts.read_context()
    moves = plan.update_partition_path
    ordering = context.ordering_fields if moves else ()
    columns = context.ordering_columns if moves else _partition_columns(facts, rows)
    columns = list(dict.fromkeys(name.partition(".")[0] for name in columns))
    if not columns:
        return nothing
    catalog = SliceCatalog(context.storage, plan.slices)
    stored = read_stored(context, catalog, places.take(pa.array(numbers)), columns)
    of_stored = numbers[stored.place]
    nothing.missing[numbers] = True
    nothing.missing[of_stored] = False
    nothing.stored_of_place[of_stored] = np.arange(len(of_stored))
    late = late_rows(rows, row[of_stored], stored.rows, ordering)
    return _Elsewhere(late, nothing.missing, nothing.stored_of_place, stored.rows)


def _targets(
    plan: TagPlan, row: Positions, here: Mask, live: Mask, gone: Mask, late: Mask
) -> list[_Target]:
    """Where each row goes. `row`, `here` and `live` are by place, `gone` and `late` by row."""
    count = len(gone)
    present = live & ~late[row]
    has_live = _any_of(row[live], count)
    dead = np.flatnonzero(here & ~live & ~has_live[row] & ~gone[row])
    # One dead place is enough to take a new record.
    dead = dead[np.unique(row[dead], return_index=True)[1]]
    stays = present & (here | gone[row])
    moves = present & ~stays
    targets = [_Target(row[dead], dead, live=False)]
    if plan.update_partition_path:
        at = np.flatnonzero(moves)
        targets.append(_Target(row[at], at, live=True, deletes=True))
    else:
        stays = stays | moves
    at = np.flatnonzero(stays)
    targets.append(_Target(row[at], at, live=True))
    taken = _any_of(np.concatenate([row[dead], row[at]]), count)
    new = np.flatnonzero(~taken & ~gone & ~late)
    targets.append(_Target(new, np.full(len(new), _NOWHERE, dtype=np.int64), live=False))
    return targets


def _any_of(numbers: Positions, count: int) -> Mask:
    found = np.zeros(count, dtype=np.bool_)
    found[numbers] = True
    return found


def _assembled(
    rows: pa.Table,
    places: pa.Table,
    targets: list[_Target],
    elsewhere: _Elsewhere,
    partition_columns: list[str],
) -> pa.Table:
    """The rows of all targets, in the order of the rows that they come from."""
    row = np.concatenate([target.row for target in targets])
    order = np.argsort(row, kind="stable")
    row = row[order]
    place = np.concatenate([target.place for target in targets])[order]
    live = np.concatenate([np.full(len(t.row), t.live) for t in targets])[order]
    deletes = np.concatenate([np.full(len(t.row), t.deletes) for t in targets])[order]
    same = len(row) == rows.num_rows and bool((row == np.arange(len(row))).all())
    tagged = rows if same else rows.take(pa.array(row))
    known = pa.array(place, mask=place < 0)
    partitions = flat(places[PARTITION]).take(known)
    partitions = pc.coalesce(partitions, flat(tagged[PARTITION]))
    tagged = _with(tagged, PARTITION, partitions)
    if deletes.any():
        tagged = _with(tagged, DELETE, pc.or_(flat(tagged[DELETE]), pa.array(deletes)))
    stored = np.where(place >= 0, np.append(elsewhere.stored_of_place, _NOWHERE)[place], _NOWHERE)
    if elsewhere.stored is not None and (stored >= 0).any():
        for name in partition_columns:
            own, before = (
                values_of(each, name, role="partition") for each in (tagged, elsewhere.stored)
            )
            tagged = with_values(tagged, name, _replaced(own, before, stored))
    tagged = tagged.append_column(TAGS[0], flat(places[FILE_ID]).take(known))
    tagged = tagged.append_column(TAGS[1], pa.array(live))
    for tag in TAGS[2:]:
        of_place = flat(places[tag.name]).take(known).fill_null(pa.scalar(value=False))
        tagged = tagged.append_column(tag, of_place)
    return tagged


def _replaced(own: pa.Array, stored: pa.Array, at: Positions) -> pa.Array:
    """Own values, and where `at` names one the stored value."""
    both = pa.concat_arrays([own, stored.cast(own.type)])
    return both.take(pa.array(np.where(at >= 0, len(own) + at, np.arange(len(own)))))


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    number = rows.schema.get_field_index(name)
    return rows.set_column(number, rows.field(number), values)
