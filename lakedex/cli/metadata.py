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

_BULKY = "bloomFilter"
_BULKY_START = 24


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
    definition = table.snapshot.definitions.get(partition)
    columns = max(1, len(definition.source_fields)) if definition is not None else 1
    records = flat_records(found, metadata_partition(partition).kind, columns)
    if as_json:
        for record in records:
            print_json_line(record)
        return
    _print_records(records)
    cut = found.num_rows < total
    screen.say(f"{found.num_rows:,} of {total:,} records" if cut else f"{total:,} records")


def _print_records(records: Iterable[dict[str, Any]]) -> None:
    rows = [row for record in records for row in _rows(record)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name) for name in names]
    screen.table(columns, [[_cell(name, row.get(name)) for name in names] for row in rows])


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A record as rows of the printed table: one for each file that it names."""
    if not record.get("files"):
        return [record]
    shared = {name: value for name, value in record.items() if name != "files"}
    return [{**shared, "file": name, **(about or {})} for name, about in record["files"].items()]


def _cell(name: str, value: object) -> object:
    if isinstance(value, dict | list):
        return json_line(value)
    if name == _BULKY and isinstance(value, str):
        return f"{value[:_BULKY_START]}… ({len(value):,} characters)"
    return value if isinstance(value, bool) or value is None else str(value)
