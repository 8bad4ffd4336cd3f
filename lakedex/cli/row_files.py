"""Rows into files or onto standard output: JSON lines, CSV, Parquet; batch by batch."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lakedex.cli.json_output import json_line
from lakedex.cli.plain_values import is_binary, is_temporal, plain_rows, plain_values, temporal_text
from lakedex.errors import InvalidInput


class RowFormat(Enum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES = {
    ".json": RowFormat.JSON,
    ".jsonl": RowFormat.JSON,
    ".ndjson": RowFormat.JSON,
    ".csv": RowFormat.CSV,
    ".parquet": RowFormat.PARQUET,
}


def chosen_format(given: RowFormat | None, output: Path | None, *, as_json: bool) -> RowFormat:
    """The format that the arguments ask for; a file's name may say it."""
    if as_json and given not in {None, RowFormat.JSON}:
        raise InvalidInput("give --json or another --format, not both")
    if as_json or given is not None or output is None:
        chosen = RowFormat.JSON if as_json else given or RowFormat.TABLE
    else:
        found = _SUFFIXES.get(output.suffix.lower())
        if found is None:
            raise InvalidInput(f"say with --format how to write {output.name}")
        chosen = found
    if chosen is RowFormat.TABLE and output is not None:
        raise InvalidInput("--output needs the format json, csv or parquet")
    if chosen is RowFormat.PARQUET and output is None:
        raise InvalidInput("the format parquet needs --output FILE")
    return chosen


def write_rows(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, form: RowFormat, output: Path | None
) -> int:
    """Write all rows; a file appears whole or not at all. The answer is the number of rows."""
    write = _WRITERS[form]
    if output is None:
        return write(batches, schema, sys.stdout.buffer)
    with _whole_file(output) as stream:
        return write(batches, schema, stream)


def _write_json(batches: Iterator[pa.RecordBatch], _schema: pa.Schema, stream: BinaryIO) -> int:
    count = 0
    for batch in batches:
        lines = [json_line(row) + "\n" for row in plain_rows(batch)]
        stream.write("".join(lines).encode("ascii"))
        count += batch.num_rows
    return count


def _write_csv(batches: Iterator[pa.RecordBatch], schema: pa.Schema, stream: BinaryIO) -> int:
    fields = [pa.field(field.name, _csv_type(field.type)) for field in schema]
    spelled = pa.schema(fields)
    count = 0
    with pacsv.CSVWriter(stream, spelled) as writer:
        for batch in batches:
            columns = [_csv_column(column) for column in batch.columns]
            writer.write_batch(pa.record_batch(columns, schema=spelled))
            count += batch.num_rows
    return count


def _write_parquet(batches: Iterator[pa.RecordBatch], schema: pa.Schema, stream: BinaryIO) -> int:
    count = 0
    with pq.ParquetWriter(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


_WRITERS: dict[RowFormat, Callable[[Iterator[pa.RecordBatch], pa.Schema, BinaryIO], int]] = {
    RowFormat.JSON: _write_json,
    RowFormat.CSV: _write_csv,
    RowFormat.PARQUET: _write_parquet,
}


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if is_temporal(kind) or _needs_json(kind) else kind


def _csv_column(column: pa.Array) -> pa.Array:
    """CSV has no bytes and nothing nested: they are written as in JSON."""
    if is_temporal(column.type):
        return temporal_text(column)
    if is_binary(column.type) or pa.types.is_decimal(column.type):
        return pa.array(plain_values(column), pa.string())
    if _needs_json(column.type):
        texts = [None if each is None else json_line(each) for each in plain_values(column)]
        return pa.array(texts, pa.string())
    return column


def _needs_json(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or is_binary(kind) or pa.types.is_decimal(kind))


@contextmanager
def _whole_file(output: Path) -> Iterator[BinaryIO]:
    """A file beside the wanted one that takes its place when everything is written."""
    folder = output.parent
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}")
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(output)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
