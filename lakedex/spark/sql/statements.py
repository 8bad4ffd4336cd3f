"""Recognises statements about Hudi tables, and runs them for `lake.sql` and for `spark.sql`.

Writes of DataFrames (insertInto, saveAsTable, writeTo, mergeInto) and scripts do not pass the
parser; their plans are recognised by class (`WRITES`).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakedex.config.option_check import Use
from lakedex.errors import InvalidInput
from lakedex.spark.jvm_contract import SEPARATOR
from lakedex.spark.read_spec import hudi_options
from lakedex.spark.saving import check_folders, run_operation, saved_by, without_meta_columns
from lakedex.spark.serving import Callback
from lakedex.spark.sql import (
    altering,
    changing,
    creating,
    describing,
    indexing,
    inserting,
    merging,
    replacing,
)
from lakedex.spark.sql.context import Context, Prepared, SqlLake, Statement, check_set
from lakedex.spark.sql.describing import explain
from lakedex.spark.sql.extra_statements import prepare_extra, with_calls
from lakedex.spark.sql.index_names import with_index_names
from lakedex.spark.sql.inserting import InsertSpec, prepared_insert
from lakedex.spark.sql.names import NamedTable, Names
from lakedex.spark.sql.plans import Node, kind, listed, mapped, name_parts, optional, text_of
from lakedex.spark.sql.replacing import prepared_replace
from lakedex.spark.sql.table_functions import earlier_state

_OPERATION = "hoodie.datasource.write.operation"
_CLUSTERED = "clusteringColumns"
"""Where Spark puts the columns of `DataFrameWriter.clusterBy`."""
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
PlanHandler = Callable[[Context, Node], Prepared | None]
Handler = Callable[[Context, Statement], Prepared | None]


def _as_statement(handler: Handler) -> PlanHandler:
    def take(context: Context, plan: Node) -> Prepared | None:
        # A DataFrame's plan has no text, a statement of a script has that of the script.
        text = optional(plan.origin().sqlText())
        return handler(context, Statement(str(text or ""), plan, lambda query: query))

    return take


def _append(context: Context, plan: Node) -> Prepared | None:
    return _by_name(context, plan, overwrite=False)


def _overwrite_partitions(context: Context, plan: Node) -> Prepared | None:
    return _by_name(context, plan, overwrite=True, dynamic=True)


def _overwrite_where(context: Context, plan: Node) -> Prepared | None:
    named = _named(context, plan)
    if named is None:
        return None
    wanted = _wanted(plan, overwrite=True, dynamic=False)
    return prepared_replace(context, named, plan.query(), plan.deleteExpr(), wanted)


def _by_name(
    context: Context, plan: Node, *, overwrite: bool, dynamic: bool | None = None
) -> Prepared | None:
    named = _named(context, plan)
    if named is None:
        return None
    wanted = _wanted(plan, overwrite=overwrite, dynamic=dynamic)
    return prepared_insert(context, named, plan.query(), wanted)


def _named(context: Context, plan: Node) -> NamedTable | None:
    if kind(plan.table()) != "UnresolvedRelation":
        return None
    return context.names.find(name_parts(plan.table()))


def _wanted(plan: Node, *, overwrite: bool, dynamic: bool | None) -> InsertSpec:
    options = hudi_options(mapped(plan.writeOptions()), Use.WRITE)
    by_name = bool(plan.isByName())
    return InsertSpec(by_name=by_name, overwrite=overwrite, dynamic=dynamic, options=options)


def _save_as_table(context: Context, plan: Node) -> Prepared | None:
    """`df.write.saveAsTable` into a table that is there; a new one is made as ever."""
    query = optional(plan.query())
    described = plan.tableDesc()
    is_own = context.names.is_own(optional(described.provider()))
    if is_own and optional(described.bucketSpec()) is not None:
        raise creating.layout_refusal("bucketBy")
    if is_own and _CLUSTERED in mapped(described.properties()):
        raise creating.layout_refusal("clusterBy")
    identifier = described.identifier()
    database = optional(identifier.database())
    name = (*([] if database is None else [str(database)]), str(identifier.table()))
    if query is None:
        # `spark.catalog.createTable` of Spark 3.5; later releases make the plan of a statement.
        return Prepared(partial(_create, context, plan, name)) if is_own else None
    if str(plan.mode().name()) != "Append":
        return None
    named = context.names.find(name)
    if named is None:
        return None
    if not is_own:
        raise InvalidInput(f'{named.shown} is a Hudi table: df.write.format("hudi").saveAsTable')
    options = mapped(described.storage().properties())
    folders = [str(name) for name in listed(described.partitionColumnNames())]
    return Prepared(partial(_save, context, named, query, options, folders))


def _create(context: Context, plan: Node, name: tuple[str, ...]) -> None:
    creating.run_create(context, plan, name)


def _save(
    context: Context,
    named: NamedTable,
    query: Node,
    given: Mapping[str, str],
    partition_by: Sequence[str],
) -> None:
    """As in `save`, columns are matched by name, and rows are upserted by default."""
    table = context.open(named)
    check_folders(table, partition_by, given)
    own = hudi_options(given, Use.WRITE)
    operation = own.pop(_OPERATION, "upsert").lower()
    options = {**context.write_options(table), **own}
    rows = without_meta_columns(context.plans.rows(query))
    operation, more = saved_by(table, operation, options)
    run_operation(table, operation, rows, {**options, **more})
    context.refresh(named)


WRITES: Mapping[str, PlanHandler] = {
    f"{_LOGICAL}.InsertIntoStatement": _as_statement(inserting.insert),
    f"{_LOGICAL}.AppendData": _append,
    f"{_LOGICAL}.OverwritePartitionsDynamic": _overwrite_partitions,
    f"{_LOGICAL}.OverwriteByExpression": _overwrite_where,
    f"{_LOGICAL}.UpdateTable": _as_statement(changing.update),
    f"{_LOGICAL}.DeleteFromTable": _as_statement(changing.delete),
    f"{_LOGICAL}.MergeIntoTable": _as_statement(merging.merge),
    f"{_LOGICAL}.CreateTable": _as_statement(creating.create),
    f"{_LOGICAL}.CreateTableAsSelect": _as_statement(creating.create_as_select),
    f"{_LOGICAL}.ReplaceTableAsSelect": _as_statement(creating.refuse_replace),
    "org.apache.spark.sql.execution.datasources.CreateTable": _save_as_table,
}


log = logging.getLogger("lakedex")

_KEPT = 256
_HANDLERS: Mapping[str, Handler] = {
    "CreateTable": creating.create,
    "CreateTableAsSelect": creating.create_as_select,
    "ReplaceTable": creating.refuse_replace,
    "ReplaceTableAsSelect": creating.refuse_replace,
    "CreateTableLike": creating.create_like,
    "CreateTableLikeCommand": creating.create_like,
    "DropTable": creating.drop,
    "InsertIntoStatement": replacing.insert,
    "Union": inserting.insert_several,
    "OverwriteByExpression": replacing.replace_where,
    "UpdateTable": changing.update,
    "DeleteFromTable": changing.delete,
    "MergeIntoTable": merging.merge,
    "ShowPartitions": altering.show_partitions,
    "DescribeRelation": describing.describe_partition,
    "DescribeTablePartition": describing.describe_partition,
    "ShowTablePartition": describing.show_partition,
    "ShowTableExtended": describing.show_partition,
    "CreateIndex": indexing.create,
    "DropIndex": indexing.drop,
    "SetCommand": check_set,
    **dict.fromkeys(altering.HANDLED, altering.alter),
}
_CALL, _EXPLAIN = "Call", "ExplainCommand"
STATEMENT_KINDS = frozenset([*_HANDLERS, _CALL, _EXPLAIN]) - {"Union"}
"""The kinds of statements that the parser passes on, by the names of Spark's classes; of a union it
looks at the first part."""


class Statements:
    """The statements of one session."""

    def __init__(self, lake: SqlLake, callback: Callback) -> None:
        """Put our analyzer before the session's own, and our parser where that is possible."""
        self._context = Context(lake)
        self._spark = lake.spark
        self._callback = callback
        self._taken: OrderedDict[str, Prepared] = OrderedDict()
        self._lock = threading.Lock()
        package, session = lake.spark.sparkContext._jvm.lakedex.jvm, lake.spark._jsparkSession
        package.WriteAnalyzer.install(session, SEPARATOR.join(WRITES))
        self._package = package.StatementParser
        try:
            self._package.install(session, SEPARATOR.join(STATEMENT_KINDS))
        except Py4JError as error:
            log.warning("Hudi's statements work through lake.sql only: %s", error)

    @property
    def names(self) -> Names:
        """What names stand for in the session."""
        return self._context.names

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Run a statement; errors are lakedex's own where it was lakedex that refused."""
        if not isinstance(text, str):
            raise InvalidInput(f"a statement is a text, not {type(text).__name__}")
        try:
            return self._with_values(text, args) if args else self._sql(text)
        except (PySparkException, Py4JError) as error:
            behind = self._callback.error_behind(str(error))
            if behind is None:
                raise
            raise behind from error

    def _with_values(self, text: str, args: Mapping[str, Any] | Sequence[Any]) -> DataFrame:
        """A statement with parameters, which Spark fills, but for those that it hardly knows."""
        prepared = prepare_extra(self._context, text, args=args)
        if prepared is None:
            return self._spark.sql(text, args=args)
        rows = prepared.run()
        return self._context.empty() if rows is None else rows

    def _sql(self, text: str) -> DataFrame:
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        parsed = self._package.parsed(parser, text) or self._script(text)
        if parsed is None:
            prepared = self._with_own_types(text) or self._prepared(text, None)
            if prepared is None:
                # Not a statement at all: this fails with Spark's own message.
                return self._context.plans.rows(self._package.behind(parser).parsePlan(text))
        else:
            session = self._spark._jsparkSession.sessionUUID()
            plan = self._package.bound(session, parsed)
            prepared = self._prepared(text, plan) if self._package.isKnown(plan) else None
            if prepared is None:
                return self._context.plans.rows(plan)
        rows = prepared.run()
        return self._context.empty() if rows is None else rows

    def _script(self, text: str) -> Node:
        """The plan of a script of which Spark cannot read some statements; None for another."""
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        script = with_calls(text, lambda each: self._package.parsed(parser, each) is not None)
        return None if script is None else self._package.behind(parser).parsePlan(script)

    def _with_own_types(self, text: str) -> Prepared | None:
        """A CREATE TABLE with VECTOR or BLOB columns; None where a text is none, or not ours."""
        found = creating.plain_column_types(text)
        if found is None:
            return None
        plain, types = found
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        plan = self._package.parsed(parser, plain)
        if plan is None or kind(plan) != "CreateTable":
            return None
        plan = self._package.bound(self._spark._jsparkSession.sessionUUID(), plan)
        statement = Statement(plain, plan, lambda query: query, types)
        return creating.create(self._context, statement)

    def planned(self, text: str) -> Node:
        """How Spark would run a query, or the one that chooses the rows of a statement; not run.

        Raises:
            InvalidInput: It is a statement that reads no rows.
        """
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        plan = self._package.parsed(parser, text)
        if plan is not None:
            plan = self._package.bound(self._spark._jsparkSession.sessionUUID(), plan)
        is_query = plan is not None and not self._package.isKnown(plan)
        prepared = None if is_query else self._prepared(text, plan)
        if prepared is None:
            # A text that no parser accepts fails here, with Spark's own message.
            parsed = self._package.behind(parser).parsePlan(text) if plan is None else plan
            return self._context.plans.planned(parsed)
        if prepared.reads is None:
            raise InvalidInput(f"this reads no rows that could be explained: {prepared.title}")
        return prepared.reads()._jdf.queryExecution()

    def take(self, text: str, plan: Node) -> Any:  # noqa: ANN401 - a plan, a text or nothing
        """What Spark's own `sql` runs for a statement; nothing where it is not ours."""
        if plan is None:
            script = self._script(text)
            if script is not None:
                return script
            created = self._with_own_types(text)
            if created is not None:
                return self._runnable(created)
        return self._runnable(self._prepared(text, plan))

    def take_write(self, plan: Node) -> Any:  # noqa: ANN401 - a plan, a text or nothing
        """What Spark runs for what no parser of ours saw: a written DataFrame, a script's part."""
        write = WRITES.get(str(plan.getClass().getName()))
        if write is not None:
            return self._runnable(write(self._context, plan))
        return self._runnable(self._prepared(text_of(plan), plan))

    def _runnable(self, prepared: Prepared | None) -> Any:  # noqa: ANN401 - as above
        if prepared is None:
            return ""
        if prepared.is_query:
            rows = prepared.run()
            return "" if rows is None else rows._jdf.queryExecution().analyzed()
        return self._kept(prepared)

    def _kept(self, prepared: Prepared) -> str:
        """The name under which a statement is run later, and the columns that it gives."""
        name = uuid.uuid4().hex
        with self._lock:
            self._taken[name] = prepared
            while len(self._taken) > _KEPT:
                self._taken.popitem(last=False)
        return f"{name}{SEPARATOR}{prepared.columns}"

    def run(self, name: str) -> Any:  # noqa: ANN401 - a JVM object or nothing
        """Run a statement that was taken; its rows, if it gives any."""
        with self._lock:
            prepared = self._taken.get(name)
        if prepared is None:
            raise InvalidInput("the statement was dropped; run it again")
        rows = prepared.run()
        return None if rows is None else rows._jdf

    def earlier_state(self, node: Node) -> Any:  # noqa: ANN401 - a plan or nothing
        """The plan in the place of TIMESTAMP AS OF and its like."""
        return earlier_state(self._context, node)

    def index_names(self, plan: Node, *of_view: str) -> Any:  # noqa: ANN401 - a plan or nothing
        """A query with expressions in the place of names of indexes."""
        return with_index_names(self._context, plan, *of_view)

    def _prepared(self, text: str, plan: Node) -> Prepared | None:
        if plan is None or kind(plan) == _CALL:
            return prepare_extra(self._context, text, plan)
        if kind(plan) == _EXPLAIN:
            return explain(self._context, plan, partial(self._prepared, text))
        layers: list[Node] = []
        while kind(plan) == "UnresolvedWith":
            layers.append(plan)
            plan = plan.child()
        handler = _HANDLERS.get(kind(plan))
        if handler is None:
            return None
        plan = self._context.plans.with_scoped_subqueries(plan, layers)

        def scope(query: Node) -> Node:
            for layer in reversed(layers):
                query = self._context.plans.with_child(layer, query)
            return query

        return handler(self._context, Statement(text, plan, scope))
