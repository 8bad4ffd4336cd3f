"""Checks page headers before the Parquet library allocates memory for their sizes.

A column chunk is a sequence of pages, each a header and a body. The numbers of the fields:

    footer        4 row groups; of a row group 1 column chunks; of a chunk 3 its metadata:
                  1 type | 3 names | 5 values | 7 stored size | 9 data pages | 11 dictionary page
    page header   1 kind | 2 raw size | 3 stored size | 4 checksum of the body, if there is one |
                  5 or 8 data page | 7 dictionary page, of each 1 values

The library allocates memory by raw size and count of values before it reads the body. Its access to
chunk metadata crashes the process on some footers, so this module also parses the footer.

Both are in Thrift's compact form. A structure is a sequence of fields up to a zero byte; a field is
`delta of its number (4 bits) | type (4 bits)` and its value. Numbers are zigzag varints. A list is
`count (4 bits) | type (4 bits)` and its items; a count of 15 means that a varint follows.

A page header may contain a CRC-32 of the stored body of the page, as in files of lakedex;
`check_pages` compares them without decoding values.

A few bytes can represent gigabytes, because equal values are stored once, with a count. Before
a Parquet file in memory is read, such as the content of a log block, its decoded size is therefore
computed from its pages.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.format.parquet.footer import PARQUET_ERRORS, read_footer_bytes, read_metadata
from lakedex.storage.source import ByteSource, MemorySource

Value: TypeAlias = Union[int, bytes, "list[Value]", "dict[int, Value]"]

_MAX_DEPTH = 16
_VARINT_BITS = 70
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS = (4, 5, 6)
_LONG_COUNT = 15
_DICTIONARY_KIND = 2
_DATA_KINDS = (0, 3)
_TEXT = 6
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value by the wire code of its type: boolean, int32, int64, int96, float, double."""
_WIDEST = 32
_TEXT_PREFIX_BYTES = 4
_STORED_SIZE, _CHECKSUM = 3, 4
_ALL_BITS = 0xFFFFFFFF


@dataclass(slots=True)
class ThriftCursor:
    """Reads from `at` up to `end`; errors contain `path` and positions from `base_offset` on.

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
        """The fields of a structure by number; the values of doubles are not decoded."""
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
            raise self.fail(self.at, "a list that fits in the remaining bytes", f"{count} items")
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
    """The number in a field, or `default`."""
    value = fields.get(field)
    return value if isinstance(value, int) else default


def struct_of(fields: Mapping[int, Value], field: int) -> Mapping[int, Value]:
    """The structure in a field, or an empty one."""
    value = fields.get(field)
    return value if isinstance(value, dict) else {}


def structs_of(fields: Mapping[int, Value], field: int) -> list[dict[int, Value]]:
    """The structures in the list of a field."""
    value = fields.get(field)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The size of one decoded column chunk.

    `certain` is a lower bound in bytes. `possible` is larger if values of a dictionary repeat: the
    size if every row had the longest value.
    """

    column: str
    certain: int
    possible: int


