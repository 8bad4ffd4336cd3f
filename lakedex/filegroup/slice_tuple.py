"""Many file slices at once: what is told of all of them together is counted once.

A table has as many slices as files, and every question about it looks at all of them. A snapshot
hands out the same tuple each time, so what was counted for one question is there for the next.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakedex.filegroup.slices import FileSlice, FileSliceId

_COUNTED_SLICES = 5_000


@dataclass(frozen=True, slots=True)
class Amount:
    """What is to be read of some slices; of very many it is told from a part of them."""

    files: float
    merged: float
    """Slices with log files."""
    stored: float
    """Bytes."""

    @classmethod
    def of(cls, slices: Sequence[FileSlice]) -> Amount:
        """Count the files of slices, and their bytes."""
        stride = max(1, len(slices) // _COUNTED_SLICES)
        seen = slices[::stride]
        files = merged = stored = 0
        for each in seen:
            files += 1 + len(each.logs)
            merged += bool(each.logs)
            stored += each.size_bytes
        share = len(slices) / max(1, len(seen))
        return cls(files * share, merged * share, stored * share)


class Slices(tuple[FileSlice, ...]):
    """File slices in order, each of another file group.

    Example:
        >>> some = Slices([FileSlice("p", name, "1", None) for name in "abc"])
        >>> some.partitions, some.mask_of([FileSliceId("p", "b")]).tolist()
        (('p',), [False, True, False])
        >>> [each.file_id for each in some.where(np.array([True, False, True]))]
        ['a', 'c']
    """

    @cached_property
    def size_bytes(self) -> int:
        """The bytes of all their files."""
        return sum(each.size_bytes for each in self)

    @cached_property
    def amount(self) -> Amount:
        """What reading them comes to."""
        return Amount.of(self)

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Their partition paths, each once."""
        return tuple(dict.fromkeys(each.partition for each in self))

    @cached_property
    def places(self) -> Mapping[FileSliceId, int]:
        """Where the slice of each file group stands."""
        return {each.id: place for place, each in enumerate(self)}

    def mask_of(self, groups: Iterable[FileSliceId]) -> npt.NDArray[np.bool_]:
        """Which of them are of these file groups."""
        mask = np.zeros(len(self), dtype=np.bool_)
        found = [self.places[each] for each in groups if each in self.places]
        mask[np.array(found, dtype=np.int64)] = True
        return mask

    def in_partitions(self, paths: Container[str]) -> npt.NDArray[np.bool_]:
        """Which of them are in these partitions."""
        wanted = np.array([each in paths for each in self.partitions], dtype=np.bool_)
        return wanted[self._partition_numbers]

    @cached_property
    def _partition_numbers(self) -> npt.NDArray[np.int64]:
        numbers = {path: number for number, path in enumerate(self.partitions)}
        return np.array([numbers[each.partition] for each in self], dtype=np.int64)

    def where(self, mask: npt.NDArray[np.bool_]) -> Slices:
        """Those for which a mask is true."""
        return Slices([self[place] for place in np.flatnonzero(mask).tolist()])
