"""A window of bytes to read from: the only thing that codecs know of storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakedex.errors import CorruptFile


@runtime_checkable
class ByteSource(Protocol):
    """Random access to the bytes of one file, or of a part of one."""

    @property
    def path(self) -> str:
        """The name to use in errors."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    @property
    def base_offset(self) -> int:
        """Where byte 0 of this source lies in its file, for errors."""

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`; `CorruptFile` when they are not all there."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)`; stores may join near ranges."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A source over bytes that are in memory already.

    Example:
        >>> MemorySource(b"abcdef", path="x").read(2, 3)
        b'cde'
    """

    data: bytes
    path: str = "<memory>"
    base_offset: int = 0

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`."""
        check_range(self, start, length)
        return self.data[start : start + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)`."""
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
        """Refuse a window that does not lie inside its outer source."""
        check_range(self.outer, self.start, self.size)

    @property
    def path(self) -> str:
        """The name of the file that the window lies in."""
        return self.outer.path

    @property
    def base_offset(self) -> int:
        """Where byte 0 of the window lies in the file."""
        return self.outer.base_offset + self.start

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start` of the window."""
        check_range(self, start, length)
        return self.outer.read(self.start + start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """One `bytes` for each `(start, length)` of the window."""
        for start, length in ranges:
            check_range(self, start, length)
        return self.outer.read_many([(self.start + start, length) for start, length in ranges])


def check_range(source: ByteSource, start: int, length: int) -> None:
    """Raise `CorruptFile` unless `length` bytes from `start` lie inside the source."""
    if start < 0 or length < 0 or start + length > source.size:
        raise CorruptFile(
            source.path,
            source.base_offset + max(start, 0),
            expected=f"{length} bytes",
            actual=f"{max(0, source.size - max(start, 0))} bytes left",
        )
