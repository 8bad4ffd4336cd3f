"""The bytes of a base file, with the footer that Hudi expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import write_base_file
from lakedex.index.commit_changes import BloomText
from lakedex.index.maintenance import ColumnSizes
from lakedex.schema.field_paths import flat
from lakedex.write.context import WriteContext
from lakedex.write.handles.incoming import without_meta_values
from lakedex.write.rows import KEY

_LEAST_BLOOM_ENTRIES = 10


@dataclass(frozen=True)
class BaseBytes:
    """A base file before it is put into the table."""

    data: bytes
    bloom_type: str
    bloom_text: str
    """Empty, as the type is, where the footer has no filter."""
    sizes: ColumnSizes

    def bloom(self, partition: str, file: str) -> BloomText | None:
        """The filter in the footer; None without one."""
        if not self.bloom_type:
            return None
        return BloomText(partition, file, self.bloom_type, self.bloom_text)


def encode_base_file(facts: WriteContext, rows: pa.Table) -> BaseBytes:
    """The base file with these rows; equal rows give equal bytes.

    Without meta columns the footer has neither a bloom filter nor key bounds, as in Hudi.
    """
    rows = facts.in_file(rows)
    if not facts.config.populate_meta_fields:
        return _encoded(facts, without_meta_values(rows))
    keys = flat(rows[KEY])
    # A filter made for fewer keys than it gets would answer yes too often.
    entries = max(facts.bloom_entries or 0, len(keys), _LEAST_BLOOM_ENTRIES)
    bloom = BloomFilter.create_simple(entries, facts.bloom_error_rate)
    bloom.add(keys)
    return _encoded(facts, rows, bloom, key_bounds(keys))


def _encoded(
    facts: WriteContext,
    rows: pa.Table,
    bloom: BloomFilter | None = None,
    bounds: tuple[str | None, str | None] = (None, None),
) -> BaseBytes:
    sink = pa.BufferOutputStream()
    metadata = write_base_file(
        rows,
        sink,
        avro_schema_text=facts.schema_text,
        bloom=bloom,
        min_key=bounds[0],
        max_key=bounds[1],
        compression=facts.compression,
    )
    data = sink.getvalue().to_pybytes()
    sizes = _column_sizes(metadata, rows.schema, facts.sized_columns)
    if bloom is None:
        return BaseBytes(data, "", "", sizes)
    return BaseBytes(data, bloom.type_code, bloom.encode(), sizes)


def _column_sizes(
    metadata: pq.FileMetaData, schema: pa.Schema, wanted: tuple[str, ...]
) -> ColumnSizes:
    """The bytes of the wanted columns; those of a nested one are the sum of its leaves."""
    sizes: dict[str, tuple[int, int]] = {}
    end = 0
    leaves = {}
    for field in schema:
        start, end = end, end + _leaf_count(field.type)
        leaves[field.name] = range(start, end)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for name in wanted:
        chunks = [group.column(leaf) for group in groups for leaf in leaves[name]]
        sizes[name] = (
            sum(chunk.total_compressed_size for chunk in chunks),
            sum(chunk.total_uncompressed_size for chunk in chunks),
        )
    return sizes


def _leaf_count(data_type: pa.DataType) -> int:
    if not pa.types.is_nested(data_type):
        return 1
    return sum(_leaf_count(data_type.field(n).type) for n in range(data_type.num_fields))


_FOUR_BYTE_LEAD = 0xF0
_TO_UTF16_ORDER = np.arange(256, dtype=np.uint8)
# U+E000 to U+FFFF start with these bytes; they go behind all lead bytes of four-byte characters.
_TO_UTF16_ORDER[[0xEE, 0xEF]] = (0xF5, 0xF6)
_FROM_UTF16_ORDER = bytes.maketrans(b"\xf5\xf6", b"\xee\xef")
_LAST_CHARACTERS = ("\uffff", "\U0010ffff")


def key_bounds(keys: pa.Array) -> tuple[str | None, str | None]:
    """A lower and an upper bound of all keys; None for no keys.

    Example:
        >>> key_bounds(pa.array(["k2", "k1", "k3"]))
        ('k1', 'k3')
        >>> key_bounds(pa.array(["a\uff5e", "a\U0001f600"]))
        ('a', 'b')
    """
    both = pc.min_max(keys)
    low, high = both["min"].as_py(), both["max"].as_py()
    if low is None or not _has_four_byte_characters(keys):
        return low, high
    java_low, java_high = _java_bounds(keys)
    if java_low != low:
        low = _shared_start(low, java_low)
    if java_high != high:
        high = _after(_shared_start(high, java_high)) or java_high
    return low, high


def _bytes_of(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    binary = keys.cast(pa.large_string()).cast(pa.large_binary())
    return binary, np.frombuffer(binary.buffers()[2] or b"", dtype=np.uint8)


def _has_four_byte_characters(keys: pa.Array) -> bool:
    data = _bytes_of(keys)[1]
    return bool(len(data)) and int(data.max()) >= _FOUR_BYTE_LEAD


def _java_bounds(keys: pa.Array) -> tuple[str, str]:
    """The bounds in the order of UTF-16 units."""
    binary, data = _bytes_of(keys)
    buffers = [None, binary.buffers()[1], pa.py_buffer(_TO_UTF16_ORDER[data].tobytes())]
    moved = pa.Array.from_buffers(pa.large_binary(), len(binary), buffers, offset=binary.offset)
    both = pc.min_max(moved)
    low, high = (both[end].as_py().translate(_FROM_UTF16_ORDER) for end in ("min", "max"))
    return low.decode(), high.decode()


def _shared_start(one: str, other: str) -> str:
    length = min(len(one), len(other))
    differs = (at for at in range(length) if one[at] != other[at])
    return one[: next(differs, length)]


def _after(prefix: str) -> str | None:
    """A text that comes after all that start with the prefix, in both orders."""
    kept = prefix.rstrip("".join(_LAST_CHARACTERS))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # No character is a lone surrogate.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
