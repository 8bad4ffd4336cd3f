"""Page headers, checked before the Parquet library gives memory to what they claim.

A column chunk is pages one after the other, each a header and a body. The numbers of the fields:

    footer        4 row groups; of a row group 1 column chunks; of a chunk 3 its metadata:
                  1 type | 3 names | 5 values | 7 stored size | 9 data pages | 11 dictionary page
    page header   1 kind | 2 raw size | 3 stored size | 4 checksum of the body, if there is one |
                  5 or 8 data page | 7 dictionary page, of each 1 values

The library allocates by raw size and count of values before it looks at the body. Its own view of
chunk metadata ends the process on some footers, so the footer is read here too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lakedex.errors import CorruptFile
from lakedex.format.parquet.thrift import (
    ThriftCursor,
    Value,
    number_of,
    struct_of,
    structs_of,
)

_DICTIONARY_KIND = 2
_DATA_KINDS = (0, 3)
_TEXT = 6
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value by the wire code of its type: boolean, int32, int64, int96, float, double."""
_WIDEST = 32
_TEXT_PREFIX_BYTES = 4


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """How large one column chunk gets in memory.

    `certain` bytes it surely takes. `possible` is more where values of a dictionary repeat: if
    every row had its longest value.
    """

    column: str
    certain: int
    possible: int


@dataclass(frozen=True, slots=True)
class PageCheck:
    """A Parquet file in memory, no page of which may become more than `limit` bytes.

    `path` and `base_offset` name places in errors.
    """

    data: bytes
    path: str
    base_offset: int
    limit: int

    def chunk_sizes(self, footer: bytes, wanted: Collection[str]) -> list[ChunkSize]:
        """The sizes of all chunks of the wanted columns, after a look at each of their pages.

        Raises:
            CorruptFile: a header claims what cannot be.
        """
        start = len(self.data) - 8 - len(footer)
        chunks = column_chunks(footer, self.path, self.base_offset + start)
        return [self._size(chunk) for chunk in chunks if _names(chunk)[0] in wanted]

    def _size(self, chunk: Mapping[int, Value]) -> ChunkSize:
        claimed, kind = number_of(chunk, 5), number_of(chunk, 1)
        start, end = chunk_span(chunk)
        if claimed < 0 or not 0 <= start <= end <= len(self.data):
            raise self._fail(max(start, 0), "a column chunk inside the file", f"{start} to {end}")
        values = raw = dictionary = 0
        for at, _, page in pages(self.data, start, end, self.path, self.base_offset):
            found = self._values(at, page, is_text=kind == _TEXT)
            if number_of(page, 1) == _DICTIONARY_KIND:
                dictionary = max(dictionary, number_of(page, 2))
            elif number_of(page, 1) in _DATA_KINDS:
                values, raw = values + found, raw + number_of(page, 2)
            if values >= claimed:
                break
        if values > claimed:
            raise self._fail(start, f"{claimed} values in the column chunk", values)
        name = ".".join(_names(chunk))
        if kind != _TEXT:
            size = claimed * _WIDTHS.get(kind, _WIDEST)
            return ChunkSize(name, size, size)
        certain = claimed * _TEXT_PREFIX_BYTES + raw
        return ChunkSize(name, certain, certain + claimed * dictionary)

    def _values(self, at: int, page: Mapping[int, Value], *, is_text: bool) -> int:
        """The count of values that a page claims, after a look at its sizes."""
        raw_size = number_of(page, 2)
        if not 0 <= raw_size <= self.limit:
            raise self._fail(at, f"a page of at most {self.limit} bytes", raw_size)
        most = 2**31 - 1
        if number_of(page, 1) == _DICTIONARY_KIND:
            most = raw_size // (_TEXT_PREFIX_BYTES if is_text else 1)
        values = max(number_of(struct_of(page, field), 1, 0) for field in (5, 7, 8))
        if not 0 <= values <= most:
            raise self._fail(at, f"at most {most} values in the page", values)
        return values

    def _fail(self, at: int, expected: str, actual: object) -> CorruptFile:
        return CorruptFile(self.path, self.base_offset + at, expected=expected, actual=actual)


def column_chunks(footer: bytes, path: str, base_offset: int) -> list[Mapping[int, Value]]:
    """The metadata of every column chunk; `path` and `base_offset` name places in errors."""
    fields = ThriftCursor(footer, 0, len(footer), path, base_offset).struct()
    return [
        struct_of(chunk, 3) for group in structs_of(fields, 4) for chunk in structs_of(group, 1)
    ]


def chunk_span(chunk: Mapping[int, Value]) -> tuple[int, int]:
    """Where a column chunk begins and ends in its file, as its metadata claims."""
    data, dictionary = number_of(chunk, 9), number_of(chunk, 11)
    # A chunk without rows may have a dictionary and no data page, which is then said to be at 0.
    start = dictionary if dictionary > 0 and not 0 < data <= dictionary else data
    return start, start + number_of(chunk, 7)


def pages(
    data: bytes, at: int, end: int, path: str, base_offset: int
) -> Iterator[tuple[int, int, dict[int, Value]]]:
    """Every page of a column chunk: where its header and its body begin, and the header."""
    while at < end:
        cursor = ThriftCursor(data, at, end, path, base_offset)
        page = cursor.struct()
        stored, left = number_of(page, 3), end - cursor.at
        if not 0 <= stored <= left:
            expected = f"a page of at most {left} bytes"
            raise CorruptFile(path, base_offset + at, expected=expected, actual=stored)
        yield at, cursor.at, page
        at = cursor.at + stored


def _names(chunk: Mapping[int, Value]) -> list[str]:
    """The path of a column: its own name and those of what it lies in, outermost first."""
    names = chunk.get(3)
    if not isinstance(names, list):
        return [""]
    texts = [name.decode("utf-8", "replace") for name in names if isinstance(name, bytes)]
    return texts or [""]
