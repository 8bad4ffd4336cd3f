"""What every commit of a range did to every row: inserted, updated or deleted, before and after.

A commit changes file groups. A row is new in a group if the commit wrote it, and gone if it was
there before and is not any more; a gone and a new row of one key are an update. That is what Hudi's
change data capture shows, and it needs only the file slices before and after the commit, so
a table need not have been written with `hoodie.table.cdc.enabled`. As there, a record that moves to
another file group is deleted in one and inserted in the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import UnsupportedFeature
from lakedex.filegroup import (
    META_COLUMNS,
    RECORD_KEY,
    FileSlice,
    FileSliceId,
    ReadContext,
    latest_slices,
    read_slice,
)
from lakedex.read.changes import (
    COMMIT_TIME,
    instants_before,
    instants_of_files,
    writes_of_rows,
)
from lakedex.schema.field_paths import flat
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_archive
from lakedex.timeline import CommitMetadata, Instant, QueryTime
from lakedex.timeline.timeline import EARLIEST, CommittedInstants

_IDENTITY = META_COLUMNS[:3]
_INSERT, _UPDATE, _DELETE = "i", "u", "d"
_NO_COMMIT = (None, "", "null")
_SEPARATOR = "\x01"


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


def told_changes(snapshot: Snapshot, begin: QueryTime, end: QueryTime | None) -> pa.Table:
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
    touched = set(_touched(metadata))
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


def _touched(metadata: CommitMetadata) -> Iterator[FileSliceId]:
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
