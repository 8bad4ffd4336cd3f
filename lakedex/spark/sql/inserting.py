"""INSERT INTO and INSERT OVERWRITE, by position and by name, with and without partitions.

The session, else the table, determines which of Hudi's operations an INSERT INTO is.

The hint `/*+ ORDER BY idx_day */` of INSERT ... SELECT determines the layout of the new rows.
Spark's lexer knows the hint by its tokens, and its parser takes each word for a hint of its own:

    UnresolvedHint ORDER -> UnresolvedHint BY -> UnresolvedHint idx_day -> the query

Spark only warns of an unknown hint, so these are removed from the query. Only the SELECT whose rows
are written is considered, not what it reads from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField

from lakedex.config.option_check import Use
from lakedex.config.write_option_names import (
    BULK_SORT_COLUMNS,
    INSERT_DUPLICATES,
    OVERWRITE_MODE,
    WRITE_SORT_COLUMNS,
)
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.keys.partition_path import DEFAULT_PARTITION
from lakedex.spark.read_spec import hudi_options
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.saving import (
    is_dynamic_mode,
    run_operation,
    without_meta_columns,
    without_updates,
)
from lakedex.spark.sql.assigning import assigned, column_defaults, default_of, with_default_values
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.partitions import matching_partitions
from lakedex.spark.sql.plans import (
    Node,
    Plans,
    kind,
    listed,
    mapped,
    member,
    name_options,
    name_parts,
    optional,
    relation_under,
)
from lakedex.spark.table import SparkTable
from lakedex.write import operation as kinds

WRITE_OPERATION = "hoodie.datasource.write.operation"
INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
_INSERT_MODE = "hoodie.sql.insert.mode"
_BULK_INSERT = "hoodie.sql.bulk.insert.enable"
SETTINGS = (WRITE_OPERATION, INSERT_OPERATION, _INSERT_MODE, _BULK_INSERT)
_OPERATIONS = ("insert", "upsert", "bulk_insert")


def insert_operation(
    current: Mapping[str, str], kept: Mapping[str, str], *, has_key: bool
) -> tuple[str, dict[str, str]]:
    """What an INSERT INTO does, and the write options that belong to it.

    As in Hudi the operation of any write goes before that of INSERT, and that before the insert
    mode of earlier releases, which counts where it is all that was said.

    Args:
        current: Settings of the session, or options of a writer.
        kept: Properties of the table.
        has_key: Whether the table has a record key.

    Example:
        >>> insert_operation({"hoodie.sql.insert.mode": "upsert"}, {}, has_key=True)
        ('upsert', {})
        >>> insert_operation({"hoodie.sql.insert.mode": "strict"}, {}, has_key=True)
        ('insert', {'hoodie.datasource.insert.dup.policy': 'fail'})
        >>> insert_operation({}, {}, has_key=True)
        ('insert', {})

    Raises:
        InvalidInput: A setting has a value that is not for INSERT.
    """
    for settings in (current, kept):
        for name in (WRITE_OPERATION, INSERT_OPERATION):
            value = settings.get(name)
            if not value:
                continue
            # A table that a DataFrame made keeps the operation of that write, whatever it was.
            if settings is current or name != WRITE_OPERATION or value.lower() in _OPERATIONS:
                return _checked(name, value, _OPERATIONS), {}
    both = {**kept, **current}
    modes = ("upsert", "strict", "non-strict")
    mode = _checked(_INSERT_MODE, both.get(_INSERT_MODE, "non-strict"), modes)
    is_bulk = str(both.get(_BULK_INSERT, "")).lower() == "true"
    if not has_key or mode == "non-strict":
        return "bulk_insert" if is_bulk else "insert", {}
    if is_bulk:
        raise InvalidInput(
            f"{_BULK_INSERT}=true does not look keys up, as {_INSERT_MODE}={mode} does for a table "
            f"with a key; set {_INSERT_MODE}=non-strict, or {INSERT_OPERATION} alone"
        )
    return ("upsert", {}) if mode == "upsert" else ("insert", {INSERT_DUPLICATES.name: "fail"})


def _checked(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value.lower() not in choices:
        raise InvalidInput(f"of an INSERT {name} is one of {', '.join(choices)}, not {value!r}")
    return value.lower()


_HINT: Final = "UnresolvedHint"
_WORDS: Final = ("ORDER", "BY")
_ABOVE_A_SELECT: Final = (
    "UnresolvedWith",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Sort",
    "RepartitionByExpression",
    "WithWindowDefinition",
)
"""What stands above the hints of a SELECT: its ORDER BY, its LIMIT and their like."""


def take_order_hint(plans: Plans, query: Node) -> tuple[dict[str, str], Node]:
    """The write options that the hint of a query stands for, and the query without it."""
    names, rest = _taken(plans, query)
    if not names:
        return {}, query
    listed_names = ",".join(names)
    return {WRITE_SORT_COLUMNS.name: listed_names, BULK_SORT_COLUMNS.name: listed_names}, rest


def _taken(plans: Plans, query: Node) -> tuple[list[str], Node]:
    if kind(query) in _ABOVE_A_SELECT:
        names, child = _taken(plans, query.child())
        return names, plans.with_child(query, child) if names else query
    hints: list[Node] = []
    below = query
    while kind(below) == _HINT:
        hints.append(below)
        below = below.child()
    pairs = list(pairwise(str(hint.name()).upper() for hint in hints))
    if _WORDS not in pairs:
        return [], query
    at = pairs.index(_WORDS)
    names, end = _names(hints, at + 2)
    for hint in reversed(hints[:at] + hints[end:]):
        below = plans.with_child(hint, below)
    return names, below


def _names(hints: list[Node], start: int) -> tuple[list[str], int]:
    """The names after the two words, and the place of the first hint that is another one."""
    inside = listed(hints[start - 1].parameters())
    if inside:
        return [_name(each) for each in inside], start
    end = start
    while end < len(hints) and not listed(hints[end].parameters()):
        end += 1
    if end == start:
        raise InvalidInput("the hint ORDER BY names nothing to lay rows out by")
    return [str(hint.name()) for hint in hints[start:end]], end


def _name(expression: Node) -> str:
    parts = name_parts(expression)
    if len(parts) != 1:
        raise InvalidInput(
            f"the hint ORDER BY names columns and expression indexes, not {expression.sql()}"
        )
    return parts[0]


_SESSION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class Overwritten(Enum):
    """What an INSERT OVERWRITE takes away beside the partitions of its rows."""

    TABLE = "all partitions"
    NAMED = "the partitions with the static values of PARTITION (...)"
    NOTHING = "nothing: only the partitions of the rows are overwritten"


_BY_OPERATION = {
    "insert_overwrite": Overwritten.NOTHING,
    "insert_overwrite_table": Overwritten.TABLE,
}


@dataclass(frozen=True)
class InsertSpec:
    """What an INSERT says beside its rows."""

    columns: tuple[str, ...] = ()
    partition: dict[str, str | None] = field(default_factory=dict)
    by_name: bool = False
    is_text: bool = False
    """Whether it is a SQL text, whose columns may find their places by their names."""
    overwrite: bool = False
    dynamic: bool | None = None
    """Whether only the partitions of the rows are overwritten; None: as the session says."""
    options: dict[str, str] = field(default_factory=dict)


def insert(context: Context, statement: Statement) -> Prepared | None:
    """INSERT; None where the table is not ours."""
    plan = statement.plan
    named = context.names.find(name_parts(relation_under(plan.table())))
    if named is None:
        return None
    if replace_criterion(plan) is not None:
        raise UnsupportedFeature("INSERT ... REPLACE (other than REPLACE WHERE)")
    order, query = take_order_hint(context.plans, plan.query())
    return prepared_insert(context, named, statement.scope(query), wanted_of(plan, order))


def insert_several(context: Context, statement: Statement) -> Prepared | None:
    """FROM ... INSERT ... INSERT ...: one commit each; None where no target is ours."""
    parts = listed(statement.plan.children())
    if any(kind(each) != "InsertIntoStatement" for each in parts):
        return None
    found = [insert(context, replace(statement, plan=each)) for each in parts]
    own = [each for each in found if each is not None]
    if not own:
        return None
    if len(own) < len(found):
        raise UnsupportedFeature("FROM ... INSERT into Hudi tables and others in one statement")

    def run() -> None:
        for each in own:
            each.run()

    return Prepared(run, title="\n".join(each.title for each in own))


def prepared_insert(
    context: Context, named: NamedTable, query: Node, wanted: InsertSpec
) -> Prepared:
    """The INSERT of a query's rows into a table."""
    verb = "INSERT OVERWRITE" if wanted.overwrite else "INSERT INTO"
    return Prepared(
        partial(_insert, context, named, query, wanted),
        title=f"{verb} {named.shown}: the rows of this query are written as one commit",
        reads=partial(context.plans.rows, query),
    )


