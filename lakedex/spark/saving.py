"""Rows that come by Spark's own ways: INSERT, and a DataFrameWriter with Hudi's options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from lakedex.config import keys
from lakedex.config.write_option_names import NULL_FOR_MISSING
from lakedex.errors import InvalidInput, TableNotFound
from lakedex.filegroup import META_COLUMNS, RECORD_KEY
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.table import SparkTable
from lakedex.table.spec import TableSpec
from lakedex.write.stream_batches import StreamBatch

_OPERATION = "hoodie.datasource.write.operation"
_INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
_PARTITIONS_TO_DELETE = "hoodie.datasource.write.partitions.to.delete"
_HIVE_STYLE = keys.HIVE_STYLE_PARTITIONING
_PARTITION_BY = "__partition_columns"
"""Where Spark puts the columns of `DataFrameWriter.partitionBy`."""
_OWN_PREFIXES = ("hoodie.", "lakedex.")
_RECORD_KEY = ("hoodie.datasource.write.recordkey.field", keys.RECORD_KEY_FIELDS)
_PARTITION = ("hoodie.datasource.write.partitionpath.field", keys.PARTITION_FIELDS)
_ORDERING = (
    "hoodie.datasource.write.precombine.field",
    "hoodie.datasource.write.ordering.fields",
    *keys.ORDERING_FIELD_NAMES,
)
_TYPE = ("hoodie.datasource.write.table.type", keys.TABLE_TYPE)
_ROW_VERBS = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite")


class TableMaker(Protocol):
    """What saving needs of a lake."""

    def table(self, name_or_path: str) -> SparkTable:
        """The table at a path."""

    def make_table(self, path: str, spec: TableSpec) -> SparkTable:
        """Make a table at a path."""


def insert_rows(table: SparkTable, rows: DataFrame, *, overwrite: bool) -> None:
    """Insert rows as SQL does: they are added, unless the table says that INSERT upserts."""
    own = without_meta_columns(rows)
    if overwrite:
        table.insert_overwrite_table(own)
        return
    operation = table.properties.get(_INSERT_OPERATION, "insert").lower()
    run_operation(table, operation, own, {NULL_FOR_MISSING.name: "true"})


def save_rows(
    lake: TableMaker,
    mode: str,
    given: Mapping[str, str],
    rows: DataFrame,
    batch: StreamBatch | None = None,
) -> None:
    """What `df.write.format("hudi").options(...).mode(...).save(path)` asks for.

    Args:
        lake: Opens and makes tables.
        mode: The name of Spark's save mode.
        given: The writer's options.
        rows: The rows.
        batch: The batch of a stream that they are; it is not written twice.

    Raises:
        InvalidInput: An option is missing or wrong, or the mode forbids it.
    """
    path = given.get("path")
    if not path:
        raise InvalidInput('say where: .save("/path/of/table")')
    options = {name: value for name, value in given.items() if name.startswith(_OWN_PREFIXES)}
    operation = options.pop(_OPERATION, "upsert").lower()
    own = without_meta_columns(rows)
    try:
        table = lake.table(path)
        own = named_rows(table, rows)
    except TableNotFound:
        table = _created(lake, path, options, given.get(_PARTITION_BY), own)
        if operation == "upsert" and mode == "Overwrite":
            operation = "bulk_insert"
    else:
        if mode == "ErrorIfExists":
            raise InvalidInput(f'the path {path!r} has a table; add rows with mode("append")')
        if mode == "Ignore":
            return
        if mode == "Overwrite" and not operation.startswith("insert_overwrite"):
            operation = "insert_overwrite_table"
    run_operation(table.of_batch(batch), operation, own, options)


def run_operation(
    table: SparkTable, operation: str, rows: DataFrame, options: Mapping[str, str]
) -> None:
    """Write rows by one of Hudi's operations."""
    if operation == "insert_overwrite_table":
        table.insert_overwrite_table(rows, options=options)
    elif operation == "delete_partition":
        names = options.get(_PARTITIONS_TO_DELETE, "")
        table.delete_partitions([name for name in names.split(",") if name], options=options)
    elif operation in _ROW_VERBS:
        getattr(table, operation)(rows, options=options)
    else:
        known = ", ".join([*_ROW_VERBS, "insert_overwrite_table", "delete_partition"])
        raise InvalidInput(f"{_OPERATION} is one of {known}, not {operation!r}")


def without_meta_columns(rows: DataFrame) -> DataFrame:
    """Rows without Hudi's own columns, which are ignored when written."""
    present = [name for name in rows.columns if name in META_COLUMNS]
    return rows.drop(*present) if present else rows


def named_rows(table: SparkTable, rows: DataFrame) -> DataFrame:
    """Rows to write: without Hudi's own columns, but for the key that only they can tell."""
    own = without_meta_columns(rows)
    if table.snapshot.config.record_key_fields or RECORD_KEY not in rows.columns:
        return own
    return rows.select(RECORD_KEY, *[f"`{name}`" for name in own.columns])


def _created(
    lake: TableMaker,
    path: str,
    options: Mapping[str, str],
    partition_by: str | None,
    rows: DataFrame,
) -> SparkTable:
    told = described(options)
    folders = told.partition_by
    if not folders and partition_by:
        folders = json.loads(partition_by)
    # A table that a DataFrame makes has plain folders, one that SQL makes those of Hive.
    properties = {_HIVE_STYLE: "false", **options}
    name = options.get(keys.TABLE_NAME) or path.rstrip("/").rpartition("/")[2]
    spec = TableSpec(
        name=name,
        schema=arrow_schema(rows.schema),
        record_key=told.record_key,
        ordering=told.ordering,
        partition_by=folders,
        table_type=told.table_type,
        properties=properties,
    )
    return lake.make_table(path, spec)


@dataclass(frozen=True)
class Described:
    """What Hudi's options say about a table that is to be made."""

    record_key: list[str]
    ordering: list[str]
    partition_by: list[str]
    table_type: str


def described(options: Mapping[str, str]) -> Described:
    """Key, ordering, partitions and type of a new table, by all names that Hudi has for them.

    Example:
        >>> described({"hoodie.table.recordkey.fields": "a,b"}).record_key
        ['a', 'b']
    """
    return Described(
        _named(options, _RECORD_KEY),
        _named(options, _ORDERING),
        _named(options, _PARTITION),
        next((options[each] for each in _TYPE if each in options), "cow"),
    )


def _named(options: Mapping[str, str], names: Sequence[str]) -> list[str]:
    text = next((options[name] for name in names if options.get(name)), "")
    return [name.strip() for name in text.split(",") if name.strip()]
