"""CREATE TABLE, CREATE TABLE AS SELECT, CREATE TABLE ... LIKE and DROP TABLE.

Spark's own catalog takes the name first, and the table is created from the columns, partitions,
properties and path of its entry. If that fails, the entry is removed again. LIKE copies columns,
partitions, key and type of another table, and none of its rows.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import CharType, StringType, StructType, VarcharType

from lakedex.config import keys
from lakedex.config.bucket_options import PARAMETERS
from lakedex.config.restated_options import check_restated
from lakedex.errors import InvalidInput, TableNotFound, UnsupportedFeature
from lakedex.expr.sql_lexer import Kind as TokenKind
from lakedex.expr.sql_lexer import Token, tokenise
from lakedex.filegroup import META_COLUMNS
from lakedex.schema.hudi_types import HUDI_TYPE, is_vector, parse_hudi_type
from lakedex.spark.saving import TYPE_NAMES, check_folders, described, spelled_out
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.sql.context import Context, Prepared, Statement, own_columns
from lakedex.spark.sql.inserting import INSERT_OPERATION, WRITE_OPERATION
from lakedex.spark.sql.names import NamedTable, location
from lakedex.spark.sql.other_views import check_base, forget_other_views, keep_for_readers
from lakedex.spark.sql.plans import Node, kind, listed, mapped, member, name_parts, optional
from lakedex.spark.table import SparkTable
from lakedex.table.spec import TableSpec

log = logging.getLogger("lakedex")

_OF_THE_SESSION = (
    "hoodie.index.type",
    *(option.name for option in PARAMETERS),
    "hoodie.metadata.record.index.enable",
    "hoodie.metadata.global.record.level.index.enable",
    "hoodie.metadata.record.level.index.enable",
    "hoodie.simple.index.update.partition.path",
    "hoodie.bloom.index.update.partition.path",
    "hoodie.record.index.update.partition.path",
)
"""How writers find records and whether they move them, which cannot change with every write."""
_CLUSTERS = "cluster_by"
_OWN_TYPE = re.compile(r"\b(?:VECTOR|BLOB)\b", re.IGNORECASE)
_PLAIN_TYPES: Mapping[str, Mapping[pa.DataType | None, str]] = {
    "VECTOR": {
        pa.float32(): "ARRAY<FLOAT>",
        pa.float64(): "ARRAY<DOUBLE>",
        pa.int8(): "ARRAY<TINYINT>",
    },
    "BLOB": {
        None: "STRUCT<`type`: STRING, `data`: BINARY, `reference`: STRUCT<`external_path`: STRING, "
        "`offset`: BIGINT, `length`: BIGINT, `managed`: BOOLEAN>>"
    },
}
"""What Spark knows columns of Hudi's own types as; a vector by the type of its elements."""
_BUCKETS = ("bucket", "sorted_bucket")
"""What Spark's parser puts among the partitions of a new table."""
_OF_THE_STATEMENT = (keys.TABLE_NAME, keys.DATABASE_NAME)
"""What the statement itself says; as in Hudi its properties cannot say otherwise."""


def create(context: Context, statement: Statement) -> Prepared | None:
    """CREATE TABLE ... USING hudi; None for another provider."""
    if not context.names.is_own(optional(statement.plan.tableSpec().provider())):
        return None
    _check_folders(statement)
    return Prepared(partial(_create_empty, context, statement))


