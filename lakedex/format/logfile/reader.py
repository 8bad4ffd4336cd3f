"""Finds the blocks of a log file by their headers, without reading their contents.

A log file is a sequence of blocks, with big-endian numbers:

    6  magic "#HUDI#"
    8  block length: the bytes after this field
    4  log format version (1)
    4  block type
    .. header: int count, then for each entry int key, int length, UTF-8 value
    8  content length
    .. content
    .. footer, in the form of the header
    8  block length + 6

If the magic is missing, the block exceeds the file, or the two lengths differ, the writer died
before it had finished: the bytes up to the next magic become a `CORRUPT` block.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.logfile.block import BlockKind, HeaderKey, LogBlock
from lakedex.storage.source import ByteSource, SourceWindow

WHOLE_FILE_BYTES = 1 << 20
LOOK_AHEAD_BYTES = 1 << 16
MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
_LEAD = len(MAGIC) + 8
_SMALLEST_LENGTH = 32  # version, type, two empty maps, content length, trailing length
_TRAILER = 8
_SHORTEST_TAIL = 4 + _TRAILER  # includes an empty footer, so that it needs no other read


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
    """Reads small files completely, and of large ones a little more than requested.

    The last two pieces are kept, so that reading the end of a block does not drop the bytes around
    its start.

    Example:
        >>> from lakedex.storage.source import MemorySource
        >>> window = ReadWindow(MemorySource(b"abcdef"))
        >>> window.read(1, 2), window.find(b"ef", 0), window.find(b"x", 0)
        (b'bc', 4, 6)
    """

    def __init__(self, source: ByteSource) -> None:
        """Use `source`, without reading yet."""
        self.source = source
        self._recent = _Piece(0, b"")
        self._older = _Piece(0, b"")

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from `start`, from the kept pieces if possible."""
        piece = self._piece(start, length, LOOK_AHEAD_BYTES)
        skip = start - piece.start
        return piece.data[skip : skip + length]

    def find(self, needle: bytes, start: int) -> int:
        """The first position of `needle` from `start` on; the size of the source if none."""
        size = self.source.size
        while start + len(needle) <= size:
            piece = self._piece(start, len(needle), WHOLE_FILE_BYTES)
            found = piece.data.find(needle, start - piece.start)
            if found >= 0:
                return piece.start + found
            start = piece.end - len(needle) + 1
        return size

    def _piece(self, start: int, length: int, look_ahead: int) -> _Piece:
        """A piece that contains the range, which becomes the most recent one."""
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


def read_blocks(source: ByteSource) -> list[LogBlock]:
    """Read all blocks of a log file in order, torn ones as `CORRUPT` blocks.

    Example:
        >>> from lakedex.format.logfile.writer import encode_rollback_block
        >>> from lakedex.storage.source import MemorySource
        >>> data = encode_rollback_block("20260102", "20260101") + b"#HUDI# torn"
        >>> rollback, torn = read_blocks(MemorySource(data))
        >>> rollback.kind.name, rollback.target_instant_time, torn.kind.name
        ('COMMAND', '20260101', 'CORRUPT')
    """
    window = ReadWindow(source)
    blocks: list[LogBlock] = []
    offset = 0
    while offset < source.size:
        length = _whole_block_length(window, offset)
        if length is None:
            end = _next_magic(window, offset)
            blocks.append(_corrupt_block(source, offset, end))
        else:
            end = offset + _LEAD + length
            blocks.append(_Frame(source, window, offset, end).block())
        offset = end
    return blocks


def _whole_block_length(window: ReadWindow, offset: int) -> int | None:
    """The block length if there is a complete block at `offset`, else None."""
    size = window.source.size
    if offset + _LEAD > size:
        return None
    lead = window.read(offset, _LEAD)
    length = int.from_bytes(lead[len(MAGIC) :], "big", signed=True)
    if not lead.startswith(MAGIC) or not _SMALLEST_LENGTH <= length <= size - offset - _LEAD:
        return None
    tail = window.read(offset + _LEAD + length - _SHORTEST_TAIL, _SHORTEST_TAIL)
    if int.from_bytes(tail[-_TRAILER:], "big", signed=True) != length + len(MAGIC):
        return None
    return length


def _next_magic(window: ReadWindow, offset: int) -> int:
    """The possible start of the next block after the torn one at `offset`, or the end."""
    return window.find(MAGIC, offset + 1)


def _corrupt_block(source: ByteSource, offset: int, end: int) -> LogBlock:
    return LogBlock(BlockKind.CORRUPT, {}, offset, SourceWindow(source, offset, end - offset))


@dataclass(slots=True)
class _Frame:
    """The content of a block with correct outer lengths; every field must fit in it."""

    source: ByteSource
    window: ReadWindow
    offset: int
    end: int

    def block(self) -> LogBlock:
        """Decode header and footer, and open a window on the content."""
        at = self.offset + _LEAD
        version, kind_number = struct.unpack(">ii", self._take(at, 8))
        if version != LOG_FORMAT_VERSION:
            raise UnsupportedFeature(f"log format version {version} in {self.source.path}")
        kind = self._kind(kind_number)
        header, at = self._entries(at + 8)
        (content_length,) = struct.unpack(">q", self._take(at, 8))
        start = at + 8
        if not 0 <= content_length <= self.end - _TRAILER - 4 - start:
            self._fail(at, "a content that fits in its block", content_length)
        _, at = self._entries(start + content_length)
        if at != self.end - _TRAILER:
            self._fail(at, f"the footer to end at {self.end - _TRAILER}", at)
        return LogBlock(kind, header, self.offset, SourceWindow(self.source, start, content_length))

    def _kind(self, number: int) -> BlockKind:
        try:
            return BlockKind(number)
        except ValueError:
            raise UnsupportedFeature(f"log block type {number} in {self.source.path}") from None

    def _entries(self, at: int) -> tuple[dict[HeaderKey, str], int]:
        """The entries of a header or footer, without unknown keys, and its end."""
        (count,) = struct.unpack(">i", self._take(at, 4))
        at += 4
        if not 0 <= count <= (self.end - at) // 8:
            self._fail(at - 4, "an entry count that fits in the block", count)
        entries: dict[HeaderKey, str] = {}
        for _ in range(count):
            number, length = struct.unpack(">ii", self._take(at, 8))
            value = self._take(at + 8, length)
            if 0 <= number < len(HeaderKey):
                entries[HeaderKey(number)] = self._text(value, at + 8)
            at += 8 + length
        return entries, at

    def _take(self, at: int, length: int) -> bytes:
        if length < 0 or at + length > self.end - _TRAILER:
            self._fail(at, "a field that fits in its block", f"a length of {length}")
        return self.window.read(at, length)

    def _text(self, value: bytes, at: int) -> str:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error(at, "UTF-8 text", error.reason) from error

    def _fail(self, at: int, expected: str, actual: object) -> None:
        raise self._error(at, expected, actual)

    def _error(self, at: int, expected: str, actual: object) -> CorruptFile:
        place = self.source.base_offset + at
        return CorruptFile(self.source.path, place, expected=expected, actual=actual)
