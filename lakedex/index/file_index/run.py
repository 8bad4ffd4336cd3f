"""A run of a file index: the entries of some data files, in one immutable Parquet file.

    Parquet   the entries, as the kind encodes them
    footer    lakedex.files     the data files by number: partition, name, size
              lakedex.replaces  the runs that this one was merged from
              lakedex.kind      the kind of the index and its version; without it, version 1
              ...               what the kind adds, such as the bounds of its row groups

Before a kind encodes them, and after it decodes them, entries are a table with the column `file`,
the number of the data file, and the kind's own columns.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile
from lakedex.format.parquet.footer import PARQUET_ERRORS
from lakedex.index.catalog import IndexInfo
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import folder_of
from lakedex.storage.protocol import FileInfo, Storage

FILE: Final = "file"
"""The column of entries that numbers the data files of a run."""
FILES: Final = pa.schema([("partition", pa.string()), ("name", pa.string()), ("size", pa.int64())])
_FILES_KEY, _REPLACES_KEY, _KIND_KEY = b"lakedex.files", b"lakedex.replaces", b"lakedex.kind"
_FIRST_VERSION = 1
_ROWS_A_GROUP = 1 << 16


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