def plain_column_types(text: str) -> tuple[str, dict[str, str]] | None:
    """A CREATE TABLE with Spark's types in the place of Hudi's own, and the latter by column.

    Spark's grammar knows neither VECTOR nor BLOB. None where a text has no such column.

    Example:
        >>> plain_column_types("CREATE TABLE t (id INT, e VECTOR(4)) USING hudi")
        ('CREATE TABLE t (id INT, e ARRAY<FLOAT>) USING hudi', {'e': 'VECTOR(4)'})
    """
    if not _OWN_TYPE.search(text):
        return None
    tokens = tokenise(text)
    if tokens[0].keyword != "CREATE":
        return None
    pieces, types, end = [], {}, 0
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        depth += {"(": 1, ")": -1}.get(token.keyword, 0)
        begins_column = depth == 1 and at > 1 and tokens[at - 2].keyword in ("(", ",")
        if not begins_column or token.keyword not in _PLAIN_TYPES:
            continue
        last = _end_of_type(tokens, at)
        declared = text[token.start : last.end]
        column = tokens[at - 1].value
        dtype = parse_hudi_type(declared, column)
        element = dtype.value_type if is_vector(dtype) else None
        pieces += [text[end : token.start], _PLAIN_TYPES[token.keyword][element]]
        types[column], end = declared, last.end
    return ("".join([*pieces, text[end:]]), types) if types else None


def _end_of_type(tokens: Sequence[Token], at: int) -> Token:
    """The last token of a type: the bracket that closes its parameters."""
    if tokens[at + 1].keyword != "(":
        return tokens[at]
    while tokens[at].keyword != ")" and tokens[at].kind is not TokenKind.END:
        at += 1
    return tokens[at]


def create_as_select(context: Context, statement: Statement) -> Prepared | None:
    """CREATE TABLE ... USING hudi AS SELECT ...; None for another provider."""
    if not context.names.is_own(optional(statement.plan.tableSpec().provider())):
        return None
    _check_folders(statement)
    return Prepared(
        partial(_create_as_select, context, statement),
        title="CREATE TABLE AS SELECT: the rows of this query are written as one commit",
        reads=partial(context.plans.rows, statement.scope(statement.plan.query())),
    )


def layout_refusal(named: str) -> UnsupportedFeature:
    """That files of a Hudi table are no buckets of Spark's."""
    return UnsupportedFeature(
        f"{named} of a Hudi table (CREATE INDEX finds its rows, and table.cluster(by=[...]) or "
        "CALL run_clustering lays them out)"
    )


def _check_folders(statement: Statement) -> None:
    """Refuse clusters of Spark's; buckets stay in the catalog alone, as in Hudi, with a warning."""
    for each in listed(statement.plan.partitioning()):
        name = str(each.name())
        if name == _CLUSTERS:
            raise layout_refusal("CLUSTER BY")
        if name in _BUCKETS:
            log.warning(
                "CLUSTERED BY of a Hudi table changes none of its files, as in Hudi; CREATE INDEX "
                "finds its rows, and CALL run_clustering lays them out"
            )


def refuse_replace(context: Context, statement: Statement) -> Prepared | None:
    """[CREATE OR] REPLACE TABLE: what is there would be gone before the new table is."""
    plan = statement.plan
    is_own = context.names.is_own(optional(plan.tableSpec().provider()))
    if is_own or context.names.find(name_parts(plan.name())) is not None:
        raise UnsupportedFeature(
            "REPLACE TABLE of a Hudi table (INSERT OVERWRITE, or DROP TABLE and CREATE TABLE)"
        )
    return None


def drop(context: Context, statement: Statement) -> Prepared | None:
    """DROP TABLE; None where Spark does all there is to do."""
    child = statement.plan.child()
    if kind(child) != "UnresolvedIdentifier":
        return None
    named = context.names.find(name_parts(child))
    if named is None or named.entry is None:
        return None
    return Prepared(partial(_drop, context, statement.plan, named))


def _drop(context: Context, plan: Node, named: NamedTable) -> None:
    context.plans.rows(plan)
    if plan.purge():
        remove_folder(context, named.path)
        forget_other_views(context, named)


def remove_folder(context: Context, path: str) -> None:
    """Remove all files under a table's folder."""
    place, files = _on_its_files(context, path)
    recursive = True
    files.delete(place, recursive)


def _check_empty(context: Context, path: str) -> None:
    """Refuse a folder with something in it, as Hudi does; a query that fails empties it."""
    place, files = _on_its_files(context, path)
    if files.exists(place) and len(files.listStatus(place)):
        raise InvalidInput(
            f"{path} is not empty, so CREATE TABLE AS SELECT cannot make a table there (CREATE "
            "TABLE ... LOCATION gives a table that is there a name, INSERT INTO adds rows to it)"
        )


