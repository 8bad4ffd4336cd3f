"""Lays the newest changes of a slice's log files over the rows of its base file.

Base rows arrive in batches, so memory holds the changes and one batch. A change is used up by
the first base row that has its key, as in Hudi; what is left in the end are inserted rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.merge.changes import Newest
from lakedex.merge.entries import Entries
from lakedex.schema.flat_columns import flat

_Mask = npt.NDArray[np.bool_]


class ChangeSet:
    """The newest changes of one slice, ready to be applied to base rows.

    Example:
        >>> from lakedex.merge.changes import newest_per_key
        >>> keys, no = pa.array(["b", "c"]), np.zeros(2, dtype=bool)
        >>> entries = Entries(keys, (), no, no, no)
        >>> rows = pa.table({"k": keys, "v": [20, 30]})
        >>> changes = ChangeSet(entries, newest_per_key(entries), rows, np.arange(2))
        >>> base = pa.table({"k": ["a", "b"], "v": [1, 2]})
        >>> changes.apply(base, base["k"], []).to_pydict()
        {'k': ['a', 'b'], 'v': [1, 20]}
        >>> changes.inserts().to_pydict()
        {'k': ['c'], 'v': [30]}
    """

    def __init__(
        self,
        entries: Entries,
        newest: Newest,
        rows: pa.Table,
        row_of_entry: npt.NDArray[np.int64],
        *,
        every_copy: bool = False,
    ) -> None:
        """Keep the winners.

        Args:
            entries: The changes.
            newest: Which of them win.
            rows: The rows of changes that are no deletes.
            row_of_entry: Where the row of an entry lies in `rows`.
            every_copy: Whether a change meets all base rows of its key, not only the first one.
        """
        taken = pa.array(newest.positions)
        self._keys = entries.keys.take(taken)
        self._ordering = tuple(values.take(taken) for values in entries.ordering)
        self._is_delete = entries.is_delete[newest.positions]
        self._beats_base = newest.beats_base
        self._row = row_of_entry[newest.positions]
        self._rows = rows
        self._unused = np.ones(len(self._keys), dtype=np.bool_)
        self._every_copy = every_copy
        # Where each partly missing column of a change has its value; -1 where it has none.
        self._column_row = {
            name: np.where(positions >= 0, row_of_entry[positions], -1)
            for name, positions in newest.column_positions.items()
        }

    def apply(
        self, batch: pa.Table, keys: pa.ChunkedArray, ordering: Sequence[pa.ChunkedArray]
    ) -> pa.Table:
        """The batch with updated rows replaced and deleted rows left out."""
        found = pc.index_in(keys, value_set=self._keys)
        change = found.fill_null(-1).to_numpy().astype(np.int64)
        matched = np.flatnonzero(change >= 0)
        if len(matched) == 0:
            return batch
        matched = self._used(change, matched)
        matched = matched[self._wins(change[matched], matched, ordering)]
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[matched[self._is_delete[change[matched]]]] = False
        source = _replaced(batch.num_rows, matched, self._row[change[matched]])
        changes = self._rows.select(batch.column_names)
        if not self._column_row:
            both = pa.concat_tables([batch, changes])
            # Arrow's own allocator hands such blocks back to the system after every slice, and to
            # get them anew costs more than the copy does.
            memory = pa.system_memory_pool()
            return pc.take(both, pa.array(source[keep]), boundscheck=False, memory_pool=memory)
        columns = {}
        for name in batch.column_names:
            of_column = source
            if name in self._column_row:
                rows = self._column_row[name][change[matched]]
                of_column = _replaced(batch.num_rows, matched[rows >= 0], rows[rows >= 0])
            both = pa.chunked_array([*batch[name].chunks, *changes[name].chunks], batch[name].type)
            columns[name] = both.take(pa.array(of_column[keep]))
        return pa.table(columns, schema=batch.schema)

    def inserts(self) -> pa.Table:
        """The rows whose keys no base row had."""
        left = self._unused & ~self._is_delete
        rows = self._rows.take(pa.array(self._row[left]))
        for name, of_column in self._column_row.items():
            if name in rows.column_names:
                chosen = of_column[left]
                values = self._rows[name].take(pa.array(chosen, mask=chosen < 0))
                rows = rows.set_column(rows.column_names.index(name), rows.field(name), values)
        return rows

    def _used(
        self, change: npt.NDArray[np.int64], matched: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The base rows that changes meet, which are used up then."""
        if self._every_copy:
            self._unused[change[matched]] = False
            return matched
        first = np.unique(change[matched], return_index=True)[1]
        matched = np.sort(matched[first])
        matched = matched[self._unused[change[matched]]]
        self._unused[change[matched]] = False
        return matched

    def _wins(
        self,
        change: npt.NDArray[np.int64],
        matched: npt.NDArray[np.int64],
        ordering: Sequence[pa.ChunkedArray],
    ) -> _Mask:
        """Where the change is at least as new as the base row."""
        wins = np.ones(len(change), dtype=np.bool_)
        undecided = ~self._beats_base[change]
        newer, older = pa.array(change), pa.array(matched)
        for mine, theirs in zip(self._ordering, ordering, strict=True):
            left, right = mine.take(newer), flat(theirs).take(older)
            wins[undecided & _is_less(left, right)] = False
            undecided &= ~(_is_less(left, right) | _is_less(right, left))
        return wins


def _replaced(
    count: int, matched: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Row numbers over a batch followed by the changes, with the matched rows changed."""
    source = np.arange(count, dtype=np.int64)
    source[matched] = count + rows
    return source


def _is_less(left: pa.Array, right: pa.Array) -> _Mask:
    """Where left < right, with NaN above every other value."""
    less = pc.less(left, right).to_numpy(zero_copy_only=False).astype(np.bool_)
    if pa.types.is_floating(left.type):
        nan_left = pc.is_nan(left).to_numpy(zero_copy_only=False)
        nan_right = pc.is_nan(right).to_numpy(zero_copy_only=False)
        less = less | (nan_right & ~nan_left)
    return less
