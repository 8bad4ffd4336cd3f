"""Rows that commits of a range changed: as they are now, or what every commit did to every row.

A row belongs to the change if the commit in its commit-time column is one of the commits in the
range. Deleted rows leave no trace in that; only file slices that a commit of the range wrote to are
read.

What every commit did follows from the file groups that it changed. A row is new in a group if the
commit wrote it, and gone if it was there before and is not any more; a gone and a new row of one
key are an update. That is what Hudi's change data capture shows, and it needs only the file slices
before and after the commit, so a table need not have been written with `hoodie.table.cdc.enabled`.
As there, a record that moves to another file group is deleted in one and inserted in the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import (
    META_COLUMNS,
    RECORD_KEY,
    FileSlice,
    FileSliceId,
    ReadContext,
    latest_slices,
    read_slice,
)
from lakedex.read.scan import Scan, to_table
from lakedex.schema.field_paths import flat
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_archive
from lakedex.table.retention import is_retained
from lakedex.timeline import CommitMetadata, Instant, QueryTime
from lakedex.timeline.timeline import EARLIEST, CommittedInstants

COMMIT_TIME = "_hoodie_commit_time"
_IDENTITY = META_COLUMNS[:3]
_INSERT, _UPDATE, _DELETE = "i", "u", "d"
_NO_COMMIT = (None, "", "null")
_SEPARATOR = "\x01"


@dataclass(frozen=True)
class Changes:
    """Where the rows of a range of commits are."""

    view: Snapshot
    """The table as of the end of the range."""
    slices: tuple[FileSlice, ...]
    commits: tuple[str, ...]
    """The requested times that the rows' commit-time column may hold."""


def find_changes(
    snapshot: Snapshot,
    begin: QueryTime,
    end: QueryTime | None,
    *,
    at_newest: bool = False,
    takes_what_is_left: bool = False,
) -> Changes:
    """Which slices hold rows written after `begin` and up to `end`.

    Rows are read as of `end`. With `at_newest`, and with `takes_what_is_left` where files of then
    were cleaned, they are read as they are now, and those that were written again since are not
    among them.

    Raises:
        InvalidInput: Files of `end` were cleaned.
    """
    if COMMIT_TIME not in snapshot.schema.names:
        raise UnsupportedFeature("reading changes of a table without meta columns")
    snapshot.check_timeline()
    instants = snapshot.timeline.between(begin, end)
    if not instants:
        active = snapshot.timeline.write_instants()
        check_archive(snapshot.timeline, instants_of_files(snapshot, active), begin)
        return Changes(snapshot, (), ())
    view = snapshot
    if end is not None and not at_newest:
        last = max(instant.requested_time for instant in instants)
        if not takes_what_is_left or is_retained(snapshot.timeline, last):
            view = snapshot.at(last)
    written = writes_of_rows(snapshot, instants)
    commits = tuple(each.requested_time for each in written)
    check_archive(view.timeline, instants_of_files(view, written), begin)
    return Changes(view, tuple(_touched(view, written, begin)), commits)


def instants_of_files(view: Snapshot, written: Sequence[Instant]) -> Iterator[str]:
    """The instants that the files of a table, and those before them, were written by."""
    for each in view.slices:
        yield each.base_instant
    yield from instants_before(view, written)


def instants_before(view: Snapshot, written: Sequence[Instant]) -> Iterator[str]:
    """The instants whose files were there before some commits wrote to their file groups."""
    for instant in written:
        for stat in view.timeline.commit_metadata(instant).stats():
            yield stat.prev_commit or ""


def changed_rows(
    snapshot: Snapshot, begin: QueryTime, end: QueryTime | None, columns: tuple[str, ...] | None
) -> pa.Table:
    """Rows written after `begin` and up to `end`, in their version as of `end`.

    Without `columns` they have the columns that the table had then.
    """
    changes = find_changes(snapshot, begin, end)
    view = changes.view
    wanted = tuple(view.schema.names) if columns is None else columns
    if not changes.commits:
        return view.read_context.target(wanted).empty_table()
    scan = Scan(
        context=view.read_context,
        slices=changes.slices,
        columns=wanted,
        arrow_filter=pc.field(COMMIT_TIME).isin(pa.array(changes.commits, pa.string())),
        arrow_columns=(COMMIT_TIME,),
    )
    return to_table(scan)


