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
    encoded = rows.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(codes, minlength=len(encoded.dictionary))
    first = np.zeros(len(rows), dtype=np.bool_)
    first[np.unique(codes, return_index=True)[1]] = True
    absent = place.is_null().to_numpy(zero_copy_only=False)
    known = pc.is_in(entries, value_set=rows).to_numpy(zero_copy_only=False)
    return Matched(
        place=place,
        missing=np.flatnonzero(absent & first),
        stale=np.flatnonzero(~known.astype(np.bool_)),
        repeated=counts[codes] > 1,
        key_codes=codes,
    )
