"""Metadata records flattened for people: payload fields beside the key, unions as their value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lakedex.cli.plain_values import plain_rows
from lakedex.errors import InvalidInput
from lakedex.index.metadata_table import (
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    RECORD_INDEX_PAYLOAD,
    Kind,
    RecordType,
)
from lakedex.index.metadata_table.keys import file_ids, record_keys_of_secondary

_UNIONS = ("minValue", "maxValue")
_TYPE_NAMES = {kind.value: kind.name.lower() for kind in RecordType}
_RAW_FILE_ID = 1
_ID_PARTS = ("fileIdHighBits", "fileIdLowBits", "fileIndex")


def flat_records(records: pa.Table, kind: Kind, columns: int = 1) -> Iterator[dict[str, Any]]:
    """The records one by one: `key`, `type`, then the fields of the payload that is there.

    Fields keep their names, but for the `type` of a bloom filter, here `filterType`. A map of
    files is `files`; the entries of secondary indexes, on so many `columns`, have their `recordKey`
    told as well.
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
