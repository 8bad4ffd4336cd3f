"""Keys that stand in a table more than once, as plain INSERTs may leave them.

An upsert or a delete goes by key, and could not change one copy and leave the other. So before a
statement writes by key it looks whether the keys that it changes stand once. If one does not, the
statement puts all rows of the partitions that it touches, or of the table, in their place anew.
"""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from lakedex.filegroup import META_COLUMNS
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
"""How many keys are asked by their values rather than by a join with the whole table."""


def has_copies(table: SparkTable, changed: DataFrame) -> bool:
    """Whether a key of some rows of the table stands there more than once.

    Args:
        table: The table.
        changed: The rows, with Hudi's columns for key and partition.
    """
    if not table.snapshot.config.record_key_fields or not _may_have_copies(table.snapshot):
        return False
    is_global = table.writer().target().options.index_type.is_global
    names = [KEY] if is_global else [KEY, PARTITION]
    first = changed.select(*names).limit(_FEW + 1).collect()
    if len(first) <= _FEW:
        keys = {tuple(row) for row in first if None not in row}
        return bool(keys) and _few_have_copies(table.to_df(), names, keys)
    touched = changed.select(*names).distinct()
    kept = table.to_df().select(*names).join(touched, names, "left_semi")
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


def touched_partitions(changed: DataFrame) -> list[str]:
    """The partitions of some rows of a table."""
    return sorted(row[0] for row in changed.select(PARTITION).distinct().collect())


def _may_have_copies(snapshot: Snapshot) -> bool:
    timeline = snapshot.timeline
    if noted_unique(timeline):
        return False
    known = timeline.write_instants()
    if len(timeline.between(None)) != len(known):
        return True
    return any(timeline.commit_summary(each).operation_type not in _BY_KEY for each in known)
