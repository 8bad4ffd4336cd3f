"""Partitions as statements name them: values of partition columns, as folders of a table."""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.errors import InvalidInput
from lakedex.filegroup import partition_layout
from lakedex.spark.table import SparkTable


def partition_paths(table: SparkTable) -> list[str]:
    """The partitions that hold rows, by their paths."""
    return sorted({each.partition for each in table.snapshot.slices if each.partition})


def matching_partitions(table: SparkTable, values: Mapping[str, str]) -> list[str]:
    """The partitions whose columns have these values, by their paths.

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
    found = []
    for path in partition_paths(table):
        known = layout.values(path, types)
        if not all(each.known for each in known.values()):
            raise InvalidInput(
                f"the folder {path!r} does not tell the values of its columns; name partitions "
                "by their paths: table.delete_partitions([...])"
            )
        if all(_spelled(known[name].value) == value for name, value in wanted.items()):
            found.append(path)
    return found


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
