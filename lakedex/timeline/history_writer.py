"""Writes the archive of layout 2: Parquet files of instants, a manifest, and the version file.

A version counts once the version file names it, which is written last: whatever an attempt that was
cut short left behind is not seen, and written over by the next. When a level has enough files they
are merged into one of the next level. A few older versions stay for readers that began with them.
`lsm_history` says how the files look.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.errors import AlreadyExists, CorruptFile, InvalidInput
from lakedex.storage.paths import split
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant import Action
from lakedex.timeline.instant_time import instant_key
from lakedex.timeline.lsm_history import (
    HistoryFile,
    LsmHistory,
    history_file,
    history_version,
    parse_manifest,
)

_INSTANTS_A_FILE = 1_000
_FIRST_LEVEL = 0
_KEPT_VERSIONS = 3
_MANIFEST, _VERSION_FILE = "manifest_", "_version_"
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
    if storage.exists(f"{folder}/{_VERSION_FILE}"):
        raise AlreadyExists(f"{storage.root}/{folder}/{_VERSION_FILE}")
    append_history(storage, folder, instants)


def append_history(storage: Storage, folder: str, instants: Sequence[ArchivedInstant]) -> None:
    """Add instants to a history, or begin one; the caller holds the table's lock."""
    if not instants:
        return
    ordered = sorted(instants, key=lambda each: instant_key(each.requested_time))
    files = []
    for start in range(0, len(ordered), _INSTANTS_A_FILE):
        part = ordered[start : start + _INSTANTS_A_FILE]
        table = _table(part)
        files.append(_write(storage, folder, table, _FIRST_LEVEL))
    history = LsmHistory(storage, folder)
    _publish(storage, folder, [*history.files(), *files])


def merge_levels(storage: Storage, folder: str, files_a_level: int) -> int:
    """Merge the files of levels that have too many, and answer how many merges were made."""
    merges = 0
    while True:
        files = LsmHistory(storage, folder).files()
        by_level: dict[int, list[HistoryFile]] = defaultdict(list)
        for file in files:
            by_level[file.level].append(file)
        full = [level for level, found in sorted(by_level.items()) if len(found) >= files_a_level]
        if not full:
            return merges
        level = full[0]
        oldest = sorted(by_level[level], key=lambda file: (file.first, file.last))[:files_a_level]
        table = pa.concat_tables([_read(storage, file) for file in oldest])
        merged = _write(storage, folder, table.sort_by("instantTime"), level + 1)
        _publish(storage, folder, [*(file for file in files if file not in oldest), merged])
        merges += 1


def remove_old_versions(storage: Storage, folder: str) -> None:
    """Remove manifests that are too old, and files that no manifest that is left names."""
    current = history_version(storage, folder)
    if current is None:
        return
    kept_files: set[str] = set()
    for number in range(max(1, current - _KEPT_VERSIONS + 1), current + 1):
        path = f"{folder}/{_MANIFEST}{number}"
        if storage.exists(path):
            try:
                listed = parse_manifest(storage.read(path), path, folder)
            except CorruptFile:
                if number == current:
                    raise
                continue  # a repair has replaced it, and no reader can find files by it
            kept_files.update(file.path for file in listed)
    for info in storage.list(folder):
        name = split(info.path)[1]
        number_text = name.removeprefix(_MANIFEST)
        if name.startswith(_MANIFEST) and number_text.isdecimal():
            if int(number_text) <= current - _KEPT_VERSIONS:
                storage.delete(info.path)
        elif name.endswith(".parquet") and info.path not in kept_files:
            storage.delete(info.path)


def restore_manifest(storage: Storage, folder: str) -> None:
    """Name the files of a history again where its manifest is damaged; the table's lock is held.

    A file all of whose instants are in files of higher levels was merged into these.

    Raises:
        CorruptFile: a file cannot be read, so that it is not known what it held.
    """
    newest, found = 0, []
    for info in storage.list(folder):
        name = split(info.path)[1]
        number = name.removeprefix(_MANIFEST)
        file = history_file(folder, name, info.size_bytes)
        if file is not None:
            found.append(file)
        elif name.startswith(_MANIFEST) and number.isdecimal():
            newest = max(newest, int(number))
    kept: list[HistoryFile] = []
    known: set[str] = set()
    for file in sorted(found, key=lambda file: (-file.level, file.first)):
        times = {*_read(storage, file)["instantTime"].to_pylist()}
        if not times <= known:
            kept.append(file)
            known |= times
    _publish(storage, folder, kept, newest + 1)


def _publish(
    storage: Storage, folder: str, files: Sequence[HistoryFile], number: int | None = None
) -> None:
    """Make a version that names these files the newest one."""
    if number is None:
        number = (history_version(storage, folder) or 0) + 1
    entries = [
        {"fileName": split(file.path)[1], "fileLen": file.size_bytes}
        for file in sorted(files, key=lambda file: file.path)
    ]
    manifest = json.dumps({"files": entries}).encode()
    storage.replace(f"{folder}/{_MANIFEST}{number}", manifest)
    storage.replace(f"{folder}/{_VERSION_FILE}", str(number).encode())


def _write(storage: Storage, folder: str, table: pa.Table, level: int) -> HistoryFile:
    times = table["instantTime"]
    first, last = times[0].as_py(), times[len(table) - 1].as_py()
    path = f"{folder}/{first}_{last}_{level}.parquet"
    data = _encoded(table)
    storage.replace(path, data)
    return HistoryFile(path, len(data), first, last, level)


def _read(storage: Storage, file: HistoryFile) -> pa.Table:
    try:
        with storage.open_parquet_input(file.path, file.size_bytes) as source:
            table = pq.ParquetFile(source).read(use_threads=False)
            return table.select(_SCHEMA.names).cast(_SCHEMA)
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise CorruptFile(
            file.path, 0, expected="archived instants", actual=str(error)[:200]
        ) from None


def _table(instants: Sequence[ArchivedInstant]) -> pa.Table:
    columns = [
        pa.array([each.requested_time for each in instants], pa.string()),
        pa.array([each.completion_time for each in instants], pa.string()),
        pa.array([each.action.completed.value for each in instants], pa.string()),
        pa.array([each.metadata for each in instants], pa.binary()),
        pa.array([each.plan for each in instants], pa.binary()),
        pa.array([1] * len(instants), pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="gzip", store_schema=False)
    return bytes(sink.getvalue().to_pybytes())
