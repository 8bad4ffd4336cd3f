"""What procedures share: the table that a call names, and rows as its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from lakedex.spark.sql.context import Context
from lakedex.spark.sql.extra_grammar import Literal
from lakedex.spark.table import SparkTable
from lakedex.timeline import WriteStat

Values: TypeAlias = Mapping[str, Literal]
WRITTEN = (
    "total_files_added long, total_files_updated long, total_partitions_written long, "
    "total_records_written long, total_update_records_written long, total_errors long"
)
"""The columns of `written`."""
_NO_COMMIT = (None, "null")


def table_of(context: Context, values: Values) -> SparkTable:
    """The table that a call names, by its path or its name."""
    if values.get("path"):
        return context.lake.table_at(str(values["path"]))
    return context.open(context.names.named(str(values["table"])))


def shown(context: Context, rows: list[Any], schema: str, values: Values) -> DataFrame:
    """Rows as an answer, as many as the call wants."""
    limit = values.get("limit")
    kept = rows if limit is None else rows[: int(limit)]
    return context.spark.createDataFrame(kept, schema)


def written(stats: Sequence[WriteStat]) -> tuple[int, ...]:
    """What a commit wrote, in numbers."""
    return (
        sum(stat.prev_commit in _NO_COMMIT for stat in stats),
        sum(stat.prev_commit not in _NO_COMMIT for stat in stats),
        len({stat.partition_path for stat in stats}),
        sum(stat.num_writes or 0 for stat in stats),
        sum(stat.num_updates or 0 for stat in stats),
        sum(stat.total_write_errors or 0 for stat in stats),
    )
