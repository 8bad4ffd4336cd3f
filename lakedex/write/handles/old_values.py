"""What log files replace, read for many file groups at once.

A log file is written without looking at what it replaces. Secondary indexes must know that, so the
indexed columns of the touched rows are read, for a number of groups together: one by one most of
the time would go into reading a few rows often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakedex.filegroup import ReadContext
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
        # Entries that name a file group are told of one group at a time.
        covers = any(target.covers for target in facts.secondary)
        self._groups_at_once = 1 if covers else _GROUPS_AT_ONCE
        self._start_anew()

    def _start_anew(self) -> None:
        self._wanted: list[WantedRows] = []
        self._touching: list[Incoming] = []
        self._new: list[pa.Table] = []
        self._rows = 0

    def add(self, group: GroupWork, incoming: Incoming) -> Iterator[ChangedRows]:
        """Take in a group; when there are many, answer what changed in all of them."""
        current = group.current
        rows = incoming.rows.select(self._needed)
        self._new.append(rows.select(self._told).filter(pa.array(incoming.is_new)))
        here = incoming.is_here & incoming.is_live
        if current is not None and here.any():
            self._wanted.append(WantedRows(current, incoming.keys.filter(pa.array(here))))
            masks = incoming.is_removal, incoming.is_flagged, incoming.is_here, incoming.is_live
            self._touching.append(Incoming(rows, *masks))
        self._rows += rows.num_rows
        if len(self._new) >= self._groups_at_once or self._rows >= _ROWS_AT_ONCE:
            place = group.id if len(self._new) == 1 else None
            yield from (replace(changed, place=place) for changed in self.finish())

    def finish(self) -> Iterator[ChangedRows]:
        """What changed in the groups that were not answered for yet."""
        if not self._new:
            return
        new = pa.concat_tables(self._new)
        yield self._replaced(new) if self._wanted else ChangedRows(new.slice(0, 0), new)
        self._start_anew()

    def _replaced(self, new: pa.Table) -> ChangedRows:
        before = read_wanted(self._context, self._wanted, self._needed)
        incoming = self._all_touching()
        tagged = self._tagged(incoming)
        merged, inserted = merged_numbers(self._context, before, tagged_keys(before), tagged)
        both = pa.concat_tables([before.select(self._told), incoming.rows.select(self._told)])
        after = both.take(pa.array(np.concatenate([merged, inserted])))
        return ChangedRows(before.select(self._told), pa.concat_tables([after, new]))

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

    @staticmethod
    def _tagged(incoming: Incoming) -> Incoming:
        """The same rows, with keys that say in which group they are."""
        rows = incoming.rows
        number = rows.column_names.index(KEY)
        rows = rows.set_column(number, rows.field(number), tagged_keys(rows))
        masks = incoming.is_removal, incoming.is_flagged, incoming.is_here, incoming.is_live
        return Incoming(rows, *masks)
