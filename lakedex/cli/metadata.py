"""`lakedex metadata`: the merged records of one partition of the metadata table.

Records are flattened: payload fields beside the key, unions as their value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from lakedex.cli import console
from lakedex.cli.arguments import AsJson, Limit, StorageOptions, TablePath, open_table
from lakedex.cli.console import Column, json_line, plain_rows, print_json_line
from lakedex.errors import InvalidInput
from lakedex.index.metadata_table import (
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    RECORD_INDEX_PAYLOAD,
    Kind,
    RecordType,
    metadata_partition,
)
from lakedex.index.metadata_table.keys import file_ids, record_keys_of_secondary

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
    console.say(f"{found.num_rows:,} of {total:,} records" if cut else f"{total:,} records")


def _print_records(records: Iterable[dict[str, Any]]) -> None:
    rows = [row for record in records for row in _rows(record)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name) for name in names]
    console.table(columns, [[_cell(name, row.get(name)) for name in names] for row in rows])


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


_UNIONS = ("minValue", "maxValue")
_TYPE_NAMES = {kind.value: kind.name.lower() for kind in RecordType}
_RAW_FILE_ID = 1
_ID_PARTS = ("fileIdHighBits", "fileIdLowBits", "fileIndex")


def flat_records(records: pa.Table, kind: Kind, columns: int = 1) -> Iterator[dict[str, Any]]:
    """The records one by one: `key`, `type`, then the fields of the payload that is there.

    Fields keep their names, but for the `type` of a bloom filter, here `filterType`. A map of
    files is `files`; the entries of secondary indexes, on so many `columns`, have their `recordKey`
    shown as well.
    """
    for record in plain_rows(records):
        flat = {"key": record["key"], "type": _TYPE_NAMES.get(record["type"], record["type"])}
        for name, payload in record.items():
            if name in flat or payload is None:
                continue
            flat |= _flat_payload(name, payload)
        if kind is Kind.SECONDARY_INDEX:
            flat |= _secondary_parts(record["key"], columns)
        yield flat


def _flat_payload(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    if name == FILES_PAYLOAD:
        return {"files": payload}
    fields = dict(payload)
    for union in _UNIONS:
        if union in fields:
            fields[union] = _member(fields[union])
    if name == RECORD_INDEX_PAYLOAD:
        fields = _location(fields)
    if name == BLOOM_PAYLOAD:
        fields = {"filterType": fields.pop("type", None), **fields}
    return fields


def _member(union: dict[str, Any] | None) -> object:
    """The value in the one member of a union that is set."""
    chosen = next((each for each in (union or {}).values() if each is not None), None)
    if not isinstance(chosen, dict) or "wrappedValues" not in chosen:
        return None if chosen is None else chosen.get("value")
    return [_member(each) for each in chosen["wrappedValues"] or ()]


def _location(fields: dict[str, Any]) -> dict[str, Any]:
    """A location with its file id as one text instead of the halves of a UUID."""
    file_id = fields.get("fileId")
    parts = [fields.get(name) for name in _ID_PARTS]
    if fields.get("fileIdEncoding") != _RAW_FILE_ID and None not in parts:
        high, low, number = (np.array([part], dtype=np.int64) for part in parts)
        file_id = file_ids(high, low, number)[0]
    kept = {name: value for name, value in fields.items() if name not in _ID_PARTS}
    return kept | {"fileId": file_id}


def _secondary_parts(key: str, columns: int) -> dict[str, Any]:
    try:
        found = record_keys_of_secondary(pa.array([key], pa.string()), columns)
    except InvalidInput:
        return {}
    return {"recordKey": found[0].as_py()}
