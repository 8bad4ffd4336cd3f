"""What log files replace, read for many file groups at once.

A log file is written without a look at what it replaces. Indexes of rows need that, so the indexed
columns of the touched rows are read, for a number of groups together: one by one most of the time
would go into reading a few rows often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.filegroup import ReadContext
from lakedex.filegroup.many_slices import WANTED, KeyTags, WantedRows, read_wanted
from lakedex.index.maintenance import ChangedRows
from lakedex.write.context import WriteContext
from lakedex.write.handles.base_group import merged_numbers
from lakedex.write.handles.incoming import Incoming
from lakedex.write.handles.work import GroupWork
from lakedex.write.rows import KEY

_GROUPS_AT_ONCE = 128
_ROWS_AT_ONCE = 200_000


class BeforeImages:
    """Gathers groups whose rows are all live in them or new to them, and reads what changed."""

    def __init__(self, facts: WriteContext, context: ReadContext) -> None:
        """Start without groups."""
        self._context = context
        self._columns = list(dict.fromkeys([KEY, *facts.row_columns]))
        self._needed = list(dict.fromkeys([*self._columns, *context.ordering_columns]))
        self._by_group = any(each.stores_locations for each in facts.indexes)
        self._clear()

    def _clear(self) -> None:
        self._groups: list[GroupWork] = []
        self._incoming: list[Incoming] = []
        self._rows = 0

    def add(self, group: GroupWork, incoming: Incoming) -> Iterator[ChangedRows]:
        """Add a group; once there are many, yield what changed in all of them."""
        self._groups.append(group)
        self._incoming.append(incoming)
        self._rows += incoming.rows.num_rows
        if len(self._groups) >= _GROUPS_AT_ONCE or self._rows >= _ROWS_AT_ONCE:
            yield from self.finish()

    def finish(self) -> Iterator[ChangedRows]:
        """What changed in the groups that are left."""
        if not self._groups:
            return
        incoming = self._all_incoming()
        before, after = self._replaced(incoming)
        new = incoming.rows.filter(pa.array(incoming.is_new))
        now = pa.concat_tables([after, new])
        if self._by_group:
            was_in, is_in = (rows[WANTED].to_numpy() for rows in (before, now))
            for number, group in enumerate(self._groups):
                was = before.filter(pa.array(was_in == number)).select(self._columns)
                own = now.filter(pa.array(is_in == number)).select(self._columns)
                yield ChangedRows(was, own, place=group.id)
        else:
            yield ChangedRows(before.select(self._columns), now.select(self._columns))
        self._clear()

    def _all_incoming(self) -> Incoming:
        """The rows of all groups, with the numbers of their groups."""
        parts = self._incoming
        numbers = np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])
        rows = pa.concat_tables([part.rows.select(self._needed) for part in parts])
        return Incoming(
            rows.combine_chunks().append_column(WANTED, pa.array(numbers)),
            is_removal=np.concatenate([part.is_removal for part in parts]),
            is_flagged=np.concatenate([part.is_flagged for part in parts]),
            is_here=np.concatenate([part.is_here for part in parts]),
            is_live=np.concatenate([part.is_live for part in parts]),
            is_elsewhere=np.concatenate([part.is_elsewhere for part in parts]),
        )

    def _replaced(self, incoming: Incoming) -> tuple[pa.Table, pa.Table]:
        """The touched rows as they were and as they are, with the numbers of their groups."""
        numbers, keys = incoming.rows[WANTED].to_numpy(), incoming.keys
        is_stored = incoming.is_here & incoming.is_live
        wanted, groups = self._wanted_rows(keys.filter(pa.array(is_stored)), numbers[is_stored])
        before = read_wanted(self._context, wanted, self._needed)
        if not wanted:
            return before, before
        before = before.set_column(
            before.column_names.index(WANTED), WANTED, pa.array(groups[before[WANTED].to_numpy()])
        )
        here = incoming.is_here
        tags = KeyTags(keys.filter(pa.array(here)), numbers[here])
        stored_keys = tags.of(before[KEY], before[WANTED].to_numpy())
        tagged = incoming
        if not tags.are_plain:
            tagged = replace(incoming, rows=_with_keys(incoming.rows, tags.of(keys, numbers)))
        merged, inserted = merged_numbers(self._context, before, stored_keys, tagged)
        both = pa.concat_tables([before, incoming.rows])
        return before, both.take(pa.array(np.concatenate([merged, inserted])))

    def _wanted_rows(
        self, keys: pa.Array, numbers: npt.NDArray[np.int64]
    ) -> tuple[list[WantedRows], npt.NDArray[np.int64]]:
        """The rows to read of the slices, and the numbers of their groups."""
        bounds = np.searchsorted(numbers, np.arange(len(self._groups) + 1)).tolist()
        wanted, groups = [], []
        for number, group in enumerate(self._groups):
            first, end = bounds[number : number + 2]
            if group.current is not None and end > first:
                wanted.append(WantedRows(group.current, keys.slice(first, end - first)))
                groups.append(number)
        return wanted, np.array(groups, dtype=np.int64)


def _with_keys(rows: pa.Table, keys: pa.Array) -> pa.Table:
    """The same rows with other keys."""
    number = rows.column_names.index(KEY)
    return rows.set_column(number, rows.field(number), keys)
