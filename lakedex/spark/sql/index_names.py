"""Resolves names of expression indexes in the conditions and groups of a query.

Only a query with a column that Spark cannot resolve comes here, so real columns take precedence and
other queries pay nothing. A condition sees the tables below it, up to the next SELECT; where one of
them is not ours, a name must be qualified with its table. A grouping expression may be selected
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.functions import canonical_name
from lakedex.expr.functions.strings import SPLIT_ITEM
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal
from lakedex.spark.jvm_contract import TABLE_RELATION
from lakedex.spark.read_spec import ReadSpec
from lakedex.spark.schemas import spark_schema
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.plans import (
    Node,
    kind,
    listed,
    member,
    name_parts,
    optional,
    quoted,
    with_parts,
)
from lakedex.table import Snapshot

_ZONE = "spark.sql.session.timeZone"
_TRANSPARENT = frozenset(
    ["Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Distinct", "Sample", "UnresolvedHint"]
)
"""Plans that give the columns of what is below them."""
_VALUES = {"Project": 0, "Aggregate": 1}
"""Where a SELECT has its values."""
_NAME = "UnresolvedAttribute"
_FUNCTION = "UnresolvedFunction"
_JOIN_CONDITION = 3
"""Where a join, lateral or not, has it."""
_LATERAL = 1
_GROUPS = 0
_TRIMS = frozenset(["trim", "ltrim", "rtrim"])


@dataclass(frozen=True)
class _Table:
    """A table of ours that a condition sees, and how the query calls it."""

    qualifier: str
    snapshot: Snapshot


@dataclass
class Scope:
    """What a condition sees."""

    tables: list[_Table]
    is_whole: bool = True
    """Whether nothing is seen but tables of ours, and `columns`."""
    columns: frozenset[str] = frozenset()
    """Columns of anything else that are known, in small letters."""

    def has_column(self, name: str) -> bool:
        """Whether a name without a table is that of a column, which comes before an index."""
        known = (each.name for table in self.tables for each in table.snapshot.schema)
        return name.lower() in self.columns or name.lower() in (each.lower() for each in known)


def with_index_names(context: Context, plan: Node, view: str = "", zone: str = "") -> Any:  # noqa: ANN401
    """The plan with expressions in its conditions; nothing where no index is named.

    Args:
        context: The session.
        plan: The plan of a query.
        view: The view whose query it is: names in it are those of the database that was the
            current one when the view was made.
        zone: The time zone that the view goes by.
    """
    database = context.names.database_of_view(view) if view else None
    found = IndexNames(context, zone, database).plan(plan)
    return "" if found is plan else found


class IndexNames:
    """Puts expressions in the place of names of indexes, in plans and expressions of a session."""

    def __init__(self, context: Context, zone: str = "", database: str | None = None) -> None:
        """Look names up in the session's time zone and database by default."""
        self._context = context
        self._zone = zone or str(context.spark.conf.get(_ZONE))
        self._database = database
        self._opened: dict[str, Snapshot] = {}

    def plan(self, node: Node) -> Node:
        """A plan with its conditions understood; the very same where nothing is named."""
        result = self._with_children(node, self.plan)
        match kind(node):
            case "Filter":
                condition = node.condition()
                understood = self.expression(condition, self.scope(node.child()))
                return result if understood is condition else with_parts(result, {0: understood})
            case "Join":
                return self._joined(node, result)
            case "LateralJoin":
                return self._joined(node, self._lateral(result))
            case "UnresolvedWith":
                return self._with_queries(result)
            case "Aggregate":
                return self._selected(self._grouped(node, result), _VALUES["Aggregate"])
            case "UnresolvedHaving":
                return self._having(node, result)
            case "Project":
                return self._selected(result, _VALUES["Project"])
            case _:
                return result

    def _joined(self, node: Node, result: Node) -> Node:
        """A join whose condition, if it has one, is understood as one on all of its tables."""
        condition = optional(node.condition())
        if condition is None:
            return result
        understood = self.expression(condition, self.scope(node))
        if understood is condition:
            return result
        some = self._context.spark.sparkContext._jvm.scala.Some
        return with_parts(result, {_JOIN_CONDITION: some(understood)})

    def _lateral(self, node: Node) -> Node:
        """A lateral join whose query is understood, which is no child of it."""
        query = node.productElement(_LATERAL)
        understood = self.expression(query, Scope([], is_whole=False))
        return node if understood is query else with_parts(node, {_LATERAL: understood})

    def _selected(self, node: Node, place: int) -> Node:
        """A SELECT whose values are understood: queries of their own, and FILTER (WHERE ...)."""
        nothing, scope = Scope([], is_whole=False), self.scope(node.child())
        return self._with_list(node, place, lambda each: self.expression(each, nothing, scope))

    def _grouped(self, node: Node, result: Node) -> Node:
        """An aggregate by names of indexes, which may stand among its values then."""
        scope = self.scope(node.child())
        changed = self._with_list(result, _GROUPS, lambda each: self.expression(each, scope))
        if changed is result and not _groups_by_all(result):
            return result
        named = partial(self._selected_name, scope=scope)
        return self._with_list(changed, _VALUES["Aggregate"], named)

    def _selected_name(self, node: Node, scope: Scope) -> Node:
        """A value of a SELECT; a name alone stays the name of its column."""
        understood = self.expression(node, scope)
        if understood is node or kind(node) != _NAME:
            return understood
        alias = self._context.plans.column(understood).alias(name_parts(node)[-1])
        return self._context.plans.plain_expression(alias)

    def _having(self, node: Node, result: Node) -> Node:
        """A HAVING, which sees what the query below it is made of."""
        below = node.child()
        if kind(below) != "Aggregate":
            return result
        condition = node.havingCondition()
        understood = self.expression(condition, self.scope(below.child()))
        return result if understood is condition else with_parts(result, {0: understood})

    def _with_list(self, node: Node, place: int, change: Any) -> Node:  # noqa: ANN401 - a method
        members = listed(node.productElement(place))
        changed = [change(each) for each in members]
        if all(new is old for new, old in zip(changed, members, strict=True)):
            return node
        return with_parts(node, {place: self._context.plans.sequence(changed).toIndexedSeq()})

    def _with_queries(self, node: Node) -> Node:
        """A WITH whose queries are understood, which are no children of it."""
        named = listed(node.cteRelations())
        changed = [self.plan(each._2()) for each in named]
        if all(new is each._2() for new, each in zip(changed, named, strict=True)):
            return node
        pairs = [with_parts(each, {1: new}) for new, each in zip(changed, named, strict=True)]
        return with_parts(node, {1: self._context.plans.sequence(pairs).toIndexedSeq()})

    def _with_children(self, node: Node, change: Any) -> Node:  # noqa: ANN401 - a method
        children = listed(node.children())
        return self._with_new(node, children, [change(child) for child in children])

    def _with_new(self, node: Node, children: list[Node], changed: list[Node]) -> Node:
        if all(new is old for new, old in zip(changed, children, strict=True)):
            return node
        return node.withNewChildren(self._context.plans.sequence(changed).toIndexedSeq())

    def expression(self, node: Node, scope: Scope, rows: Scope | None = None) -> Node:
        """An expression with names understood; the very same where nothing is named.

        Args:
            node: The expression.
            scope: What it sees.
            rows: What the FILTER of an aggregate function sees, where that is another.
        """
        if kind(node) == _NAME:
            return self._named(node, name_parts(node), scope)
        children = listed(node.children())
        scopes = [scope] * len(children)
        if rows is not None and kind(node) == _FUNCTION and node.filter().isDefined():
            # The condition of a FILTER is the last of its children.
            scopes[-1] = rows
        pairs = zip(children, scopes, strict=True)
        new = [self.expression(child, seen, rows) for child, seen in pairs]
        changed = self._with_new(node, children, new)
        inner = member(changed, "plan")
        if inner is None:
            return changed
        understood = self.plan(inner)
        return changed if understood is inner else changed.withNewPlan(understood)

    def _named(self, node: Node, parts: tuple[str, ...], scope: Scope) -> Node:
        *qualifier, name = parts
        if len(qualifier) > 1 or not (qualifier or scope.is_whole):
            return node
        if not qualifier and scope.has_column(name):
            return node
        found = []
        for table in scope.tables:
            if not qualifier or qualifier[0].lower() == table.qualifier.lower():
                expression = table.snapshot.expression_named(name, self._zone)
                found += [] if expression is None else [(table, expression)]
        if len(found) > 1:
            raise InvalidInput(f"{name} is an index of several tables of the query; name its table")
        if not found:
            return node
        ((table, expression),) = found
        return self._context.plans.plain_expression(_column(expression, table.qualifier))

    def scope(self, node: Node) -> Scope:
        """What a condition over a plan sees."""
        name = kind(node)
        if name == "SubqueryAlias":
            inner = self.scope(node.child())
            alias = str(node.identifier().name())
            is_table = len(inner.tables) == 1 and kind(node.child()) not in _TRANSPARENT
            tables = [_Table(alias, inner.tables[0].snapshot)] if is_table else []
            return Scope(tables, inner.is_whole and is_table)
        if name in _TRANSPARENT:
            inner_scopes = [self.scope(child) for child in listed(node.children())]
            tables = [table for scope in inner_scopes for table in scope.tables]
            columns = frozenset[str]().union(*(scope.columns for scope in inner_scopes))
            return Scope(tables, all(scope.is_whole for scope in inner_scopes), columns)
        if name == "LateralJoin":
            return Scope(self.scope(node.left()).tables, is_whole=False)
        if name == "Generate":
            return self._beside_generated(node)
        path, qualifier = self._table(node, name)
        if path is None:
            return Scope([], is_whole=False)
        if path not in self._opened:
            self._opened[path] = self._context.lake.table_at(path).snapshot
        return Scope([_Table(qualifier, self._opened[path])])

    def _beside_generated(self, node: Node) -> Scope:
        """What a condition over a LATERAL VIEW sees: its columns are known where it names them."""
        inner = self.scope(node.child())
        made = [name_parts(each)[-1].lower() for each in listed(node.generatorOutput())]
        return Scope(inner.tables, inner.is_whole and bool(made), inner.columns.union(made))

    def _table(self, node: Node, name: str) -> tuple[str | None, str]:
        """The path of a table of ours and what a query calls it; None for another's."""
        if name == "UnresolvedRelation":
            parts = name_parts(node)
            if len(parts) == 1 and self._database is not None:
                parts = (self._database, *parts)
            found = self._context.names.find(parts)
            is_nameless = self._context.names.is_path(parts)
            return (None if found is None else found.path), "" if is_nameless else parts[-1]
        if name == "LogicalRelation" and kind(node.relation()) == TABLE_RELATION:
            return ReadSpec.parse(str(node.relation().spec())).path, ""
        return None, ""


