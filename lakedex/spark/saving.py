"""Rows by Spark's own interfaces: INSERT, and a DataFrameWriter with Hudi's options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from lakedex.config import keys
from lakedex.config.option_check import (
    PREFIXES,
    Use,
    canonical_names,
    check_spelling,
    commit_notes,
    is_own_name,
)
from lakedex.config.write_option_names import (
    COMBINE_BEFORE_INSERT,
    DROP_DUPLICATES,
    INSERT_DUPLICATES,
    NULL_FOR_MISSING,
    OVERWRITE_MODE,
)
from lakedex.errors import InvalidInput, TableNotFound, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS, RECORD_KEY
from lakedex.keys.generator import KeyGenerator
from lakedex.keys.partition_path import matches_wildcard
from lakedex.spark.jvm_contract import PARTITION_COLUMNS_OPTION, PATH_OPTION
from lakedex.spark.read_spec import hudi_options
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.table import SparkTable
from lakedex.table.spec import TableSpec
from lakedex.write.stream_batches import StreamBatch

_OPERATION = "hoodie.datasource.write.operation"
_INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
_SPARK_OVERWRITE_MODE = "partitionoverwritemode"
"""Spark's own option of a writer; option names of Spark ignore case."""
_PARTITIONS_TO_DELETE = "hoodie.datasource.write.partitions.to.delete"
_HIVE_STYLE = keys.HIVE_STYLE_PARTITIONING
_CLUSTER_BY = "__clustering_columns"
"""Where Spark puts the columns of `DataFrameWriter.clusterBy`."""
_SPARK_PREFIX = "spark."
_NAMES = (keys.TABLE_NAME, "hoodie.datasource.write.table.name")
_RECORD_KEY = ("hoodie.datasource.write.recordkey.field", keys.RECORD_KEY_FIELDS)
_PARTITION = ("hoodie.datasource.write.partitionpath.field", keys.PARTITION_FIELDS)
_ORDERING = (
    "hoodie.datasource.write.precombine.field",
    "hoodie.datasource.write.ordering.fields",
    *keys.ORDERING_FIELD_NAMES,
)
_STORAGE_TYPE = "hoodie.datasource.write.storage.type"
"""What the type of a table was called once."""
TYPE_NAMES = ("hoodie.datasource.write.table.type", keys.TABLE_TYPE, _STORAGE_TYPE)
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
    """Run `df.write.format("hudi").options(...).mode(...).save(path)`.

    Args:
        lake: Opens and makes tables.
        mode: The name of Spark's save mode.
        given: The writer's options.
        rows: The rows.
        batch: The batch of a stream that they are; it is not written twice.

    Raises:
        InvalidInput: An option is missing or wrong, or the mode forbids it.
        UnsupportedFeature: The rows are to be clustered as Spark does it.
    """
    path = given.get(PATH_OPTION)
    if not path:
        raise InvalidInput('say where: .save("/path/of/table")')
    if given.get(_CLUSTER_BY):
        raise UnsupportedFeature("clusterBy of a Hudi table (table.cluster(by=[...]) instead)")
    options = hudi_options(given, Use.WRITE)
    operation = options.pop(_OPERATION, "upsert").lower()
    own = without_meta_columns(rows)
    try:
        table = lake.table(path)
        own = named_rows(table, rows)
    except TableNotFound:
        table = _created(lake, path, options, given.get(PARTITION_COLUMNS_OPTION), own)
        if operation == "upsert" and mode == "Overwrite":
            operation = "bulk_insert"
    else:
        if mode == "ErrorIfExists":
            raise InvalidInput(f'the path {path!r} has a table; add rows with mode("append")')
        if mode == "Ignore":
            return
        check_folders(table, json.loads(given.get(PARTITION_COLUMNS_OPTION) or "[]"), options)
        if mode == "Overwrite" and not operation.startswith("insert_overwrite"):
            verb = "insert_overwrite" if _is_dynamic(given) else "insert_overwrite_table"
            _overwrite(table.of_batch(batch), verb, own, options)
            return
    operation, more = saved_by(table, operation, options)
    run_operation(table.of_batch(batch), operation, own, {**options, **more})


