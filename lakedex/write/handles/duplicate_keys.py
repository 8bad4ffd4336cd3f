"""Keys that a file group keeps while others, written with it, may lose them.

After plain inserts a key may be in several groups. An index that knows one place of it, or one
pair of it and a value, would lose that with the first copy that goes; so the groups that keep a
copy note it, and what stays wins over what goes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.maintenance import Collectors
from lakedex.write.context import WriteContext
from lakedex.write.handles.incoming import Incoming
from lakedex.write.handles.log_group import noted_columns, rows_after_log, rows_of
from lakedex.write.handles.notes import KeyNotes
from lakedex.write.handles.outcome import Outcome
from lakedex.write.handles.work import GroupWork
from lakedex.write.rows import KEY


class DuplicateKeys:
    """Notes the keys that stay, group by group."""

    def __init__(
        self, facts: WriteContext, context: ReadContext, keys: KeyNotes, indexes: Collectors
    ) -> None:
        """Note them among these keys, and for these indexes."""
        self._facts = facts
        self._context = context
        self._keys = keys
        self._indexes = indexes

    def note(self, group: GroupWork, incoming: Incoming, outcome: Outcome | None) -> None:
        """Note those of one group; `outcome` is None where nothing in it changes."""
        keys = incoming.keys.filter(pa.array(incoming.is_live & incoming.is_elsewhere))
        if outcome is not None and len(keys):
            keys = keys.filter(pc.invert(pc.is_in(keys, value_set=outcome.gone)))
        if not len(keys):
            return
        self._keys.add(group, keys, is_delete=False)
        if self._facts.needs_changed_rows and group.current is not None:
            self._indexes.keep(self._rows(group, group.current, outcome, keys), group.id)

    def _rows(
        self, group: GroupWork, current: FileSlice, outcome: Outcome | None, keys: pa.Array
    ) -> pa.Table:
        """The rows of the keys, as they are after the write."""
        facts, columns = self._facts, noted_columns(self._facts)
        if outcome is None:
            return rows_of(self._context, current, keys, columns)
        if outcome.file.is_log:
            return rows_after_log(facts, self._context, group, outcome.file.size, keys)
        return outcome.rows.filter(pc.is_in(outcome.rows[KEY], value_set=keys)).select(columns)