def replace_criterion(plan: Node) -> Node | None:
    """What an INSERT says behind REPLACE, as the plans of Spark 4.2 and later hold it."""
    replaced = member(plan, "replaceCriteriaOpt")
    return None if replaced is None else optional(replaced)


def wanted_of(plan: Node, options: dict[str, str]) -> InsertSpec:
    """What an INSERT says beside its rows and their order."""
    if plan.ifPartitionNotExists():
        raise UnsupportedFeature("INSERT ... IF NOT EXISTS")
    if member(plan, "withSchemaEvolution"):
        raise UnsupportedFeature("WITH SCHEMA EVOLUTION (ALTER TABLE ... ADD COLUMNS first)")
    given = hudi_options(name_options(relation_under(plan.table())), Use.WRITE)
    return InsertSpec(
        columns=tuple(map(str, listed(plan.userSpecifiedCols()))),
        partition={name: _told(each) for name, each in mapped(plan.partitionSpec()).items()},
        by_name=bool(plan.byName()),
        is_text=optional(plan.origin().sqlText()) is not None,
        overwrite=bool(plan.overwrite()),
        options={**given, **options},
    )


def _told(value: Node) -> str | None:
    """What PARTITION (...) says of a column; None where the rows say it."""
    if not value.isDefined():
        return None
    return DEFAULT_PARTITION if value.get() is None else str(value.get())


