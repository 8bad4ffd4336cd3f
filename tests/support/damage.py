"""Tables to damage: a copy of a table and a pen that writes into its metadata table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakedex
from lakedex.api import Table
from lakedex.format.avro import METADATA_RECORD, METADATA_RECORD_SCHEMA, encode_records
from lakedex.format.hfile import write_hfile
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block, encode_delete_content
from lakedex.index.metadata_table import metadata_partition
from lakedex.index.metadata_table.group_files import GroupFile
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.instants import log_stat
from lakedex.schema import arrow_schema
from lakedex.timeline import Action, CommitMetadata
from lakedex.timeline.instant_time import next_instant_time
from tests.support.timeline_files import write_completed, write_pending

_PLACED_BY_VALUE = "secondary_index_"


class Damage:
    """A table whose metadata table is changed behind the back of its data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata_root = path / ".hoodie" / "metadata"

    def open(self) -> Table:
        return lakedex.open(str(self.path))

    def keys(self, partition: str) -> list[str]:
        return self.open().metadata(partition)["key"].to_pylist()

    def record(self, partition: str, key: str) -> dict[str, Any]:
        """The record of a key: its type and payload."""
        (found,) = self.open().metadata(partition, keys=[key]).to_pylist()
        return {name: value for name, value in found.items() if name != "key"}

    def remove(self, partition: str, keys: Sequence[str]) -> None:
        """Delete entries."""
        self.write(partition, {}, keys)

    def put(self, partition: str, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Write entries in place of what is there."""
        self.write(partition, records, list(records))

    def edit(self, partition: str, key: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change one entry."""
        record = self.record(partition, key)
        change(record)
        self.put(partition, {key: record})

    def write(
        self, partition: str, records: Mapping[str, Mapping[str, Any]], deletes: Sequence[str]
    ) -> None:
        """One deltacommit: first the deletes, then the records, so that these stay."""
        snapshot = self.open().snapshot
        groups = [group.file_id for group in snapshot.metadata.groups(partition)]
        times = [i.completion_time or i.requested_time for i in snapshot.timeline.instants]
        time = max(times)
        header = {HeaderKey.INSTANT_TIME: time, HeaderKey.SCHEMA: METADATA_RECORD_SCHEMA}
        write_pending(self.metadata_root, time, Action.DELTACOMMIT)
        for number, file_id in enumerate(groups):
            gone = [key for key in deletes if _group(partition, key, len(groups)) == number]
            mine = sorted(
                (key for key in records if _group(partition, key, len(groups)) == number),
                key=str.encode,
            )
            data = b""
            if gone:
                names = pa.repeat(partition, len(gone))
                content = encode_delete_content(pa.array(gone), names, None)
                data += encode_block(BlockKind.DELETE, header, content)
            if mine:
                hfile = encoded_hfile(partition, {key: records[key] for key in mine})
                data += encode_block(BlockKind.HFILE_DATA, header, hfile)
            if data:
                log = self.metadata_root / partition / f".{file_id}_{time}.log.1_0-0-0"
                log.write_bytes(data)
        # As the build of an index does it, which is no instant of the data table.
        stat = log_stat(GroupFile("record_index", "record-index-0000-0", "none", 0, 0), time)
        built = {"record_index": (stat,)}
        metadata = CommitMetadata(built, {}, operation_type="UPSERT_PREPPED", version=1)
        later = next_instant_time(time)
        write_completed(self.metadata_root, time, later, Action.DELTACOMMIT, metadata)


def encoded_hfile(partition: str, records: Mapping[str, Mapping[str, Any]]) -> bytes:
    """An HFile with some records of the metadata table."""
    payloads = metadata_partition(partition).payloads
    rows = [
        {"key": "", "type": record["type"], **{name: record.get(name) for name in payloads}}
        for record in records.values()
    ]
    names = ["key", "type", *payloads]
    schema = pa.schema([_schema().field(name) for name in names])
    values = encode_records(METADATA_RECORD, pa.Table.from_pylist(rows, schema)).as_binary()
    info = {"schema": METADATA_RECORD_SCHEMA.encode()}
    return write_hfile(pa.array(list(records)), values, file_info=info)


def _schema() -> pa.Schema:
    return arrow_schema(METADATA_RECORD)


def _group(partition: str, key: str, count: int) -> int:
    hashed = key
    if partition.startswith(_PLACED_BY_VALUE):
        hashed = key[: key.index("$") + 1]
    return int(shards_of(pa.array([hashed]), count)[0])
