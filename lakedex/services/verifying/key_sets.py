"""Compares the keys of rows with the keys of entries, one file group of an index at a time.

Row keys are kept while the data passes by, with the number of their slice; entries are read group
by group and dropped. An entry in another group than the one its key belongs to is found by no
lookup, so it counts as missing there and as stale where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class RowKeys:
    """The keys of all rows and the slices that they stand in."""

    _keys: list[pa.Array] = field(default_factory=list)
    _slices: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def add(self, keys: pa.Array | pa.ChunkedArray, slice_number: int) -> None:
        """Keep the keys of some rows of a slice."""
        flat = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        self._keys.append(flat.cast(pa.large_string()))
        self._slices.append(np.full(len(flat), slice_number, dtype=np.int32))

    def all(self) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """All keys, and the slice number of each; what was kept is given away."""
        keys = pa.chunked_array(self._keys, pa.large_string()).combine_chunks()
        slices = np.concatenate([np.zeros(0, dtype=np.int32), *self._slices])
        self._keys.clear()
        self._slices.clear()
        return keys, slices


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


def pieces_by_group(groups: npt.NDArray[np.int32], count: int) -> list[Ints]:
    """The rows of each group, in order."""
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(count + 1))
    return [order[ends[group] : ends[group + 1]] for group in range(count)]
