"""Which of several versions of a record wins.

`newest_per_key` reduces the entries of log files to one per key; a `ChangeSet` is merged with base
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.schema.field_paths import flat

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of log blocks in the order of arrival; all arrays have the same length."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    """One array for each ordering field, without nulls; empty for commit-time ordering."""
    is_delete: Mask
    is_unconditional: Mask
    """Deletes without an ordering value."""
    is_tombstone: Mask
    """Deletes that come from a delete block, not from a data record that is marked deleted."""
    has_column: Mapping[str, Mask] = field(default_factory=dict)
    """For columns that partial updates omit: the entries that have them."""


def column_winners(
    entries: Entries, codes: Positions, arrival: Positions, counted: Mask
) -> dict[str, Positions]:
    """For each column that some entry lacks: the entry that provides it for every key, or -1."""
    if not entries.has_column:
        return {}
    key_count = int(codes.max()) + 1 if len(codes) else 0
    wins = _wins(entries, codes, arrival, counted)
    deletes = np.flatnonzero(entries.is_delete & wins)
    restart = np.full(key_count, -1, dtype=np.int64)
    restart[codes[deletes]] = deletes
    usable = counted & ~entries.is_delete & (arrival > restart[codes])
    found = {}
    for name, has in entries.has_column.items():
        positions = np.full(key_count, -1, dtype=np.int64)
        losing = np.flatnonzero(usable & has & ~wins)[::-1]
        positions[codes[losing]] = losing
        winning = np.flatnonzero(usable & has & wins)
        positions[codes[winning]] = winning
        found[name] = positions
    return found


def _wins(entries: Entries, codes: Positions, arrival: Positions, counted: Mask) -> Mask:
    """Whether an entry's ordering value reaches the highest of its key so far."""
    if not entries.ordering:
        return np.ones(len(codes), dtype=np.bool_)
    ranks = np.where(counted, _ranks(entries.ordering), -1)
    order = np.lexsort((arrival, codes))
    # Later keys have higher codes, so a running maximum over both restarts at each key.
    scaled = codes[order] * (len(codes) + 1) + ranks[order] + 1
    wins = np.empty(len(codes), dtype=np.bool_)
    wins[order] = scaled == np.maximum.accumulate(scaled)
    return wins & counted


def _ranks(ordering: tuple[pa.Array, ...]) -> Positions:
    """Numbers that compare like the ordering values; equal values have equal numbers."""
    names = [str(number) for number in range(len(ordering))]
    table = pa.table(list(ordering), names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    ordered = table.take(order)
    differs = np.zeros(len(order), dtype=np.bool_)
    for name in names:
        values = ordered[name].combine_chunks()
        unequal = pc.not_equal(values[1:], values[:-1])
        differs[1:] |= unequal.to_numpy(zero_copy_only=False).astype(np.bool_)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order.to_numpy()] = np.cumsum(differs)
    return ranks


@dataclass(frozen=True, slots=True)
class Newest:
    """The winning entry of each key, keys in order of first appearance."""

    positions: Positions
    """Positions in the entries."""
    beats_base: Mask
    """Winners that replace a base row regardless of its ordering value."""
    column_positions: Mapping[str, Positions] = field(default_factory=dict)
    """For columns that partial updates omit: the entry that provides the value, or -1."""


def newest_per_key(entries: Entries) -> Newest:
    """The winning entry of each key.

    Example:
        >>> no = np.zeros(3, dtype=bool)
        >>> keys, ordering = pa.array(["a", "b", "a"]), (pa.array([5, 1, 4]),)
        >>> newest_per_key(Entries(keys, ordering, no, no, no)).positions.tolist()
        [0, 1]
        >>> newest_per_key(Entries(keys, (), no, no, no)).positions.tolist()
        [2, 1]
    """
    encoded = entries.keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    key_count = len(encoded.dictionary)
    if key_count == len(codes) and not entries.has_column:
        # No key has two entries, as in most slices.
        always = np.ones(key_count, dtype=np.bool_)
        return Newest(codes, entries.is_unconditional if entries.ordering else always)
    arrival = np.arange(len(codes), dtype=np.int64)
    if not entries.ordering:
        last = np.empty(key_count, dtype=np.int64)
        last[codes] = arrival
        by_column = column_winners(entries, codes, arrival, np.ones_like(codes, dtype=np.bool_))
        return Newest(last, np.ones(key_count, dtype=np.bool_), by_column)
    cut = np.full(key_count, -1, dtype=np.int64)
    unconditional = np.flatnonzero(entries.is_unconditional)
    cut[codes[unconditional]] = unconditional
    candidates = _after_cut(entries, codes, arrival, cut)
    winners = cut.copy()
    ranked = _ranked(entries.ordering, codes, arrival, candidates)
    winners[codes[ranked]] = ranked
    by_column = column_winners(entries, codes, arrival, candidates)
    return Newest(winners, entries.is_unconditional[winners], by_column)


