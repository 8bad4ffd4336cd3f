"""What log files replace, read for many file groups at once.

A log file is written without looking at what it replaces. Secondary indexes must know that, so the
indexed columns of the touched rows are read, for a number of groups together: one by one most of
the time would go into reading a few rows often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId, ReadContext
from lakedex.filegroup.many_slices import WANTED, WantedRows, read_wanted, tagged_keys
from lakedex.write.facts import TableFacts
from lakedex.write.handles.base_group import merged_numbers
from lakedex.write.handles.incoming import Incoming
from lakedex.write.handles.outcome import ChangedRows
from lakedex.write.handles.work import GroupWork
from lakedex.write.rows import KEY

_GROUPS_AT_ONCE = 64
_ROWS_AT_ONCE = 200_000


class OldValues:
    """Gathers groups whose rows are all live in them or new to them, and tells what changed."""

    def __init__(self, facts: TableFacts, context: ReadContext) -> None:
        """Start without groups."""
        self._context = context
        self._told = list(dict.fromkeys([KEY, *facts.indexed_columns]))
        self._needed = list(dict.fromkeys([*self._told, *context.ordering_fields]))
        self._tells_places = any(target.covers for target in facts.secondary)
        self._start_anew()

    def _start_anew(self) -> None:
        self._wanted: list[WantedRows] = []
        self._touching: list[Incoming] = []
        self._groups: list[_Gathered] = []
        self._rows = 0

    def add(self, group: GroupWork, incoming: Incoming) -> Iterator[ChangedRows]:
        """Take in a group; when there are many, answer what changed in all of them."""
        rows = incoming.rows.select(self._needed)
        new = rows.select(self._told).filter(pa.array(incoming.is_new))
        here = incoming.is_here & incoming.is_live
        number = -1
        if group.current is not None and here.any():
            number = len(self._wanted)
            self._wanted.append(WantedRows(group.current, incoming.keys.filter(pa.array(here))))
            self._touching.append(replace(incoming, rows=rows))
        self._groups.append(_Gathered(group.id, number, new))
        self._rows += rows.num_rows
        if len(self._groups) >= _GROUPS_AT_ONCE or self._rows >= _ROWS_AT_ONCE:
            yield from self.finish()

    def finish(self) -> Iterator[ChangedRows]:
        """What changed in the groups that were not answered for yet."""
        if not self._groups:
            return
        before, after = self._replaced()
        if self._tells_places:
            for each in self._groups:
                was, now = (_of(rows, each.number).select(self._told) for rows in (before, after))
                yield ChangedRows(was, pa.concat_tables([now, each.new]), place=each.place)
        else:
            new = [each.new for each in self._groups]
            now = pa.concat_tables([after.select(self._told), *new])
            yield ChangedRows(before.select(self._told), now)
        self._start_anew()

    def _replaced(self) -> tuple[pa.Table, pa.Table]:
        """The touched rows as they were and as they are, with the numbers of their groups."""
        before = read_wanted(self._context, self._wanted, self._needed)
        if not self._wanted:
            return before, before
        incoming = self._all_touching()
        tagged = replace(incoming, rows=_with_tagged_keys(incoming.rows))
        merged, inserted = merged_numbers(self._context, before, tagged_keys(before), tagged)
        both = pa.concat_tables([before, incoming.rows])
        return before, both.take(pa.array(np.concatenate([merged, inserted])))

    def _all_touching(self) -> Incoming:
        parts = self._touching
        numbers = np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])
        rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
        return Incoming(
            rows.append_column(WANTED, pa.array(numbers)),
            is_removal=np.concatenate([part.is_removal for part in parts]),
            is_flagged=np.concatenate([part.is_flagged for part in parts]),
            is_here=np.concatenate([part.is_here for part in parts]),
            is_live=np.concatenate([part.is_live for part in parts]),
        )


@dataclass(frozen=True)
class _Gathered:
    """A group: where it is, which rows are asked for, -1 for none, and the rows new to it."""

    place: FileSliceId
    number: int
    new: pa.Table


def _of(rows: pa.Table, number: int) -> pa.Table:
    return rows.filter(pc.equal(rows[WANTED], number))


def _with_tagged_keys(rows: pa.Table) -> pa.Table:
    """The same rows, with keys that say in which group they are."""
    number = rows.column_names.index(KEY)
    return rows.set_column(number, rows.field(number), tagged_keys(rows))
