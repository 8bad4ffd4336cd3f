"""Partitions in statements: values of partition columns, as folders of a table.

ALTER TABLE ... ADD PARTITION creates partitions before they have rows. As in Hudi such a partition
is a folder whose metadata file names the time before all commits. It stays a partition until it is
dropped, whether it has rows or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import decode_properties, format_properties, parse_properties
from lakedex.config.keys import PARTITION_METAFILE
from lakedex.errors import AlreadyExists, FileMissing, InvalidInput, UnsupportedFeature
from lakedex.filegroup import partition_layout
from lakedex.keys.generator import KeyGenerator, value_text
from lakedex.keys.partition_path import (
    DEFAULT_PARTITION,
    OLD_DEFAULT_PARTITION,
    PartitionLayout,
)
from lakedex.services.partition_patterns import matches_wildcard
from lakedex.spark.table import SparkTable
from lakedex.storage.protocol import Storage


def partition_paths(table: SparkTable) -> list[str]:
    """The partitions that hold rows, by their paths."""
    return sorted({each.partition for each in table.snapshot.slices if each.partition})


def shown_partition(table: SparkTable, path: str) -> str:
    """A partition as SHOW PARTITIONS spells it: its path, or `dt=2026-01-05` for `2026/01/05`."""
    layout = partition_layout(table.snapshot.config)
    if not layout.slash_dates:
        return path
    return "/".join(
        f"{name}={DEFAULT_PARTITION if text is None else text}"
        for name, text in layout.texts(path).items()
    )


def shown_partitions(table: SparkTable) -> list[str]:
    """The partitions that hold rows, and those that were added and have none yet."""
    paths = partition_paths(table)
    if not table.snapshot.config.is_partitioned:
        return paths
    return sorted([*paths, *added_partitions(table, set(paths))])


def matching_partitions(
    table: SparkTable,
    values: Mapping[str, str],
    paths: Sequence[str] | None = None,
    *,
    wildcards: bool = False,
) -> list[str]:
    """The partitions whose columns have these values, by their paths.

    Args:
        table: The table.
        values: The values of some partition columns.
        paths: The partitions to choose from; by default those that hold rows.
        wildcards: Whether a `*` in a value stands for any characters.

    Raises:
        InvalidInput: A column is none that the table is partitioned by.
    """
    snapshot = table.snapshot
    fields = snapshot.config.partition_fields
    by_case = {name.lower(): name for name in fields}
    for name in values:
        if name.lower() not in by_case:
            raise InvalidInput(
                f"{name} is no partition column of table {table.name}; those are "
                f"{', '.join(fields) or 'none'}"
            )
    wanted = {by_case[name.lower()]: value for name, value in values.items()}
    layout = partition_layout(snapshot.config)
    known = partition_paths(table) if paths is None else paths
    patterns = {name: value for name, value in wanted.items() if wildcards and "*" in value}
    exact = [
        _PartitionTarget(name, value, snapshot.schema.field(name).type, table.time_zone)
        for name, value in wanted.items()
        if name not in patterns
    ]
    return [
        path
        for path in known
        if _has_texts(layout, path, patterns) and all(each.is_in(layout, path) for each in exact)
    ]


def _has_texts(layout: PartitionLayout, path: str, patterns: Mapping[str, str]) -> bool:
    """Whether the partition's values, as the path spells them, match patterns with `*`."""
    texts = layout.texts(path) if patterns else {}
    return all(
        name in texts and matches_wildcard(texts[name] or DEFAULT_PARTITION, pattern)
        for name, pattern in patterns.items()
    )


@dataclass(frozen=True)
class _PartitionTarget:
    """The value that a partition column is to have."""

    name: str
    value: str
    type: pa.DataType
    time_zone: str

    def is_in(self, layout: PartitionLayout, path: str) -> bool:
        """Whether the column has the value in a partition.

        Raises:
            InvalidInput: The partition's folder does not determine them.
        """
        texts = layout.texts(path)
        if self.name not in texts:
            raise _untold(path)
        text = texts[self.name]
        if text is None:
            # Rows without a value have a folder of their own.
            return self.value == DEFAULT_PARTITION
        if layout.slash_dates:
            return text == self.value.replace("/", "-")
        known = layout.values(path, {self.name: self.type})[self.name]
        if known.known:
            return known.value == _typed(self.value, self.type)
        if self.name in layout.derived_fields:
            raise _untold(path)
        if _is_spelled(text, self.type):
            return text == _spelled(self.value, self.name, self.type, self.time_zone)
        if text == OLD_DEFAULT_PARTITION:
            # It stood for null once, or is just this text; it never is another value.
            return self.value == OLD_DEFAULT_PARTITION
        raise _untold(path)


def _untold(path: str) -> InvalidInput:
    return InvalidInput(
        f"the folder {path!r} does not determine the values of its columns; name partitions "
        "by their paths: table.delete_partitions([...])"
    )


def _is_spelled(text: str, kind: pa.DataType) -> bool:
    """Whether a folder holds the text of a timestamp or number, as `_spelled` gives it."""
    if pa.types.is_timestamp(kind):
        return text.removeprefix("-").isdigit()
    return pa.types.is_decimal(kind) or pa.types.is_floating(kind)


def _spelled(text: str, name: str, kind: pa.DataType, time_zone: str) -> str | None:
    """The folder text of the value that a text spells; None where it spells none."""
    if text == DEFAULT_PARTITION:
        return None
    try:
        values = pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            return None
        try:
            local = pa.array([text]).cast(pa.timestamp(kind.unit))
        except pa.ArrowInvalid:
            return None
        values = pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="latest")
    (spelled,) = value_text(values, name).to_pylist()
    return str(spelled)


def _typed(text: str, kind: pa.DataType) -> object:
    """The value that a text spells, as `01` spells 1; the text itself where it spells none."""
    try:
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except pa.ArrowInvalid:
        return text


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
        raise UnsupportedFeature("ADD PARTITION of a table whose folders are below other roots")
    (path,) = generator.partition_paths(pa.table(columns)).to_pylist()
    return str(path)


def _time_of(storage: Storage, path: str) -> str | None:
    try:
        data = storage.read(f"{path}/{PARTITION_METAFILE}")
    except FileMissing:
        return None
    return parse_properties(decode_properties(data), path=f"{path}/{PARTITION_METAFILE}").get(_TIME)


def _mark(storage: Storage, path: str, time: str) -> None:
    properties = {_TIME: time, _DEPTH: str(path.count("/") + 1)}
    data = format_properties(properties, comment="partition metadata").encode("ascii")
    place = f"{path}/{PARTITION_METAFILE}"
    try:
        storage.create(place, data)
    except AlreadyExists:
        storage.replace(place, data)
