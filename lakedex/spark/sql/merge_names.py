"""Names of expression indexes in the conditions of a MERGE, in the place of their expressions.

Behind ON and WHEN MATCHED a condition sees target and source, behind the other clauses the one
that its rows are of. Columns come first, as in queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakedex.spark.sql.context import Context, Statement
from lakedex.spark.sql.index_names import IndexNames, Scope
from lakedex.spark.sql.plans import Node, listed, optional, with_parts

_CONDITION, _MATCHED, _NOT_MATCHED, _NOT_BY_SOURCE = 2, 3, 4, 5
"""The places of a MERGE's parts."""
_CONDITION_OF_ACTION = 0


def merge_with_index_names(
    context: Context, statement: Statement, source_columns: Sequence[str]
) -> Statement:
    """The MERGE with expressions in its conditions; the very same where no index is named."""
    plan, names = statement.plan, IndexNames(context)
    target, source = names.scope(plan.targetTable()), names.scope(plan.sourceTable())
    tables = [*target.tables, *source.tables]
    known = {name for table in tables for name in table.snapshot.expression_names}
    # A walk over the plan costs a call into the JVM for each of its nodes.
    text = statement.text.lower()
    if not any(name in text for name in known) and (text.strip() or not known):
        return statement
    columns = frozenset(each.lower() for each in source_columns)
    source = Scope(source.tables, columns=columns)
    both = Scope(tables, columns=columns)
    condition = plan.mergeCondition()
    understood = names.expression(condition, both)
    changed = {} if understood is condition else {_CONDITION: understood}
    for place, scope in ((_MATCHED, both), (_NOT_MATCHED, source), (_NOT_BY_SOURCE, target)):
        clauses = _clauses(context, names, plan.productElement(place), scope)
        changed |= {} if clauses is None else {place: clauses}
    return replace(statement, plan=with_parts(plan, changed)) if changed else statement


def _clauses(context: Context, names: IndexNames, actions: Node, scope: Scope) -> Node | None:
    """Clauses whose conditions are understood; None where they name no index."""
    found, some = [], context.spark.sparkContext._jvm.scala.Some
    is_changed = False
    for action in listed(actions):
        condition = optional(action.condition())
        understood = None if condition is None else names.expression(condition, scope)
        if understood is condition:
            found.append(action)
        else:
            is_changed = True
            found.append(with_parts(action, {_CONDITION_OF_ACTION: some(understood)}))
    return context.plans.sequence(found).toIndexedSeq() if is_changed else None
