"""The trailer: the last 4096 bytes of an HFile, where reading starts.

    TRABLK"$ | varint length | TrailerProto | zeros | minor version (1) | major version (3)

The minor version is 0 in files of Hudi's own writer and 3 in files of the HBase writer; both
are read by the same rules, so it is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.hfile.varint import (
    Cursor,
    bytes_field,
    message_fields,
    number_field,
    varint,
)

TRAILER_SIZE = 4096
_MAGIC = b'TRABLK"$'
_MAJOR_VERSION = 3
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_CODEC_NAMES = {0: "LZO", 1: "GZ", 2: "NONE", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}


class Codec(Enum):
    """The compression codecs that Hudi's own reader knows, by their wire code."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the trailer says; named as in the wire message TrailerProto."""

    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    codec: Codec
    data_index_levels: int = 1
    total_raw_bytes: int = 0
    first_data_block_offset: int = 0
    last_data_block_offset: int = 0


def decode_trailer(data: bytes, *, path: str, offset: int) -> Trailer:
    """Read the 4096 bytes that end a file; they lie at `offset` of it."""
    if len(data) != TRAILER_SIZE or data[: len(_MAGIC)] != _MAGIC:
        raise CorruptFile(
            path, offset, expected="the HFile trailer", actual=repr(bytes(data[: len(_MAGIC)]))
        )
    major = int.from_bytes(data[-3:], "big")
    if major != _MAJOR_VERSION:
        raise UnsupportedFeature(f"{path}: HFile major version {major}")
    cursor = Cursor(data, path=path, offset=offset, end=TRAILER_SIZE - 4)
    cursor.take(len(_MAGIC))
    length = cursor.varint()
    if length > cursor.end - cursor.position:
        raise cursor.fail("a trailer message inside the trailer", f"{length} bytes")
    cursor.end = cursor.position + length
    numbers = {n: v for n, v in message_fields(cursor) if isinstance(v, int)}
    if 2 not in numbers:
        raise cursor.fail("the field load_on_open_data_offset", "none")
    return Trailer(
        file_info_offset=numbers.get(1, 0),
        load_on_open_offset=numbers[2],
        data_index_count=numbers.get(5, 0),
        meta_index_count=numbers.get(6, 0),
        entry_count=numbers.get(7, 0),
        codec=_codec(numbers.get(12, Codec.NONE.value), path),
        data_index_levels=numbers.get(8, 1),
        total_raw_bytes=numbers.get(4, 0),
        first_data_block_offset=numbers.get(9, 0),
        last_data_block_offset=numbers.get(10, 0),
    )


def encode_trailer(trailer: Trailer) -> bytes:
    """The 4096 bytes that end a file."""
    message = b"".join(
        [
            number_field(1, trailer.file_info_offset),
            number_field(2, trailer.load_on_open_offset),
            number_field(3, trailer.total_raw_bytes),
            number_field(5, trailer.data_index_count),
            number_field(6, trailer.meta_index_count),
            number_field(7, trailer.entry_count),
            number_field(8, trailer.data_index_levels),
            number_field(9, trailer.first_data_block_offset),
            number_field(10, trailer.last_data_block_offset),
            bytes_field(11, _COMPARATOR),
            number_field(12, trailer.codec.value),
        ]
    )
    start = _MAGIC + varint(len(message)) + message
    return start.ljust(TRAILER_SIZE - 4, b"\0") + _MAJOR_VERSION.to_bytes(4, "big")


def _codec(code: int, path: str) -> Codec:
    """The codec for a wire code, or an error that names the codec."""
    try:
        return Codec(code)
    except ValueError:
        name = _CODEC_NAMES.get(code, f"number {code}")
        raise UnsupportedFeature(f"{path}: HFile compression codec {name}") from None