def without_updates(
    operation: str, options: Mapping[str, str], kept: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """An upsert as an insert, where records that are there are to stay; as in Hudi.

    Args:
        operation: The operation of the writer or the session.
        options: The options of the write.
        kept: The properties of the table.

    Returns:
        The operation, and options that belong to it besides.

    Example:
        >>> without_updates("upsert", {"hoodie.datasource.insert.dup.policy": "drop"}, {})
        ('insert', {})
    """
    policy = INSERT_DUPLICATES.value({**kept, **options})
    if operation != "upsert" or policy == "none":
        return operation, {}
    # Hudi fails while it upserts, which takes one row a key; what it drops, it drops by inserting.
    return "insert", {COMBINE_BEFORE_INSERT.name: "true"} if policy == "fail" else {}


def saved_by(
    table: SparkTable, operation: str, options: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """`without_updates` for a DataFrame writer, which has an older option for it."""
    if operation == "upsert" and DROP_DUPLICATES.value(options):
        return "insert", {}
    return without_updates(operation, options, table.properties)


def check_folders(
    table: SparkTable, partition_by: Sequence[str], options: Mapping[str, str]
) -> None:
    """Refuse a `partitionBy` of other columns than the table's; options have the last word.

    Raises:
        InvalidInput: Naming both.
    """
    own = table.snapshot.config.partition_fields
    if not partition_by or any(options.get(name) for name in _PARTITION):
        return
    if [name.lower() for name in partition_by] != [name.lower() for name in own]:
        shown = f"has {', '.join(own)}" if own else "has no partitions"
        raise InvalidInput(
            f"partitionBy({', '.join(partition_by)}) contradicts table {table.name}, which {shown}"
        )


def is_dynamic_mode(mode: str) -> bool:
    """Whether an overwrite mode is dynamic.

    Example:
        >>> is_dynamic_mode("DYNAMIC"), is_dynamic_mode("static")
        (True, False)

    Raises:
        InvalidInput: It is neither static nor dynamic.
    """
    if mode.strip().lower() not in ("static", "dynamic"):
        raise InvalidInput(f"{OVERWRITE_MODE} is static or dynamic, not {mode[:80]!r}")
    return mode.strip().lower() == "dynamic"


def _is_dynamic(given: Mapping[str, str]) -> bool:
    """Whether the writer's own options request a dynamic overwrite."""
    spark_mode = next(
        (value for name, value in given.items() if name.lower() == _SPARK_OVERWRITE_MODE), "static"
    )
    return is_dynamic_mode(given.get(OVERWRITE_MODE) or spark_mode)


def _overwrite(table: SparkTable, verb: str, rows: DataFrame, options: Mapping[str, str]) -> None:
    """Other rows in one commit; Hudi would remove the table first, and then create it again."""
    try:
        run_operation(table, verb, rows, options)
    except InvalidInput as error:
        raise InvalidInput(
            f'{error}; mode("overwrite") puts other rows into the table that is there: to make '
            f"another one in its place, remove {table.path} first"
        ) from error


def run_operation(
    table: SparkTable, operation: str, rows: DataFrame, options: Mapping[str, str]
) -> None:
    """Write rows by one of Hudi's operations."""
    if operation == "insert_overwrite_table":
        table.insert_overwrite_table(rows, options=options)
    elif operation == "delete_partition":
        paths = _partitions_to_delete(table, rows, options.get(_PARTITIONS_TO_DELETE, ""))
        table.delete_partitions(paths, options=options)
    elif operation in _ROW_VERBS:
        getattr(table, operation)(rows, options=options)
    else:
        known = ", ".join([*_ROW_VERBS, "insert_overwrite_table", "delete_partition"])
        raise InvalidInput(f"{_OPERATION} is one of {known}, not {operation!r}")


def _partitions_to_delete(table: SparkTable, rows: DataFrame, named: str) -> list[str]:
    """Those that are named, also by patterns such as `2024/*`, or else those of the rows."""
    snapshot = table.snapshot
    present = sorted({each.partition for each in snapshot.slices})
    names = [name.strip() for name in named.split(",") if name.strip()]
    if not names:
        if not snapshot.config.partition_fields:
            raise InvalidInput(f"table {table.name} has no partitions to delete")
        generator = KeyGenerator.of(snapshot.config, snapshot.schema)
        columns = sorted({each.partition(".")[0] for each in snapshot.config.partition_fields})
        found = rows.select(*[f"`{name}`" for name in columns]).distinct()
        values = [row.asDict(recursive=True) for row in found.collect()]
        values_table = pa.Table.from_pylist(values, schema=arrow_schema(found.schema))
        return sorted({*generator.partition_paths(values_table).to_pylist()}.intersection(present))
    patterns = [name for name in names if "*" in name]
    matching = {path for path in present for each in patterns if matches_wildcard(path, each)}
    return sorted({name for name in names if "*" not in name} | matching)


def without_meta_columns(rows: DataFrame) -> DataFrame:
    """Rows without Hudi's own columns, which are ignored when written."""
    present = [name for name in rows.columns if name in META_COLUMNS]
    return rows.drop(*present) if present else rows


def named_rows(table: SparkTable, rows: DataFrame) -> DataFrame:
    """Rows to write: without Hudi's own columns, except for the key that only they have."""
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
    declared = described(options)
    folders = declared.partition_by
    if not folders and partition_by:
        folders = json.loads(partition_by)
    # A table that a DataFrame makes has plain folders, one that SQL makes those of Hive.
    properties = {_HIVE_STYLE: "false", **options}
    for note in filter(is_own_name, commit_notes(options)):
        properties.pop(note)  # it is of the commit, not of the table
    told_name = next((options[each] for each in _NAMES if options.get(each)), None)
    name = told_name or path.rstrip("/").rpartition("/")[2]
    spec = TableSpec(
        name=name,
        schema=arrow_schema(rows.schema),
        record_key=declared.record_key,
        ordering=declared.ordering,
        partition_by=folders,
        table_type=declared.table_type,
        properties=properties,
    )
    return lake.make_table(path, spec)


@dataclass(frozen=True)
class TableOptions:
    """What Hudi's options say about a table that is to be made."""

    record_key: list[str]
    ordering: list[str]
    partition_by: list[str]
    table_type: str


def described(options: Mapping[str, str]) -> TableOptions:
    """Key, ordering, partitions and type of a new table, by all names that Hudi has for them.

    Example:
        >>> described({"hoodie.table.recordkey.fields": "a,b"}).record_key
        ['a', 'b']
        >>> described({"hoodie.datasource.write.storage.type": "MERGE_ON_READ"}).table_type
        'MERGE_ON_READ'
    """
    return TableOptions(
        _named(options, _RECORD_KEY),
        _named(options, _ORDERING),
        _named(options, _PARTITION),
        next((options[each] for each in TYPE_NAMES if each in options), "cow"),
    )


def _named(options: Mapping[str, str], names: Sequence[str]) -> list[str]:
    text = next((options[name] for name in names if options.get(name)), "")
    return [name.strip() for name in text.split(",") if name.strip()]


def spelled_out(properties: Mapping[str, str]) -> dict[str, str]:
    """Hudi's properties of a statement under their full names; the others stay in the catalog.

    Example:
        >>> spelled_out({"primaryKey": "id", "owner": "me"})
        {'hoodie.datasource.write.recordkey.field': 'id'}
        >>> spelled_out({"typ": "mor"})
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: no option is called 'typ'; did you mean 'type'?

    Raises:
        InvalidInput: A property is a misspelled option, or one option has two values.
    """
    full = canonical_names(properties)
    check_spelling(name for name in full if not name.startswith(_SPARK_PREFIX))
    return {name: value for name, value in full.items() if name.startswith(PREFIXES)}
