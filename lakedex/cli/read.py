"""`lakedex read`: rows of a table, on the screen or into a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from lakedex.cli import screen
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
from lakedex.cli.failures import pointing_into
from lakedex.cli.json_output import json_line
from lakedex.cli.plain_values import plain_rows
from lakedex.cli.row_files import RowFormat, chosen_format, write_rows
from lakedex.cli.screen import Column
from lakedex.filegroup.context import META_COLUMNS

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
        screen.note(f"wrote {count:,} rows of {table.name} to {output}")


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
    screen.table(columns, [[_cell(row[name]) for name in names] for row in kept])
    if len(rows) > limit:
        screen.note(f"only {limit:,} rows are shown; --limit N shows more", screen.QUIET)


def _cell(value: object) -> object:
    if value is None:
        return screen.absent()
    if isinstance(value, dict | list):
        return json_line(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
