"""What a built table holds: its file groups and their live rows, in plain Arrow.

This is the expectation that readers are judged by, so it shares no code with lakedex's merging.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.support.data_files import RECORD_KEY, Deletes


@dataclass
class Group:
    """One file group and the rows that a reader must see in it."""

    partition: str
    file_id: str
    rows: pa.Table
    base_name: str = ""


@dataclass(frozen=True)
class Merged:
    """A group's rows after some changes, and which rows came and went by them."""

    rows: pa.Table
    old: pa.Table
    new: pa.Table
    deleted: pa.Table


def merge(rows: pa.Table, updates: pa.Table, deletes: Deletes, ordering: str | None) -> Merged:
    """Lay updates, then deletes, over rows; where there is an ordering field the larger wins."""
    count = len(rows)
    at = pc.index_in(rows[RECORD_KEY], updates[RECORD_KEY]).combine_chunks()
    wins = at.is_valid().to_numpy(zero_copy_only=False)
    if ordering is not None:
        wins &= _not_smaller(updates[ordering].take(at), rows[ordering])
    source = np.arange(count)
    chosen = at.fill_null(0).to_numpy()[wins]
    source[wins] = count + chosen
    merged = pa.concat_tables([rows, updates]).take(pa.array(source))
    gone = _deleted(merged, deletes, ordering)
    changed = pa.array(np.flatnonzero(wins))
    return Merged(
        rows=merged.filter(pa.array(~gone)),
        old=rows.take(changed),
        new=updates.take(pa.array(chosen)),
        deleted=merged.filter(pa.array(gone)),
    )


def _deleted(rows: pa.Table, deletes: Deletes, ordering: str | None) -> np.ndarray:
    at = pc.index_in(rows[RECORD_KEY], deletes.keys).combine_chunks()
    gone = at.is_valid().to_numpy(zero_copy_only=False)
    if ordering is not None and deletes.ordering is not None:
        gone &= _not_smaller(deletes.ordering.take(at), rows[ordering])
    return gone


def _not_smaller(newer: pa.Array, older: pa.Array) -> np.ndarray:
    return pc.greater_equal(newer, older).fill_null(False).to_numpy(zero_copy_only=False)
