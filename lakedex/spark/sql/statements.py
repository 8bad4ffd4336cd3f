"""Recognises statements about our tables, and runs them for `lake.sql` and for `spark.sql`."""

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

from lakedex.errors import InvalidInput
from lakedex.spark.jvm_contract import SEPARATOR
from lakedex.spark.serving import Callback
from lakedex.spark.sql import (
    altering,
    changing,
    creating,
    describing,
    frame_writes,
    indexing,
    inserting,
    merging,
    replacing,
)
from lakedex.spark.sql.context import Context, Prepared, SqlLake, Statement, check_set
from lakedex.spark.sql.describing import explain
from lakedex.spark.sql.extra_statements import prepare_extra, with_calls
from lakedex.spark.sql.index_names import with_index_names
from lakedex.spark.sql.names import Names
from lakedex.spark.sql.plans import Node, kind, text_of
from lakedex.spark.sql.table_functions import earlier_state

log = logging.getLogger("lakedex")

_KEPT = 256
Handler = Callable[[Context, Statement], Prepared | None]
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
        package.WriteAnalyzer.install(session, SEPARATOR.join(frame_writes.WRITES))
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
        write = frame_writes.WRITES.get(str(plan.getClass().getName()))
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
