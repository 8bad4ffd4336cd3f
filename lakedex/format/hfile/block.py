"""Blocks, of which an HFile consists except for its trailer, and the blocks of its index.

    0  magic (8) | 8  size on disk without header (4) | 12 raw size (4) | 16 previous block (8)
    24 checksum type (1) | 25 bytes per checksum (4) | 29 size on disk with header, without
    checksums (4) | 33 payload, gzip or raw | checksum area, 4 bytes a checksum

Checksums are written as zeros with type 0 and not read, but their area must exist: hudi-rs computes
its size and cuts it off. Hudi's JVM reader removes 4 bytes per checksum from the end of the *raw*
data of a block and loses the cells that start there. lakedex therefore writes blocks with one
checksum for up to 2 GiB: every cell is longer than the 4 bytes lost.

Sizes in a file are checked before memory is allocated for them. Gzip uses `isal` if it is installed
(about three times faster to inflate, four times to deflate), otherwise the standard library's
`zlib`. Both read and write the same format.

Index blocks map keys to blocks.

Root (`IDXROOT2`): `8 offset | 4 size on disk | VInt key length | key` for each block.
Below the root, in files of the HBase writer only (`IDXINTE2`, `IDXLEAF2`): `4 count n`,
`n + 1` relative offsets of 4 bytes, then entries of `8 offset | 4 size | key`.

A key in the data index is `2 content length | content`, with or without the 10 bytes that end keys
in data blocks. It is at most the first key of its block and greater than all keys before it, but it
is not necessarily a key of the file, because HBase shortens it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lakedex.errors import CorruptFile
from lakedex.format.hfile.keys import PADDING, Ints, SortedKeys
from lakedex.format.hfile.trailer import Codec, Cursor, vint

HEADER_SIZE = 33
DATA_MAGIC = b"DATABLK*"
META_MAGIC = b"METABLKc"
ROOT_INDEX_MAGIC = b"IDXROOT2"
LEAF_INDEX_MAGIC = b"IDXLEAF2"
INTERMEDIATE_INDEX_MAGIC = b"IDXINTE2"
FILE_INFO_MAGIC = b"FILEINF2"

ONE_CHECKSUM = 0x7FFFFFFF
"""The bytes per checksum with which every block has exactly one."""

_HEADER = struct.Struct(">8sIIqBII")


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of bytes in memory, for errors: byte 0 is at `offset` of `path`."""

    path: str
    offset: int

    def fail(self, position: int, expected: str, actual: object) -> CorruptFile:
        """The error that names the byte at `position`."""
        return CorruptFile(self.path, self.offset + position, expected=expected, actual=actual)


class BlockHeader(NamedTuple):
    """The sizes of one block, checked against the available bytes.

    `payload_end` and `end` are positions in the bytes that contain the header.
    """

    magic: bytes
    raw_size: int
    payload_start: int
    payload_end: int
    end: int


def decode_header(data: memoryview, position: int, place: Place) -> BlockHeader:
    """Read the header at `position`; `data` must contain the whole block."""
    left = len(data) - position
    if left < HEADER_SIZE:
        raise place.fail(position, "a block header of 33 bytes", f"{left} bytes left")
    magic, on_disk, raw_size, _, _, _, with_header = _HEADER.unpack_from(data, position)
    if on_disk > left - HEADER_SIZE:
        raise place.fail(position, f"a block of {on_disk} bytes", f"{left - HEADER_SIZE} left")
    if not HEADER_SIZE <= with_header <= HEADER_SIZE + on_disk:
        raise place.fail(position, f"at most {HEADER_SIZE + on_disk} payload bytes", with_header)
    start = position + HEADER_SIZE
    return BlockHeader(magic, raw_size, start, position + with_header, start + on_disk)


def decode_payload(data: memoryview, header: BlockHeader, codec: Codec, place: Place) -> bytes:
    """The raw bytes of a block, exactly as many as in its header."""
    payload = data[header.payload_start : header.payload_end]
    if codec is Codec.GZIP:
        return gunzip(
            payload,
            expected_size=header.raw_size,
            path=place.path,
            offset=place.offset + header.payload_start,
        )
    if header.raw_size > min(len(payload), MAX_INFLATED_BYTES):
        raise place.fail(
            header.payload_start, f"a raw block of {header.raw_size} bytes", len(payload)
        )
    return bytes(payload[: header.raw_size])


def decode_block(
    data: memoryview, position: int, codec: Codec, place: Place, magic: bytes
) -> tuple[bytes, int]:
    """The raw bytes of the block at `position`, which must have `magic`, and its end."""
    header = decode_header(data, position, place)
    check_magic(header, (magic,), position, place)
    return decode_payload(data, header, codec, place), header.end


