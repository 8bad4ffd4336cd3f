"""Starts the archive of layout 2: Parquet files of instants, a manifest, and the version file.

The version file is written last: without it there is no history, so a half-made one is not seen.
`lsm_history` says how the files look.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import InvalidInput
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant import Action
from lakedex.timeline.instant_time import instant_key

_INSTANTS_A_FILE = 1_000
_FIRST_LEVEL = 0
_TEXT = ["null", {"type": "string", "avro.java.string": "String"}]
_AVRO_SCHEMA = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "instantTime", "type": _TEXT, "default": None},
        {"name": "completionTime", "type": _TEXT, "default": None},
        {"name": "action", "type": _TEXT, "default": None},
        {"name": "metadata", "type": ["null", "bytes"], "default": None},
        {"name": "plan", "type": ["null", "bytes"], "default": None},
        {"name": "version", "type": "int", "default": 1},
    ],
}
_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ],
    metadata={
        "writer.model.name": "avro",
        "parquet.avro.schema": json.dumps(_AVRO_SCHEMA, separators=(",", ":")),
    },
)


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """A completed instant with the bytes of its files."""

    requested_time: str
    completion_time: str
    action: Action
    """The action as which it completed."""
    metadata: bytes | None
    plan: bytes | None


def start_history(storage: Storage, folder: str, instants: Sequence[ArchivedInstant]) -> None:
    """Write the first version of a history into a folder that has none.

    Raises:
        AlreadyExists: the folder has a history.
        InvalidInput: there are no instants.
    """
    if not instants:
        raise InvalidInput("a history without instants is no history: leave its folder away")
    ordered = sorted(instants, key=lambda each: instant_key(each.requested_time))
    files = []
    for start in range(0, len(ordered), _INSTANTS_A_FILE):
        part = ordered[start : start + _INSTANTS_A_FILE]
        first, last = part[0].requested_time, part[-1].requested_time
        name = f"{first}_{last}_{_FIRST_LEVEL}.parquet"
        data = _encoded(part)
        storage.create(f"{folder}/{name}", data)
        files.append({"fileName": name, "fileLen": len(data)})
    storage.create(f"{folder}/manifest_1", json.dumps({"files": files}).encode())
    storage.create(f"{folder}/_version_", b"1")


def _encoded(instants: Sequence[ArchivedInstant]) -> bytes:
    columns = [
        pa.array([each.requested_time for each in instants], pa.string()),
        pa.array([each.completion_time for each in instants], pa.string()),
        pa.array([each.action.completed.value for each in instants], pa.string()),
        pa.array([each.metadata for each in instants], pa.binary()),
        pa.array([each.plan for each in instants], pa.binary()),
        pa.array([1] * len(instants), pa.int32()),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(columns, schema=_SCHEMA), sink, compression="gzip", store_schema=False
    )
    return bytes(sink.getvalue().to_pybytes())
