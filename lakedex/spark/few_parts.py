"""A DataFrame in no more partitions than its rows are worth.

A task in Python costs some 85 ms whatever it does, so that a thousand rows in 200 partitions would
take seconds.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_WAVES = 2
_FEW_BYTES = 16 << 20


def in_few_parts(rows: DataFrame) -> DataFrame:
    """The same rows; where Spark thinks that they are few, neighbouring partitions are one.

    All cores still have work, and rows that Spark knows nothing of are left as they are.
    """
    few = rows.coalesce(_WAVES * rows.sparkSession.sparkContext.defaultParallelism)
    # Of the new frame: a plan of `rows` would keep the snapshots that it pins for ever.
    size = few._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return few if int(str(size)) <= _FEW_BYTES else rows
