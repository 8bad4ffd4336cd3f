"""CREATE TABLE ... LIKE: columns, partitions, key and type of another table, none of its rows."""

from __future__ import annotations

from functools import partial

from lakedex.config import keys
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.creating import run_create
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, name_parts, optional

_KEPT = (
    keys.RECORD_KEY_FIELDS,
    *keys.ORDERING_FIELD_NAMES,
    keys.TABLE_TYPE,
    keys.HIVE_STYLE_PARTITIONING,
)


def create_like(context: Context, statement: Statement) -> Prepared | None:
    """CREATE TABLE ... LIKE; None where the new table is another's."""
    plan = statement.plan
    if kind(plan) == "CreateTableLike":
        source, target = name_parts(plan.source()), name_parts(plan.name())
    else:
        source, target = _parts(plan.sourceTable()), _parts(plan.targetTable())
    provider, named = optional(plan.provider()), context.names.find(source)
    is_own = named is not None if provider is None else context.names.is_own(str(provider))
    if not is_own:
        return None
    return Prepared(partial(_create, context, plan, target, named))


def _create(
    context: Context, plan: Node, target: tuple[str, ...], named: NamedTable | None
) -> None:
    known = {} if named is None else context.open(named).snapshot.config.raw
    run_create(context, plan, target, {name: known[name] for name in _KEPT if name in known})


def _parts(identifier: Node) -> tuple[str, ...]:
    database = optional(identifier.database())
    table = str(identifier.table())
    return (table,) if database is None else (str(database), table)
