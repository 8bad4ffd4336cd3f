"""Runs of a file index: the entries of some data files, each in one immutable Parquet file.

    Parquet   the entries, as the kind encodes them
    footer    lakedex.files     the data files by number: partition, name, size
              lakedex.replaces  the runs that this one was merged from
              lakedex.kind      the kind of the index and its version; without it, version 1
              ...               what the kind adds, such as the bounds of its row groups

Before a kind encodes them, and after it decodes them, entries are a table with the column `file`,
the number of the data file, and the kind's own columns. A kind may encode them as inverted lists:
each value once, with the numbers of the data files that hold it. A list that is null stands for all
files of the run, so that a value which nearly every file holds takes no space.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.index.catalog import IndexInfo
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import same_column, slice_files
from lakedex.index.file_index.definitions import folder_of, source_columns
from lakedex.storage.protocol import FileInfo, Storage

FILE: Final = "file"
"""The column of entries that numbers the data files of a run."""
FILES: Final = pa.schema([("partition", pa.string()), ("name", pa.string()), ("size", pa.int64())])
_FILES_KEY, _REPLACES_KEY, _KIND_KEY = b"lakedex.files", b"lakedex.replaces", b"lakedex.kind"
_FIRST_VERSION = 1
_ROWS_A_GROUP = 1 << 16
Ints = npt.NDArray[np.int64]
_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class EncodedEntries:
    """Entries as a kind stores them."""

    table: pa.Table
    footer: Mapping[bytes, str] = field(default_factory=dict)
    """What the kind adds to the footer."""
    rows_a_group: int = _ROWS_A_GROUP


@dataclass(frozen=True, slots=True)
class RunHead:
    """What the footer of a run says: all but the entries."""

    path: str
    size_bytes: int
    schema: pa.Schema
    files: pa.Table
    replaces: frozenset[str]
    version: int
    footer: Mapping[bytes, bytes]
    group_rows: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


def encode_run(
    entries: EncodedEntries,
    files: pa.Table,
    *,
    kind: str,
    version: int,
    replaces: Sequence[str] = (),
) -> bytes:
    """The bytes of a run.

    Args:
        entries: The entries, as the kind stores them.
        files: The data files that the run describes (`FILES`), those without entries too.
        kind: The kind of the index.
        version: The version of the kind.
        replaces: The names of the runs that this one replaces.
    """
    footer = {
        _FILES_KEY: packed(files),
        _REPLACES_KEY: json.dumps(sorted(replaces)),
        _KIND_KEY: json.dumps({"kind": kind, "version": version}),
        **entries.footer,
    }
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        entries.table.schema,
        compression="zstd",
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        if entries.table.num_rows:  # a log file that only deletes has no entries
            writer.write_table(entries.table, row_group_size=entries.rows_a_group)
        writer.add_key_value_metadata(footer)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def write_run(storage: Storage, definition: IndexDefinition, data: bytes) -> None:
    """Store a run; if a crash loses it, the files that it describes are read."""
    path = f"{folder_of(definition)}/run-{uuid.uuid4().hex}.parquet"
    storage.create(path, data, durable=False)


def list_runs(storage: Storage, definition: IndexDefinition) -> list[FileInfo]:
    """The files of the runs of an index, including those that others replace."""
    return storage.list(folder_of(definition))


def file_index_info(definition: IndexDefinition, storage: Storage) -> IndexInfo:
    """An index for SHOW INDEXES; its file groups are its runs."""
    runs = list_runs(storage, definition)
    return IndexInfo(
        definition.name,
        definition.index_type,
        definition.source_fields,
        definition.function,
        "live",
        len(runs),
        sum(run.size_bytes for run in runs),
    )


def read_head(storage: Storage, path: str, size: int) -> RunHead:
    """The head of a run.

    Raises:
        CorruptFile: the file is no run.
        FileMissing: the file is gone.
    """
    try:
        with storage.open_parquet_input(path, size) as handle, pq.ParquetFile(handle) as file:
            footer = dict(file.metadata.metadata or {})
            schema = file.schema_arrow.remove_metadata()
            groups = range(file.metadata.num_row_groups)
            counts = tuple(file.metadata.row_group(at).num_rows for at in groups)
        files = unpacked(footer[_FILES_KEY])
        replaces = frozenset(map(str, json.loads(footer[_REPLACES_KEY])))
        kind = json.loads(footer.get(_KIND_KEY, b"{}"))
        version = int(kind.get("version", _FIRST_VERSION))
        if not files.schema.equals(FILES):
            raise CorruptFile(path, 0, expected="a run of a file index", actual=files.schema.names)
    except (*PARQUET_ERRORS, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptFile(
            path, 0, expected="a run of a file index", actual=repr(error)[:200]
        ) from error
    return RunHead(path, size, schema, files, replaces, version, footer, counts)


def read_heads(storage: Storage, runs: Sequence[FileInfo]) -> list[RunHead]:
    """The heads of the runs that no other run replaces."""
    heads = [read_head(storage, run.path, run.size_bytes) for run in runs]
    replaced = {name for head in heads for name in head.replaces}
    return [head for head in heads if head.name not in replaced]


def read_table(
    storage: Storage,
    head: RunHead,
    *,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The stored entries of a run: of some row groups and columns, or all.

    Raises:
        CorruptFile: they cannot be read.
    """
    chosen = range(len(head.group_rows)) if groups is None else groups
    try:
        with (
            storage.open_parquet_input(head.path, head.size_bytes) as handle,
            pq.ParquetFile(handle, page_checksum_verification=True) as file,
        ):
            if not len(chosen):
                return file.schema_arrow.empty_table()
            return file.read_row_groups(
                list(chosen), columns=None if columns is None else list(columns), use_threads=False
            )
    except PARQUET_ERRORS as error:
        raise CorruptFile(head.path, 0, expected="its entries", actual=error) from error


