"""Finding a few keys: each by itself, as setting up whole arrays would take longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakedex.format.hfile.block_index import BlockIndex
from lakedex.format.hfile.cells import CellGroup, Cells
from lakedex.format.hfile.words import Ints

MOST_KEYS = 16
"""More than these are found sooner together (`lookup.KeyLookup`)."""


class FewKeys:
    """Keys to look up, in any order, with repetitions and nulls (which are never found)."""

    def __init__(self, keys: Sequence[bytes | None]) -> None:
        """Take the keys."""
        self._asked = [(query, key) for query, key in enumerate(keys) if key is not None]

    def homes(self, index: BlockIndex) -> Ints:
        """For each key that is not null the row of the index that may hold it, or -1."""
        return np.array([index.keys.count_up_to(key) - 1 for _, key in self._asked], np.int64)

    def find(self, homes: Ints, groups: Iterator[CellGroup]) -> Cells:
        """The cells of the keys that are found, by ascending `query`.

        Of several cells with the same key the first is found.
        """
        found: dict[int, tuple[bytes, bytes]] = {}
        for group in groups:
            keys, blocks = group.sorted_keys(), set(group.blocks.tolist())
            for (query, key), home in zip(self._asked, homes.tolist(), strict=True):
                row = keys.row_of(key) if home in blocks else -1
                if row >= 0:
                    found[query] = key, group.value(row)
        ordered = [found[query] for query in sorted(found)]
        return Cells(
            pa.array([key for key, _ in ordered], pa.binary()),
            pa.array([value for _, value in ordered], pa.binary()),
            np.array(sorted(found), np.int64),
        )
