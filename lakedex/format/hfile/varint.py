"""The three variable-length encodings inside an HFile, written out by hand.

* protobuf varint: seven bits a byte, lowest first, high bit = more follows (trailer, file info);
* protobuf message: repeated `tag varint, value`, tag = field number * 8 + wire type;
* Hadoop VInt: one byte from -112 to 127, else a byte `-112 - n` and n big-endian bytes
  (key lengths in index blocks; 307 is `8e 01 33`).

Readers take a `Cursor`, which knows the place for errors and never reads past its end.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.errors import CorruptFile

_MAX_VARINT_BYTES = 10
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


class Cursor:
    """A place in a byte string that moves forward as values are read from it."""

    __slots__ = ("data", "end", "offset", "path", "position")

    def __init__(self, data: bytes, *, path: str, offset: int, end: int | None = None) -> None:
        """Start at byte 0 of `data`, which lies at `offset` of the file `path`."""
        self.data = data
        self.position = 0
        self.end = len(data) if end is None else end
        self.path = path
        self.offset = offset

    def fail(self, expected: str, actual: object) -> CorruptFile:
        """The error that names the current place."""
        return CorruptFile(self.path, self.offset + self.position, expected=expected, actual=actual)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        if length < 0 or length > self.end - self.position:
            raise self.fail(f"{length} bytes", f"{self.end - self.position} bytes left")
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        """The next protobuf varint."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise self.fail("a varint of at most 10 bytes", "a longer one")

    def vint(self) -> int:
        """The next Hadoop VInt."""
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
    """A number from 0 up as protobuf varint.

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
    """A protobuf field that holds a number."""
    return varint(number * 8 + _VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A protobuf field that holds bytes."""
    return varint(number * 8 + _LENGTH_DELIMITED) + varint(len(value)) + value


def vint(value: int) -> bytes:
    """A number from 0 up as Hadoop VInt.

    Example:
        >>> vint(20).hex(), vint(307).hex()
        ('14', '8e0133')
    """
    if value <= 0x7F:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([0x90 - size]) + value.to_bytes(size, "big")