def _insert(context: Context, named: NamedTable, query: Node, wanted: InsertSpec) -> None:
    table = context.open(named)
    seen = table.writer().seen()
    rows = aligned(context, named, table, wanted, query)
    options = {**context.write_options(table), **wanted.options}
    if wanted.overwrite:
        writer, source = table.writer(options), DataFrameSource(rows)
        overwritten = _overwritten(context, named, table, wanted)
        if overwritten is Overwritten.TABLE:
            writer.run(kinds.INSERT_OVERWRITE_TABLE, source, seen=seen)
        else:
            paths: list[str] = []
            if overwritten is Overwritten.NAMED:
                paths = matching_partitions(table, _static_values(wanted))
            writer.run(kinds.INSERT_OVERWRITE, source, partitions=paths, seen=seen)
    else:
        operation, more = _operation(context, named, table, wanted.options)
        options |= more
        operation, more = without_updates(operation, options, table.properties)
        run_operation(table, operation, rows, {**options, **more})
    context.refresh(named)


def _operation(
    context: Context, named: NamedTable, table: SparkTable, options: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """What INSERT INTO does: the writer or the session says, else the table."""
    # CREATE TABLE leaves the operation in the catalog only, where it does not count, as in Hudi.
    of_catalog = _catalog_properties(named)
    of_catalog.pop(WRITE_OPERATION, None)
    kept = {**table.properties, **of_catalog}
    current = _settings(context, options, SETTINGS)
    has_key = bool(table.snapshot.config.record_key_fields)
    return insert_operation(current, kept, has_key=has_key)


def _settings(context: Context, options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The settings that the writer gives, else the session."""
    current = {name: context.spark.conf.get(name, None) or "" for name in names}
    current |= {name: value for name, value in options.items() if name in names}
    return {name: value for name, value in current.items() if value}


def _catalog_properties(named: NamedTable) -> dict[str, str]:
    """The properties of a table's catalog entry."""
    if named.entry is None:
        return {}
    return {**mapped(named.entry.storage().properties()), **mapped(named.entry.properties())}


def _overwritten(
    context: Context, named: NamedTable, table: SparkTable, wanted: InsertSpec
) -> Overwritten:
    """What INSERT OVERWRITE takes away, as in Hudi.

    An operation decides alone, whatever PARTITION (...) says. Otherwise the mode decides:
    `dynamic` overwrites the partitions of the rows, `static` those with the static values of
    PARTITION (...), or the table where there is none.

    Raises:
        InvalidInput: The overwrite mode is neither static nor dynamic.
    """
    current = _settings(context, wanted.options, (WRITE_OPERATION, OVERWRITE_MODE))
    if wanted.dynamic is None and current.get(WRITE_OPERATION, "").lower() in _BY_OPERATION:
        return _BY_OPERATION[current[WRITE_OPERATION].lower()]
    if not table.snapshot.config.is_partitioned:
        return Overwritten.TABLE
    if wanted.dynamic is not None:
        return Overwritten.NOTHING if wanted.dynamic else Overwritten.TABLE
    session_mode = context.spark.conf.get(_SESSION_OVERWRITE_MODE, None) or "static"
    kept_mode = _catalog_properties(named).get(OVERWRITE_MODE, session_mode)
    if is_dynamic_mode(current.get(OVERWRITE_MODE, kept_mode)):
        return Overwritten.NOTHING
    return Overwritten.NAMED if _static_values(wanted) else Overwritten.TABLE


def _static_values(wanted: InsertSpec) -> dict[str, str]:
    """The columns to which PARTITION (...) gives a value."""
    return {name: value for name, value in wanted.partition.items() if value is not None}


def aligned(
    context: Context, named: NamedTable, table: SparkTable, wanted: InsertSpec, query: Node
) -> DataFrame:
    """The rows of the query under the names and types of the table's columns."""
    defaults = column_defaults(named)
    fields = {field.name: field for field in own_columns(table)}
    by_case = {name.lower(): name for name in fields}
    fixed = _fixed_values(table, wanted, by_case)
    if wanted.by_name:
        given = without_meta_columns(context.plans.rows(query))
        names = [_known(by_case, name, table) for name in given.columns]
    else:
        names = _named_columns(table, wanted, _in_catalog_order(named, by_case))
        query = with_default_values(context, query, names, defaults)
        given = without_meta_columns(context.plans.rows(query))
        names = _in_order(names, given.columns, wanted)
    clash = [name for name in names if name in fixed]
    if clash or len(set(names)) != len(names):
        raise InvalidInput(f"the columns of the INSERT are not all different: {', '.join(names)}")
    if len(names) != len(given.columns):
        raise InvalidInput(
            f"the INSERT gives {len(given.columns)} columns for {len(names)} of table "
            f"{table.name}: {', '.join(names)}"
        )
    numbered = [f"__lakedex_{number}" for number in range(len(names))]
    rows = assigned(
        context.plans, given.toDF(*numbered), numbered, [fields[name] for name in names]
    )
    for name, value in fixed.items():
        rows = rows.withColumn(name, _fixed(context, fields[name], value))
    # What a statement does not name is null, as a partition too; rows of a DataFrame have to say.
    parts = table.snapshot.config.partition_fields if wanted.is_text else ()
    for name in fields:
        if name not in names and name not in fixed and (name in defaults or name in parts):
            value = default_of(defaults, name).cast(fields[name].dataType)
            rows = rows.withColumn(name, value)
    return rows


def _fixed_values(table: SparkTable, wanted: InsertSpec, by_case: dict[str, str]) -> dict[str, str]:
    """The partition columns that PARTITION (...) gives a value."""
    fixed = {}
    for name, value in wanted.partition.items():
        column = _known(by_case, name, table)
        if column not in table.snapshot.config.partition_fields:
            raise InvalidInput(f"{name} is no partition column of table {table.name}")
        if value is not None:
            fixed[column] = value
    return fixed


def _named_columns(table: SparkTable, wanted: InsertSpec, by_case: dict[str, str]) -> list[str]:
    """The columns that the query fills by position; those of PARTITION (...) come last."""
    if wanted.columns:
        return [_known(by_case, name, table) for name in wanted.columns]
    parted = {_known(by_case, name, table): value for name, value in wanted.partition.items()}
    dynamic = [name for name, value in parted.items() if value is None]
    return [name for name in by_case.values() if name not in parted] + dynamic


def _in_catalog_order(named: NamedTable, by_case: dict[str, str]) -> dict[str, str]:
    """The columns in the order of DESCRIBE: those of PARTITIONED BY last, also after new ones."""
    parts = listed(named.entry.partitionColumnNames()) if named.entry is not None else []
    last = {str(name).lower() for name in parts}
    first = {key: name for key, name in by_case.items() if key not in last}
    return first | by_case


def _in_order(names: list[str], given: list[str], wanted: InsertSpec) -> list[str]:
    """The columns in the order of the rows, where these have just their names, as in Hudi."""
    if wanted.columns or not wanted.is_text:
        return names
    by_case = {name.lower(): name for name in names}
    lowered = [name.lower() for name in given]
    is_same = len(lowered) == len(names) and set(lowered) == set(by_case)
    return [by_case[name] for name in lowered] if is_same else names


def _fixed(context: Context, field: StructField, value: str) -> Column:
    current = fn.lit(None if value == DEFAULT_PARTITION else value)
    return context.plans.strict_cast(current, field.dataType)


def _known(by_case: dict[str, str], name: str, table: SparkTable) -> str:
    found = by_case.get(name.lower())
    if found is None:
        raise InvalidInput(
            f"table {table.name} has no column {name!r}; it has {', '.join(by_case.values())}"
        )
    return found