def writes_of_rows(snapshot: Snapshot, instants: tuple[Instant, ...]) -> list[Instant]:
    """The instants that changed rows: compaction and clustering only move them."""
    found = []
    for instant in instants:
        metadata = snapshot.timeline.commit_summary(instant)
        if not (metadata.compacted or metadata.is_clustering):
            found.append(instant)
    return found


def _touched(view: Snapshot, written: list[Instant], begin: QueryTime) -> list[FileSlice]:
    """The slices that can hold rows of these instants, by their metadata or by names of files.

    Compaction keeps file ids and clustering does not, so after a clustering every slice counts.
    """
    groups: set[FileSliceId] = set()
    times = {each.requested_time for each in written}
    for instant in written:
        metadata = view.timeline.commit_metadata(instant)
        for partition, stats in metadata.partition_to_stats.items():
            groups.update(FileSliceId(partition, stat.file_id or "") for stat in stats)
    clustered = any(
        view.timeline.commit_summary(instant).is_clustering
        for instant in view.timeline.between(begin)
    )
    return [
        each
        for each in view.slices
        if clustered or each.id in groups or not times.isdisjoint(each.instants)
    ]


def names_in(argument: str, given: object) -> list[str]:
    """The texts of an argument that is a list of them."""
    if isinstance(given, str):
        raise InvalidInput(f"{argument} must be a list of names, not the text {given!r}")
    names: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{argument} takes names, not {name!r}")
    return names


def texts_in(argument: str, given: object) -> pa.Array:
    """The texts of an argument that is a list or an Arrow column of them."""
    if not isinstance(given, pa.Array | pa.ChunkedArray):
        return pa.array(names_in(argument, given), pa.string())
    column = given.cast(pa.string()) if given.type == pa.large_string() else given
    if column.type != pa.string() or column.null_count:
        raise InvalidInput(f"{argument} takes texts, none of them null, not {column.type}")
    return flat(column)


@dataclass(frozen=True)
class View:
    """One side of a commit: a slice, and the instants that count in it."""

    slice: FileSlice
    is_committed: CommittedInstants


@dataclass(frozen=True)
class GroupChange:
    """What one commit did to one file group; one side may be missing."""

    commit: str
    before: View | None
    after: View | None

    @property
    def shown(self) -> FileSlice:
        """The slice by which the change is counted."""
        view = self.after or self.before
        if view is None:
            raise AssertionError("a change has a side")
        return view.slice


def find_row_changes(
    snapshot: Snapshot, begin: QueryTime, end: QueryTime | None
) -> tuple[GroupChange, ...]:
    """The file groups that commits after `begin` and up to `end` wrote to or took away.

    As in Hudi the range is by the times that stand in the rows, at which commits began.

    Raises:
        InvalidInput: Files of the range were cleaned since.
        UnsupportedFeature: The table does not keep which commit wrote a row.
    """
    if COMMIT_TIME not in snapshot.schema.names:
        raise UnsupportedFeature("reading changes of a table without meta columns")
    snapshot.check_timeline()
    chosen = snapshot.timeline.between(begin, end, as_requested=True)
    written = writes_of_rows(snapshot, chosen)
    instants = written or snapshot.timeline.write_instants()
    check_archive(snapshot.timeline, instants_of_files(snapshot, instants), begin)
    check_archive(snapshot.timeline, instants_before(snapshot, written), EARLIEST[0])
    every = sorted(snapshot.timeline.between(None)) if written else []
    found: list[GroupChange] = []
    for instant in written:
        at = bisect_left(every, instant)
        found += _changes_of(snapshot, instant, every[at - 1].requested_time if at else None)
    return tuple(found)


def read_row_changes(snapshot: Snapshot, begin: QueryTime, end: QueryTime | None) -> pa.Table:
    """The changes of a range of commits, in their order.

    The rows before and after are structs of the columns that the table has now.
    """
    columns = own_columns(snapshot)
    row = pa.struct(list(columns))
    types = [("op", pa.string()), ("ts_ms", pa.string()), ("before", row), ("after", row)]
    parts = [pa.schema(types).empty_table()]
    parts += [
        changed_rows_of(snapshot.read_context, change, columns)
        for change in find_row_changes(snapshot, begin, end)
    ]
    return pa.concat_tables(parts)


def own_columns(snapshot: Snapshot) -> pa.Schema:
    """The columns of a table in its changes: all but Hudi's five."""
    return pa.schema([each for each in snapshot.schema if each.name not in META_COLUMNS])


