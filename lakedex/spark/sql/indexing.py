"""CREATE, DROP, SHOW and REFRESH INDEX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame

from lakedex.config.write_option_names import GLOBAL_RECORD_INDEX
from lakedex.errors import InvalidInput
from lakedex.filegroup import META_COLUMNS
from lakedex.index.catalog import IndexInfo
from lakedex.index.registry import expression_kind, find_metadata_kind
from lakedex.services.file_index_creating import FileIndexBuild
from lakedex.services.index_names import find_index, find_outside, spellings
from lakedex.services.indexing import BackgroundBuild
from lakedex.spark.sql.context import Context, Prepared, Statement
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.plans import listed, mapped, name_parts, optional
from lakedex.spark.table import SparkTable
from lakedex.write.result import WriteResult

BUILT = "index_name string, detail string"
"""What CREATE INDEX answers: one row for each index that it built."""
_RECORD_INDEX = "record_index"
_OF_ONE_COLUMN = {name.lower() for name in expression_kind().options}
_SHOWN = "index_name string, index_type string, col_name string, col_options string, options string"
"""The first three are Hudi's."""


def create(context: Context, statement: Statement) -> Prepared | None:
    """CREATE INDEX as Spark's grammar has it; None where the table is not ours."""
    plan = statement.plan
    named = context.names.find(name_parts(plan.table()))
    if named is None:
        return None
    pairs = listed(plan.columns())
    columns = [".".join(map(str, listed(pair._1().name()))) for pair in pairs]
    behind = dict(zip(columns, (mapped(pair._2()) for pair in pairs), strict=True))
    settings = _settings(mapped(plan.properties()), behind)
    return Prepared(
        partial(
            create_index,
            context,
            named,
            str(plan.indexName()),
            columns,
            using=str(plan.indexType()),
            settings=settings,
            if_missing=bool(plan.ignoreIfExists()),
        ),
        columns=BUILT,
    )


def _settings(of_index: dict[str, str], of_columns: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """The options of an index, with those that stand behind its columns.

    Raises:
        InvalidInput: Two of them contradict each other, or one of several columns has a function.
    """
    found = dict(of_index)
    for column, given in of_columns.items():
        for name, value in given.items():
            if len(of_columns) > 1 and name.lower() in _OF_ONE_COLUMN:
                raise InvalidInput(
                    f"OPTIONS ({name}={value!r}) of column {column}, one of several: an index on "
                    f"an expression has one column; make an index of its own on {column}"
                )
            if found.setdefault(name, value) != value:
                raise InvalidInput(f"the option {name} is {found[name]!r} and {value!r}")
    return found


def drop(context: Context, statement: Statement) -> Prepared | None:
    """DROP INDEX name ON table; None where the table is not ours."""
    plan = statement.plan
    named = context.names.find(name_parts(plan.table()))
    if named is None:
        return None
    name = str(plan.indexName())
    return Prepared(partial(_drop, context, named, name, if_there=bool(plan.ignoreIfNotExists())))


def create_index(
    context: Context,
    named: NamedTable,
    name: str,
    columns: Sequence[str],
    *,
    using: str,
    settings: dict[str, str],
    if_missing: bool,
) -> DataFrame:
    """Build an index from the data that is there; one row for each index that was built."""
    table = context.open(named)
    chosen = {**_said_elsewhere(context, named, table, settings), **settings}
    made = table.create_index(name, columns, using=using, options=chosen, if_missing=if_missing)
    if made is not None:
        context.refresh(named)
    return context.spark.createDataFrame(_built(made, *spellings(name), using.lower()), BUILT)


def _said_elsewhere(
    context: Context, named: NamedTable, table: SparkTable, settings: Mapping[str, str]
) -> dict[str, str]:
    """What the session, else the table's properties in the catalog, say of a record index.

    What the statement itself says goes before both.
    """
    has_one = find_index(table.snapshot, _RECORD_INDEX) is not None
    if has_one or GLOBAL_RECORD_INDEX.given(settings) is not None:
        return {}
    for said in (context.write_options(table), named.properties):
        found = {name: said[name] for name in GLOBAL_RECORD_INDEX.names if name in said}
        if found:
            return found
    return {}


def _built(
    made: WriteResult | BackgroundBuild | FileIndexBuild | None, *names: str
) -> list[tuple[str, str]]:
    """The indexes that a statement built, the one that it names first."""
    if made is None:
        return []
    detail = "built" if isinstance(made, WriteResult) else "being built in the background"
    built = [each for each in made.indexes if each != "files"]
    built.sort(key=lambda each: each not in names)
    kind = find_metadata_kind(built[0]) if built else None
    reasons = dict.fromkeys(kind.needs if kind else (), f", because {built[0]} needs it")
    return [
        (each, detail + (reasons.get(each, f", with {built[0]}") if at else ""))
        for at, each in enumerate(built)
    ]


def drop_anywhere(context: Context, name: str, *, if_there: bool) -> None:
    """DROP INDEX of a name that only one table of the current database has."""
    found = []
    names = context.names
    for identifier in listed(names.catalog.listTables(names.catalog.getCurrentDatabase())):
        parts = (optional(identifier.database()), str(identifier.table()))
        named = names.find(tuple(str(part) for part in parts if part is not None))
        if named is not None and find_index(context.open(named).snapshot, name) is not None:
            found.append(named)
    if not found and if_there:
        return
    if len(found) != 1:
        tables = ", ".join(each.quoted for each in found) or "no table"
        raise InvalidInput(f"{tables} has an index {name!r}; say DROP INDEX {name} ON table")
    _drop(context, found[0], name, if_there=if_there)


def _drop(context: Context, named: NamedTable, name: str, *, if_there: bool) -> None:
    table = context.open(named)
    is_there = find_index(table.snapshot, name) is not None
    if if_there and not is_there and find_outside(table.snapshot, name) is None:
        return
    # Scripts of Hudi drop the record index first, and then the indexes that need it.
    table.drop_index(name, with_dependents=True)
    context.refresh(named)


def show(context: Context, named: NamedTable) -> DataFrame:
    """SHOW INDEXES."""
    return context.spark.createDataFrame(_shown(context.open(named)), _SHOWN)


def _shown(table: SparkTable) -> list[tuple[str, str, str, str, str]]:
    return [
        (each.name, _shown_type(each), ",".join(_own(each.columns)), each.function, each.status)
        for each in table.indexes()
        if each.name != "files"
    ]


def _shown_type(index: IndexInfo) -> str:
    """The type as Hudi shows it: of an expression index what it stores, ranges or filters."""
    return index.index_type if index.kind == "expr_index" and index.index_type else index.kind


def _own(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in META_COLUMNS]


def refresh(context: Context, named: NamedTable, name: str) -> None:
    """REFRESH INDEX: brings an index up to date that is behind its table."""
    context.open(named).refresh_index(name)
    context.refresh(named)
