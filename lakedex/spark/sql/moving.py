"""Rows that get another partition: the new row, and the old one marked to go away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from lakedex.spark.table import SparkTable
from lakedex.write.rows import DELETE


def moves_rows(table: SparkTable, assigned: Sequence[str]) -> bool:
    """Whether rows get another partition under an index that does not follow them there."""
    if not set(assigned) & set(table.snapshot.config.partition_fields):
        return False
    return not table.writer().target().options.index_type.is_global


def with_moves(
    rows: DataFrame,
    partition_fields: Sequence[str],
    old: Mapping[str, Column],
    new: Mapping[str, Column],
    *,
    goes: Column | None = None,
    is_update: Column | None = None,
) -> DataFrame:
    """The new values of rows under the names of columns, and old rows where partitions differ.

    Args:
        rows: Rows that have both.
        partition_fields: The columns that say the partition.
        old: The values before, by the names of columns.
        new: The values after.
        goes: Whether a row is to be deleted; none is, unless told.
        is_update: Whether a row has values before; all have, unless told.
    """
    never = fn.expr("false")
    is_gone = never if goes is None else goes
    differs = [~old[name].eqNullSafe(new[name]) for name in partition_fields]
    moves = reduce(lambda left, right: left | right, differs) & ~is_gone
    if is_update is not None:
        moves = moves & is_update
    kept = fn.struct(*[value.alias(name) for name, value in new.items()], is_gone.alias(DELETE))
    gone = fn.struct(
        *[value.alias(name) for name, value in old.items()], fn.expr("true").alias(DELETE)
    )
    pairs = fn.when(moves, fn.array(kept, gone)).otherwise(fn.array(kept))
    return rows.select(fn.explode(pairs).alias("row")).select("row.*")
