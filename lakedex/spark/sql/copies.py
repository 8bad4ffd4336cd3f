"""Keys that occur in a table more than once, as plain INSERTs may leave them.

An upsert or a delete finds records by key, and could not change one copy and leave the other. So a
statement that writes by key first checks whether its keys are unique. If one is not, the statement
rewrites all rows of the partitions that it touches, or of the table.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from lakedex.config import TableConfig
from lakedex.filegroup import META_COLUMNS
from lakedex.keys.generator import KeyGenerator
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.sql.plans import quoted
from lakedex.spark.table import SparkTable
from lakedex.table import Snapshot
from lakedex.write.unique_keys import noted_unique

KEY, PARTITION = META_COLUMNS[2], META_COLUMNS[3]
_BY_KEY = {
    "UPSERT",
    "DELETE",
    "DELETE_PARTITION",
    "CLUSTER",
    "COMPACT",
    "LOG_COMPACT",
    "ALTER_SCHEMA",
    "INDEX",
}
"""Operations after which keys stand once, if they did before."""
_FEW = 100
"""How many keys are looked up by their values rather than by a join with the whole table."""


def identity_of(config: TableConfig) -> dict[str, str]:
    """Texts that identify records and their partitions, under the names of the meta columns.

    Where these hold no values (`hoodie.populate.meta.fields=false`) the columns that keys are made
    of are taken instead.
    """
    if config.populate_meta_fields:
        return {name: name for name in META_COLUMNS}
    nothing = dict.fromkeys(META_COLUMNS, "cast(null AS string)")
    found = {KEY: config.record_key_fields, PARTITION: config.partition_fields}
    return nothing | {name: _as_text(fields) for name, fields in found.items() if fields}


def _as_text(fields: tuple[str, ...]) -> str:
    paths = [".".join(map(quoted, field.split("."))) for field in fields]
    named = ", ".join(f"{path} AS {quoted(str(at))}" for at, path in enumerate(paths))
    return f"to_json(struct({named}))"


def _with_identity(config: TableConfig, rows: DataFrame) -> DataFrame:
    """Rows with only the columns that identify records and their partitions."""
    texts = identity_of(config)
    return rows.selectExpr(*(f"{texts[name]} AS {name}" for name in (KEY, PARTITION)))


def has_copies(table: SparkTable, changed: DataFrame) -> bool:
    """Whether a key of some rows of the table stands there more than once.

    Args:
        table: The table.
        changed: The rows, with the columns of the table.
    """
    return has_copies_of(table, _with_identity(table.snapshot.config, changed))


def has_copies_of(table: SparkTable, changed: DataFrame) -> bool:
    """The same for rows that `identity_of` identifies."""
    if not table.snapshot.config.record_key_fields or not _may_have_copies(table.snapshot):
        return False
    every = _with_identity(table.snapshot.config, table.to_df())
    is_global = table.writer().target().options.index_type.is_global
    names = [KEY] if is_global else [KEY, PARTITION]
    first = changed.select(*names).limit(_FEW + 1).collect()
    if len(first) <= _FEW:
        keys = {tuple(row) for row in first if None not in row}
        return bool(keys) and _few_have_copies(every, names, keys)
    touched = changed.select(*names).distinct()
    kept = every.select(*names).join(touched, names, "left_semi")
    return not kept.groupBy(*names).count().filter(fn.col("count") > 1).isEmpty()


def _few_have_copies(every: DataFrame, names: list[str], touched: set[tuple[str, ...]]) -> bool:
    """The same for few keys: a filter that indexes answer, and nothing is shuffled."""
    for name, wanted in zip(names, zip(*touched, strict=True), strict=True):
        every = every.filter(fn.col(name).isin(sorted(set(wanted))))
    found = Counter(tuple(row) for row in every.select(*names).collect())
    return any(found[each] > 1 for each in touched)


def key_column(table: SparkTable) -> list[str]:
    """The column that names records where no columns of the table make their keys."""
    return [] if table.snapshot.config.record_key_fields else [KEY]


def touched_partitions(table: SparkTable, changed: DataFrame) -> list[str]:
    """The partitions of some rows of a table."""
    config = table.snapshot.config
    if config.populate_meta_fields:
        return sorted(row[0] for row in changed.select(PARTITION).distinct().collect())
    columns = sorted({quoted(field.partition(".")[0]) for field in config.partition_fields})
    found = changed.select(*columns).distinct()
    values = [row.asDict(recursive=True) for row in found.collect()]
    partition_values = pa.Table.from_pylist(values, schema=arrow_schema(found.schema))
    generator = KeyGenerator.of(config, table.snapshot.schema)
    return sorted(set(generator.partition_paths(partition_values).to_pylist()))


def _may_have_copies(snapshot: Snapshot) -> bool:
    timeline = snapshot.timeline
    if noted_unique(timeline):
        return False
    known = timeline.write_instants()
    if len(timeline.between(None)) != len(known):
        return True
    return any(timeline.commit_summary(each).operation_type not in _BY_KEY for each in known)
