"""Ranged reads of a local file, which is opened for each call and never held open.

A table has many thousands of files, so a source that kept its file open would run the process
out of handles; opening a local file costs microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lakedex.errors import CorruptFile
from lakedex.storage.source import check_range


class LocalSource:
    """A `ByteSource` over a file that `open_file` opens, limited to `size` bytes."""

    __slots__ = ("_open_file", "path", "size")

    def __init__(self, path: str, size: int, open_file: Callable[[str], int]) -> None:
        """Read `path`, taken as `size` bytes long; `open_file(path)` answers a handle."""
        self.path = path
        self.size = size
        self._open_file = open_file

    @property
    def base_offset(self) -> int:
        """Always 0: the source is the whole file."""
        return 0

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`."""
        return self.read_many([(start, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)`."""
        for start, length in ranges:
            check_range(self, start, length)
        with self._opened() as (handle, actual_size):
            return [self._read_range(handle, actual_size, *span) for span in ranges]

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        handle = self._open_file(self.path)
        try:
            yield handle, os.fstat(handle).st_size
        finally:
            os.close(handle)

    def _read_range(self, handle: int, actual_size: int, start: int, length: int) -> bytes:
        # The promised size may come from metadata that lies, and `pread` allocates first.
        if start + length > actual_size:
            left = max(0, actual_size - start)
            raise CorruptFile(
                self.path, start, expected=f"{length} bytes", actual=f"{left} bytes left"
            )
        parts: list[bytes] = []
        position, end = start, start + length
        while position < end:
            part = os.pread(handle, end - position, position)
            if not part:
                raise CorruptFile(
                    self.path, position, expected=f"{end - position} bytes", actual="end of file"
                )
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
