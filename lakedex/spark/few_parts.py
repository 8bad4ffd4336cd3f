"""A DataFrame in no more partitions than its rows are worth.

A task in Python costs some 85 ms whatever it does, so that a thousand rows in 200 partitions would
take seconds. Neighbours are put together without a shuffle; rows stay in their order.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_WAVES = 4
_WAVES_OF_FEW = 2
_FEW_BYTES = 16 << 20
_PART_BYTES = 32 << 20
_UNKNOWN_BYTES = 1 << 50
"""What Spark says of rows that it knows nothing of is more than this."""
_MOST_TOGETHER = 8
"""Of rows that nothing is known of: one task must not get all of the heavy partitions."""


def in_few_parts(rows: DataFrame) -> DataFrame:
    """The same rows, planned now; shuffles that they need are run.

    On a cluster they are left as they are: its executors do not have the class that does it.
    """
    if not rows.sparkSession.sparkContext._jsc.sc().isLocal():
        return rows
    # A plan of its own: that of `rows` would keep the snapshots that it has pinned once.
    placed = rows.toDF(*[f"_{n}" for n in range(len(rows.columns))])._jdf
    spark = rows.sparkSession
    execution = placed.queryExecution()
    computed = execution.toRdd()
    count = int(computed.getNumPartitions())
    slots = int(spark.sparkContext.defaultParallelism)
    if count > _WAVES_OF_FEW * slots:
        size_bytes = int(str(execution.optimizedPlan().stats().sizeInBytes()))
        wanted = parts_for(count, size_bytes, slots)
        if wanted < count:
            jvm = spark.sparkContext._jvm
            neighbours = jvm.scala.Option.apply(jvm.lakedex.jvm.Neighbours())
            computed = computed.coalesce(wanted, False, neighbours, None)
    found = spark._jsparkSession.internalCreateDataFrame(computed, placed.schema(), False)  # noqa: FBT003 - Java's
    return DataFrame(found, spark)


def parts_for(count: int, size_bytes: int, slots: int) -> int:
    """How many tasks some partitions make.

    Args:
        count: How many partitions there are.
        size_bytes: What Spark thinks that their rows take.
        slots: How many tasks run at the same time.

    Example:
        >>> parts_for(200, 1_000_000, 2), parts_for(200, 1 << 30, 2), parts_for(200, 1 << 40, 2)
        (4, 32, 200)
        >>> parts_for(200, 1 << 62, 2), parts_for(3, 1_000, 2)
        (25, 3)
    """
    least = slots * (_WAVES_OF_FEW if size_bytes <= _FEW_BYTES else _WAVES)
    wanted = -(-size_bytes // _PART_BYTES)
    if size_bytes > _UNKNOWN_BYTES:
        wanted = -(-count // _MOST_TOGETHER)
    return min(count, max(least, wanted))
