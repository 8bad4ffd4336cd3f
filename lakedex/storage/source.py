"""Random access to bytes: the interface through which codecs read files.

`SourceFile` is a file object over ranged reads, for readers such as pyarrow's. A read of less than
a block fetches and caches a whole block, and a read near the end fetches the last block: a Parquet
reader reads the last 8 bytes, then the footer before them, and both are in one request.

Ranges of one object less than `JOIN_GAP_BYTES` apart are joined into one request: on an object
store a request takes as long as the transfer of such a gap.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakedex.errors import CorruptFile, FileMissing, InvalidInput, StorageError

BLOCK_BYTES = 64 * 1024
JOIN_GAP_BYTES = 1024 * 1024


@runtime_checkable
class ByteSource(Protocol):
    """Random access to the bytes of one file, or of a part of one."""

    @property
    def path(self) -> str:
        """The name to use in errors."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def base_offset(self) -> int:
        """The position of byte 0 of this source in its file, for errors."""

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start`; `CorruptFile` if some are missing."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read one `bytes` for each `(start, length)`; stores may join neighbouring ranges."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A source over bytes in memory.

    Example:
        >>> MemorySource(b"abcdef", path="x").read(2, 3)
        b'cde'
    """

    data: bytes
    path: str = "<memory>"
    base_offset: int = 0

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start`."""
        check_range(self, start, length)
        return self.data[start : start + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read one `bytes` for each `(start, length)`."""
        return [self.read(start, length) for start, length in ranges]


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """A part of another source, as if it were a file of its own.

    Example:
        >>> SourceWindow(MemorySource(b"abcdef"), 2, 3).read(0, 3)
        b'cde'
    """

    outer: ByteSource
    start: int
    size: int

    def __post_init__(self) -> None:
        """Reject a window that exceeds its outer source."""
        check_range(self.outer, self.start, self.size)

    @property
    def path(self) -> str:
        """The name of the file that contains the window."""
        return self.outer.path

    @property
    def base_offset(self) -> int:
        """The position of byte 0 of the window in the file."""
        return self.outer.base_offset + self.start

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start` of the window."""
        check_range(self, start, length)
        return self.outer.read(self.start + start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read one `bytes` for each `(start, length)` of the window."""
        for start, length in ranges:
            check_range(self, start, length)
        return self.outer.read_many([(self.start + start, length) for start, length in ranges])


def check_range(source: ByteSource, start: int, length: int) -> None:
    """Raise `CorruptFile` unless the source contains `length` bytes from `start`."""
    if start < 0 or length < 0 or start + length > source.size:
        raise CorruptFile(
            source.path,
            source.base_offset + max(start, 0),
            expected=f"{length} bytes",
            actual=f"{max(0, source.size - max(start, 0))} bytes left",
        )


def open_source(source: ByteSource) -> pa.NativeFile:
    """Open a source as a file for pyarrow.

    Example:
        >>> from lakedex.storage.source import MemorySource
        >>> with open_source(MemorySource(b"abcdef")) as file:
        ...     file.read_at(3, 2)
        b'cde'
    """
    return pa.PythonFile(SourceFile(source), mode="r")


class SourceFile(io.RawIOBase):
    """A read-only, seekable file over a source."""

    def __init__(self, source: ByteSource) -> None:
        """Start at the beginning of the source."""
        super().__init__()
        self._source = source
        self._position = 0
        self._block = b""
        self._block_start = 0

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read."""
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}
        if whence not in bases or bases[whence] + offset < 0:
            raise InvalidInput(f"{self._source.path}: cannot seek to {offset} from {whence}")
        self._position = bases[whence] + offset
        return self._position

    def size(self) -> int:
        """The number of bytes."""
        return self._source.size

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes, fewer only at the end; all remaining ones if negative."""
        left = max(0, self._source.size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._position, length)
        self._position += length
        return data

    def readall(self) -> bytes:
        """Read all remaining bytes."""
        return self.read()

    def _fetch(self, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        inside = start - self._block_start
        if inside >= 0 and inside + length <= len(self._block):
            return self._block[inside : inside + length]
        if length >= BLOCK_BYTES:
            return self._source.read(start, length)
        size = self._source.size
        self._block_start = max(0, min(start, size - BLOCK_BYTES))
        self._block = self._source.read(
            self._block_start, min(BLOCK_BYTES, size - self._block_start)
        )
        return self._fetch(start, length)


class RangeReader(Protocol):
    """The operations of a store that a source needs."""

    def size(self, path: str) -> int:
        """The size of an object in bytes."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Read `(start, length)` ranges that do not touch; shorter at the end of the object."""


class ObjectSource:
    """A `ByteSource` over an object."""

    __slots__ = ("_reader", "_size", "path")

    def __init__(self, path: str, size: int | None, reader: RangeReader) -> None:
        """Read the object at `path` of `reader`; `size` is its length, if known."""
        self.path = path
        self._size = size
        self._reader = reader

    @property
    def size(self) -> int:
        """The number of bytes; requested from the store once if it was not given."""
        if self._size is None:
            self._size = self._reader.size(self.path)
        return self._size

    @property
    def base_offset(self) -> int:
        """Always 0: the source is the whole object."""
        return 0

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start`."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read one `bytes` for each `(start, length)`; join neighbouring ranges."""
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
        """Raise `CorruptFile` if a request failed because the object is shorter than given."""
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
    """Return the fewest `(start, length)` spans that cover the ranges and skip gaps over `gap`.

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
