"""A table's rows as a DataFrame: file slices are read and merged in tasks."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from lakedex.spark.arrow_map import map_batches
from lakedex.spark.schemas import spark_schema
from lakedex.spark.slice_reading import SliceReading
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline.committed import CommittedInstants

_WAVES = 4


def rows_of(spark: SparkSession, address: StorageAddress, snapshot: Snapshot) -> DataFrame:
    """The rows of a snapshot; the DataFrame stays at it, whatever is committed later."""
    struct = spark_schema(snapshot.schema)
    # The largest first, dealt out in turn, so that tasks come out alike.
    slices = sorted(snapshot.slices, key=lambda each: each.size_bytes, reverse=True)
    if not slices:
        return spark.createDataFrame([], struct)
    count = min(len(slices), _WAVES * spark.sparkContext.defaultParallelism)
    reading = SliceReading(
        address=address,
        config=snapshot.config,
        schema=snapshot.schema,
        history=snapshot.history,
        is_committed=CommittedInstants.of(snapshot.timeline),
        shares=[tuple(slices[first::count]) for first in range(count)],
    )
    return map_batches(spark.range(0, count, 1, count), reading, struct)
