"""From the entries of a slice's log blocks, in arrival order, to the newest one of each key.

Commit-time ordering: the last entry of a key wins. Event-time ordering: the entry with the
highest ordering value wins, and of equal ones the last. A delete without an ordering value is
unconditional: it wins over everything before it, the base file's row too, and loses to the next
data record whatever that one's ordering value is. (That data record then meets the base row by
ordering value, as it does in Hudi.)

An entry may hold only the columns that an update changed; `partial` then puts the newest change of
a key together column by column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.merge.entries import Entries, Mask, Positions
from lakedex.merge.partial import column_winners


@dataclass(frozen=True, slots=True)
class Newest:
    """The winning entry of each key, keys in order of first appearance."""

    positions: Positions
    """Positions in the entries."""
    beats_base: Mask
    """Where the winner replaces a base row whatever that row's ordering value is."""
    column_positions: Mapping[str, Positions] = field(default_factory=dict)
    """For columns that partial updates leave out: the entry that gives the value, or -1."""


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
    # An unconditional delete outlives further tombstones until a data record arrives.
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
