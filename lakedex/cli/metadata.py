"""`lakedex metadata`: the merged records of one partition of the metadata table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, Limit, StorageOptions, TablePath, open_table
from lakedex.cli.json_output import json_line, print_json_line
from lakedex.cli.metadata_records import flat_records
from lakedex.cli.screen import Column
from lakedex.index.metadata_table import metadata_partition

_LONGEST_CELL = 120


def metadata(
    path: TablePath,
    partition: Annotated[
        str,
        typer.Argument(
            metavar="PARTITION",
            help="Such as files, record_index or secondary_index_idx_city.",
            show_default=False,
        ),
    ],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this key; may be repeated.", show_default=False),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Only keys that start so.", show_default=False)
    ] = None,
    limit: Limit = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Print the records of one index, log files merged; JSON lines with --json.

    With --key or --prefix only the blocks that may hold such keys are read.
    """
    table = open_table(path, storage_option)
    found = table.metadata(partition, keys=key or None, prefix=prefix)
    total = found.num_rows
    if limit is not None:
        found = found.slice(0, limit)
    records = flat_records(found, metadata_partition(partition).kind)
    if as_json:
        for record in records:
            print_json_line(record)
        return
    _print_records(records)
    screen.say(f"{found.num_rows:,} of {total:,} records" if limit else f"{total:,} records")


def _print_records(records: Iterable[dict[str, Any]]) -> None:
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name) for name in names]
    screen.table(columns, [[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: Any) -> object:
    if isinstance(value, dict | list):
        return json_line(value)
    if isinstance(value, str) and len(value) > _LONGEST_CELL:
        return f"{value[:_LONGEST_CELL]}… ({len(value):,} characters)"
    return value if isinstance(value, bool) or value is None else str(value)