def _on_its_files(context: Context, path: str) -> tuple[Node, Node]:
    place = context.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
    conf = context.spark._jsparkSession.sessionState().newHadoopConf()
    return place, place.getFileSystem(conf)


def _create_empty(context: Context, statement: Statement) -> None:
    plan = statement.plan
    run_create(context, plan, name_parts(plan.name()), types=statement.column_types)


def run_create(
    context: Context,
    plan: Node,
    name: tuple[str, ...],
    more: Mapping[str, str] | None = None,
    *,
    is_new: bool = False,
    types: Mapping[str, str] | None = None,
) -> SparkTable | None:
    """Let Spark run a CREATE TABLE, and make the table of its catalog entry.

    Args:
        context: The session.
        plan: What Spark runs.
        name: The new table's.
        more: Properties of the table that the statement does not say.
        is_new: Whether its folder must be empty.
        types: The columns whose type is VECTOR or BLOB.

    Returns:
        The table; None where the name was there already.
    """
    identifier = context.names.identifier(name, is_new=True)
    if identifier is None:
        raise InvalidInput("a Hudi table is made in the session catalog: CREATE TABLE db.name")
    is_there = context.names.catalog.tableExists(identifier)
    context.plans.rows(plan)
    if is_there:
        return None
    # Its database is the current one where the statement says none.
    entry = context.names.catalog.getTableMetadata(identifier)
    try:
        if is_new:
            _check_empty(context, location(entry))
        return _made(context, entry, more or {}, _declared(plan), types or {})
    except BaseException:
        context.names.forget(entry.identifier())
        raise


def _create_as_select(context: Context, statement: Statement) -> None:
    plan = statement.plan
    rows = context.plans.rows(statement.scope(plan.query()))
    rows = rows.drop(*[name for name in rows.columns if name in META_COLUMNS])
    create = _plain_create(context, plan, rows)
    table = run_create(context, create, name_parts(plan.name()), is_new=True)
    if table is None:
        return
    named = context.names.find(name_parts(plan.name()))
    try:
        table.bulk_insert(rows, options=context.write_options(table))
    except BaseException:
        if named is not None:
            managed = str(named.entry.tableType().name()) == "MANAGED"
            context.names.forget(named.identifier)
            if not managed:
                remove_folder(context, named.path)
        raise
    if named is not None:
        context.refresh(named)


def _plain_create(context: Context, plan: Node, rows: DataFrame) -> Node:
    """The CREATE TABLE of a CREATE TABLE AS SELECT, with the columns of its query."""
    jvm = context.spark.sparkContext._jvm
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    struct = rows._jdf.schema().asNullable()
    if int(context.spark.version.partition(".")[0]) >= 4:
        parser = context.spark._jsparkSession.sessionState().sqlParser()
        columns = [
            logical.ColumnDefinition.fromV1Column(field, parser) for field in struct.fields()
        ]
        struct = context.plans.sequence(columns)
    return logical.CreateTable(
        plan.name(), struct, plan.partitioning(), plan.tableSpec(), plan.ignoreIfExists()
    )


def _declared(plan: Node) -> StructType:
    """The columns as a statement declares them; the catalog has those of the table instead."""
    described = member(plan, "tableDesc")
    schema = member(plan, "tableSchema") if described is None else described.schema()
    return StructType() if schema is None else StructType.fromJson(json.loads(schema.json()))


