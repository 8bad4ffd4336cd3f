"""Spark's parsed plans and expressions, accessed from Python in the same way on every release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType

from lakedex.spark.jvm_contract import SPARK_OPTIONS

_ZONE = "spark.sql.session.timeZone"
Node = Any
"""A plan, an expression or another object of the JVM."""


def kind(node: Node) -> str:
    """The simple name of a node's class."""
    return str(node.getClass().getSimpleName())


def listed(sequence: Node) -> list[Any]:
    """A Scala sequence as a list."""
    found = []
    each = sequence.iterator()
    while each.hasNext():
        found.append(each.next())
    return found


def mapped(pairs: Node) -> dict[str, Any]:
    """A Scala map with text keys as a dict."""
    return {str(pair._1()): pair._2() for pair in listed(pairs)}


def optional(option: Node) -> Any:  # noqa: ANN401 - whatever stands in it
    """What a Scala option holds, or None."""
    return option.get() if option.isDefined() else None


def name_parts(node: Node) -> tuple[str, ...]:
    """The name that an unresolved relation, table or identifier stands for; () for another node."""
    parts = member(node, "multipartIdentifier")
    if parts is None:
        parts = member(node, "nameParts")
    return () if parts is None else tuple(str(part) for part in listed(parts))


def member(node: Node, name: str) -> Any:  # noqa: ANN401 - whatever it holds
    """What an object of the JVM holds under a name; None where it has no such member."""
    try:
        return getattr(node, name)()
    except Py4JJavaError:
        raise
    except Py4JError:
        return None


def with_parts(node: Node, changed: Mapping[int, Any]) -> Node:
    """A node of Scala's with some of its parts, by their places, in the place of its own."""
    own = (node.productElement(place) for place in range(node.productArity()))
    return node.copy(*(changed.get(place, part) for place, part in enumerate(own)))


def quoted(name: str) -> str:
    """A name of one part as a SQL text has it."""
    return "`" + name.replace("`", "``") + "`"


def text_of(plan: Node) -> str:
    """The text of a script's statement, with blanks for all that stands before it in the script."""
    origin = plan.origin()
    text, first, last = (
        optional(each) for each in (origin.sqlText(), origin.startIndex(), origin.stopIndex())
    )
    if text is None or first is None or last is None:
        return str(text or "")
    return " " * int(first) + str(text)[int(first) : int(last) + 1]


def relation_under(plan: Node) -> Node:
    """The relation that a statement's table is, below its alias."""
    while kind(plan) == "SubqueryAlias":
        plan = plan.child()
    return plan


def name_options(relation: Node) -> dict[str, str]:
    """The options of a name in a query or of the table of an INSERT, without Spark's own."""
    options = member(relation, "options")
    given = {} if options is None else dict(options.asCaseSensitiveMap())
    return {
        str(name): str(value)
        for name, value in given.items()
        if not str(name).startswith(SPARK_OPTIONS)
    }


class Plans:
    """Makes DataFrames and columns of plans and expressions of one session."""

    def __init__(self, spark: SparkSession) -> None:
        """Use this session."""
        self.spark = spark
        self._jvm = spark.sparkContext._jvm
        self._is_classic = int(spark.version.partition(".")[0]) >= 4

    def rows(self, plan: Node) -> DataFrame:
        """The rows of a plan, which is resolved here; a command runs."""
        sql = self._jvm.org.apache.spark.sql
        dataset = sql.classic.Dataset if self._is_classic else sql.Dataset
        session, paths = self.spark._jsparkSession.sessionUUID(), True
        parser = self._jvm.lakedex.jvm.StatementParser
        plan = parser.leftToSpark(parser.bound(session, plan, paths))
        return DataFrame(dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def planned(self, plan: Node) -> Node:
        """How Spark would run a plan; a command in it does not run."""
        session, paths = self.spark._jsparkSession.sessionUUID(), True
        parser = self._jvm.lakedex.jvm.StatementParser
        plan = parser.leftToSpark(parser.bound(session, plan, paths))
        skip = self._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        return self.spark._jsparkSession.sessionState().executePlan(plan, skip)

    def column(self, expression: Node) -> Column:
        """An expression of a statement as a column; its names are resolved where it is used."""
        sql = self._jvm.org.apache.spark.sql
        if self._is_classic:
            return Column(sql.classic.ExpressionUtils.column(expression))
        return Column(sql.Column(expression))

    def sequence(self, members: list[Any]) -> Node:
        """A Scala sequence of these."""
        return self._jvm.PythonUtils.toSeq(members)

    def with_child(self, plan: Node, child: Node) -> Node:
        """The plan over another child."""
        return plan.withNewChildren(self.sequence([child]).toIndexedSeq())

    def with_scoped_subqueries(self, statement: Node, layers: list[Node]) -> Node:
        """A statement whose subqueries know what the WITHs before it define."""
        session = self.spark._jsparkSession.sessionUUID()
        members = self._jvm.java.util.ArrayList()
        for layer in layers:
            members.add(layer)
        return self._jvm.lakedex.jvm.Subqueries.scoped(session, statement, members)

    def bound(self, plan: Node) -> Node:
        """A plan with earlier states and changes of our tables put in."""
        session = self.spark._jsparkSession.sessionUUID()
        return self._jvm.lakedex.jvm.StatementParser.bound(session, plan)

    def may_store(self, given: DataType, target: DataType) -> bool:
        """Whether Spark lets values of a type be stored in a column of another."""
        cast = self._jvm.org.apache.spark.sql.catalyst.expressions.Cast
        return bool(cast.canANSIStoreAssign(self._type(given), self._type(target)))

    def can_cast(self, given: DataType, target: DataType) -> bool:
        """Whether Spark has a cast from one type to another, ANSI mode left aside."""
        cast = self._jvm.org.apache.spark.sql.catalyst.expressions.Cast
        return bool(cast.canCast(self._type(given), self._type(target)))

    def strict_cast(self, column: Column, target: DataType) -> Column:
        """A cast that fails on values that do not fit, whatever the session's setting is."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        zone = self._jvm.scala.Option.apply(str(self.spark.conf.get(_ZONE)))
        mode = getattr(expressions, "EvalMode$").__getattr__("MODULE$").ANSI()
        inner = self.expression(column)
        return self.column(expressions.Cast(inner, self._type(target), zone, mode))

    def expression(self, column: Column) -> Node:
        """The expression of a column."""
        if self._is_classic:
            return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)
        return column._jc.expr()

    def plain_expression(self, column: Column) -> Node:
        """The expression of a column as a parser gives it, to stand in a plan."""
        if self._is_classic:
            return self.spark._jsparkSession.expression(column._jc)
        return column._jc.expr()

    def _type(self, kind_of: DataType) -> Node:
        return self.spark._jsparkSession.parseDataType(kind_of.json())
