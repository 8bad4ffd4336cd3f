"""Partitions as statements name them: values of partition columns, as folders of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.filegroup import partition_layout
from lakedex.keys.partition_path import (
    DEFAULT_PARTITION,
    OLD_DEFAULT_PARTITION,
    PartitionLayout,
)
from lakedex.spark.sql.added_partitions import added_partitions
from lakedex.spark.table import SparkTable


def partition_paths(table: SparkTable) -> list[str]:
    """The partitions that hold rows, by their paths."""
    return sorted({each.partition for each in table.snapshot.slices if each.partition})


def shown_partitions(table: SparkTable) -> list[str]:
    """The partitions that hold rows, and those that were added and have none yet."""
    paths = partition_paths(table)
    if not table.snapshot.config.is_partitioned:
        return paths
    return sorted([*paths, *added_partitions(table, set(paths))])


def matching_partitions(
    table: SparkTable, values: Mapping[str, str], paths: Sequence[str] | None = None
) -> list[str]:
    """The partitions whose columns have these values, by their paths.

    Args:
        table: The table.
        values: The values of some partition columns.
        paths: Which partitions to look at; those that hold rows unless told.

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
    types = {name: snapshot.schema.field(name).type for name in wanted}
    layout = partition_layout(snapshot.config)
    known = partition_paths(table) if paths is None else paths
    return [path for path in known if _has_values(layout, path, types, wanted)]


def _has_values(
    layout: PartitionLayout,
    path: str,
    types: dict[str, pa.DataType],
    wanted: Mapping[str, str],
) -> bool:
    texts, known = layout.texts(path), layout.values(path, types)
    for name, value in wanted.items():
        if name in texts and texts[name] is None:
            # Rows without a value have a folder of their own.
            if value != DEFAULT_PARTITION:
                return False
        elif known[name].known:
            if known[name].value != _typed(value, types[name]):
                return False
        elif texts.get(name) == OLD_DEFAULT_PARTITION and name not in layout.derived_fields:
            # It stood for null once, or is just this text; it never is another value.
            if value != OLD_DEFAULT_PARTITION:
                return False
        else:
            raise InvalidInput(
                f"the folder {path!r} does not tell the values of its columns; name partitions "
                "by their paths: table.delete_partitions([...])"
            )
    return True


def _typed(text: str, kind: pa.DataType) -> object:
    """The value that a text spells, as `01` spells 1; the text itself where it spells none."""
    try:
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except pa.ArrowInvalid:
        return text
