"""Table functions of Hudi such as `hudi_table_changes`, time travel, and tables by their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.functions import col, lit
from pyspark.sql.types import DateType, TimestampType

from lakedex.api import ReadOptions, Table
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.expr.sql_lexer import complaint
from lakedex.filegroup import META_COLUMNS
from lakedex.format.avro import METADATA_RECORD
from lakedex.schema.arrow_types import arrow_schema
from lakedex.spark.jvm_contract import DATA_SOURCE, HUDI_SOURCE, HUDI_TIME_TRAVEL, TIME_TRAVEL
from lakedex.spark.read_spec import BASE_FILES_ONLY
from lakedex.spark.schemas import spark_schema
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed, mapped, name_options, name_parts, optional
from lakedex.spark.sql.procedures.commits import totals
from lakedex.spark.sql.procedures.files import scheduled_logs
from lakedex.spark.sql.procedures.metadata import readable_metadata
from lakedex.spark.table import SparkTable
from lakedex.timeline import load_table_config
from lakedex.timeline.instant import file_name
from lakedex.timeline.instant_time import parse_query_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST, _ROW_CHANGES = "latest_state", "cdc"
_QUERY_TYPE = "hoodie.datasource.query.type"
_AS_OF = "as.of.instant"
_QUERY_TYPES = ("snapshot", "read_optimized")
_TIMELINE = (
    "Timestamp string, Action string, State string, Completion_Time string, File_Name string, "
    "Total_Bytes_Written long, Total_Files_Updated long, Total_Partitions_Written long, "
    "Total_Records_Written long, Total_Updated_Records_Written long, Total_Write_Errors long"
)
_FILES = (
    "File_ID string, Partition_Path string, Base_Instant_Time string, Base_File_Path string, "
    "Base_File_Size long, Log_File_Count long, Log_File_Size long, "
    "Log_File_Scheduled long, Log_File_Unscheduled long"
)


def table_function(context: Context, node: Node) -> Any:  # noqa: ANN401 - a plan or nothing
    """The plan in the place of a function; None where it is none of Hudi's, or not about us."""
    (name,) = [str(part).lower() for part in listed(node.name())][-1:]
    function = _FUNCTIONS.get(name)
    if function is None:
        return None
    given = [constant(context, each) for each in listed(node.functionArgs())]
    if given and _is_of_hudi_itself(context, given[0]):
        return None
    if name in _MISSING:
        raise UnsupportedFeature(f"the function {name}")
    if not function.least <= len(given) <= function.most:
        raise InvalidInput(f"{name} takes {function.takes}, not {len(given)} values")
    table = (
        context.lake.table_at(given[0])
        if "/" in given[0]
        else context.open(context.names.named(given[0]))
    )
    return function.rows(context, table, given[1:])._jdf.queryExecution().analyzed()


def constant(context: Context, expression: Node) -> str:
    """The value of a constant expression, as text; a point in time has its zone."""
    if kind(expression) == "Literal" and str(expression.dataType().typeName()) == "string":
        return str(expression.value().toString())
    row = context.spark.range(1).select(context.plans.column(expression).alias("value"))
    if isinstance(row.schema[0].dataType, DateType | TimestampType):
        # As text it would be in the session's zone, which the timeline knows nothing of.
        micros = row.selectExpr("unix_micros(CAST(value AS TIMESTAMP)) AS value").first()["value"]
        value = None if micros is None else _EPOCH + timedelta(microseconds=micros)
    else:
        value = row.selectExpr("CAST(value AS STRING) AS value").first()["value"]
    if value is None:
        raise InvalidInput("a time of a table's past must not be null")
    return str(value)


def _is_of_hudi_itself(context: Context, table: str) -> bool:
    """Whether it is for Hudi's own bundle to answer about a table."""
    if context.names.is_own(HUDI_SOURCE):
        return False
    return "/" in table or context.names.find(context.names.parts(table)) is None


def _changes(_context: Context, table: SparkTable, given: list[str]) -> DataFrame:
    """The newest version of rows that were written in a range of time, or what happened to them."""
    wanted = given[0].lower()
    if wanted not in (_LATEST, _ROW_CHANGES):
        known = f"{_LATEST!r} or {_ROW_CHANGES!r}"
        raise InvalidInput(f"hudi_table_changes takes {known}, not {given[0]!r}")
    return table.changes(*given[1:], cdc=wanted == _ROW_CHANGES)


def _query(context: Context, table: SparkTable, given: list[str]) -> DataFrame:
    """The rows, or only those of base files."""
    wanted = given[0].lower()
    if wanted not in _QUERY_TYPES:
        raise UnsupportedFeature(f"hudi_query with {given[0]!r} (only {', '.join(_QUERY_TYPES)})")
    reader = context.spark.read.format(DATA_SOURCE).option(_QUERY_TYPE, wanted)
    return reader.load(table.path)


def _timeline(context: Context, table: SparkTable, given: list[str]) -> DataFrame:
    """The instants of the table, those of the archive too where they are wanted."""
    snapshot = table.snapshot
    snapshot.check_timeline()
    timeline = snapshot.timeline
    layout = timeline.config.timeline_layout
    instants = list(timeline.instants)
    if given and given[0].lower() == "true":
        instants += timeline.archived.instants()
    rows = []
    for each in sorted(instants):
        written: tuple[int | None, ...] = (None,) * 6
        if each.is_completed and each.action.is_write and each in timeline.instants:
            size, _added, *others = totals(list(timeline.commit_metadata(each).stats()))
            written = (size, *others)
        names = each.requested_time, each.action.value, each.state.name, each.completion_time
        rows.append((*names, file_name(each, layout), *written))
    return context.spark.createDataFrame(rows, _TIMELINE)