def _made(
    context: Context,
    entry: Node,
    more: Mapping[str, str],
    declared: StructType,
    types: Mapping[str, str],
) -> SparkTable:
    """The table of a catalog entry: the one at its path, or a new one."""
    path = location(entry)
    declared_here = spelled_out(
        {**mapped(entry.storage().properties()), **mapped(entry.properties())}
    )
    for name in _OF_THE_STATEMENT:
        declared_here.pop(name, None)
    if declared_here.pop(WRITE_OPERATION, None) is not None:
        log.warning(
            "CREATE TABLE does not keep %s, as in Hudi: %s says what INSERT INTO does",
            WRITE_OPERATION,
            INSERT_OPERATION,
        )
    properties = {**_settled_by_session(context), **_left_of(more, declared_here), **declared_here}
    description = described(properties)
    try:
        table = context.lake.table_at(path)
    except TableNotFound:
        check_base(declared_here, None, path)
    else:
        _check_same(context, table, entry, declared_here, declared)
        check_base(declared_here, table, path)
        keep_for_readers(context, entry, declared_here)
        return table
    struct = StructType.fromJson(json.loads(entry.schema().json()))
    columns = StructType([field for field in struct if field.name not in META_COLUMNS])
    columns_by = [str(name) for name in listed(entry.partitionColumnNames())]
    spec = TableSpec(
        name=str(entry.identifier().table()),
        schema=_with_own_types(arrow_schema(columns), types),
        record_key=description.record_key,
        ordering=description.ordering,
        partition_by=_with_kinds(columns_by, description.partition_by),
        table_type=description.table_type,
        properties=properties,
        database=str(entry.database()),
    )
    return context.lake.make_table(path, spec)


def _with_kinds(columns: list[str], declared: list[str]) -> list[str]:
    """The columns of PARTITIONED BY as the option spells them that says their kinds.

    Example:
        >>> _with_kinds(["city", "ts"], ["city:simple", "ts:timestamp"])
        ['city:simple', 'ts:timestamp']
        >>> _with_kinds(["city"], ["town"])
        ['city']
    """
    named = [name.partition(":")[0].lower() for name in declared]
    is_same = [name.lower() for name in columns] == named
    return declared if is_same or not columns else columns


def _with_own_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    by_case = {name.lower(): text for name, text in types.items()}
    return pa.schema(
        [
            field.with_metadata({HUDI_TYPE: by_case[field.name.lower()]})
            if field.name.lower() in by_case
            else field
            for field in schema
        ]
    )


def _settled_by_session(context: Context) -> dict[str, str]:
    """What a table is made with once and for all, as the session says it."""
    given = context.write_options()
    return {name: given[name] for name in _OF_THE_SESSION if name in given}


def _left_of(more: Mapping[str, str], declared_here: Mapping[str, str]) -> dict[str, str]:
    """Properties of another table, without what the statement says under whichever name."""
    description, left = described(declared_here), dict(more)
    if any(name in declared_here for name in TYPE_NAMES):
        left.pop(keys.TABLE_TYPE, None)
    if description.record_key:
        left.pop(keys.RECORD_KEY_FIELDS, None)
    for name in keys.ORDERING_FIELD_NAMES if description.ordering else ():
        left.pop(name, None)
    return left


def _check_same(
    context: Context,
    table: SparkTable,
    entry: Node,
    declared_here: Mapping[str, str],
    declared: StructType,
) -> None:
    """Refuse a CREATE TABLE that contradicts the table in its folder.

    As in Hudi the table keeps its own columns. A declared column may have another type if Spark
    can cast the stored values to it, may be missing, and may be spelled in another case.

    Raises:
        InvalidInput: A property, the partition columns or a column's type contradict the table.
    """
    check_restated(table.snapshot.config, declared_here)
    check_folders(table, list(map(str, listed(entry.partitionColumnNames()))), declared_here)
    stored = {field.name.lower(): field.dataType for field in own_columns(table)}
    for column in declared:
        kept = stored.get(column.name.lower())
        is_text = isinstance(column.dataType, CharType | VarcharType)
        wanted = StringType() if is_text else column.dataType
        if kept is not None and not context.plans.can_cast(kept, wanted):
            raise InvalidInput(
                f"column {column.name} is declared as {column.dataType.simpleString()}, but "
                f"the table at {table.path} stores {kept.simpleString()}; declare that type, or "
                "leave out the columns: CREATE TABLE ... USING hudi LOCATION ..."
            )


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
