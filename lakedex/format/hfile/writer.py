"""Writes an HFile from two Arrow columns.

One join of columns (lengths, key, suffix, value, zero) produces all cells. They are split into
blocks when the cumulative size exceeds the block size, and compressed block by block. Index keys
are written completely, with the 10 bytes that end keys, so that HBase readers (Hudi 0.x) can also
search them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.format.hfile.block import (
    DATA_MAGIC,
    FILE_INFO_MAGIC,
    MAX_INFLATED_BYTES,
    META_MAGIC,
    ONE_CHECKSUM,
    ROOT_INDEX_MAGIC,
    BlockFormat,
    encode_block,
    encode_root_index,
)
from lakedex.format.hfile.cell_starts import KEY_SUFFIX
from lakedex.format.hfile.keys import Ints
from lakedex.format.hfile.trailer import (
    AVERAGE_KEY_LENGTH,
    AVERAGE_VALUE_LENGTH,
    CREATE_TIME,
    KEY_VALUE_VERSION,
    LAST_KEY,
    MAX_MEMSTORE_TIMESTAMP,
    Codec,
    Trailer,
    encode_file_info,
    encode_trailer,
)
from lakedex.schema.field_paths import flat

MAX_KEY_BYTES = 32767
_MAX_BLOCK_SIZE = 64 * 1024 * 1024
_HEADER_SIZE = 10


@dataclass(frozen=True, slots=True)
class HFileOptions:
    """Options of a file; the defaults suit point lookups in the metadata table."""

    block_size: int = 256 * 1024
    codec: Codec = Codec.GZIP
    level: int = 1
    bytes_per_checksum: int = ONE_CHECKSUM
    create_time_ms: int | None = None
    index_key_suffix: bool = True
    allow_duplicates: bool = False

    def __post_init__(self) -> None:
        """Reject invalid sizes."""
        if not 1 <= self.block_size <= _MAX_BLOCK_SIZE:
            raise InvalidInput(f"HFile block size {self.block_size} is not 1 to {_MAX_BLOCK_SIZE}")
        if not 1 <= self.bytes_per_checksum <= ONE_CHECKSUM:
            raise InvalidInput(f"bytes per checksum {self.bytes_per_checksum} is out of range")


_DEFAULT_OPTIONS = HFileOptions()


def write_hfile(
    keys: pa.Array,
    values: pa.Array,
    *,
    file_info: Mapping[str, bytes] | None = None,
    meta_blocks: Mapping[str, bytes] | None = None,
    options: HFileOptions = _DEFAULT_OPTIONS,
) -> bytes:
    """Encode an HFile with these cells.

    Args:
        keys: Binary or string, strictly ascending by bytes (UTF-8 order).
        values: The same number of binary values; they may be empty but not null.
        file_info: Entries in addition to those of every file, such as `schema`.
        meta_blocks: Meta blocks by name, such as `bloomFilter`.
        options: Block size, codec and other options.

    Raises:
        InvalidInput: Keys are not in order, repeated, null or too long, or a value is null.

    Example:
        >>> len(write_hfile(pa.array(["k1"]), pa.array([b"v"]))) > 4096
        True
    """
    builder = HFileBuilder(options)
    builder.add(keys, values)
    return builder.finish(file_info=file_info, meta_blocks=meta_blocks)


class HFileBuilder:
    """Builds an HFile from batches of cells, so that only one raw batch is in memory.

    With a `sink` the compressed blocks are not kept in memory either.

    Example:
        >>> builder = HFileBuilder()
        >>> builder.add(pa.array(["k1"]), pa.array([b"v"]))
        >>> builder.add(pa.array(["k2"]), pa.array([b"w"]))
        >>> builder.entry_count, len(builder.finish()) > 4096
        (2, True)
    """

    def __init__(
        self, options: HFileOptions = _DEFAULT_OPTIONS, *, sink: IO[bytes] | None = None
    ) -> None:
        """Start an empty file, in memory or in a sink."""
        self._options = options
        self._parts: list[bytes] = []
        self._file = _FileBuilder(
            BlockFormat(options.codec, options.level, options.bytes_per_checksum),
            self._parts.append if sink is None else sink.write,
        )
        self._raw_bytes = self._key_bytes = self._value_bytes = 0
        self.entry_count = 0
        self.first_key: bytes | None = None
        self.last_key: bytes | None = None

    def add(self, keys: pa.Array, values: pa.Array) -> None:
        """Add cells, whose keys must be greater than all previous ones.

        Raises:
            InvalidInput: Keys are not in order, repeated, null or too long, or a value is null.
        """
        key_column, value_column = _check_columns(keys, values)
        if not len(key_column):
            return
        duplicate = _check_order(key_column, allow_duplicates=self._options.allow_duplicates)
        first = key_column[0].as_py()
        if self.last_key is not None and first <= self.last_key:
            raise InvalidInput(f"HFile key {first!r} does not come after {self.last_key!r}")
        cells, bounds = _lay_out(key_column, value_column)
        cuts = _cut_blocks(bounds, duplicate, self._options.block_size)
        _check_block_sizes(bounds[cuts])
        index_keys = _index_keys(key_column, cuts, self._options)
        self._file.add_data(cells, bounds[cuts], index_keys)
        self._raw_bytes += int(bounds[-1])
        self._key_bytes += pc.sum(pc.binary_length(key_column)).as_py()
        self._value_bytes += pc.sum(pc.binary_length(value_column)).as_py()
        self.entry_count += len(key_column)
        self.first_key = self.first_key if self.first_key is not None else first
        self.last_key = key_column[-1].as_py()

    def finish(
        self,
        *,
        file_info: Mapping[str, bytes] | None = None,
        meta_blocks: Mapping[str, bytes] | None = None,
    ) -> bytes:
        """Return the bytes of the file, like `write_hfile`; with a sink, which has them, none."""
        for name in sorted(meta_blocks or {}):
            self._file.add_meta(name, (meta_blocks or {})[name])
        info = self._own_info() | dict(file_info or {})
        self._file.finish(info, entry_count=self.entry_count, raw_bytes=self._raw_bytes)
        return b"".join(self._parts)

    def _own_info(self) -> dict[str, bytes]:
        """The entries that every file has."""
        info = {
            KEY_VALUE_VERSION: (1).to_bytes(4, "big"),
            MAX_MEMSTORE_TIMESTAMP: bytes(8),
        }
        if self.last_key is not None:
            suffixed = self._options.index_key_suffix
            info[LAST_KEY] = _stored_key(self.last_key, with_suffix=suffixed)
        count = max(self.entry_count, 1)
        info[AVERAGE_KEY_LENGTH] = (self._key_bytes // count).to_bytes(4, "big")
        info[AVERAGE_VALUE_LENGTH] = (self._value_bytes // count).to_bytes(4, "big")
        if self._options.create_time_ms is not None:
            info[CREATE_TIME] = self._options.create_time_ms.to_bytes(8, "big")
        return info


class _FileBuilder:
    """Writes blocks and records their starts."""

    def __init__(self, form: BlockFormat, write: Callable[[bytes], object]) -> None:
        """Start an empty file."""
        self._form = form
        self._write = write
        self._size = 0
        self._data: list[tuple[int, int, bytes]] = []
        self._meta: list[tuple[int, int, bytes]] = []

    def add_data(self, cells: memoryview, bounds: Ints, index_keys: list[bytes]) -> None:
        """Add data blocks; block i contains the cells from `bounds[i]` to the next bound."""
        limits = bounds.tolist()
        previous = self._data[-1][0] if self._data else -1
        for start, stop, key in zip(limits[:-1], limits[1:], index_keys, strict=True):
            offset, size = self._add(DATA_MAGIC, cells[start:stop], previous)
            self._data.append((offset, size, key))
            previous = offset

    def add_meta(self, name: str, content: bytes) -> None:
        """Add a meta block."""
        offset, size = self._add(META_MAGIC, memoryview(content))
        self._meta.append((offset, size, name.encode()))

    def finish(self, info: Mapping[str, bytes], *, entry_count: int, raw_bytes: int) -> None:
        """Add indexes, file info and trailer."""
        load_on_open, _ = self._add(ROOT_INDEX_MAGIC, _index_payload(self._data))
        self._add(ROOT_INDEX_MAGIC, _index_payload(self._meta))
        file_info, _ = self._add(FILE_INFO_MAGIC, memoryview(encode_file_info(info)))
        trailer = Trailer(
            file_info_offset=file_info,
            load_on_open_offset=load_on_open,
            data_index_count=len(self._data),
            meta_index_count=len(self._meta),
            entry_count=entry_count,
            codec=self._form.codec,
            total_raw_bytes=raw_bytes,
            first_data_block_offset=self._data[0][0] if self._data else 0,
            last_data_block_offset=self._data[-1][0] if self._data else 0,
        )
        self._write(encode_trailer(trailer))

    def _add(self, magic: bytes, raw: memoryview, previous: int = -1) -> tuple[int, int]:
        """Append one block; return its offset and size."""
        block = encode_block(magic, raw, previous, self._form)
        self._write(block)
        self._size += len(block)
        return self._size - len(block), len(block)


def _index_payload(entries: list[tuple[int, int, bytes]]) -> memoryview:
    """A root index of `(offset, size, key)` entries."""
    offsets, sizes, keys = zip(*entries, strict=True) if entries else ((), (), ())
    return memoryview(encode_root_index(offsets, sizes, keys))


def _check_columns(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Convert both columns to large binary, and check lengths, nulls and sizes of keys."""
    columns = []
    for name, column in (("keys", keys), ("values", values)):
        array = flat(column)
        if array.null_count:
            row = pc.index(pc.is_null(array), pa.scalar(value=True)).as_py()
            raise InvalidInput(f"HFile {name} must not be null; row {row} is")
        try:
            columns.append(array.cast(pa.large_binary()))
        except pa.ArrowException:
            raise InvalidInput(f"HFile {name} must be binary, not {array.type}") from None
    if len(columns[0]) != len(columns[1]):
        raise InvalidInput(f"{len(columns[0])} HFile keys for {len(columns[1])} values")
    longest = pc.max(pc.binary_length(columns[0])).as_py() or 0
    if longest > MAX_KEY_BYTES:
        raise InvalidInput(f"an HFile key has {longest} bytes; the limit is {MAX_KEY_BYTES}")
    return columns[0], columns[1]