def _after_cut(entries: Entries, codes: Positions, arrival: Positions, cut: Positions) -> Mask:
    """Entries that still count after the last unconditional delete of their key."""
    cut_of_entry = cut[codes]
    after = arrival > cut_of_entry
    if not entries.is_unconditional.any():
        return np.ones_like(after)
    # An unconditional delete stays in effect after further tombstones, until a data record arrives.
    first_data = np.full(len(cut), len(codes), dtype=np.int64)
    data = np.flatnonzero(after & ~entries.is_tombstone)[::-1]
    first_data[codes[data]] = data
    swallowed = (cut_of_entry >= 0) & entries.is_tombstone & (arrival < first_data[codes])
    return after & ~swallowed


def _ranked(
    ordering: tuple[pa.Array, ...], codes: Positions, arrival: Positions, candidates: Mask
) -> Positions:
    """Positions of the candidates so that the winner of each key comes last."""
    chosen = arrival[candidates]
    columns = {"code": pa.array(codes[candidates]), "arrival": pa.array(chosen)}
    taken = pa.array(chosen)
    names = []
    for number, values in enumerate(ordering):
        names.append(f"ordering{number}")
        columns[names[-1]] = values.take(taken)
    table = pa.table(columns)
    sort_keys = [(name, "ascending") for name in ("code", *names, "arrival")]
    order = pc.sort_indices(table, sort_keys=sort_keys)
    return chosen[order.to_numpy()]


class ChangeSet:
    """The newest changes of one slice, ready to be applied to base rows.

    Example:
        >>> from lakedex.merge import newest_per_key
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
            rows: The rows of changes that are not deletes.
            row_of_entry: The position of the row of an entry in `rows`.
            every_copy: Whether a change applies to all base rows of its key, not only the first.
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
        # The position of the value of each partly missing column of a change; -1 without value.
        self._column_row = {
            name: np.where(positions >= 0, row_of_entry[positions], -1)
            for name, positions in newest.column_positions.items()
        }

    def apply(
        self, batch: pa.Table, keys: pa.ChunkedArray, ordering: Sequence[pa.ChunkedArray]
    ) -> pa.Table:
        """Return the batch with updated rows replaced and deleted rows removed."""
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
            # Arrow's own allocator returns such blocks to the system after every slice, and
            # allocating them again costs more than the copy.
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
        """Return the rows whose keys no base row had."""
        left = self._unused & ~self._is_delete
        rows = self._rows.take(pa.array(self._row[left]))
        for name, of_column in self._column_row.items():
            if name in rows.column_names:
                chosen = of_column[left]
                values = self._rows[name].take(pa.array(chosen, mask=chosen < 0))
                rows = rows.set_column(rows.column_names.index(name), rows.field(name), values)
        return rows

    def deletes(self) -> pa.Array:
        """The keys of the changes that delete, whether a base row has them or not."""
        return self._keys.filter(pa.array(self._is_delete))

    def _used(
        self, change: npt.NDArray[np.int64], matched: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The base rows to which changes apply; each change is then marked as applied."""
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
        """Whether the change is at least as new as the base row."""
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
    """Row numbers in a batch followed by the changes, with the matched rows replaced."""
    source = np.arange(count, dtype=np.int64)
    source[matched] = count + rows
    return source


def _is_less(left: pa.Array, right: pa.Array) -> _Mask:
    """Whether left < right, with NaN above every other value."""
    less = pc.less(left, right).to_numpy(zero_copy_only=False).astype(np.bool_)
    if pa.types.is_floating(left.type):
        nan_left = pc.is_nan(left).to_numpy(zero_copy_only=False)
        nan_right = pc.is_nan(right).to_numpy(zero_copy_only=False)
        less = less | (nan_right & ~nan_left)
    return less
