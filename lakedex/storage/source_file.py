"""A file object over ranged reads, for readers such as pyarrow's that want a file.

A read of less than a block fetches a whole block and keeps it, and one near the end fetches the
last block: a Parquet reader asks for the last 8 bytes, then for the footer before them, and
both come with one request.
"""

from __future__ import annotations

import io

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.storage.source import ByteSource

BLOCK_BYTES = 64 * 1024


def open_source(source: ByteSource) -> pa.NativeFile:
    """A source as a file that pyarrow reads.

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
        """How many bytes there are."""
        return self._source.size

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes, fewer only at the end; all that are left when negative."""
        left = max(0, self._source.size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._position, length)
        self._position += length
        return data

    def readall(self) -> bytes:
        """All bytes that are left."""
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
