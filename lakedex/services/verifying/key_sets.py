"""Compares the keys of rows with the keys of entries, one file group of an index at a time.

Entries are read group by group and dropped. An entry in another group than the one its key belongs
to is found by no lookup, so it counts as missing there and as stale where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Matched:
    """How row keys and entry keys of one group go together."""

    place: pa.Array
    """The entry of each row; null where there is none."""
    missing: Ints
    """Rows without entry, one for each key."""
    stale: Ints
    """Entries without row."""
    repeated: Mask
    """Rows whose key another row has too."""
    key_codes: Ints
    """A number for each row that is the same for the same key."""


def match(row_keys: pa.Array, entry_keys: pa.Array) -> Matched:
    """Match the keys of rows with those of entries.

    Example:
        >>> found = match(pa.array(["a", "b", "b"]), pa.array(["b", "c"]))
        >>> found.missing.tolist(), found.stale.tolist(), found.repeated.tolist()
        ([0], [1], [False, True, True])
    """
    rows = row_keys.cast(pa.large_string())
    entries = entry_keys.cast(pa.large_string())
    place = pc.index_in(rows, value_set=entries)
    codes = _codes(rows, place)
    counts = np.bincount(codes)
    absent = place.is_null().to_numpy(zero_copy_only=False)
    return Matched(
        place=place,
        missing=_first_of_each(np.flatnonzero(absent), codes),
        stale=_stale(rows, entries, place),
        repeated=counts[codes] > 1,
        key_codes=codes,
    )


def _codes(rows: pa.Array, place: pa.Array) -> Ints:
    """A number for each key: that of its entry, where all have one."""
    if not place.null_count:
        found: Ints = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return found
    encoded = rows.dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _first_of_each(rows: Ints, codes: Ints) -> Ints:
    """The first of the rows of each key."""
    chosen: Ints = rows[np.sort(np.unique(codes[rows], return_index=True)[1])]
    return chosen


def _stale(rows: pa.Array, entries: pa.Array, place: pa.Array) -> Ints:
    known = np.zeros(len(entries), dtype=np.bool_)
    known[place.drop_null().to_numpy()] = True
    if known.all():
        return np.zeros(0, dtype=np.int64)
    # Of entries that are equal only the first has rows by its place.
    known = pc.is_in(entries, value_set=rows).to_numpy(zero_copy_only=False).astype(np.bool_)
    return np.flatnonzero(~known)
