"""Skip Avro values of one record, one after the other, in plain Python.

For the rare record with an array so long, or in so many blocks, that moving all records in
lockstep would leave every lane but one idle. Each step costs a few Python operations, so the time
grows with the bytes and with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lakedex.schema.avro_type import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
)

Skipper: TypeAlias = Callable[[memoryview, int, int], int]

_FIXED_WIDTHS = {
    PrimitiveKind.NULL: 0,
    PrimitiveKind.BOOLEAN: 1,
    PrimitiveKind.FLOAT: 4,
    PrimitiveKind.DOUBLE: 8,
}


class BadValue(Exception):
    """Where a value breaks the format, for the caller to name the file."""

    def __init__(self, position: int, expected: str, actual: object) -> None:
        """Name the position in the buffer, what should stand there and what does."""
        super().__init__(expected)
        self.position = position
        self.expected = expected
        self.actual = actual


def least_bytes(node: AvroType) -> int:
    """The fewest bytes a value of the type can take."""
    if isinstance(node, AvroPrimitive):
        return _FIXED_WIDTHS.get(node.kind, 1)
    if isinstance(node, AvroFixed):
        return node.size
    if isinstance(node, AvroUnion):
        return 1 + min(least_bytes(branch) for branch in node.branches)
    if isinstance(node, AvroRecord):
        return sum(least_bytes(item.type) for item in node.fields)
    return 1


def is_flat(node: AvroType) -> bool:
    """Whether the type has no array or map inside, so that skipping it takes bounded steps."""
    if isinstance(node, AvroArray | AvroMap):
        return False
    if isinstance(node, AvroUnion):
        return all(is_flat(branch) for branch in node.branches)
    if isinstance(node, AvroRecord):
        return all(is_flat(item.type) for item in node.fields)
    return True


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A zigzag number and the position after it.

    Example:
        >>> read_varint(memoryview(bytes([0xAC, 0x02])), 0, 2)
        (150, 2)
    """
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            break
    raise BadValue(start, "a number of at most 64 bits", "a longer one or the end of the record")


def read_block_count(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number of items in the next block of an array or map, and where they begin."""
    start = at
    count, at = read_varint(data, at, end)
    if count >= 0:
        return count, at
    size, at = read_varint(data, at, end)
    if not 0 <= size <= end - at:
        raise BadValue(start, "a block within its record", size)
    return -count, at


def skipper(node: AvroType) -> Skipper:
    """A function that takes the position of a value of the type to the position after it."""
    if isinstance(node, AvroPrimitive):
        return _primitive(node.kind)
    if isinstance(node, AvroFixed):
        return _fixed(node.size)
    if isinstance(node, AvroEnum):
        return _varint
    if isinstance(node, AvroArray):
        return _blocks(skipper(node.items), least_bytes(node.items))
    if isinstance(node, AvroMap):
        value = skipper(node.values)

        def entry(data: memoryview, at: int, end: int) -> int:
            return value(data, _sized(data, at, end), end)

        return _blocks(entry, 1)
    if isinstance(node, AvroUnion):
        return _union([skipper(branch) for branch in node.branches])
    return _record([skipper(item.type) for item in node.fields])


def _primitive(kind: PrimitiveKind) -> Skipper:
    if kind in _FIXED_WIDTHS:
        return _fixed(_FIXED_WIDTHS[kind])
    return _sized if kind in (PrimitiveKind.BYTES, PrimitiveKind.STRING) else _varint


def _varint(data: memoryview, at: int, end: int) -> int:
    return read_varint(data, at, end)[1]


def _sized(data: memoryview, at: int, end: int) -> int:
    size, after = read_varint(data, at, end)
    if not 0 <= size <= end - after:
        raise BadValue(at, "a length within the record", size)
    return after + size


def _fixed(size: int) -> Skipper:
    def skip(_data: memoryview, at: int, end: int) -> int:
        if size > end - at:
            raise BadValue(at, f"{size} bytes", end - at)
        return at + size

    return skip


def _union(branches: list[Skipper]) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        branch, after = read_varint(data, at, end)
        if not 0 <= branch < len(branches):
            raise BadValue(at, f"a union branch below {len(branches)}", branch)
        return branches[branch](data, after, end)

    return skip


def _record(fields: list[Skipper]) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        for field in fields:
            at = field(data, at, end)
        return at

    return skip


def _blocks(item: Skipper, least: int) -> Skipper:
    def skip(data: memoryview, at: int, end: int) -> int:
        while True:
            start = at
            count, at = read_block_count(data, at, end)
            if count == 0:
                return at
            if least == 0:
                continue
            if count > (end - at) // least:
                raise BadValue(start, "no more items than bytes are left", count)
            for _ in range(count):
                at = item(data, at, end)

    return skip
