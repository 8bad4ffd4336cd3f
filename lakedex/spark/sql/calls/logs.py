"""Log files of merge-on-read tables, block by block and record by record."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.filegroup.log_changes import read_changes
from lakedex.filegroup.names import LogFile
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_avro_block,
    decode_delete_block,
    decode_parquet_block,
    read_blocks,
)
from lakedex.spark.sql.calls.procedure import PLACE, Procedure, Rows, Values, table_of
from lakedex.spark.sql.context import Context
from lakedex.spark.table import SparkTable
from lakedex.table import Snapshot

_SCHEME = "file:"


def _show_blocks(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    snapshot = table.snapshot
    for partition, log in _logs(table, snapshot, values):
        for block in _blocks(snapshot, partition, log):
            header = json.dumps({key.name: value for key, value in block.header.items()})
            yield log.instant_time, _count(block), f"{block.kind.name}_BLOCK", header, "{}"


def _show_records(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    snapshot = table.snapshot
    found = list(_logs(table, snapshot, values))
    parts = _merged(snapshot, found) if values["merge"] else _as_written(snapshot, found)
    for rows in parts:
        for row in rows.to_pylist():
            yield (json.dumps(row, default=str),)


def _as_written(
    snapshot: Snapshot, logs: list[tuple[str, LogFile]]
) -> Iterator[pa.Table | pa.RecordBatch]:
    for partition, log in logs:
        for block in _blocks(snapshot, partition, log):
            if block.kind is BlockKind.AVRO_DATA:
                yield decode_avro_block(block)
            elif block.kind is BlockKind.PARQUET_DATA:
                yield decode_parquet_block(block)


def _merged(snapshot: Snapshot, logs: list[tuple[str, LogFile]]) -> Iterator[pa.Table]:
    """The newest version of each record in the logs of each file group."""
    groups: dict[tuple[str, str], list[LogFile]] = defaultdict(list)
    for partition, log in logs:
        groups[partition, log.file_id].append(log)
    for (partition, file_id), group in sorted(groups.items()):
        alone = FileSlice(partition, file_id, group[0].instant_time, None, tuple(group))
        yield read_changes(snapshot.read_context, alone, snapshot.schema).inserts()


def _logs(table: SparkTable, snapshot: Snapshot, values: Values) -> Iterator[tuple[str, LogFile]]:
    """The log files whose path matches the pattern of a call, by partition and name."""
    pattern = values["log_file_path_pattern"].removeprefix(_SCHEME)
    if pattern.startswith("/"):
        pattern = f"/{pattern.lstrip('/')}"
    found = False
    for partition, files in sorted(snapshot.listing.files.items()):
        for name, size in sorted(files):
            log = parse_data_file(name, size)
            path = "/".join(part for part in (partition, name) if part)
            wanted = fnmatchcase(f"{table.path}/{path}", pattern) or fnmatchcase(path, pattern)
            if isinstance(log, LogFile) and not log.is_cdc and wanted:
                found = True
                yield partition, log
    if not found:
        raise InvalidInput(f"there is no log file {values['log_file_path_pattern']!r}")


def _blocks(snapshot: Snapshot, partition: str, log: LogFile) -> list[LogBlock]:
    path = "/".join(part for part in (partition, log.name) if part)
    return read_blocks(snapshot.storage.source(path, log.size_bytes))


def _count(block: LogBlock) -> int:
    if block.kind is BlockKind.AVRO_DATA:
        return int(decode_avro_block(block).num_rows)
    if block.kind is BlockKind.PARQUET_DATA:
        return int(decode_parquet_block(block).num_rows)
    return len(decode_delete_block(block)) if block.kind is BlockKind.DELETE else 0


LOGS = {
    "show_logfile_metadata": Procedure(
        {**PLACE, "log_file_path_pattern": str, "limit": 10, "filter": ""},
        "instant_time string, record_count int, block_type string, header_metadata string, "
        "footer_metadata string",
        _show_blocks,
        needs=("log_file_path_pattern",),
    ),
    "show_logfile_records": Procedure(
        {**PLACE, "log_file_path_pattern": str, "merge": False, "limit": 10, "filter": ""},
        "records string",
        _show_records,
        needs=("log_file_path_pattern",),
    ),
}
