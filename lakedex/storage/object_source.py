"""Ranged reads of one object, whose size is asked for only when it is needed.

Ranges less than `JOIN_GAP_BYTES` apart become one request: on an object store a request costs as
much time as the transfer of such a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from lakedex.errors import CorruptFile, FileMissing, StorageError
from lakedex.storage.source import check_range

JOIN_GAP_BYTES = 1024 * 1024


class RangeReader(Protocol):
    """The part of a store that a source needs."""

    def size(self, path: str) -> int:
        """The size of an object in bytes."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of `(start, length)` ranges that do not touch, shorter where it ends."""


class ObjectSource:
    """A `ByteSource` over an object."""

    __slots__ = ("_reader", "_size", "path")

    def __init__(self, path: str, size: int | None, reader: RangeReader) -> None:
        """Read the object at `path` of `reader`, taken as `size` bytes long."""
        self.path = path
        self._size = size
        self._reader = reader

    @property
    def size(self) -> int:
        """How many bytes there are; asks the store once when nobody said."""
        if self._size is None:
            self._size = self._reader.size(self.path)
        return self._size

    @property
    def base_offset(self) -> int:
        """Always 0: the source is the whole object."""
        return 0

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)`, near ranges joined into one request."""
        for start, length in ranges:
            check_range(self, start, length)
        spans = join_ranges(ranges, JOIN_GAP_BYTES)
        blocks = self._fetch(spans) if spans else []
        starts = [start for start, _ in spans]
        return [self._cut(starts, blocks, start, length) for start, length in ranges]

    def _fetch(self, spans: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        try:
            return self._reader.read_ranges(self.path, spans)
        except FileMissing:
            raise
        except StorageError:
            self._check_end(spans)
            raise

    def _cut(
        self, starts: Sequence[int], blocks: Sequence[bytes], start: int, length: int
    ) -> bytes:
        if length == 0:
            return b""
        index = bisect_right(starts, start) - 1
        inside = start - starts[index]
        part = blocks[index][inside : inside + length]
        if len(part) != length:
            raise CorruptFile(
                self.path, start, expected=f"{length} bytes", actual=f"{len(part)} bytes left"
            )
        return part

    def _check_end(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Say so when a request failed because the object is shorter than promised."""
        actual = self._reader.size(self.path)
        for start, length in ranges:
            if start + length > actual:
                raise CorruptFile(
                    self.path,
                    start,
                    expected=f"{length} bytes",
                    actual=f"{max(0, actual - start)} bytes left",
                )


def join_ranges(ranges: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The fewest `(start, length)` spans that cover the ranges and skip gaps longer than `gap`.

    Example:
        >>> join_ranges([(100, 5), (0, 10), (12, 3), (50, 0)], gap=4)
        [(0, 15), (100, 5)]
    """
    spans: list[tuple[int, int]] = []
    for start, length in sorted(span for span in ranges if span[1] > 0):
        end = start + length
        if spans and start - sum(spans[-1]) <= gap:
            first, covered = spans[-1]
            spans[-1] = (first, max(first + covered, end) - first)
        else:
            spans.append((start, length))
    return spans
