"""Keys of one length, looked up among cells whose keys all have that length too.

Nothing has to be masked or padded then: the queries are the rows of one matrix, the 8 bytes after
the part that all stored keys share are searched as numbers, and the whole key that stands where
the search ended is compared as it lies in the buffer. Where several keys share those 8 bytes, the
next ones are tried; where many do, the search of any keys (`sorted_keys`) goes on.
"""

from __future__ import annotations

import numpy as np

from lakedex.format.hfile.cells import CellGroup
from lakedex.format.hfile.sorted_keys import SortedKeys
from lakedex.format.hfile.words import WORD_SIZE, Bytes, Ints, KeyColumn, sorted_once

UNSURE = -2
"""Stands for a row where so many keys are alike that another search has to tell."""

_STEPS = 3


def key_matrix(keys: KeyColumn) -> Bytes | None:
    """The keys as rows of equal length; None when they are of several lengths or too short.

    They must lie end to end, as `key_column` gives them.

    Example:
        >>> import pyarrow as pa
        >>> from lakedex.format.hfile.words import key_column
        >>> key_matrix(key_column(pa.array(["trip-001", "trip-002"]))).shape
        (2, 8)
        >>> key_matrix(key_column(pa.array(["trip-001", "trip-1"])))
    """
    count = len(keys)
    width = int(keys.lengths[0]) if count else 0
    if width < WORD_SIZE or int(keys.lengths.min()) != width or int(keys.lengths.max()) != width:
        return None
    return keys.data[: count * width].reshape(count, width)


def find_rows(group: CellGroup, queries: Bytes) -> Ints | None:
    """For each query the row of its cell (the first of several), -1 or `UNSURE`.

    None when the cells are not of the queries' kind.
    """
    even, keys = group.found.even, group.sorted_keys()
    if even is None or even.length != queries.shape[1] or not len(group):
        return None
    skip = len(keys.shared)
    if skip + WORD_SIZE > even.length:
        return None
    stored = even.words(skip)
    stored = keys.words if stored is None else stored
    heads = np.ascontiguousarray(queries[:, skip : skip + WORD_SIZE]).view("<u8").ravel()
    words = heads.byteswap()
    rows = np.searchsorted(stored, words)
    np.minimum(rows, len(group) - 1, out=rows)
    wrong = _differing(keys, rows, queries)
    for _ in range(_STEPS):
        # The next key is another candidate while it starts with the same 8 bytes.
        following = np.minimum(rows[wrong] + 1, len(group) - 1)
        tied = stored[following] == words[wrong]
        rows[wrong] = np.where(tied, following, -1)
        wrong = wrong[tied]
        if not len(wrong):
            return rows
        wrong = wrong[_differing(keys, rows[wrong], queries[wrong])]
    rows[wrong] = UNSURE
    return rows


def _differing(keys: SortedKeys, rows: Ints, queries: Bytes) -> Ints:
    """Which of the queries differ from the key at their row, ascending."""
    width = queries.shape[1]
    at_every_byte = np.ndarray((len(keys.data) - width + 1,), f"V{width}", keys.data, 0, (1,))
    stored = at_every_byte[keys.starts[rows]].view(np.uint8)
    differing = np.flatnonzero(stored != queries.ravel()) // width
    return sorted_once(differing)