def _files(context: Context, table: SparkTable, given: list[str]) -> DataFrame:
    """The file slices that a query reads, of all partitions or of those that a pattern names."""
    snapshot = table.snapshot
    rows = []
    for each in snapshot.slices:
        if given and not fnmatchcase(each.partition, given[0]):
            continue
        due = sum(log.size_bytes for log in scheduled_logs(snapshot, each))
        path = None if each.base is None else f"{table.path}/{each.path_of(each.base.name)}"
        size = sum(log.size_bytes for log in each.logs)
        base = 0 if each.base is None else each.base.size_bytes
        place = each.file_id, each.partition, each.base_instant, path
        rows.append((*place, base, len(each.logs), size, due, size - due))
    return context.spark.createDataFrame(rows, _FILES)


def _metadata(context: Context, table: SparkTable, _given: list[str]) -> DataFrame:
    """The records of the metadata table in all its columns; the driver holds them."""
    snapshot = table.snapshot
    readable_metadata(snapshot)
    opened = Table(snapshot, ReadOptions())
    parts = []
    for name in sorted(snapshot.config.metadata_partitions):
        records = opened.metadata(name)
        schema = spark_schema(records.schema)
        rows = records.to_pylist(maps_as_pydicts="strict")
        parts.append(context.spark.createDataFrame(rows, schema))
    found = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    every = spark_schema(arrow_schema(METADATA_RECORD))
    return found.select(
        *(
            col(field.name)
            if field.name in found.columns
            else lit(None).cast(field.dataType).alias(field.name)
            for field in every
            if field.name not in META_COLUMNS
        )
    )


@dataclass(frozen=True)
class _Function:
    takes: str
    least: int
    most: int
    rows: Callable[[Context, SparkTable, list[str]], DataFrame]


_MISSING = ("hudi_vector_search", "hudi_vector_search_batch")
_FUNCTIONS: Mapping[str, _Function] = {
    "hudi_table_changes": _Function(
        f"a table, '{_LATEST}' or '{_ROW_CHANGES}', a begin and perhaps an end", 3, 4, _changes
    ),
    "hudi_query": _Function(f"a table and {' or '.join(_QUERY_TYPES)}", 2, 2, _query),
    "hudi_query_timeline": _Function("a table and perhaps 'true' for archived", 1, 2, _timeline),
    "hudi_filesystem_view": _Function("a table and perhaps a pattern of partitions", 1, 2, _files),
    "hudi_metadata": _Function("a table", 1, 1, _metadata),
    **dict.fromkeys(_MISSING, _Function("a table", 0, 99, _metadata)),
}


def earlier_state(context: Context, node: Node) -> Any:  # noqa: ANN401 - a plan
    """The plan to put in the place of a node; None where it concerns no table of ours."""
    if kind(node) in (TIME_TRAVEL, HUDI_TIME_TRAVEL):
        return _travelled(context, node)
    if kind(node) == "UnresolvedRelation":
        return _by_name(context, node)
    return table_function(context, node)


def _travelled(context: Context, node: Node) -> Any:  # noqa: ANN401
    relation = node.relation()
    if kind(relation) != "UnresolvedRelation":
        return None
    parts = name_parts(relation)
    named = context.names.find(parts)
    if named is None:
        return None
    table = context.open(named)
    said = optional(node.timestamp())
    moment = str(optional(node.version())) if said is None else constant(context, said)
    try:
        parse_query_time(moment, load_table_config(table.address.open()).timezone)
    except InvalidInput as error:
        raise _at_its_place(node if said is None else said, error) from error
    given = name_options(relation)
    if _AS_OF in map(str.lower, given):
        raise InvalidInput(f"the query says twice as of when: {moment}, and by the option {_AS_OF}")
    rows = _reader(context, named, {**given, _AS_OF: moment}).load(table.path)
    return rows.alias(parts[-1])._jdf.queryExecution().analyzed()


def _by_name(context: Context, node: Node) -> Any:  # noqa: ANN401
    """A table that is named by its path, or by a name with options of a reader."""
    parts = name_parts(node)
    named = context.names.find(parts)
    if named is None:
        return None
    rows = _reader(context, named, name_options(node)).load(context.open(named).path)
    return rows.alias(parts[-1])._jdf.queryExecution().analyzed()


def _reader(context: Context, named: NamedTable, given: Mapping[str, str]) -> DataFrameReader:
    """A reader with options, and with those of the catalog that are for readers alone."""
    reader = context.spark.read.format(DATA_SOURCE)
    kept = {} if named.entry is None else mapped(named.entry.storage().properties())
    if BASE_FILES_ONLY in kept:
        reader = reader.option(BASE_FILES_ONLY, str(kept[BASE_FILES_ONLY]))
    return reader.options(**given)


def _at_its_place(node: Node, error: InvalidInput) -> LakedexError:
    """The error with the part of the statement that it is about, where Spark knows that."""
    text, at = optional(node.origin().sqlText()), optional(node.origin().startIndex())
    return error if text is None or at is None else complaint(str(text), int(at), str(error))