def packed(table: pa.Table) -> str:
    """A small table as text, for the footer of a run."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def unpacked(text: bytes) -> pa.Table:
    """The table that `packed` made a text of, validated."""
    with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
        table = reader.read_all()
    table.validate(full=True)  # before an offset of it is believed
    return table


@dataclass(frozen=True, slots=True)
class DescribedRun:
    """A run and the slices of a snapshot that its files belong to."""

    head: RunHead
    slice_of: Ints
    """The slice of each file of the run; -1 for files of no slice."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the runs of an index describe of the slices of a snapshot."""

    runs: tuple[DescribedRun, ...]
    covered: npt.NDArray[np.bool_]
    """The slices all files of which are described."""
    other_versions: frozenset[int] = frozenset()
    """Versions of the kind that made runs which this version does not read."""


def coverage(
    context: ReadContext,
    definition: IndexDefinition,
    slices: tuple[FileSlice, ...],
    heads: Sequence[RunHead],
) -> Coverage:
    """The slices that these runs describe.

    A file is not described where the column had another name when it was written.
    """
    files = slice_files(slices)
    keys = file_keys(slices)
    described = np.zeros(len(keys), dtype=np.bool_)
    runs = []
    for head in heads:
        at = pc.index_in(keys_of(head.files), value_set=keys).fill_null(-1).to_numpy()
        described[at[at >= 0]] = True
        slice_of = np.where(at >= 0, files.slice_of[at], -1) if len(keys) else at
        runs.append(DescribedRun(head, slice_of.astype(np.int64)))
    for column in source_columns(definition):
        same = same_column(context.history, column, files)
        if same is not None:
            described &= same
    lacking = np.bincount(files.slice_of[~described], minlength=len(slices)) > 0
    return Coverage(tuple(runs), ~lacking)


def file_keys(slices: tuple[FileSlice, ...]) -> pa.Array:
    """The identity of each file of the slices, in the order of `slice_files`."""
    return pa.array(
        [
            f"{each.partition}/{file.name}/{file.size_bytes}"
            for each in slices
            for file in (each.base, *each.logs)
            if file is not None
        ],
        pa.string(),
    )


def keys_of(files: pa.Table) -> pa.Array:
    """The identity of each file of a run, as `file_keys` has it."""
    columns = [files[name].combine_chunks().cast(pa.string()) for name in files.column_names]
    return pc.binary_join_element_wise(*columns, _SEPARATOR)


def inverted(
    values: pa.Array, numbers: pa.ChunkedArray, files: int, *, most: int | None = None
) -> tuple[pa.Array, pa.ListArray]:
    """The distinct values in their order, null last, and the files of each.

    Args:
        values: The values of all files.
        numbers: The number of the file that each value is of.
        files: How many files there are.
        most: A value of more files than these gets a null list.

    Example:
        >>> owners = pa.chunked_array([pa.array([0, 1, 1])])
        >>> values, lists = inverted(pa.array(["b", "a", "b"]), owners, 2)
        >>> values.to_pylist(), lists.to_pylist()
        (['a', 'b'], [[1], [0, 1]])
    """
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    distinct = encoded.dictionary
    order = pc.sort_indices(distinct).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[encoded.indices.to_numpy().astype(np.int64)] if len(values) else rank
    width = max(1, files)
    pairs = np.unique(ranks * width + numbers.to_numpy().astype(np.int64))
    owners, held = pairs // width, pairs % width
    counts = np.bincount(owners, minlength=len(order))
    is_everywhere = counts > (files if most is None else most)
    held = held[~is_everywhere[owners]]
    offsets = np.append(0, np.cumsum(np.where(is_everywhere, 0, counts)))
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)),
        pa.array(held.astype(np.int32)),
        mask=pa.array(is_everywhere),
    )
    return distinct.take(pa.array(order)), lists


def pairs_of(lists: pa.ListArray, files: int) -> tuple[Ints, Ints]:
    """The positions of the lists and the files in them, one pair for each entry.

    Example:
        >>> rows, numbers = pairs_of(pa.array([[1], None]), 2)
        >>> rows.tolist(), numbers.tolist()
        ([0, 1, 1], [1, 0, 1])
    """
    is_everywhere = lists.is_null().to_numpy(zero_copy_only=False)
    counts = pc.fill_null(pc.list_value_length(lists), files).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lists)), counts)
    numbers = np.tile(np.arange(files), int(is_everywhere.sum()))
    merged = np.empty(len(rows), dtype=np.int64)
    merged[is_everywhere[rows]] = numbers
    merged[~is_everywhere[rows]] = file_numbers(lists)
    return rows, merged


def file_numbers(lists: pa.ListArray | pa.ChunkedArray) -> Ints:
    """The numbers of all lists, one after the other."""
    numbers: Ints = pc.list_flatten(lists).to_numpy().astype(np.int64)
    return numbers