def _groups_by_all(node: Node) -> bool:
    """Whether a query says GROUP BY ALL, which the parser takes for a name."""
    groups = listed(node.productElement(_GROUPS))
    return [tuple(map(str.upper, name_parts(each))) for each in groups] == [("ALL",)]


def _column(expression: Expr, qualifier: str) -> SparkColumn:
    """A bound expression as Spark has it, its columns named as in the query."""
    match expression:
        case Column(path):
            return sf.col(".".join(quoted(part) for part in (qualifier, *path) if part))
        case Literal(value):
            return sf.lit(value)
        case Cast(child, target):
            field = pa.schema([pa.field("c", target)])
            return _column(child, qualifier).cast(spark_schema(field)[0].dataType)
        case Call(name, arguments):
            return _called(canonical_name(name), [_column(each, qualifier) for each in arguments])
        case _:
            raise UnsupportedFeature("the expression of this index cannot stand in a query")


def _called(name: str, arguments: list[SparkColumn]) -> SparkColumn:
    if name == SPLIT_ITEM:
        text, pattern, place = arguments
        return sf.call_function("split", text, pattern)[place]
    if name in _TRIMS and len(arguments) > 1:
        # Spark has the characters first.
        arguments = arguments[::-1]
    return sf.call_function(quoted(name), *arguments)
