"""A buffered look at a source, for codecs that hop from header to header."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.storage.source import ByteSource

WHOLE_FILE_BYTES = 1 << 20
LOOK_AHEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def has(self, start: int, length: int) -> bool:
        return self.start <= start and start + length <= self.end


class ReadWindow:
    """Reads small files in one go, and of large ones a little more than is asked for.

    The last two pieces are kept, so that a look at the far end of a block does not lose the
    bytes around its start.

    Example:
        >>> from lakedex.storage.source import MemorySource
        >>> window = ReadWindow(MemorySource(b"abcdef"))
        >>> window.read(1, 2), window.find(b"ef", 0), window.find(b"x", 0)
        (b'bc', 4, 6)
    """

    def __init__(self, source: ByteSource) -> None:
        """Look at `source`; nothing is read yet."""
        self.source = source
        self._recent = _Piece(0, b"")
        self._older = _Piece(0, b"")

    def read(self, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`, from the kept pieces where they have them."""
        piece = self._piece(start, length, LOOK_AHEAD_BYTES)
        skip = start - piece.start
        return piece.data[skip : skip + length]

    def find(self, needle: bytes, start: int) -> int:
        """Where `needle` first stands at or after `start`; the size of the source if nowhere."""
        size = self.source.size
        while start + len(needle) <= size:
            piece = self._piece(start, len(needle), WHOLE_FILE_BYTES)
            found = piece.data.find(needle, start - piece.start)
            if found >= 0:
                return piece.start + found
            start = piece.end - len(needle) + 1
        return size

    def _piece(self, start: int, length: int, look_ahead: int) -> _Piece:
        """A piece that has the range, made the most recent one."""
        if not self._recent.has(start, length):
            piece = self._older
            if not piece.has(start, length):
                piece = self._load(start, length, look_ahead)
            self._older, self._recent = self._recent, piece
        return self._recent

    def _load(self, start: int, length: int, look_ahead: int) -> _Piece:
        size = self.source.size
        if size <= WHOLE_FILE_BYTES:
            start, length = 0, size
        else:
            length = max(length, min(look_ahead, size - start))
        return _Piece(start, self.source.read(start, length))