def _check_order(
    keys: pa.Array, *, allow_duplicates: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Raise unless keys ascend; return a mask of keys that equal the previous one."""
    before, after = keys[:-1], keys[1:]
    ascending = pc.less(before, after).to_numpy(zero_copy_only=False)
    if ascending.all():
        return np.zeros(len(keys), np.bool_)
    equal = pc.equal(before, after).to_numpy(zero_copy_only=False)
    wrong = ~ascending if not allow_duplicates else ~(ascending | equal)
    if wrong.any():
        row = int(wrong.argmax()) + 1
        what = "repeats" if equal[row - 1] else "sorts before"
        raise InvalidInput(f"HFile key {keys[row].as_py()!r} at row {row} {what} the key before it")
    return np.append(np.zeros(1, np.bool_), equal)


def _lay_out(keys: pa.Array, values: pa.Array) -> tuple[memoryview, Ints]:
    """The bytes of all cells, and the start of each (and the end of the last)."""
    lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(np.int64)
    header = np.empty(
        len(keys), np.dtype([("key", ">u4"), ("value", ">u4"), ("content", ">u2")], align=False)
    )
    header["key"] = lengths + 2 + len(KEY_SUFFIX)
    header["value"] = pc.binary_length(values).to_numpy(zero_copy_only=False)
    header["content"] = lengths
    offsets = np.arange(len(keys) + 1, dtype=np.int64) * _HEADER_SIZE
    headers = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(header)]
    )
    suffix, end, nothing = (pa.scalar(b, pa.large_binary()) for b in (KEY_SUFFIX, b"\0", b""))
    cells = pc.binary_join_element_wise(headers, keys, suffix, values, end, nothing)
    if not len(cells):
        return memoryview(b""), np.zeros(1, np.int64)
    bounds = np.frombuffer(cells.buffers()[1], np.int64)[: len(cells) + 1]
    return memoryview(cells.buffers()[2]), bounds


def _cut_blocks(
    bounds: Ints, duplicate: np.ndarray[tuple[int], np.dtype[np.bool_]], block_size: int
) -> Ints:
    """The first row of each block, and the row count; equal keys stay together."""
    count = len(bounds) - 1
    allowed = np.append(np.flatnonzero(~duplicate), count)
    cuts = [0]
    while cuts[-1] < count:
        full = int(np.searchsorted(bounds, bounds[cuts[-1]] + block_size, "right")) - 1
        at = int(np.searchsorted(allowed, full, "right")) - 1
        if allowed[at] <= cuts[-1]:
            at = int(np.searchsorted(allowed, cuts[-1], "right"))
        cuts.append(int(allowed[at]))
    return np.array(cuts, np.int64)


def _check_block_sizes(bounds: Ints) -> None:
    """Raise if a block, because of one large value, would exceed the limit of readers."""
    largest = int(np.diff(bounds).max(initial=0))
    if largest > MAX_INFLATED_BYTES:
        raise InvalidInput(
            f"an HFile block has {largest} bytes; the limit of readers is {MAX_INFLATED_BYTES}"
        )


def _index_keys(keys: pa.Array, cuts: Ints, options: HFileOptions) -> list[bytes]:
    """The first key of each block, in the form of the index."""
    firsts = keys.take(pa.array(cuts[:-1])).to_pylist()
    return [_stored_key(key, with_suffix=options.index_key_suffix) for key in firsts]


def _stored_key(key: bytes, *, with_suffix: bool) -> bytes:
    """A key after its length, with the suffix if requested."""
    return len(key).to_bytes(2, "big") + key + (KEY_SUFFIX if with_suffix else b"")
