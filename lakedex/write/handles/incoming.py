"""The rows that go into one file group, and what comes of them (`Outcome`).

Rows are read from their segments, classified by masks, and get their meta columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import META_COLUMNS, ReadContext
from lakedex.filegroup.log_changes import marked_deleted, without_ordering
from lakedex.filegroup.ordering import ordering_values, raw_ordering
from lakedex.format.spill import Segment, read_segments
from lakedex.index.commit_changes import BloomText
from lakedex.index.maintenance import ChangedRows, ColumnSizes, FileRows
from lakedex.merge import Entries
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.handles.work import GroupWork, WriteTask, WrittenFile
from lakedex.write.rows import DELETE, ELSEWHERE, FILE_ID, KEY, LIVE, PARTITION

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
_COMMIT_TIME = META_COLUMNS[0]


@dataclass(frozen=True)
class Incoming:
    """The rows of one group in the order of their arrival, with masks over them."""

    rows: pa.Table
    """The table's columns with the meta columns; `_hoodie_file_name` is null."""
    is_removal: Mask
    """Keys that go away whatever their ordering value."""
    is_flagged: Mask
    """Rows that are marked as deleted, and delete by their ordering value."""
    is_here: Mask
    """Rows whose key has its place in this group; the others are new."""
    is_live: Mask
    """Rows whose key is in the group now, as the index sees it."""
    is_elsewhere: Mask
    """Rows whose key is in other groups, too, as after a plain insert."""

    @property
    def keys(self) -> pa.Array:
        """The record keys."""
        return flat(self.rows[KEY])

    @property
    def is_new(self) -> Mask:
        """Rows that are put in without looking for their key."""
        return ~self.is_here & ~self.is_removal & ~self.is_flagged

    def entries(self, context: ReadContext, chosen: Positions) -> Entries:
        """Some of the rows as changes, told apart as the reader of log blocks does."""
        columns = list(dict.fromkeys([KEY, *context.ordering_columns]))
        rows = self.rows.select(columns).take(pa.array(chosen))
        raw = raw_ordering(rows, context.ordering_fields)
        flagged, removal = self.is_flagged[chosen], self.is_removal[chosen]
        return Entries(
            keys=flat(rows[KEY]),
            ordering=tuple(ordering_values(values) for values in raw),
            is_delete=flagged | removal,
            is_unconditional=removal | (flagged & without_ordering(raw, rows.num_rows)),
            is_tombstone=removal,
        )


class IncomingReader:
    """Reads the rows of a task's groups; a segment that several groups share is read once."""

    def __init__(self, task: WriteTask, storage: Storage) -> None:
        """Count how often each segment will be asked for."""
        self._task = task
        self._storage = storage
        self._uses = Counter(segment for group in task.groups for segment in group.segments)
        self._kept: dict[Segment, pa.Table] = {}
        self._first = 0

    def read(self, group: GroupWork) -> Incoming:
        """The rows of the next group of the task; groups are asked for in their order."""
        parts = []
        for number, segment in enumerate(group.segments):
            rows = self._segment(segment)
            parts.append(rows if group.ranges is None else rows.slice(*group.ranges[number]))
        # One chunk a column: everything after is faster on them.
        spilled = pa.concat_tables(parts).combine_chunks()
        if group.order is not None:
            spilled = spilled.take(pa.array(group.order.positions(spilled))).combine_chunks()
        if _COMMIT_TIME in spilled.column_names:
            return _unchanged(spilled.select(self._task.facts.schema.names))
        first, self._first = self._first, self._first + spilled.num_rows
        facts = self._task.facts
        lead = f"{facts.instant}_{self._task.number}_"
        rows = _with_meta(spilled, facts.schema, facts.instant, lead, first)
        here = pc.equal(spilled[FILE_ID], group.file_id)
        return Incoming(
            rows,
            is_removal=_mask(spilled[DELETE]),
            is_flagged=marked_deleted(rows),
            is_here=_mask(here),
            is_live=_mask(here) & _mask(spilled[LIVE]),
            is_elsewhere=_mask(spilled[ELSEWHERE]),
        )

    def _segment(self, segment: Segment) -> pa.Table:
        table = self._kept.pop(segment, None)
        if table is None:
            table = read_segments(self._storage, [segment])
        self._uses[segment] -= 1
        if self._uses[segment] > 0 and table is not None:
            self._kept[segment] = table
        return table


def _unchanged(rows: pa.Table) -> Incoming:
    """Rows of the table itself, which only get another place."""
    nothing = np.zeros(rows.num_rows, dtype=np.bool_)
    return Incoming(rows, nothing, nothing, nothing, nothing, nothing)


def with_file_name(rows: pa.Table, name: str) -> pa.Table:
    """The rows with the meta column that says which file they are in."""
    return with_file_names(rows, pa.repeat(pa.scalar(name, pa.string()), rows.num_rows))


def with_file_names(rows: pa.Table, names: pa.Array) -> pa.Table:
    """The same where each row has its own."""
    number = META_COLUMNS.index("_hoodie_file_name")
    field = rows.schema.field(number)
    return rows.set_column(number, field, names.cast(field.type))


def without_meta_values(rows: pa.Table) -> pa.Table:
    """The rows as files of a table without meta columns hold them: the columns are there, null."""
    for number in range(len(META_COLUMNS)):
        field = rows.schema.field(number)
        rows = rows.set_column(number, field, pa.nulls(rows.num_rows, field.type))
    return rows


def _with_meta(
    spilled: pa.Table, schema: pa.Schema, instant: str, lead: str, first: int
) -> pa.Table:
    count = spilled.num_rows
    numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
    meta = [
        pa.repeat(pa.scalar(instant, pa.string()), count),
        pc.binary_join_element_wise(lead, numbers, ""),
        spilled[KEY],
        spilled[PARTITION],
        pa.nulls(count, pa.string()),
    ]
    names = schema.names[len(META_COLUMNS) :]
    return pa.Table.from_arrays([*meta, *(spilled[name] for name in names)], schema=schema)


def _mask(values: pa.ChunkedArray) -> Mask:
    return values.fill_null(pa.scalar(value=False)).to_numpy().astype(np.bool_)


@dataclass(frozen=True)
class Outcome:
    """A written file with its rows, and the keys that came and left."""

    file: WrittenFile
    rows: pa.Table
    sizes: ColumnSizes
    added: pa.Array
    gone: pa.Array
    bloom: BloomText | None = None
    changed: ChangedRows | None = None
    """The rows for indexes of rows; None where there are none, or they have to be read yet."""
    unread: Incoming | None = None
    """The rows for indexes of rows, where it has to be read what they replace."""
    named: tuple[Outcome, ...] = ()
    """The log files that a virtual one names."""

    @property
    def file_rows(self) -> FileRows:
        """The file as indexes of files see it."""
        file = self.file
        return FileRows(
            file.partition, file.name, file.size, self.rows, self.sizes, bloom=self.bloom
        )
