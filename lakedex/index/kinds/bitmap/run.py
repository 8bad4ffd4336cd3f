"""A run of a bitmap index: values in their order, each with the numbers of the files that hold it.

    Parquet   value   the column's type, null last
              files   list<int32>, ascending
    footer    lakedex.files     the files by number: partition, name, size
              lakedex.bounds    the first and the last value of each row group
              lakedex.replaces  the runs that this one was merged from

A value that is no value, null, is one of them: so the files with nulls are known too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.expr.bounds import ColumnBounds
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.storage.protocol import Storage

Ints = npt.NDArray[np.int64]
FILES = pa.schema([("partition", pa.string()), ("name", pa.string()), ("size", pa.int64())])
VALUE, NUMBERS = "value", "files"
_VALUES_A_GROUP = 1 << 14
_FILES_KEY, _BOUNDS_KEY, _REPLACES_KEY = (
    f"lakedex.{name}".encode() for name in ("files", "bounds", "replaces")
)


@dataclass(frozen=True, slots=True)
class RunHead:
    """What the footer of a run tells: all but the values."""

    path: str
    size_bytes: int
    files: pa.Table
    groups: ColumnBounds
    """The values of each row group."""
    replaces: frozenset[str]

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.groups.type


def encode_run(
    values: pa.Array, numbers: Ints, files: pa.Table, replaces: Sequence[str] = ()
) -> bytes:
    """A run of values that files hold; pairs may repeat and come in any order.

    Args:
        values: The values.
        numbers: The file of each, by its row in `files`.
        files: The files that the run speaks of (`FILES`), those without rows too.
        replaces: The names of the runs that this one takes the place of.
    """
    table = _lists(values, numbers, files.num_rows)
    footer = {
        _FILES_KEY: _packed(files),
        _BOUNDS_KEY: _packed(_group_bounds(table[VALUE].combine_chunks())),
        _REPLACES_KEY: json.dumps(sorted(replaces)),
    }
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", write_statistics=False, write_page_checksum=True
    ) as writer:
        if table.num_rows:  # a log file that only deletes holds none
            writer.write_table(table, row_group_size=_VALUES_A_GROUP)
        writer.add_key_value_metadata(footer)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read_head(storage: Storage, path: str, size: int) -> RunHead:
    """The head of a run.

    Raises:
        CorruptFile: it is no run.
        FileMissing: it is gone.
    """
    try:
        with storage.open_parquet_input(path, size) as handle, pq.ParquetFile(handle) as file:
            told = file.metadata.metadata or {}
            names = file.schema_arrow.names
            value_type = file.schema_arrow.field(VALUE).type
            counts = [
                file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)
            ]
        files, bounds = _unpacked(told[_FILES_KEY]), _unpacked(told[_BOUNDS_KEY])
        replaces = frozenset(map(str, json.loads(told[_REPLACES_KEY])))
        good = files.schema.equals(FILES) and bounds.num_rows == len(counts)
        if not good or bounds.schema.field("low").type != value_type or names != [VALUE, NUMBERS]:
            raise CorruptFile(path, 0, expected="a run of a bitmap index", actual=names)
        return RunHead(path, size, files, _as_bounds(bounds, counts), replaces)
    except (*PARQUET_ERRORS, KeyError, ValueError) as error:
        raise CorruptFile(path, 0, expected="a bitmap index", actual=repr(error)[:200]) from error


def read_groups(storage: Storage, head: RunHead, groups: Sequence[int]) -> pa.Table:
    """Values and lists of files of some row groups.

    Raises:
        CorruptFile: they are broken, or name files that there are not.
    """
    try:
        with (
            storage.open_parquet_input(head.path, head.size_bytes) as handle,
            pq.ParquetFile(handle, page_checksum_verification=True) as file,
        ):
            table = file.read_row_groups(list(groups), use_threads=False)
    except PARQUET_ERRORS as error:
        raise CorruptFile(head.path, 0, expected="its values", actual=error) from error
    numbers = flat_numbers(table[NUMBERS])
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= head.files.num_rows):
        raise CorruptFile(head.path, 0, expected="numbers of its files", actual=numbers.max())
    return table


def flat_numbers(lists: pa.ChunkedArray) -> Ints:
    """The numbers of all lists, one after the other."""
    flat = pc.list_flatten(lists)
    found: Ints = flat.to_numpy().astype(np.int64)
    return found


def _lists(values: pa.Array, numbers: Ints, files: int) -> pa.Table:
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    distinct = encoded.dictionary
    order = pc.sort_indices(distinct).to_numpy()  # nulls last
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[encoded.indices.to_numpy().astype(np.int64)] if len(values) else rank
    pairs = np.unique(ranks * max(1, files) + numbers)
    owners, held = pairs // max(1, files), pairs % max(1, files)
    offsets = np.searchsorted(owners, np.arange(len(order) + 1)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(held.astype(np.int32)))
    return pa.table({VALUE: distinct.take(pa.array(order)), NUMBERS: lists})


def _group_bounds(values: pa.Array) -> pa.Table:
    """The first and the last value of each row group, and how many nulls it has."""
    starts = np.arange(0, len(values), _VALUES_A_GROUP)
    nulls = [values[at : at + _VALUES_A_GROUP].null_count for at in starts.tolist()]
    ends = np.minimum(starts + _VALUES_A_GROUP, len(values)) - 1
    # Nulls are last: before them is the last value, if there is any.
    last = np.maximum(ends - np.array(nulls, dtype=np.int64), starts)
    return pa.table(
        {
            "low": values.take(pa.array(starts)),
            "high": values.take(pa.array(last)),
            "nulls": pa.array(nulls, pa.int64()),
        }
    )


def _as_bounds(table: pa.Table, counts: list[int]) -> ColumnBounds:
    low, high = table["low"].combine_chunks(), table["high"].combine_chunks()
    known = np.ones(len(counts), dtype=np.bool_)
    if pa.types.is_floating(low.type):
        # NaN comes last among the values, and is in no range.
        nan = pc.fill_null(pc.is_nan(high), fill_value=False)
        known = ~nan.to_numpy(zero_copy_only=False)
    nulls = table["nulls"].to_numpy()
    return ColumnBounds(
        low.type, low, high, nulls, np.array(counts, dtype=np.int64), known, no_nan=known
    )


def _packed(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _unpacked(text: bytes) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
        table = reader.read_all()
    table.validate(full=True)  # before an offset of it is believed
    return table
