"""Page headers, checked before the Parquet library gives memory to what they claim.

A column chunk is pages one after the other, each a header in Thrift's compact form and a body:

    1 kind | 2 raw size | 3 stored size | 5 data page | 7 dictionary page | 8 data page, version 2

The three inner structures begin with the count of values. The library allocates by raw size and
count before it looks at the body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

from lakedex.errors import CorruptFile

_DICTIONARY_KIND = 2
_DATA_KINDS = (0, 3)
_INNER_FIELDS = (5, 7, 8)
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_WIDEST = 32
_MAX_DEPTH = 8
_TEXT = "BYTE_ARRAY"
_TEXT_PREFIX_BYTES = 4
_VARINT_BITS = 70


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """How large one column chunk gets in memory.

    `certain` bytes it surely takes. `possible` is more where values of a dictionary repeat: if
    every row had its longest value.
    """

    path: str
    certain: int
    possible: int


@dataclass(frozen=True, slots=True)
class _Page:
    kind: int
    raw_size: int
    values: int


class PageCheck:
    """The pages of a Parquet file in memory, checked against `limit` bytes for each page."""

    def __init__(self, data: bytes, *, path: str, base_offset: int, limit: int) -> None:
        """Look at `data`; `path` and `base_offset` name places in errors."""
        self._data = data
        self._path = path
        self._base = base_offset
        self._limit = limit

    def chunk(self, column: pq.ColumnChunkMetaData) -> ChunkSize:
        """Walk the pages of a chunk.

        Raises:
            CorruptFile: a header claims what cannot be.
        """
        claimed = int(column.num_values)
        start = int(column.data_page_offset)
        if column.dictionary_page_offset is not None:
            start = min(start, int(column.dictionary_page_offset))
        end = start + int(column.total_compressed_size)
        if claimed < 0 or not 0 <= start <= end <= len(self._data):
            raise self.fail(max(start, 0), "a column chunk inside the file", f"{start} to {end}")
        is_text = column.physical_type == _TEXT
        values = raw = dictionary = 0
        for at, page in self._pages(start, end):
            self._check(at, page, is_text=is_text)
            if page.kind == _DICTIONARY_KIND:
                dictionary = max(dictionary, page.raw_size)
            elif page.kind in _DATA_KINDS:
                values, raw = values + page.values, raw + page.raw_size
            if values >= claimed:
                break
        if values > claimed:
            raise self.fail(start, f"{claimed} values in the column chunk", values)
        if not is_text:
            size = claimed * _WIDTHS.get(column.physical_type, _WIDEST)
            return ChunkSize(column.path_in_schema, size, size)
        certain = claimed * _TEXT_PREFIX_BYTES + raw
        return ChunkSize(column.path_in_schema, certain, certain + claimed * dictionary)

    def _check(self, at: int, page: _Page, *, is_text: bool) -> None:
        if not 0 <= page.raw_size <= self._limit:
            raise self.fail(at, f"a page of at most {self._limit} bytes", page.raw_size)
        most = 2**31 - 1
        if page.kind == _DICTIONARY_KIND:
            most = page.raw_size // (_TEXT_PREFIX_BYTES if is_text else 1)
        if not 0 <= page.values <= most:
            raise self.fail(at, f"at most {most} values in the page", page.values)

    def _pages(self, at: int, end: int) -> Iterator[tuple[int, _Page]]:
        """Every page and where it begins; each is at least a few bytes further on."""
        while at < end:
            cursor = _Compact(self, at, end)
            fields = cursor.struct()
            stored = fields.get(3, -1)
            if not 0 <= stored <= end - cursor.at or 1 not in fields or 2 not in fields:
                raise self.fail(at, "a page header and its page", f"{stored} bytes")
            counts = [fields[number] for number in _INNER_FIELDS if number in fields]
            yield at, _Page(fields[1], fields[2], max(counts, default=0))
            at = cursor.at + stored

    def byte(self, at: int, end: int) -> int:
        """The byte at a place before `end`."""
        if at >= end:
            raise self.fail(at, "a page header", "the end of the column chunk")
        return self._data[at]

    def fail(self, at: int, expected: str, actual: object) -> CorruptFile:
        """The error that names the byte at `at`."""
        return CorruptFile(self._path, self._base + at, expected=expected, actual=actual)


@dataclass(slots=True)
class _Compact:
    """Reads one Thrift structure in compact form, from `at` up to `end`."""

    check: PageCheck
    at: int
    end: int

    def struct(self, depth: int = 0) -> dict[int, int]:
        """The numbers of a structure by field; of an inner structure its first number."""
        found: dict[int, int] = {}
        number = 0
        if depth > _MAX_DEPTH:
            raise self.check.fail(self.at, f"at most {_MAX_DEPTH} levels", "more")
        while (head := self._byte()) != 0:
            delta = head >> 4
            number = number + delta if delta else self._number()
            self._field(found, number, head & 0x0F, depth)
        return found

    def _field(self, found: dict[int, int], number: int, kind: int, depth: int) -> None:
        if kind in (1, 2):
            found[number] = int(kind == 1)
        elif kind == 3:
            found[number] = self._byte()
        elif kind in (4, 5, 6):
            found[number] = self._number()
        elif kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self._varint())
        elif kind == 12:
            found[number] = self.struct(depth + 1).get(1, 0)
        else:
            raise self.check.fail(self.at, "a field of a page header", f"type {kind}")

    def _byte(self) -> int:
        value = self.check.byte(self.at, self.end)
        self.at += 1
        return value

    def _skip(self, length: int) -> None:
        if length > self.end - self.at:
            raise self.check.fail(self.at, f"{length} bytes", f"{self.end - self.at} left")
        self.at += length

    def _varint(self) -> int:
        value = 0
        for shift in range(0, _VARINT_BITS, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.check.fail(self.at, "a varint of at most 10 bytes", "more")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