def changed_rows_of(context: ReadContext, change: GroupChange, columns: pa.Schema) -> pa.Table:
    """The changed rows of one file group: `op`, `ts_ms`, and the row `before` and `after`.

    Both slices are held in memory.
    """
    names = [*_IDENTITY, *columns.names]
    old, new = (_rows(context, view, names) for view in (change.before, change.after))
    written = new.filter(pc.equal(new[COMMIT_TIME], change.commit))
    gone = old.filter(pc.invert(pc.is_in(_names(old), value_set=_names(new))))
    partner = pc.index_in(_numbered_keys(written), value_set=_numbered_keys(gone))
    left = np.ones(gone.num_rows, dtype=np.bool_)
    left[partner.drop_null().to_numpy(zero_copy_only=False)] = False
    gone_rows, deleted = _structs(gone, columns), pa.array(left)
    is_update = partner.is_valid()
    ops = pc.if_else(is_update, _UPDATE, _INSERT)
    count = int(left.sum())
    before = pa.concat_arrays([gone_rows.take(partner), gone_rows.filter(deleted)])
    after = pa.concat_arrays([_structs(written, columns), pa.nulls(count, before.type)])
    op = pa.concat_arrays([ops, pa.repeat(pa.scalar(_DELETE), count)])
    times = pa.repeat(pa.scalar(change.commit), len(op))
    return pa.table({"op": op, "ts_ms": times, "before": before, "after": after})


def _changes_of(snapshot: Snapshot, instant: Instant, earlier: str | None) -> Iterator[GroupChange]:
    """What an instant changed since an earlier one, the last before it."""
    metadata = snapshot.timeline.commit_metadata(instant)
    touched = set(_touched_groups(metadata))
    replaced = {
        FileSliceId(partition, file_id)
        for partition, ids in metadata.replaced_file_ids.items()
        for file_id in ids
    }
    is_old = any(stat.prev_commit not in _NO_COMMIT for stat in metadata.stats())
    before: Mapping[FileSliceId, View] = {}
    if earlier is not None and (is_old or replaced):
        before = _views(snapshot, earlier, touched | replaced)
    after = _views(snapshot, instant.requested_time, touched) if touched else {}
    for place in sorted(before.keys() | after.keys()):
        yield GroupChange(instant.requested_time, before.get(place), after.get(place))


def _touched_groups(metadata: CommitMetadata) -> Iterator[FileSliceId]:
    for partition, stats in metadata.partition_to_stats.items():
        for stat in stats:
            yield FileSliceId(partition, stat.file_id or "")


def _views(snapshot: Snapshot, as_of: str, wanted: set[FileSliceId]) -> Mapping[FileSliceId, View]:
    view = snapshot.at(as_of)
    is_committed = CommittedInstants.of(view.timeline)
    found = {}
    for partition in sorted({place.partition for place in wanted}):
        # All versions that were not cleaned are listed, so that one listing serves all times.
        files = snapshot.listing.files.get(partition, ())
        for each in latest_slices(partition, files, view.visibility):
            if each.id in wanted:
                found[each.id] = View(each, is_committed)
    return found


def _rows(context: ReadContext, view: View | None, names: Sequence[str]) -> pa.Table:
    parts = [context.target(names).empty_table()]
    if view is not None:
        at = replace(context, is_committed=view.is_committed)
        parts += list(read_slice(at, view.slice, names, batch_rows=None))
    return pa.concat_tables(parts).combine_chunks()


def _names(rows: pa.Table) -> pa.Array:
    """What identifies a version of a row."""
    parts = [flat(rows[name]).fill_null("") for name in _IDENTITY]
    return flat(pc.binary_join_element_wise(*parts, _SEPARATOR))


def _numbered_keys(rows: pa.Table) -> pa.Array:
    """The keys, each with how often it stood before, so that copies find partners one by one."""
    keys = flat(rows[RECORD_KEY])
    if not len(keys):
        return keys
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    times = np.empty(len(ordered), dtype=np.int64)
    times[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return flat(pc.binary_join_element_wise(keys, pa.array(times).cast(pa.string()), _SEPARATOR))


def _structs(rows: pa.Table, columns: pa.Schema) -> pa.StructArray:
    arrays = [flat(rows[name]) for name in columns.names]
    return pa.StructArray.from_arrays(arrays, fields=list(columns))
