"""`lakedex read`: rows of a table, on the screen or into a file.

Files are JSON lines, CSV or Parquet, written batch by batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import typer

from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    AsOf,
    Limit,
    StorageOptions,
    TablePath,
    TimeZone,
    Without,
    open_table,
)
from lakedex.cli.console import (
    Column,
    is_binary,
    is_temporal,
    json_line,
    plain_rows,
    plain_values,
    pointing_into,
    temporal_text,
)
from lakedex.errors import InvalidInput
from lakedex.filegroup.context import META_COLUMNS


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
    """The format by the arguments, else by the name of the file."""
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


_ROWS_ON_SCREEN = 20


# An argument of a command is one option on the command line, so there are many.
def read(  # noqa: PLR0913
    path: TablePath,
    *,
    condition: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="PREDICATE",
            help="SQL; only rows where it is true.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these columns.", show_default=False),
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="Hudi's five meta columns, too.")] = False,
    limit: Limit = None,
    as_of: AsOf = None,
    time_zone: TimeZone = "UTC",
    without: Without = None,
    form: Annotated[
        RowFormat | None,
        typer.Option(
            "--format",
            help="By default a table, or what the file's name says.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write into a file.", show_default=False)
    ] = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of a table, or write them into a file; indexes are used where they help.

    JSON is one object a line. On the screen 20 rows are shown unless --limit says otherwise.
    """
    chosen = chosen_format(form, output, as_json=as_json)
    table = open_table(path, storage_option, time_zone=time_zone, without=without)
    view = table.schema if as_of is None else table.snapshot.at(as_of).schema
    names = _names(view, columns, meta=meta)
    with pointing_into(condition):
        batches = table.to_batches(condition, names, as_of)
    if chosen is RowFormat.TABLE:
        _print_rows(batches, names, _ROWS_ON_SCREEN if limit is None else limit)
        return
    schema = pa.schema([view.field(name) for name in names])
    count = write_rows(_first(batches, limit), schema, chosen, output)
    if output is not None:
        console.note(f"wrote {count:,} rows of {table.name} to {output}")


def _names(schema: pa.Schema, columns: str | None, *, meta: bool) -> list[str]:
    if columns is None:
        return [name for name in schema.names if meta or name not in META_COLUMNS]
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    return [*(META_COLUMNS if meta else ()), *wanted]


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows; nothing is read past the batch that completes them."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left > 0:
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
        if left == 0:
            return


def _print_rows(batches: Iterator[pa.RecordBatch], names: list[str], limit: int) -> None:
    parts = list(_first(batches, limit + 1))
    rows = [row for part in parts for row in plain_rows(part)]
    kept = rows[:limit]
    numbers = {
        name
        for part in parts[:1]
        for name in names
        if pa.types.is_integer(part.schema.field(name).type)
        or pa.types.is_floating(part.schema.field(name).type)
    }
    columns = [Column(name, is_number=name in numbers) for name in names]
    console.table(columns, [[_cell(row[name]) for name in names] for row in kept])
    if len(rows) > limit:
        console.note(f"only {limit:,} rows are shown; --limit N shows more", console.QUIET)


def _cell(value: object) -> object:
    if value is None:
        return console.absent()
    if isinstance(value, dict | list):
        return json_line(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
