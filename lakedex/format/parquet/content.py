"""Reads a Parquet file in memory, such as the content of a log block.

A few bytes can represent gigabytes, because equal values are stored once, with a count. The size of
the decoded file is therefore computed from its pages first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.format.parquet.footer import PARQUET_ERRORS, read_footer_bytes, read_metadata
from lakedex.format.parquet.pages import PageCheck
from lakedex.storage.source import MemorySource

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
