"""What all statements use of the session: its lake, its plans and its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakedex.config.metadata_options import without_drops
from lakedex.config.option_check import (
    PREFIXES,
    SESSION_PREFIXES,
    Use,
    check_session,
    check_setting,
    commit_notes,
    is_write_option,
)
from lakedex.config.write_option_names import COLUMN_STATS_COLUMNS, NULL_FOR_MISSING
from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_lexer import complaint, tokenise
from lakedex.filegroup import META_COLUMNS
from lakedex.spark.explaining import Scans
from lakedex.spark.schemas import spark_schema
from lakedex.spark.sql.names import NamedTable, Names
from lakedex.spark.sql.plans import Node, Plans, mapped, optional
from lakedex.spark.table import SparkTable
from lakedex.table.spec import TableSpec


class SqlLake(Protocol):
    """What statements need of a lake."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def table_at(self, path: str) -> SparkTable:
        """The table at a path."""

    def make_table(self, path: str, spec: TableSpec) -> SparkTable:
        """Make a table at a path, without a name in the catalog."""

    def scans(self, execution: Any) -> Scans:  # noqa: ANN401 - a JVM object
        """What the scans of a planned query would read of our tables."""


@dataclass(frozen=True)
class Prepared:
    """A statement about a table of ours, understood but not run."""

    run: Callable[[], DataFrame | None]
    is_query: bool = False
    """Whether it changes nothing and gives rows."""
    columns: str = ""
    """Those of the rows that a statement gives which is no query, as Spark's DDL."""
    title: str = "run by lakedex"
    """What EXPLAIN calls it."""
    reads: Callable[[], DataFrame] | None = None
    """The rows that it would read to do its work; they are not computed by this."""


@dataclass(frozen=True)
class Statement:
    """A statement as it was parsed."""

    text: str
    plan: Node
    """Below a WITH, if there is one."""
    scope: Callable[[Node], Node]
    """Gives a query of the statement the names that its WITH defines."""
    column_types: Mapping[str, str] = field(default_factory=dict)
    """The columns of a new table whose type is Hudi's own: VECTOR or BLOB."""

    def wrong(self, node: Node, message: str, *, word: str = "") -> InvalidDefinition:
        """An error that points at the place of a plan or an expression in the text.

        Args:
            node: The plan or expression.
            message: What is wrong.
            word: What stands at the place, for nodes that Spark gives none.
        """
        at = optional(node.origin().startIndex())
        if word and not at:
            words = [each for each in tokenise(self.text) if each.value.lower() == word.lower()]
            at = words[-1].start if words else 0
        return complaint(self.text, 0 if at is None else int(at), message)


class Context:
    """One session, as statements use it."""

    def __init__(self, lake: SqlLake) -> None:
        """Statements of this lake."""
        self.lake = lake
        self.spark = lake.spark
        self.plans = Plans(lake.spark)
        self.names = Names(lake.spark)

    def open(self, named: NamedTable) -> SparkTable:
        """The table that a name stands for."""
        return self.lake.table_at(named.path).of_catalog(named.properties)

    def write_options(self, table: SparkTable | None = None) -> dict[str, str]:
        """The write options that the session's settings say, as far as they suit a table.

        Columns that a statement does not name are null, as everywhere in SQL.

        Raises:
            InvalidInput: A setting of the session is a misspelled option.
            UnsupportedFeature: A setting needs something that lakedex does not have.
        """
        settings: Mapping[str, Any] = mapped(self.spark._jsparkSession.conf().getAll())
        session_options = {
            name: str(value) for name, value in settings.items() if name.startswith(PREFIXES)
        }
        check_session(session_options, Use.WRITE)
        given = {name: value for name, value in session_options.items() if is_write_option(name)}
        given |= commit_notes(session_options)
        if table is not None and given:
            given = without_drops(table.snapshot.config, given)
            _keep_own_columns(given, table.schema.names)
        return {**given, NULL_FOR_MISSING.name: "true"}

    def refresh(self, named: NamedTable) -> None:
        """Let Spark forget what it cached of a table that was changed."""
        if named.entry is not None:
            self.spark.catalog.refreshTable(named.quoted)
        self.open(named).refresh()

    def empty(self) -> DataFrame:
        """What a statement gives that gives no rows."""
        return self.spark.createDataFrame([], StructType())


def _keep_own_columns(given: dict[str, str], columns: Sequence[str]) -> None:
    """Leave out columns of other tables: a session says its list once for all of them."""
    name = COLUMN_STATS_COLUMNS.name
    if name in given:
        own = [each for each in COLUMN_STATS_COLUMNS.value(given) if each in columns]
        given.pop(name)
        if own:
            given[name] = ",".join(own)


def check_set(_context: Context, statement: Statement) -> None:
    """Refuse SET of a misspelled or refused option; the setting itself is Spark's to make."""
    pair = optional(statement.plan.kv())
    name = "" if pair is None else str(pair._1())
    if pair is not None and name.startswith(SESSION_PREFIXES):
        check_setting(name, str(optional(pair._2()) or ""))


def own_columns(table: SparkTable) -> StructType:
    """A table's columns without Hudi's five, as Spark has them."""
    fields = spark_schema(table.schema).fields
    return StructType([field for field in fields if field.name not in META_COLUMNS])