@dataclass(frozen=True, slots=True)
class PageCheck:
    """A Parquet file in memory, no page of which may exceed `limit` decoded bytes.

    Errors contain `path` and positions from `base_offset` on.
    """

    data: bytes
    path: str
    base_offset: int
    limit: int

    def chunk_sizes(self, footer: bytes, wanted: Collection[str]) -> list[ChunkSize]:
        """The sizes of all chunks of the requested columns, after a check of each of their pages.

        Raises:
            CorruptFile: A header contains impossible values.
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
        """The count of values in a page header, after a check of its sizes."""
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
    """The metadata of every column chunk; errors contain `path` and `base_offset`."""
    fields = ThriftCursor(footer, 0, len(footer), path, base_offset).struct()
    return [
        struct_of(chunk, 3) for group in structs_of(fields, 4) for chunk in structs_of(group, 1)
    ]


def chunk_span(chunk: Mapping[int, Value]) -> tuple[int, int]:
    """The start and end of a column chunk in its file, from its metadata."""
    data, dictionary = number_of(chunk, 9), number_of(chunk, 11)
    # A chunk without rows may have a dictionary and no data page, whose offset is then 0.
    start = dictionary if dictionary > 0 and not 0 < data <= dictionary else data
    return start, start + number_of(chunk, 7)


def pages(
    data: bytes, at: int, end: int, path: str, base_offset: int
) -> Iterator[tuple[int, int, dict[int, Value]]]:
    """Every page of a column chunk: the starts of its header and its body, and the header."""
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
    """The path of a column: the names of its parents, outermost first, and its own name."""
    names = chunk.get(3)
    if not isinstance(names, list):
        return [""]
    texts = [name.decode("utf-8", "replace") for name in names if isinstance(name, bytes)]
    return texts or [""]


def check_pages(source: ByteSource) -> bool:
    """Compare every page of a file with its checksum; return False if a page has none.

    Raises:
        CorruptFile: A page differs from its checksum.
    """
    footer = read_footer_bytes(source)
    path = source.path
    chunks = column_chunks(footer, path, source.base_offset + source.size - len(footer))
    for start, end in map(chunk_span, chunks):
        if not 0 <= start <= end <= source.size:
            claimed = f"{start} to {end}"
            raise CorruptFile(path, 0, expected="a column chunk inside the file", actual=claimed)
        data = source.read(start, end - start)
        offset = source.base_offset + start
        for _, body, page in pages(data, 0, len(data), path, offset):
            if _CHECKSUM not in page:
                return False
            expected = number_of(page, _CHECKSUM) & _ALL_BITS
            found = zlib.crc32(memoryview(data)[body : body + number_of(page, _STORED_SIZE)])
            if found != expected:
                stored = f"a page with the checksum {expected:08x}"
                raise CorruptFile(path, offset + body, expected=stored, actual=f"{found:08x}")
    return True


_ALWAYS_ALLOWED_BYTES = 64 << 20
_MAX_GROWTH = 1000
_MOST_FROM_LITTLE_BYTES = 192 << 20
_USUAL_GROWTH = 20


def read_parquet_bytes(
    data: bytes,
    columns: Sequence[str] | None = None,
    *,
    path: str = "<parquet>",
    base_offset: int = 0,
) -> pa.Table:
    """Read the rows of a Parquet file, with all columns or the named ones that it has."""
    source = MemorySource(data, path, base_offset)
    metadata = read_metadata(source)
    limit = _limit(len(data))
    try:
        file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata)
        present = file.schema_arrow.names
        wanted = [name for name in columns if name in present] if columns is not None else present
        sizes = PageCheck(data, path, base_offset, limit).chunk_sizes(
            read_footer_bytes(source), frozenset(wanted)
        )
        size = sum(chunk.certain for chunk in sizes)
        if size <= limit < sum(chunk.possible for chunk in sizes):
            doubtful = {chunk.column for chunk in sizes if chunk.possible > chunk.certain}
            size += _text_bytes(data, metadata, wanted, doubtful)
        if size > limit:
            expected = f"at most {limit} bytes of rows in a file of {len(data)}"
            raise CorruptFile(path, base_offset, expected=expected, actual=f"{size} bytes")
        table = file.read(columns=wanted, use_threads=False)
        table.validate(full=True)
    except PARQUET_ERRORS as error:
        expected = "readable Parquet data"
        raise CorruptFile(path, base_offset, expected=expected, actual=error) from error
    return table.replace_schema_metadata(None)


def _limit(size: int) -> int:
    """The limit of the decoded size of a file of `size` bytes; small files may grow more."""
    grown = min(size * _MAX_GROWTH, _MOST_FROM_LITTLE_BYTES)
    return max(_ALWAYS_ALLOWED_BYTES, grown, size * _USUAL_GROWTH)


def _text_bytes(
    data: bytes, metadata: pq.FileMetaData, wanted: Sequence[str], doubtful: Collection[str]
) -> int:
    """The bytes of the strings in columns with a dictionary, without decoding them."""
    file = pq.ParquetFile(
        pa.BufferReader(data), metadata=metadata, read_dictionary=sorted(doubtful)
    )
    table = file.read(columns=wanted, use_threads=False)
    return sum(
        _unpacked_bytes(encoded)
        for column in table.columns
        for chunk in column.chunks
        for encoded in _dictionaries(chunk)
    )


def _unpacked_bytes(encoded: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(encoded.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
    used = encoded.indices.drop_null().to_numpy(zero_copy_only=False)
    times = np.bincount(used, minlength=len(lengths)) if len(used) else np.zeros(len(lengths))
    return int(times.astype(np.float64) @ lengths.astype(np.float64))


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The dictionary arrays inside an array of any type."""
    if pa.types.is_dictionary(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _dictionaries(child)
    elif pa.types.is_map(array.type):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif pa.types.is_list(array.type):
        yield from _dictionaries(array.values)
