"""ALTER TABLE ... ADD PARTITION: partitions that are there before they have rows.

As in Hudi such a partition is a folder whose metadata file names the time before all commits. It
stays a partition until it is dropped, whatever rows come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from lakedex.config import decode_properties, format_properties, parse_properties
from lakedex.config.keys import PARTITION_METAFILE
from lakedex.errors import AlreadyExists, FileMissing, InvalidInput, UnsupportedFeature
from lakedex.keys.generator import KeyGenerator
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.spark.table import SparkTable
from lakedex.storage.protocol import Storage

_TIME, _DEPTH = "commitTime", "partitionDepth"
_BEFORE_ALL = "00000000000000"


def added_partitions(table: SparkTable, known: Collection[str]) -> list[str]:
    """The partitions that were added and are not among those that are known to hold rows."""
    storage = table.snapshot.storage
    found, folders = [], [""]
    while folders:
        folder = folders.pop()
        for name in storage.folders(folder):
            path = f"{folder}/{name}" if folder else name
            if not name.startswith(".") and path not in known:
                folders.append(path)
                if _time_of(storage, path) == _BEFORE_ALL:
                    found.append(path)
    return sorted(found)


def add_partition(table: SparkTable, path: str) -> None:
    """Make a partition without rows; one that was dropped and not cleaned yet comes back."""
    _mark(table.snapshot.storage, path, _BEFORE_ALL)


def forget_partition(table: SparkTable, path: str) -> None:
    """Let a partition be one only as long as it has rows.

    The file stays, as a writer may just put the first rows there, whom Hudi finds by it.
    """
    snapshot = table.snapshot
    if _time_of(snapshot.storage, path) != _BEFORE_ALL:
        return
    last = snapshot.timeline.write_instants()[-1:]
    if last:
        _mark(snapshot.storage, path, last[0].requested_time)
    else:
        snapshot.storage.delete(f"{path}/{PARTITION_METAFILE}")


def partition_path(table: SparkTable, values: Mapping[str, str]) -> str:
    """The folder of a partition, of which every column is named.

    Raises:
        InvalidInput: A column is missing or unknown, or a value does not suit it.
    """
    snapshot = table.snapshot
    fields = snapshot.config.partition_fields
    by_case = {name.lower(): str(value) for name, value in values.items()}
    if not fields or set(by_case) != {name.lower() for name in fields}:
        shown = ", ".join(fields) or "it has none"
        raise InvalidInput(
            f"a partition of table {table.name} is named by its columns ({shown}), not by "
            f"{', '.join(values)}"
        )
    columns = {}
    for name in fields:
        kind, text = snapshot.schema.field(name).type, by_case[name.lower()]
        given = pa.array([None if text == DEFAULT_PARTITION else text], pa.string())
        try:
            columns[name] = given.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(f"partition column {name}: {text!r} is no {kind}") from error
    generator = KeyGenerator.of(snapshot.config, snapshot.schema)
    if generator.roots:
        raise UnsupportedFeature("ADD PARTITION of a table whose folders lie below other roots")
    (path,) = generator.partition_paths(pa.table(columns)).to_pylist()
    return str(path)


def _time_of(storage: Storage, path: str) -> str | None:
    try:
        data = storage.read(f"{path}/{PARTITION_METAFILE}")
    except FileMissing:
        return None
    return parse_properties(decode_properties(data), path=f"{path}/{PARTITION_METAFILE}").get(_TIME)


def _mark(storage: Storage, path: str, time: str) -> None:
    told = {_TIME: time, _DEPTH: str(path.count("/") + 1)}
    data = format_properties(told, comment="partition metadata").encode("ascii")
    place = f"{path}/{PARTITION_METAFILE}"
    try:
        storage.create(place, data)
    except AlreadyExists:
        storage.replace(place, data)
