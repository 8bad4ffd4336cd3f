"""Thrift's compact form, as the footer and the page headers of Parquet files have it.

A structure is fields up to a zero byte; a field is `delta of its number (4 bits) | type (4 bits)`
and its value. Numbers are zigzag varints. A list is `count (4 bits) | type (4 bits)` and its items,
a count of 15 meaning that a varint follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

from lakedex.errors import CorruptFile

Value: TypeAlias = Union[int, bytes, "list[Value]", "dict[int, Value]"]

_MAX_DEPTH = 16
_VARINT_BITS = 70
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS = (4, 5, 6)
_LONG_COUNT = 15


@dataclass(slots=True)
class ThriftCursor:
    """Reads from `at` up to `end`; `path` and `base_offset` name places in errors.

    Example:
        >>> ThriftCursor(bytes.fromhex("15041c150200" + "00"), 0, 7, "x").struct()
        {1: 2, 2: {1: 1}}
    """

    data: bytes
    at: int
    end: int
    path: str
    base_offset: int = 0

    def struct(self, depth: int = 0) -> dict[int, Value]:
        """The fields of a structure by number; of doubles only that they are there."""
        if depth > _MAX_DEPTH:
            raise self.fail(self.at, f"at most {_MAX_DEPTH} levels", "more")
        found: dict[int, Value] = {}
        number = 0
        while (head := self._byte()) != 0:
            delta = head >> 4
            number = number + delta if delta else self._number()
            kind = head & 0x0F
            if kind in (_TRUE, _FALSE):
                found[number] = int(kind == _TRUE)
            else:
                found[number] = self._value(kind, depth)
        return found

    def fail(self, at: int, expected: str, actual: object) -> CorruptFile:
        """The error that names the byte at `at`."""
        return CorruptFile(self.path, self.base_offset + at, expected=expected, actual=actual)

    def _value(self, kind: int, depth: int) -> Value:
        if kind in _NUMBERS:
            return self._number()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._items(depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        raise self.fail(self.at, "a Thrift type that Parquet uses", kind)

    def _items(self, depth: int) -> list[Value]:
        head = self._byte()
        count = head >> 4
        if count == _LONG_COUNT:
            count = self._varint()
        if count > self.end - self.at or depth > _MAX_DEPTH:
            raise self.fail(self.at, "a list that fits in its place", f"{count} items")
        return [self._value(head & 0x0F, depth) for _ in range(count)]

    def _byte(self) -> int:
        if self.at >= self.end:
            raise self.fail(self.at, "more of a Thrift structure", "its end")
        self.at += 1
        return self.data[self.at - 1]

    def _take(self, length: int) -> bytes:
        if length > self.end - self.at:
            raise self.fail(self.at, f"{length} bytes", f"{self.end - self.at} left")
        self.at += length
        return self.data[self.at - length : self.at]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, _VARINT_BITS, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.fail(self.at, "a varint of at most 10 bytes", "more")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def number_of(fields: Mapping[int, Value], field: int, default: int = -1) -> int:
    """The number in a field, `default` where there is none."""
    value = fields.get(field)
    return value if isinstance(value, int) else default


def struct_of(fields: Mapping[int, Value], field: int) -> Mapping[int, Value]:
    """The structure in a field, an empty one where there is none."""
    value = fields.get(field)
    return value if isinstance(value, dict) else {}


def structs_of(fields: Mapping[int, Value], field: int) -> list[dict[int, Value]]:
    """The structures in the list of a field."""
    value = fields.get(field)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
