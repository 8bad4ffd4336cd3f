"""Names that show only the base files of a merge-on-read table, as Hudi's `_ro` and `_rt` tables.

They are catalog entries with `hoodie.query.as.ro.table` for an existing table: `true` reads base
files only, `false` is the table itself. Hudi's metastore sync creates such entries.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.config import TableType
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.spark.read_spec import BASE_FILES_ONLY, QueryType, ReadSpec
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, mapped
from lakedex.spark.table import SparkTable

_TRUTHS = ("true", "false")


def check_base(properties: Mapping[str, str], table: SparkTable | None, path: str) -> None:
    """Refuse such a name where there is nothing that it could show.

    Args:
        properties: The properties of the statement.
        table: The table that is there.
        path: Its path.
    """
    value = properties.get(BASE_FILES_ONLY)
    if value is None:
        return
    if value.lower() not in _TRUTHS:
        raise InvalidInput(f"{BASE_FILES_ONLY} is true or false, not {value!r}")
    if table is None:
        raise InvalidInput(
            f"{BASE_FILES_ONLY} is for another name of a table that is there, and there is none "
            f"at {path!r}: make it first, without the property"
        )
    if table.snapshot.config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            f"{BASE_FILES_ONLY} is for merge-on-read tables, and table {table.name} is "
            "copy-on-write: all its rows are in base files"
        )


def keep_for_readers(context: Context, entry: Node, properties: Mapping[str, str]) -> None:
    """Put the property where Spark passes it to readers: it does not pass TBLPROPERTIES."""
    value = properties.get(BASE_FILES_ONLY)
    if value is None:
        return
    name = str(entry.identifier().quotedString())
    parser = context.spark._jsparkSession.sessionState().sqlParser()
    behind = context.spark.sparkContext._jvm.lakedex.jvm.StatementParser.behind(parser)
    text = f"ALTER TABLE {name} SET SERDEPROPERTIES ('{BASE_FILES_ONLY}' = '{value.lower()}')"
    context.plans.rows(behind.parsePlan(text))
    context.names.catalog.refreshTable(entry.identifier())


def forget_other_views(context: Context, gone: NamedTable) -> None:
    """Take the names `t`, `t_ro` and `t_rt` of a table out of the catalog whose files are gone."""
    *database, name = gone.parts
    base = name.removesuffix("_ro").removesuffix("_rt")
    for each in (name, base, f"{base}_ro", f"{base}_rt"):
        other = context.names.find((*database, each))
        if other is not None and other.path == gone.path:
            context.names.forget(other.identifier)


def check_whole(named: NamedTable, verb: str) -> None:
    """Refuse to change rows by a name that shows other rows than the table has now.

    They would be written back as they are shown, over what was changed since.
    """
    if named.entry is None:
        return
    spec = ReadSpec.of(named.path, mapped(named.entry.storage().properties()))
    if spec.as_of is not None or spec.query_type != QueryType.SNAPSHOT.value:
        raise UnsupportedFeature(
            f"{verb} by the name {named.shown}, which shows base files or an earlier state only "
            "(name the table itself)"
        )
