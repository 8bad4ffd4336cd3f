"""Blocks, of which an HFile consists, except for its trailer.

    0  magic (8) | 8  size on disk without header (4) | 12 raw size (4) | 16 previous block (8)
    24 checksum type (1) | 25 bytes per checksum (4) | 29 size on disk with header, without
    checksums (4) | 33 payload, gzip or raw | checksum area, 4 bytes a checksum

Checksums are written as zeros with type 0 and not read, but their area must exist: hudi-rs computes
its size and cuts it off. Hudi's JVM reader removes 4 bytes per checksum from the end of the *raw*
data of a block and loses the cells that start there. lakedex therefore writes blocks with one
checksum for up to 2 GiB: every cell is longer than the 4 bytes lost.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from lakedex.errors import CorruptFile
from lakedex.format.compression import MAX_INFLATED_BYTES, gunzip, gzip
from lakedex.format.hfile.trailer import Codec

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