def check_magic(
    header: BlockHeader, allowed: tuple[bytes, ...], position: int, place: Place
) -> None:
    """Raise `CorruptFile` unless the block has one of the allowed kinds."""
    if header.magic not in allowed:
        names = " or ".join(magic.decode() for magic in allowed)
        raise place.fail(position, f"a block {names}", repr(header.magic))


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """The format of written blocks: codec, gzip level, and number of checksums."""

    codec: Codec
    level: int = 1
    bytes_per_checksum: int = ONE_CHECKSUM


def encode_block(magic: bytes, raw: memoryview, previous: int, form: BlockFormat) -> bytes:
    """Encode one block: header, payload, checksum area."""
    payload = gzip(raw, level=form.level) if form.codec is Codec.GZIP else raw
    with_header = HEADER_SIZE + len(payload)
    checksums = bytes(4 * -(-with_header // form.bytes_per_checksum))
    header = _HEADER.pack(
        magic,
        len(payload) + len(checksums),
        len(raw),
        previous,
        0,
        form.bytes_per_checksum,
        with_header,
    )
    return b"".join([header, payload, checksums])


_igzip: Any
_isal: Any
try:
    from isal import igzip_lib as _igzip
    from isal import isal_zlib as _isal
except ImportError:  # there is no wheel of isal for every platform
    _igzip = _isal = None

MAX_INFLATED_BYTES = 96 * 1024 * 1024
"""The size of the largest block that is inflated."""

MAX_DEFLATE_RATIO = 1032
"""The greatest compression ratio of deflate; a larger claim is false."""

_GZIP_WINDOW = 31
_ERRORS: tuple[type[Exception], ...] = (
    (zlib.error, EOFError) if _igzip is None else (zlib.error, EOFError, _igzip.IsalError)
)


def gzip(data: bytes | memoryview, *, level: int = 1) -> bytes:
    """Compress `data` as one gzip member; equal input gives equal bytes.

    Example:
        >>> gunzip(gzip(b"abc"), expected_size=3, path="x", offset=0)
        b'abc'
    """
    if _isal is not None:
        return bytes(_isal.compress(data, min(level, 3), _GZIP_WINDOW))
    return zlib.compress(data, level, _GZIP_WINDOW)


def gunzip(data: bytes | memoryview, *, expected_size: int, path: str, offset: int) -> bytes:
    """Decompress one gzip member, whose content must have exactly `expected_size` bytes.

    It never inflates more bytes. `path` and `offset` are used in errors.
    """
    check_inflated_size(expected_size, memoryview(data).nbytes, path=path, offset=offset)
    try:
        inflated, complete = _inflate(data, expected_size + 1)
    except _ERRORS as error:
        raise CorruptFile(path, offset, expected="a gzip stream", actual=str(error)) from None
    if len(inflated) != expected_size or not complete:
        more = "more than " if len(inflated) > expected_size else ""
        raise CorruptFile(
            path,
            offset,
            expected=f"a gzip stream of {expected_size} bytes",
            actual=f"{more}{min(len(inflated), expected_size)} bytes",
        )
    return inflated


def check_inflated_size(expected_size: int, stored_size: int, *, path: str, offset: int) -> None:
    """Raise `CorruptFile` if `stored_size` bytes cannot or must not inflate to `expected_size`."""
    limit = min(MAX_INFLATED_BYTES, stored_size * MAX_DEFLATE_RATIO)
    if not 0 <= expected_size <= limit:
        raise CorruptFile(
            path, offset, expected=f"at most {limit} bytes after inflating", actual=expected_size
        )


def _inflate(data: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of the member, and whether it ended (with a valid checksum)."""
    inflater: Any
    if _igzip is not None:
        inflater = _igzip.IgzipDecompressor(_igzip.DECOMP_GZIP)
    else:
        inflater = zlib.decompressobj(_GZIP_WINDOW)
    return inflater.decompress(data, limit), inflater.eof


_ENTRY = struct.Struct(">qI")
_LENGTH_SIZE = 2


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Offsets, sizes and lowest keys of blocks, in the order of both keys and offsets."""

    offsets: Ints
    sizes: Ints
    keys: SortedKeys

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class RawEntries:
    """The entries of one index block; key i is `payload[key_starts[i]:key_ends[i]]`."""

    payload: bytes
    offsets: Ints
    sizes: Ints
    key_starts: Ints
    key_ends: Ints

    def key(self, row: int) -> bytes:
        """One key in its stored form."""
        return self.payload[int(self.key_starts[row]) : int(self.key_ends[row])]


def root_entries(payload: bytes, count: int, place: Place) -> RawEntries:
    """Read `count` entries of a root index; further bytes, which HBase writes, are ignored."""
    if count > len(payload) // (_ENTRY.size + 1):
        raise place.fail(0, f"{count} index entries", f"{len(payload)} bytes")
    ends = _equal_entries(payload, count)
    if ends is None:
        cursor = Cursor(payload, path=place.path, offset=place.offset)
        lengths, stops = [], []
        for _ in range(count):
            cursor.take(_ENTRY.size)
            length = cursor.vint()
            cursor.take(length)
            lengths.append(length)
            stops.append(cursor.position)
        ends = np.array(stops, np.int64)
        starts = ends - np.array(lengths, np.int64)
        entries = np.concatenate([np.zeros(min(count, 1), np.int64), ends[:-1]])
    else:
        entries = np.arange(count) * (int(ends[0]) if count else 0)
        starts = entries + _ENTRY.size + 1
    return _entries(payload, entries, starts, ends)


def child_entries(payload: bytes, place: Place) -> RawEntries:
    """Read all entries of an index block below the root."""
    if len(payload) < 8:
        raise place.fail(0, "an index block of at least 8 bytes", len(payload))
    count = int.from_bytes(payload[:4], "big")
    base = 4 + 4 * (count + 1)
    if count > len(payload) // 16 or base > len(payload):
        raise place.fail(0, f"{count} index entries", f"{len(payload)} bytes")
    bounds = base + np.frombuffer(payload, ">u4", count + 1, 4).astype(np.int64)
    too_short = np.diff(bounds) < _ENTRY.size
    if too_short.any() or int(bounds[-1]) > len(payload) or int(bounds[0]) != base:
        raise place.fail(4, "ascending entry offsets inside the block", bounds.tolist()[:8])
    return _entries(payload, bounds[:-1], bounds[:-1] + _ENTRY.size, bounds[1:])


def block_index(parts: Sequence[RawEntries], *, end: int, place: Place) -> BlockIndex:
    """Join the entries of index blocks; the blocks must be in order, disjoint, before `end`."""
    offsets = _concat([part.offsets for part in parts])
    sizes = _concat([part.sizes for part in parts])
    stops = offsets + sizes
    if len(offsets) and (
        int(offsets.min()) < 0
        or int(offsets.max()) > end
        or (sizes < HEADER_SIZE).any()
        or (offsets[1:] < stops[:-1]).any()
        or int(stops[-1]) > end
    ):
        raise place.fail(0, f"index entries of ascending blocks before byte {end}", "other entries")
    bases = np.cumsum([0] + [len(part.payload) for part in parts])
    data = np.frombuffer(b"".join([p.payload for p in parts]) + bytes(PADDING), np.uint8)
    starts = _concat([p.key_starts + base for p, base in zip(parts, bases, strict=False)])
    ends = _concat([p.key_ends + base for p, base in zip(parts, bases, strict=False)])
    keys = SortedKeys(data, starts + _LENGTH_SIZE)
    if (keys.column().lengths > ends - starts - _LENGTH_SIZE).any():
        raise place.fail(0, "index keys as long as their content", "a longer content length")
    return BlockIndex(offsets, sizes, keys)


def encode_root_index(offsets: Sequence[int], sizes: Sequence[int], keys: Sequence[bytes]) -> bytes:
    """The payload of a root index; `keys` are written unchanged, after their length."""
    return b"".join(
        part
        for offset, size, key in zip(offsets, sizes, keys, strict=True)
        for part in (_ENTRY.pack(offset, size), vint(len(key)), key)
    )


def _entries(payload: bytes, entries: Ints, starts: Ints, ends: Ints) -> RawEntries:
    """Read offset and size at each of `entries`."""
    every_byte = np.frombuffer(payload + bytes(PADDING), np.uint8)
    longs = np.ndarray((len(payload) + 8,), np.dtype(">i8"), every_byte, 0, (1,))
    ints = np.ndarray((len(payload) + 8,), np.dtype(">u4"), every_byte, 0, (1,))
    offsets = longs[entries].astype(np.int64)
    return RawEntries(payload, offsets, ints[entries + 8].astype(np.int64), starts, ends)


def _equal_entries(payload: bytes, count: int) -> Ints | None:
    """The ends of the entries if all have the length of the first one, else None.

    The lengths then have fixed distances; the first one is at its position, so by induction all
    are.
    """
    length = payload[_ENTRY.size] if count else 0
    size = _ENTRY.size + 1 + length
    if length > 0x7F or count * size > len(payload):
        return None
    lengths = np.frombuffer(payload, np.uint8)[_ENTRY.size : count * size : size]
    return (np.arange(count) + 1) * size if (lengths == length).all() else None


def _concat(parts: Sequence[Ints]) -> Ints:
    """Concatenate arrays; the result of no arrays is empty."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
