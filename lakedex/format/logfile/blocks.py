"""The blocks of log files: finds them by their headers, and determines which ones are valid.

The blocks of a file slice apply in this order:

1. Torn blocks, and blocks of instants that are not committed, are ignored.
2. A rollback command removes the *earlier* blocks of its target. Blocks of an instant that is
   reused after its rollback stay.
3. A log-compacted block names the instants whose blocks it replaces. It takes the position of the
   last of them, so that blocks written between them and it still win over it. A later compacted
   block may replace it.

Contents are not read to find the blocks. A log file is a sequence of blocks, with big-endian
numbers:

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.storage.source import ByteSource, SourceWindow

ROLLBACK_COMMAND = "0"
"""The only value of `COMMAND_BLOCK_TYPE` that Hudi writes."""


class BlockKind(IntEnum):
    """The block types, by their number in the file.

    All are Hudi's but `VIRTUAL`, which says that the records are in other log files. Hudi and
    hudi-rs refuse to read a log file with a type that they do not know, so they fail and do not
    miss rows. Its number is far from theirs, for they may get more.
    """

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6
    VIRTUAL = 19_524

    @property
    def holds_records(self) -> bool:
        """Whether such a block contains records or deletes, so its instant must be committed."""
        return self not in (BlockKind.COMMAND, BlockKind.CORRUPT)


class HeaderKey(IntEnum):
    """The keys of a block header, by their number in the file."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block, its position, and a window on its content.

    A `CORRUPT` block has no header; its content is all bytes up to the next block.
    """

    kind: BlockKind
    header: Mapping[HeaderKey, str]
    offset: int
    content: SourceWindow
    found_through: str = ""
    """The log file that names the one with the block; empty where none does."""

    @property
    def path(self) -> str:
        """The log file that contains the block."""
        return self.content.path

    @property
    def log_of_slice(self) -> str:
        """The log file of the file slice that contains the block, or refers to it."""
        return self.found_through or self.path

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block."""
        return self._required(HeaderKey.INSTANT_TIME)

    @property
    def target_instant_time(self) -> str:
        """The instant that a rollback command rolls back."""
        return self._required(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema_text(self) -> str:
        """The Avro schema of the records, as JSON."""
        return self._required(HeaderKey.SCHEMA)

    @property
    def compacted_times(self) -> tuple[str, ...]:
        """The instants whose blocks this block replaces; empty unless log-compacted."""
        text = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def is_partial(self) -> bool:
        """Whether the records contain only the changed columns."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    def check_rollback(self) -> None:
        """Reject a command block that is not a rollback."""
        command = self._required(HeaderKey.COMMAND_BLOCK_TYPE)
        if command != ROLLBACK_COMMAND:
            raise UnsupportedFeature(f"log command {command[:40]!r} in {self.path}")

    def _required(self, key: HeaderKey) -> str:
        if key not in self.header:
            raise CorruptFile(
                self.path,
                self.offset,
                expected=f"a {self.kind.name} block with {key.name} in its header",
                actual=[present.name for present in self.header],
            )
        return self.header[key]


# A compacted block takes the position of a plain block that it replaces, if there is one left, else
# that of a compacted block that it replaces, else its own.
_OWN, _COMPACTED_AGAIN, _PLAIN = range(3)


def effective_blocks(
    blocks: Iterable[LogBlock], *, is_committed: Callable[[str], bool]
) -> list[LogBlock]:
    """The blocks to merge, oldest first, from all blocks of a slice in order."""
    return _after_log_compaction(_after_rollbacks(blocks, is_committed))


def _after_rollbacks(
    blocks: Iterable[LogBlock], is_committed: Callable[[str], bool]
) -> dict[str, list[LogBlock]]:
    """The committed blocks that no rollback removed, by instant, in order of occurrence."""
    kept: dict[str, list[LogBlock]] = {}
    committed: dict[str, bool] = {}
    for block in blocks:
        if block.kind is BlockKind.COMMAND:
            block.check_rollback()
            kept.pop(block.target_instant_time, None)
        elif block.kind.holds_records:
            instant = block.instant_time
            if instant not in committed:
                committed[instant] = is_committed(instant)
            if committed[instant]:
                kept.setdefault(instant, []).append(block)
    return kept


def _after_log_compaction(by_instant: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """The blocks in order, compacted ones at the positions of those that they replace."""
    replaced_by: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    for age, (instant, blocks) in enumerate(reversed(by_instant.items())):
        standing_in = replaced_by.get(instant, instant)
        replaces = {time for block in blocks for time in block.compacted_times} - {instant}
        for time in replaces:
            replaced_by.setdefault(time, standing_in)
        if not replaces:
            rank = _PLAIN
        elif instant != standing_in:
            rank = _COMPACTED_AGAIN
        else:
            rank = _OWN
        if standing_in not in places or rank > places[standing_in][0]:
            places[standing_in] = (rank, age)
    ordered = sorted(places, key=lambda instant: -places[instant][1])
    return [block for instant in ordered for block in by_instant[instant]]


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
