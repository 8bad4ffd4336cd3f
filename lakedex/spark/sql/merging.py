"""MERGE INTO: target and source are joined by Spark, and the outcome is one commit.

For every joined row the first clause of its kind whose condition is true says what happens. What
the clauses for rows without a partner say is worked out before the join, where only the columns of
the one side have names. A target row that several source rows would change is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.sql.assigning import check_storable, stored
from lakedex.spark.sql.changing import moves_rows
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.copies import KEY, PARTITION, has_copies
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import Node, kind, listed, member, name_parts, optional, relation_under
from lakedex.spark.sql.targets import assigned_values
from lakedex.write import operation as kinds
from lakedex.write.rows import DELETE

_OLD, _SOURCE, _NEW = "__lakedex_old_", "__lakedex_source_", "__lakedex_new_"
_IN_TARGET, _IN_SOURCE, _CLAUSE = "__lakedex_in_target", "__lakedex_in_source", "__lakedex_clause"
_ROW, _TIMES, _PLACE = "__lakedex_row", "__lakedex_times", "__lakedex_place"
_IDENTITY = tuple(f"{_OLD}meta_{at}" for at in range(len(META_COLUMNS)))
_SEVERAL = "MERGE: a row of the target is matched by several rows of the source"

_OTHER_KEY = "MERGE: an update gives a record another value of its record key"


@dataclass(frozen=True)
class _Clause:
    """A WHEN clause: which rows it takes, and the new values; None for rows to delete."""

    number: int
    group: str
    condition: Column | None
    values: dict[str, Column] | None


@dataclass(frozen=True)
class _Joined:
    """Target and source, joined; `_CLAUSE` says what happens to a row."""

    rows: DataFrame
    clauses: list[_Clause]
    changes_target: bool
    """Whether there are clauses for rows of the target."""


def merge(context: Context, statement: Statement) -> Prepared | None:
    """MERGE INTO; None where the target is not ours."""
    target = statement.plan.targetTable()
    named = context.names.find(name_parts(relation_under(target)))
    if named is None:
        return None
    if member(statement.plan, "withSchemaEvolution"):
        raise UnsupportedFeature("WITH SCHEMA EVOLUTION (ALTER TABLE ... ADD COLUMNS first)")
    return Prepared(
        partial(_merge, context, statement, named),
        title=f"MERGE INTO {named.shown}: the rows of this query are written as one commit",
        reads=partial(_considered, context, statement, named),
    )


def _considered(context: Context, statement: Statement, named: NamedTable) -> DataFrame:
    """The rows of target and source that a clause takes."""
    return _joined(context, statement, own_columns(context.open(named))).rows


def _merge(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    seen = table.writer().seen()
    joined = _joined(context, statement, own_columns(table))
    config = table.snapshot.config
    in_target = joined.rows.filter(fn.col(_IN_TARGET).isNotNull() & fn.col(_CLAUSE).isNotNull())
    touched = in_target.select(
        fn.col(_IDENTITY[2]).alias(KEY), fn.col(_IDENTITY[3]).alias(PARTITION)
    )
    keeps_all = bool(joined.changes_target) and has_copies(table, touched)
    if keeps_all:
        joined = _joined(context, statement, own_columns(table), keeps_all=True)
    rows, assigned = _changes(context, joined, own_columns(table), keeps_all=keeps_all)
    if assigned & set(config.record_key_fields):
        rows = _with_kept_keys(rows, config.record_key_fields, own_columns(table))
    if not keeps_all and moves_rows(table, sorted(assigned)):
        rows = _with_moves(rows, config.partition_fields, own_columns(table))
    rows = rows.select(*[f"`{name}`" for name in own_columns(table).names], DELETE)
    operation = kinds.UPSERT
    if keeps_all:
        operation = kinds.INSERT_OVERWRITE_TABLE
        rows = rows.filter(~fn.col(DELETE)).drop(DELETE)
    try:
        table.writer(context.write_options()).run(operation, DataFrameSource(rows), seen=seen)
    except Exception as error:
        for message in (_SEVERAL, _OTHER_KEY):
            if message in str(error):
                raise InvalidInput(f"{message}; nothing was changed") from error
        raise
    context.refresh(named)


def _with_kept_keys(rows: DataFrame, key_fields: Sequence[str], columns: StructType) -> DataFrame:
    """Rows that fail the statement where an update would make a record another one."""
    places = {name: at for at, name in enumerate(columns.names)}
    for name in key_fields:
        if name not in places:
            continue
        old, new = fn.col(f"{_OLD}{places[name]}"), fn.col(f"{_NEW}{places[name]}")
        differs = fn.col(_IN_TARGET) & ~fn.col(DELETE) & ~old.eqNullSafe(new)
        wrong = fn.raise_error(fn.lit(f"{_OTHER_KEY} {name}")).cast(columns[name].dataType)
        checked = fn.when(differs, wrong).otherwise(new)
        rows = rows.withColumn(f"{_NEW}{places[name]}", checked).withColumn(name, checked)
    return rows


def _joined(
    context: Context, statement: Statement, columns: StructType, *, keeps_all: bool = False
) -> _Joined:
    """Target and source side by side, with the clause for each row.

    Args:
        context: The session.
        statement: The MERGE.
        columns: The target's own columns.
        keeps_all: Whether rows of the target stay that no clause changes.
    """
    plan, plans = statement.plan, context.plans
    target = plans.rows(plan.targetTable())
    source = plans.rows(statement.scope(plan.sourceTable()))
    sources = {name.lower(): f"{_SOURCE}{at}" for at, name in enumerate(source.columns)}
    inserts = _clauses(context, statement, plan.notMatchedActions(), "source", columns, sources)
    leavers = _clauses(
        context, statement, plan.notMatchedBySourceActions(), "target", columns, sources
    )
    updates = _clauses(context, statement, plan.matchedActions(), "both", columns, sources)
    old = [fn.col(f"`{name}`").alias(f"{_OLD}{at}") for at, name in enumerate(columns.names)]
    meta = [fn.col(name).alias(f"{_OLD}meta_{at}") for at, name in enumerate(META_COLUMNS)]
    target = target.select("*", *old, *meta, fn.expr("true").alias(_IN_TARGET))
    target = _worked_out(target, leavers)
    copies = [
        fn.col("`" + name.replace("`", "``") + "`").alias(f"{_SOURCE}{at}")
        for at, name in enumerate(source.columns)
    ]
    source = source.select("*", *copies, fn.expr("true").alias(_IN_SOURCE))
    source = _worked_out(source, inserts)
    how = _join(inserts, leavers, keeps_all=keeps_all)
    joined = target.join(source, plans.column(plan.mergeCondition()), how)
    clauses = [*updates, *inserts, *leavers]
    if not clauses:
        raise InvalidDefinition("a MERGE needs at least one WHEN clause")
    groups = {
        "both": fn.col(_IN_TARGET).isNotNull() & fn.col(_IN_SOURCE).isNotNull(),
        "source": fn.col(_IN_TARGET).isNull(),
        "target": fn.col(_IN_SOURCE).isNull(),
    }
    chosen = fn.lit(None).cast("int")
    for clause in reversed(clauses):
        takes = groups[clause.group]
        if clause.condition is not None:
            takes = takes & clause.condition
        chosen = fn.when(takes, fn.lit(clause.number)).otherwise(chosen)
    joined = joined.withColumn(_CLAUSE, chosen)
    counts = fn.col(_CLAUSE).isNotNull()
    joined = joined.filter(counts | fn.col(_IN_TARGET).isNotNull() if keeps_all else counts)
    return _Joined(joined, clauses, changes_target=bool(updates or leavers))


def _changes(
    context: Context, merged: _Joined, columns: StructType, *, keeps_all: bool
) -> tuple[DataFrame, set[str]]:
    """The rows to write, old values beside the new ones, and the columns that updates assign."""
    joined, clauses = merged.rows, merged.clauses
    if merged.changes_target:
        joined = _checked_once(joined, keeps_all=keeps_all)
    news = [
        _new_value(context, joined, clauses, columns, at).alias(f"{_NEW}{at}")
        for at in range(len(columns.names))
    ]
    deletes = [clause.number for clause in clauses if clause.values is None]
    mark = fn.col(_CLAUSE).isin(deletes) if deletes else fn.expr("false")
    olds = [fn.col(f"{_OLD}{at}") for at in range(len(columns.names))]
    is_update = fn.col(_IN_TARGET).isNotNull()
    mark = fn.coalesce(mark, fn.expr("false"))
    rows = joined.select(*news, *olds, mark.alias(DELETE), is_update.alias(_IN_TARGET))
    for at, field in enumerate(columns):
        rows = rows.withColumn(field.name, fn.col(f"{_NEW}{at}"))
    changing = [clause for clause in clauses if clause.group != "source"]
    return rows, {name for each in changing for name in each.values or ()}


def _clauses(
    context: Context,
    statement: Statement,
    actions: Node,
    group: str,
    columns: StructType,
    sources: dict[str, str],
) -> list[_Clause]:
    offset = {"both": 0, "source": 1000, "target": 2000}[group]
    found = []
    for at, action in enumerate(listed(actions)):
        condition = optional(action.condition())
        found.append(
            _Clause(
                offset + at,
                group,
                None if condition is None else context.plans.column(condition),
                _values(context, statement, action, columns, sources),
            )
        )
    return found


def _values(
    context: Context,
    statement: Statement,
    action: Node,
    columns: StructType,
    sources: dict[str, str],
) -> dict[str, Column] | None:
    name = kind(action)
    if name == "DeleteAction":
        return None
    if name in ("UpdateStarAction", "InsertStarAction"):
        missing = [each for each in columns.names if each.lower() not in sources]
        if len(missing) == len(columns.names):
            raise InvalidInput("the source of the MERGE has no column of the target")
        return {
            each: fn.col(sources[each.lower()]) for each in columns.names if each.lower() in sources
        }
    if name not in ("UpdateAction", "InsertAction"):
        raise UnsupportedFeature(f"MERGE with {name}")
    target = statement.plan.targetTable()
    old = {each: fn.col(f"{_OLD}{at}") for at, each in enumerate(columns.names)}
    before = None if name == "InsertAction" else old.__getitem__
    return assigned_values(context, statement, action.assignments(), target, columns, before)


def _worked_out(side: DataFrame, clauses: list[_Clause]) -> DataFrame:
    """One side of the join with what the clauses for its lonely rows say."""
    extra = []
    for number, clause in enumerate(clauses):
        values = {}
        for at, (name, value) in enumerate((clause.values or {}).items()):
            alias = f"__lakedex_{clause.number}_{at}"
            extra.append(value.alias(alias))
            values[name] = fn.col(alias)
        condition = clause.condition
        if condition is not None:
            alias = f"__lakedex_{clause.number}_if"
            extra.append(condition.alias(alias))
            condition = fn.col(alias)
        kept = None if clause.values is None else values
        clauses[number] = _Clause(clause.number, clause.group, condition, kept)
    return side.select("*", *extra) if extra else side


def _join(inserts: Sequence[_Clause], leavers: Sequence[_Clause], *, keeps_all: bool) -> str:
    if inserts and (leavers or keeps_all):
        return "full_outer"
    if keeps_all:
        return "left_outer"
    return "right_outer" if inserts else "left_outer" if leavers else "inner"


def _checked_once(joined: DataFrame, *, keeps_all: bool) -> DataFrame:
    """Rows that fail the statement where a target row is to be changed twice."""
    parts = [fn.coalesce(fn.col(f"`{name}`"), fn.lit("")) for name in _IDENTITY]
    lonely = fn.monotonically_increasing_id().cast("string")
    identity = fn.when(fn.col(_IN_TARGET).isNull() | fn.col(_IN_SOURCE).isNull(), lonely)
    joined = joined.withColumn(_ROW, identity.otherwise(fn.concat_ws("\x01", *parts)))
    copies = Window.partitionBy(_ROW)
    joined = joined.withColumn(_TIMES, fn.count(fn.col(_CLAUSE)).over(copies))
    if keeps_all:
        # Of several partners at most one changes the row, and the row stays once.
        first = copies.orderBy(fn.col(_CLAUSE).asc_nulls_last())
        joined = joined.withColumn(_PLACE, fn.row_number().over(first))
        several = fn.col(_TIMES) > 1
        joined = joined.filter((fn.col(_PLACE) == 1) | several)
    wrong = fn.raise_error(fn.lit(_SEVERAL)).cast("int")
    return joined.withColumn(_CLAUSE, fn.when(fn.col(_TIMES) > 1, wrong).otherwise(fn.col(_CLAUSE)))


def _new_value(
    context: Context, joined: DataFrame, clauses: Sequence[_Clause], columns: StructType, at: int
) -> Column:
    """A column after the MERGE: by the clause of the row, else as it was."""
    field = columns.fields[at]
    value = fn.col(f"{_OLD}{at}")
    for clause in clauses:
        given = (clause.values or {}).get(field.name)
        if given is None:
            continue
        fitted = given
        kind_of = joined.select(given.alias("value")).schema[0].dataType
        if kind_of != field.dataType:
            check_storable(context.plans, kind_of, field)
            fitted = stored(context.plans, given, field.dataType)
        value = fn.when(fn.col(_CLAUSE) == clause.number, fitted).otherwise(value)
    return value


def _with_moves(rows: DataFrame, partition_fields: Sequence[str], columns: StructType) -> DataFrame:
    """Updates to another partition as the new row, and the old one marked to go away."""
    places = {name: at for at, name in enumerate(columns.names)}
    differs = [
        ~fn.col(f"{_OLD}{places[name]}").eqNullSafe(fn.col(f"{_NEW}{places[name]}"))
        for name in partition_fields
    ]
    moves = reduce(lambda left, right: left | right, differs)
    moves = moves & fn.col(_IN_TARGET) & ~fn.col(DELETE)
    new = [fn.col(f"{_NEW}{at}").alias(name) for name, at in places.items()]
    old = [fn.col(f"{_OLD}{at}").alias(name) for name, at in places.items()]
    kept = fn.struct(*new, fn.col(DELETE).alias(DELETE))
    gone = fn.struct(*old, fn.expr("true").alias(DELETE))
    pairs = fn.when(moves, fn.array(kept, gone)).otherwise(fn.array(kept))
    return rows.select(fn.explode(pairs).alias("row")).select("row.*")
