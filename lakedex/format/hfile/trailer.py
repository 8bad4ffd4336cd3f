"""Trailer and file info, the two protobuf messages of an HFile, and the integers in its index.

The trailer is the last 4096 bytes and is read first:

    TRABLK"$ | varint length | TrailerProto | zeros | minor version (1) | major version (3)

The minor version is 0 in files of Hudi's own writer and 3 in files of the HBase writer; the format
is the same. The file info block is a map of properties of the file; numbers in it are big-endian,
and Hudi stores the Avro schema of the values under `schema`:

    PBUF | varint length | repeated field 1 { 1: key, 2: value }

Three variable-length encodings occur:

* protobuf varint: seven bits per byte, lowest first, high bit = more bytes follow;
* protobuf message: repeated `tag varint, value`, tag = field number * 8 + wire type;
* Hadoop VInt: one byte from -112 to 127, else a byte `-112 - n` and n big-endian bytes
  (key lengths in index blocks; 307 is `8e 01 33`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from lakedex.errors import CorruptFile, UnsupportedFeature

_MAX_VARINT_BYTES = 10
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
TRAILER_SIZE = 4096
_MAGIC = b'TRABLK"$'
_MAJOR_VERSION = 3
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_CODEC_NAMES = {0: "LZO", 1: "GZ", 2: "NONE", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}
KEY_VALUE_VERSION = "KEY_VALUE_VERSION"
MAX_MEMSTORE_TIMESTAMP = "MAX_MEMSTORE_TS_KEY"
LAST_KEY = "hfile.LASTKEY"
AVERAGE_KEY_LENGTH = "hfile.AVG_KEY_LEN"
AVERAGE_VALUE_LENGTH = "hfile.AVG_VALUE_LEN"
CREATE_TIME = "hfile.CREATE_TIME_TS"
_INFO_MAGIC = b"PBUF"
_MAX_ENTRIES = 65536
_MAX_FIELDS = 16


class Cursor:
    """A position in a byte string that advances when values are read."""

    __slots__ = ("data", "end", "offset", "path", "position")

    def __init__(self, data: bytes, *, path: str, offset: int, end: int | None = None) -> None:
        """Start at byte 0 of `data`, which is at `offset` of the file `path`."""
        self.data = data
        self.position = 0
        self.end = len(data) if end is None else end
        self.path = path
        self.offset = offset

    def fail(self, expected: str, actual: object) -> CorruptFile:
        """The error that names the current position."""
        return CorruptFile(self.path, self.offset + self.position, expected=expected, actual=actual)

    def take(self, length: int) -> bytes:
        """Read the next `length` bytes."""
        if length < 0 or length > self.end - self.position:
            raise self.fail(f"{length} bytes", f"{self.end - self.position} bytes left")
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        """Read the next protobuf varint."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise self.fail("a varint of at most 10 bytes", "a longer one")

    def vint(self) -> int:
        """Read the next Hadoop VInt."""
        first = self.take(1)[0]
        if first < 0x80:
            return first
        if first >= 0x90:
            return first - 0x100
        negative = first < 0x88
        count = (0x88 if negative else 0x90) - first
        value = int.from_bytes(self.take(count), "big")
        return ~value if negative else value


def message_fields(cursor: Cursor) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of the protobuf message up to the cursor's end."""
    while cursor.position < cursor.end:
        number, wire_type = divmod(cursor.varint(), 8)
        if wire_type == _VARINT:
            yield number, cursor.varint()
        elif wire_type == _LENGTH_DELIMITED:
            yield number, cursor.take(cursor.varint())
        elif wire_type in (_FIXED64, _FIXED32):
            yield number, cursor.take(8 if wire_type == _FIXED64 else 4)
        else:
            raise cursor.fail("a protobuf wire type 0, 1, 2 or 5", wire_type)


def varint(value: int) -> bytes:
    """Encode a number from 0 up as protobuf varint.

    Example:
        >>> varint(555).hex()
        'ab04'
    """
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(number: int, value: int) -> bytes:
    """Encode a protobuf field with a number."""
    return varint(number * 8 + _VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a protobuf field with bytes."""
    return varint(number * 8 + _LENGTH_DELIMITED) + varint(len(value)) + value


def vint(value: int) -> bytes:
    """Encode a number from 0 up as Hadoop VInt.

    Example:
        >>> vint(20).hex(), vint(307).hex()
        ('14', '8e0133')
    """
    if value <= 0x7F:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([0x90 - size]) + value.to_bytes(size, "big")


class Codec(Enum):
    """The compression codecs that Hudi's own reader supports, by their wire code."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Trailer:
    """The fields of the trailer, named as in the wire message TrailerProto."""

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
    """Decode the last 4096 bytes of a file, which are at `offset`."""
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
    """Encode the last 4096 bytes of a file."""
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


def decode_file_info(payload: bytes, *, path: str, offset: int) -> dict[str, bytes]:
    """Decode the payload of a `FILEINF2` block; an empty one is an empty map."""
    if not payload:
        return {}
    cursor = Cursor(payload, path=path, offset=offset)
    if cursor.take(len(_INFO_MAGIC)) != _INFO_MAGIC:
        raise cursor.fail("PBUF", repr(payload[: len(_INFO_MAGIC)]))
    length = cursor.varint()
    if length > cursor.end - cursor.position:
        raise cursor.fail(f"a message of {length} bytes", f"{cursor.end - cursor.position} bytes")
    cursor.end = cursor.position + length
    info: dict[str, bytes] = {}
    for count, (number, value) in enumerate(message_fields(cursor)):
        if count >= _MAX_ENTRIES:
            raise cursor.fail(f"at most {_MAX_ENTRIES} file info entries", "more")
        if number != 1 or not isinstance(value, bytes):
            continue
        entry = Cursor(value, path=path, offset=offset + cursor.position - len(value))
        pair = dict(islice(message_fields(entry), _MAX_FIELDS))
        key, content = pair.get(1, b""), pair.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(content, bytes):
            raise cursor.fail("a file info entry of two byte strings", pair)
        info[key.decode("utf-8", "backslashreplace")] = content
    return info


def check_no_timestamps(info: Mapping[str, bytes], *, path: str) -> None:
    """Reject files whose cells have versions, because such cells have a different end."""
    version = int.from_bytes(info.get(MAX_MEMSTORE_TIMESTAMP, b""), "big")
    if version:
        raise UnsupportedFeature(f"{path}: HFile cells with versions ({version})")


def encode_file_info(info: Mapping[str, bytes]) -> bytes:
    """Encode the payload of a `FILEINF2` block, with entries in the given order."""
    message = b"".join(
        bytes_field(1, bytes_field(1, key.encode()) + bytes_field(2, value))
        for key, value in info.items()
    )
    return _INFO_MAGIC + varint(len(message)) + message
