"""Which entry gives each column of a key, where updates hold only some of the columns.

Entries are taken in the order of their arrival. One whose ordering value is not below all before
it wins and overrides the columns that it has; one that loses fills only the columns that nothing
before it had. So a column comes from the last winning entry that has it, else from the first
losing one. A delete starts anew.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.merge.entries import Entries, Mask, Positions


def column_winners(
    entries: Entries, codes: Positions, arrival: Positions, counted: Mask
) -> dict[str, Positions]:
    """For each column that some entry lacks: the entry of every key that gives it, or -1."""
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
    # Later keys have higher codes, so a running maximum over both starts anew at each key.
    scaled = codes[order] * (len(codes) + 1) + ranks[order] + 1
    wins = np.empty(len(codes), dtype=np.bool_)
    wins[order] = scaled == np.maximum.accumulate(scaled)
    return wins & counted


def _ranks(ordering: tuple[pa.Array, ...]) -> Positions:
    """Numbers that compare as the ordering values do; equal values have equal numbers."""
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
