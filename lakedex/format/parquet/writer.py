"""Writes base files like Hudi, with its footer entries and physical types.

Timestamps are int64 microseconds, decimals fixed-length byte arrays, dates int32; data pages have
version 1 and checksums, which readers may ignore. A column that contains NaN has no statistics:
Arrow would omit NaN from the range, and Spark, for which NaN is the largest number, would then skip
the row group. A float column with -0.0 has no dictionary: Spark compares 0.0 with its entries by
bits, and would also skip the row group. A column whose values seldom repeat has none either.

One footer entry is Spark's own: its version. Spark 3 rejects dates before 1582 and times before
1900 in files without a version, because they might be in the calendar of Spark 2.

A dictionary of values that do not repeat would be a second copy of them, and building it takes
longer than the rest of the work for such a column. A sample decides: by the birthday problem, if a
column has fewer distinct values than half of its rows, a sufficient sample almost certainly
contains equal pairs. Neighbours are compared separately, because sorted values repeat there only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import InvalidInput
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import footer
from lakedex.schema.hudi_types import hudi_type, is_vector, vector_bytes

_FEWEST_ROWS = 1_000
"""With fewer rows the choice does not matter."""
_PAIRS = 16
"""The expected number of equal pairs in a sample if every value occurs twice."""
_WRITER_MODEL = "avro"
_NEVER_NULL = "not null"
_SPARK_OF_TODAYS_CALENDAR = "3.5.0"


def seldom_repeats(column: pa.ChunkedArray) -> bool:
    """Whether nearly all values of a flat column are distinct.

    Example:
        >>> names = [f"ride-{number}" for number in range(1000)]
        >>> seldom_repeats(pa.chunked_array([names])), seldom_repeats(pa.chunked_array([names * 3]))
        (True, False)
    """
    rows = len(column)
    if rows < _FEWEST_ROWS or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    size = math.isqrt(_PAIRS * rows)
    return not _repeats(column.slice(0, size)) and not _repeats(column.take(_anywhere(rows, size)))


@lru_cache(maxsize=8)
def _anywhere(rows: int, size: int) -> pa.Array:
    """Random row numbers; regular ones would miss regular repetitions."""
    return pa.array(np.random.default_rng(rows).choice(rows, size, replace=False))


def _repeats(sample: pa.ChunkedArray) -> bool:
    pairs = len(sample) - len(sample.unique())
    return pairs > _PAIRS // 2


def write_base_file(
    table: pa.Table,
    sink: str | pa.NativeFile | BinaryIO,
    *,
    avro_schema_text: str,
    bloom: BloomFilter | None = None,
    min_key: str | None = None,
    max_key: str | None = None,
    compression: str = "gzip",
) -> pq.FileMetaData:
    """Write a table as one base file and return the metadata of the file.

    Example:
        >>> sink = pa.BufferOutputStream()
        >>> table = pa.table({"_hoodie_record_key": ["k1"]})
        >>> bloom = BloomFilter.create_simple(10, 0.01)
        >>> written = write_base_file(table, sink, avro_schema_text="{}", bloom=bloom)
        >>> written.num_rows
        1
    """
    collected: list[pq.FileMetaData] = []
    entries = _entries(bloom, min_key, max_key, avro_schema_text, table.schema)
    table = _as_stored(table)
    try:
        writer = pq.ParquetWriter(
            sink,
            table.schema.remove_metadata(),
            compression=compression,
            version="2.6",
            data_page_version="1.0",
            coerce_timestamps="us",
            store_schema=False,
            store_decimal_as_integer=False,
            write_page_checksum=True,
            write_statistics=_columns_without(table, _may_hold_nan),
            use_dictionary=_columns_without(table, _is_better_plain),
            metadata_collector=collected,
        )
        with writer:
            writer.write_table(table.replace_schema_metadata(None))
            writer.add_key_value_metadata(entries)  # type: ignore[arg-type]
    except pa.ArrowException as error:
        raise InvalidInput(f"a column cannot be written to Parquet: {error}") from error
    return collected[0]


def _as_stored(table: pa.Table) -> pa.Table:
    """The table with vectors in their stored form as bytes, and with nullable fields of structs.

    Below a null struct even a field that is never null has no value, which Arrow would not write.
    """
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if is_vector(field.type):
            width = field.type.list_size * field.type.value_type.bit_width // 8
            chunks = [vector_bytes(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks, pa.binary(width))
        elif pa.types.is_struct(field.type) and _NEVER_NULL in str(field.type):
            column = column.cast(_with_nulls(field.type))
        else:
            continue
        table = table.set_column(number, field.with_type(column.type), column)
    return table


def _with_nulls(data_type: pa.DataType) -> pa.DataType:
    """A struct type with nullable fields, down to the first list or map."""
    if not pa.types.is_struct(data_type):
        return data_type
    fields = [field.with_type(_with_nulls(field.type)) for field in data_type]
    return pa.struct([field.with_nullable(nullable=True) for field in fields])


def _columns_without(
    table: pa.Table, is_unfit: Callable[[pa.DataType, pa.ChunkedArray], bool]
) -> bool | list[str]:
    """The Parquet columns that qualify; True for all of them."""
    unfit = {
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if is_unfit(field.type, column)
    }
    if not unfit:
        return True
    fit = [field for field in table.schema if field.name not in unfit]
    return [path for field in fit for path in _leaf_paths(field.name, field.type)]


def _leaf_paths(name: str, data_type: pa.DataType) -> Iterator[str]:
    """The paths of the Parquet columns of a field."""
    if pa.types.is_map(data_type):
        inner = {"key_value.key": data_type.key_type, "key_value.value": data_type.item_type}
    elif pa.types.is_struct(data_type):
        inner = {field.name: field.type for field in data_type}
    elif pa.types.is_nested(data_type):
        inner = {"list.element": data_type.value_type}
    else:
        yield name
        return
    for path, inner_type in inner.items():
        yield from _leaf_paths(f"{name}.{path}", inner_type)


def _may_hold_nan(data_type: pa.DataType, column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(data_type):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if not pa.types.is_nested(data_type):
        return False
    inner = [data_type.field(number).type for number in range(data_type.num_fields)]
    return any(_has_floats(part) for part in inner)


def _is_better_plain(data_type: pa.DataType, column: pa.ChunkedArray) -> bool:
    return seldom_repeats(column) or _may_hold_negative_zero(data_type, column)


def _may_hold_negative_zero(data_type: pa.DataType, column: pa.ChunkedArray) -> bool:
    if not _has_floats(data_type):
        return False
    for chunk in column.chunks:
        for leaf in _float_leaves(chunk):
            zeros = leaf.filter(pc.equal(leaf, 0.0)).to_numpy(zero_copy_only=False)
            if np.signbit(zeros).any():
                return True
    return False


def _float_leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The float arrays inside an array, which may include the values of null rows."""
    if pa.types.is_floating(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _float_leaves(array.field(number))
    elif pa.types.is_map(array.type):
        yield from _float_leaves(array.keys)
        yield from _float_leaves(array.items)
    elif pa.types.is_nested(array.type):
        yield from _float_leaves(array.values)


def _has_floats(data_type: pa.DataType) -> bool:
    inner = [data_type.field(number).type for number in range(data_type.num_fields)]
    return pa.types.is_floating(data_type) or any(_has_floats(part) for part in inner)


def _entries(
    bloom: BloomFilter | None,
    min_key: str | None,
    max_key: str | None,
    avro_schema_text: str,
    schema: pa.Schema,
) -> dict[bytes, bytes]:
    """Hudi's footer entries, without those for which there is no value."""
    values = {
        footer.BLOOM_FILTER: None if bloom is None else bloom.encode(),
        footer.BLOOM_TYPE_CODE: _type_code(bloom),
        footer.MIN_RECORD_KEY: min_key,
        footer.MAX_RECORD_KEY: max_key,
        footer.AVRO_SCHEMA: avro_schema_text,
        footer.WRITER_MODEL: _WRITER_MODEL,
        footer.SPARK_VERSION: _SPARK_OF_TODAYS_CALENDAR,
        footer.VECTOR_COLUMNS: _vector_columns(schema),
    }
    return {key: value.encode("utf-8") for key, value in values.items() if value is not None}


def _vector_columns(schema: pa.Schema) -> str | None:
    found = [f"{field.name}:{hudi_type(field)}" for field in schema if is_vector(field.type)]
    return ",".join(found) or None


def _type_code(bloom: BloomFilter | None) -> str | None:
    """The type code of a filter, which a simple filter does not have."""
    return None if bloom is None or bloom.type_code == "SIMPLE" else bloom.type_code
