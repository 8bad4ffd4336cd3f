"""Keys that stand in a table more than once, as plain INSERTs may leave them.

An upsert or a delete goes by key, and could not change one copy and leave the other. So before a
statement writes by key it looks whether the keys that it changes stand once. If one does not, the
statement puts all rows of the partitions that it touches, or of the table, in their place anew.
"""

from __future__ import annotations

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
    touched = changed.select(*names).distinct()
    kept = table.to_df().select(*names).join(touched, names, "left_semi")
    return bool(kept.groupBy(*names).count().filter(fn.col("count") > 1).limit(1).count())


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
