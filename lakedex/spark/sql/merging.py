"""MERGE INTO: Spark joins target and source, and the result is one commit.

For every joined row the first clause of its kind whose condition is true applies. Values of clauses
for rows without a partner are computed before the join, where only the columns of the one side have
names. Of several source rows that would update a target row, the one with the highest ordering
value does, as in Hudi; where none is highest, it is an error.

Conditions may name expression indexes. After ON and WHEN MATCHED a condition sees target and
source, after the other clauses the side of its rows. Columns take precedence, as in queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.sql.assigning import (
    Target,
    assigned_values,
    check_assignable,
    column_defaults,
    moves_rows,
    stored,
    with_moves,
)
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.copies import KEY, PARTITION, has_copies_of, identity_of, key_column
from lakedex.spark.sql.index_names import IndexNames, Scope
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.other_views import check_whole
from lakedex.spark.sql.plans import (
    Node,
    kind,
    listed,
    member,
    name_parts,
    optional,
    quoted,
    relation_under,
    with_parts,
)
from lakedex.write import operation as kinds
from lakedex.write.rows import DELETE

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


OLD, SOURCE = "__lakedex_old_", "__lakedex_source_"
"""What the columns of target and source are called in the join, with their number behind."""
_INSERTS = ("InsertAction", "InsertStarAction")


@dataclass(frozen=True)
class Clause:
    """A WHEN clause: which rows it takes, and the new values; None for rows to delete."""

    number: int
    group: str
    condition: Column | None
    values: dict[str, Column] | None


@dataclass(frozen=True)
class Clauses:
    """All clauses of a MERGE, by what a row has a partner in."""

    updates: list[Clause]
    inserts: list[Clause]
    leavers: list[Clause]

    @classmethod
    def of(
        cls, context: Context, statement: Statement, target: Target, source_columns: Sequence[str]
    ) -> Clauses:
        """The clauses of a statement."""
        sources: dict[str, str] = {}
        for at, name in enumerate(source_columns):
            sources[name.lower()] = "" if name.lower() in sources else f"{SOURCE}{at}"
        reader = _Reader(context, statement, target, sources)
        plan = statement.plan
        return cls(
            reader.clauses(plan.matchedActions(), "both", 0),
            reader.clauses(plan.notMatchedActions(), "source", 1000),
            reader.clauses(plan.notMatchedBySourceActions(), "target", 2000),
        )

    @property
    def all(self) -> list[Clause]:
        """All of them, in the order in which they are evaluated."""
        return [*self.updates, *self.inserts, *self.leavers]

    def join(self, *, keeps_all: bool) -> str:
        """How target and source are joined, so that all rows are there that a clause may take."""
        if self.inserts and (self.leavers or keeps_all):
            return "full_outer"
        if keeps_all:
            return "left_outer"
        return "right_outer" if self.inserts else "left_outer" if self.leavers else "inner"


@dataclass(frozen=True)
class _Reader:
    context: Context
    statement: Statement
    target: Target
    sources: Mapping[str, str]
    """The columns of the source by their names in small letters; nothing where two have one."""

    def clauses(self, actions: Node, group: str, offset: int) -> list[Clause]:
        found = []
        for at, action in enumerate(listed(actions)):
            condition = optional(action.condition())
            taken = None if condition is None else self.context.plans.column(condition)
            found.append(Clause(offset + at, group, taken, self._values(action)))
        return found

    def _values(self, action: Node) -> dict[str, Column] | None:
        name, columns = kind(action), self.target.columns
        if name == "DeleteAction":
            return None
        if name in ("UpdateStarAction", "InsertStarAction"):
            values = self._same_names()
        elif name in ("UpdateAction", "InsertAction"):
            old = {each: fn.col(f"{OLD}{at}") for at, each in enumerate(columns.names)}
            before = None if name in _INSERTS else old.__getitem__
            assignments = action.assignments()
            values = assigned_values(self.context, self.statement, assignments, self.target, before)
        else:
            raise UnsupportedFeature(f"MERGE with {name}")
        if name in _INSERTS:
            left_out = [each for each in self.target.defaults if each not in values]
            values |= {each: self.target.default(each) for each in left_out}
            keys = [each.partition(".")[0] for each in self.target.record_key]
            missing = [each for each in keys if each not in values]
            if missing:
                message = f"the INSERT gives no value for {missing[0]}, the table's record key,"
                raise self.statement.wrong(action, message)
        return values

    def _same_names(self) -> dict[str, Column]:
        """The columns of the source that the target has as well."""
        names = [each for each in self.target.columns.names if each.lower() in self.sources]
        if not names:
            raise InvalidInput("the source of the MERGE has no column of the target")
        for each in names:
            if not self.sources[each.lower()]:
                place = relation_under(self.statement.plan.sourceTable())
                raise self.statement.wrong(place, f"the source has several columns {each!r},")
        return {each: fn.col(self.sources[each.lower()]) for each in names}


def worked_out(side: DataFrame, clauses: list[Clause]) -> DataFrame:
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
        clauses[number] = Clause(clause.number, clause.group, condition, kept)
    return side.select("*", *extra) if extra else side


_NEW = "__lakedex_new_"
_IN_TARGET, _IN_SOURCE, _CLAUSE = "__lakedex_in_target", "__lakedex_in_source", "__lakedex_clause"
_ROW, _TIMES, _PLACE = "__lakedex_row", "__lakedex_times", "__lakedex_place"
_BY, _HIGHEST, _SOME_GO = "__lakedex_by", "__lakedex_highest", "__lakedex_some_go"
_IDENTITY = tuple(f"{OLD}meta_{at}" for at in range(len(META_COLUMNS)))
_SEVERAL = "MERGE: a row of the target is matched by several rows of the source"

_OTHER_KEY = "MERGE: an update gives a record another value of its record key"


@dataclass(frozen=True)
class _Joined:
    """Target and source, joined; `_CLAUSE` says what happens to a row."""

    rows: DataFrame
    clauses: list[Clause]
    changes_target: bool
    """Whether there are clauses for rows of the target."""


def merge(context: Context, statement: Statement) -> Prepared | None:
    """MERGE INTO; None where the target is not ours."""
    target = statement.plan.targetTable()
    named = context.names.find(name_parts(relation_under(target)))
    if named is None:
        return None
    check_whole(named, "MERGE INTO")
    if member(statement.plan, "withSchemaEvolution"):
        raise UnsupportedFeature("WITH SCHEMA EVOLUTION (ALTER TABLE ... ADD COLUMNS first)")
    return Prepared(
        partial(_merge, context, statement, named),
        title=f"MERGE INTO {named.shown}: the rows of this query are written as one commit",
        reads=partial(_considered, context, statement, named),
    )


def _target(context: Context, statement: Statement, named: NamedTable) -> Target:
    table = context.open(named)
    key = tuple(table.snapshot.config.record_key_fields)
    columns, defaults = own_columns(table), column_defaults(named)
    identity = tuple(identity_of(table.snapshot.config).values())
    return Target(statement.plan.targetTable(), columns, defaults, key, identity)


def _considered(context: Context, statement: Statement, named: NamedTable) -> DataFrame:
    """The rows of target and source that a clause takes."""
    return _joined(context, statement, _target(context, statement, named)).rows


def _merge(context: Context, statement: Statement, named: NamedTable) -> None:
    table = context.open(named)
    seen = table.writer().seen()
    target = _target(context, statement, named)
    columns, config = target.columns, table.snapshot.config
    joined = _joined(context, statement, target)
    in_target = joined.rows.filter(fn.col(_IN_TARGET).isNotNull() & fn.col(_CLAUSE).isNotNull())
    touched = in_target.select(
        fn.col(_IDENTITY[2]).alias(KEY), fn.col(_IDENTITY[3]).alias(PARTITION)
    )
    keeps_all = bool(joined.changes_target) and has_copies_of(table, touched)
    if keeps_all:
        joined = _joined(context, statement, target, keeps_all=True)
    ordering = table.snapshot.read_context.ordering_fields
    rows, assigned = _changes(context, joined, columns, ordering, keeps_all=keeps_all)
    if assigned & set(config.record_key_fields):
        rows = _with_kept_keys(rows, config.record_key_fields, columns)
    keys = {name: fn.col(name) for name in key_column(table)}
    if not keeps_all and moves_rows(table, sorted(assigned)):
        rows = with_moves(
            rows,
            config.partition_fields,
            keys | {name: fn.col(f"{OLD}{at}") for at, name in enumerate(columns.names)},
            keys | {name: fn.col(f"{_NEW}{at}") for at, name in enumerate(columns.names)},
            goes=fn.col(DELETE),
            is_update=fn.col(_IN_TARGET),
        )
    rows = rows.select(*keys, *[f"`{name}`" for name in columns.names], DELETE)
    operation = kinds.UPSERT
    if keeps_all:
        operation = kinds.INSERT_OVERWRITE_TABLE
        rows = rows.filter(~fn.col(DELETE)).drop(DELETE)
    try:
        table.writer(context.write_options(table)).run(operation, DataFrameSource(rows), seen=seen)
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
        old, new = fn.col(f"{OLD}{places[name]}"), fn.col(f"{_NEW}{places[name]}")
        differs = fn.col(_IN_TARGET) & ~fn.col(DELETE) & ~old.eqNullSafe(new)
        wrong = fn.raise_error(fn.lit(f"{_OTHER_KEY} {name}")).cast(columns[name].dataType)
        checked = fn.when(differs, wrong).otherwise(new)
        rows = rows.withColumn(f"{_NEW}{places[name]}", checked).withColumn(name, checked)
    return rows


def _joined(
    context: Context, statement: Statement, into: Target, *, keeps_all: bool = False
) -> _Joined:
    """Target and source side by side, with the clause for each row.

    Args:
        context: The session.
        statement: The MERGE.
        into: Its target.
        keeps_all: Whether rows of the target stay that no clause changes.
    """
    plans = context.plans
    source = plans.rows(statement.scope(statement.plan.sourceTable()))
    statement = merge_with_index_names(context, statement, source.columns)
    plan = statement.plan
    target = plans.rows(plan.targetTable())
    clauses = Clauses.of(context, statement, into, source.columns)
    if not clauses.all:
        raise InvalidDefinition("a MERGE needs at least one WHEN clause")
    names = into.columns.names
    # Texts, as each column that is made here costs dozens of calls into the JVM.
    old = [f"{quoted(name)} AS {OLD}{at}" for at, name in enumerate(names)]
    meta = [f"{text} AS {each}" for text, each in zip(into.identity, _IDENTITY, strict=True)]
    target = target.selectExpr("*", *old, *meta, f"true AS {_IN_TARGET}")
    target = worked_out(target, clauses.leavers)
    # A name that two columns have cannot be resolved; only a clause that needs it is wrong.
    times = Counter(name.lower() for name in source.columns)
    copies = [
        f"{quoted(name)} AS {SOURCE}{at}"
        for at, name in enumerate(source.columns)
        if times[name.lower()] == 1
    ]
    source = source.selectExpr("*", *copies, f"true AS {_IN_SOURCE}")
    source = worked_out(source, clauses.inserts)
    how = clauses.join(keeps_all=keeps_all)
    joined = target.join(source, plans.column(plan.mergeCondition()), how)
    groups = {
        "both": fn.expr(f"{_IN_TARGET} IS NOT NULL AND {_IN_SOURCE} IS NOT NULL"),
        "source": fn.expr(f"{_IN_TARGET} IS NULL"),
        "target": fn.expr(f"{_IN_SOURCE} IS NULL"),
    }
    chosen = fn.expr("cast(null AS int)")
    for clause in reversed(clauses.all):
        takes = groups[clause.group]
        if clause.condition is not None:
            takes = takes & clause.condition
        chosen = fn.when(takes, fn.lit(clause.number)).otherwise(chosen)
    joined = joined.withColumn(_CLAUSE, chosen)
    kept = f" OR {_IN_TARGET} IS NOT NULL" if keeps_all else ""
    joined = joined.filter(f"{_CLAUSE} IS NOT NULL{kept}")
    changes_target = bool(clauses.updates or clauses.leavers)
    return _Joined(joined, clauses.all, changes_target=changes_target)


def _changes(
    context: Context,
    merged: _Joined,
    columns: StructType,
    ordering: Sequence[str],
    *,
    keeps_all: bool,
) -> tuple[DataFrame, set[str]]:
    """The rows to write, old values beside the new ones, and the columns that updates assign."""
    joined, clauses = merged.rows, merged.clauses
    found = _new_values(context, joined, clauses, columns)
    news = [value.alias(f"{_NEW}{at}") for at, value in enumerate(found)]
    deletes = [clause.number for clause in clauses if clause.values is None]
    is_deleted = f"{_CLAUSE} IN ({', '.join(map(str, deletes))})" if deletes else "false"
    if merged.changes_target:
        joined = _with_rows_of_targets(joined)
        if ordering:
            by_name = dict(zip(columns.names, found, strict=True))
            joined = _highest_only(joined, [_part(by_name, each) for each in ordering], is_deleted)
        joined = _checked_once(joined, keeps_all=keeps_all)
    mark = fn.expr(f"coalesce({is_deleted}, false) AS {DELETE}")
    olds = [f"{OLD}{at}" for at in range(len(columns.names))]
    is_update = fn.expr(f"{_IN_TARGET} IS NOT NULL AS {_IN_TARGET}")
    key = fn.expr(f"{_IDENTITY[2]} AS {KEY}")
    rows = joined.select(key, *news, *olds, mark, is_update)
    named = [f"{_NEW}{at} AS {quoted(name)}" for at, name in enumerate(columns.names)]
    rows = rows.selectExpr("*", *named)
    changing = [clause for clause in clauses if clause.group != "source"]
    return rows, {name for each in changing for name in each.values or ()}


def _part(columns: Mapping[str, Column], name: str) -> Column:
    """A column, or a field of one such as `event.at`."""
    top, *fields = name.split(".")
    return reduce(lambda value, each: value[each], fields, columns[top])


def _with_rows_of_targets(joined: DataFrame) -> DataFrame:
    """With a name in `_ROW` for the target row that a joined row would change."""
    parts = ", ".join(f"coalesce({name}, '')" for name in _IDENTITY)
    is_lonely = f"{_IN_TARGET} IS NULL OR {_IN_SOURCE} IS NULL"
    lonely = "cast(monotonically_increasing_id() AS string)"
    return joined.selectExpr(
        "*", f"CASE WHEN {is_lonely} THEN {lonely} ELSE concat_ws(chr(1), {parts}) END AS {_ROW}"
    )


def _highest_only(joined: DataFrame, ordering: list[Column], is_deleted: str) -> DataFrame:
    """Of several updates of a target row the one with the highest ordering value, as in Hudi.

    Updates that are equal in that, and rows that one would delete, stay for `_checked_once`.
    """
    joined = joined.withColumn(_BY, fn.struct(*ordering))
    among = f"OVER (PARTITION BY {_ROW})"
    joined = joined.selectExpr(
        "*",
        f"max(CASE WHEN {_CLAUSE} IS NOT NULL THEN {_BY} END) {among} AS {_HIGHEST}",
        f"coalesce(bool_or({is_deleted}) {among}, false) AS {_SOME_GO}",
    )
    return joined.filter(f"{_CLAUSE} IS NULL OR {_SOME_GO} OR {_BY} <=> {_HIGHEST}")


def _checked_once(joined: DataFrame, *, keeps_all: bool) -> DataFrame:
    """Rows that fail the statement where a target row is to be changed twice."""
    joined = joined.selectExpr("*", f"count({_CLAUSE}) OVER (PARTITION BY {_ROW}) AS {_TIMES}")
    if keeps_all:
        # Of several partners at most one changes the row, and the row stays once.
        first = f"PARTITION BY {_ROW} ORDER BY {_CLAUSE} ASC NULLS LAST"
        joined = joined.selectExpr("*", f"row_number() OVER ({first}) AS {_PLACE}")
        joined = joined.filter(f"{_PLACE} = 1 OR {_TIMES} > 1")
    wrong = fn.raise_error(fn.lit(_SEVERAL)).cast("int")
    return joined.withColumn(_CLAUSE, fn.when(fn.col(_TIMES) > 1, wrong).otherwise(fn.col(_CLAUSE)))


def _new_values(
    context: Context, joined: DataFrame, clauses: Sequence[Clause], columns: StructType
) -> list[Column]:
    """The columns after the MERGE: by the clause of the row, else as they were."""
    given = [
        (clause.number, at, clause.values[field.name])
        for clause in clauses
        for at, field in enumerate(columns)
        if clause.values and field.name in clause.values
    ]
    # Spark resolves a plan as a whole, so one plan has all types.
    named = [value.alias(f"value_{number}") for number, (_, _, value) in enumerate(given)]
    types = [field.dataType for field in joined.select(*named).schema] if named else []
    news = [fn.col(f"{OLD}{at}") for at in range(len(columns.names))]
    is_for = {clause.number: fn.expr(f"{_CLAUSE} = {clause.number}") for clause in clauses}
    for (clause, at, value), kind_of in zip(given, types, strict=True):
        fitted, field = value, columns.fields[at]
        if kind_of != field.dataType:
            check_assignable(context.plans, kind_of, field)
            fitted = stored(context.plans, value, field.dataType)
        news[at] = fn.when(is_for[clause], fitted).otherwise(news[at])
    return news
