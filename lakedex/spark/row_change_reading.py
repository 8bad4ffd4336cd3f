"""Changes of rows as a DataFrame of Spark: what happened, when, and the row before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from lakedex.config import TableConfig
from lakedex.errors import FileMissing
from lakedex.filegroup import ReadContext
from lakedex.read.row_changes import GroupChange, changed_rows_of, own_columns
from lakedex.schema import SchemaHistory
from lakedex.spark.arrow_map import map_batches
from lakedex.spark.schemas import spark_schema
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot

CHANGE_COLUMNS = ("op", "ts_ms", "before", "after")
CHANGE_SCHEMA = StructType([StructField(name, StringType()) for name in CHANGE_COLUMNS])
"""As in Hudi: the rows themselves are texts of JSON."""
_SIDES = CHANGE_COLUMNS[2:]
_WAVES = 4


@dataclass(frozen=True)
class RowChangeReading:
    """What tasks know to tell the changes of file groups."""

    address: StorageAddress
    config: TableConfig
    schema: pa.Schema
    history: SchemaHistory | None
    columns: pa.Schema
    shares: Sequence[Sequence[GroupChange]]
    """The changes of each task."""

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The changes of the shares whose numbers come."""
        context = ReadContext(
            self.address.open(), self.config, self.schema, self.history, lambda _time: False
        )
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for change in self.shares[number]:
                    yield from self._rows(context, change).to_batches()

    def _rows(self, context: ReadContext, change: GroupChange) -> pa.Table:
        try:
            return changed_rows_of(context, change, self.columns)
        except FileMissing as error:
            raise FileMissing(
                f"table {self.config.name} at {self.address.url}: {error}; what commit "
                f"{change.commit} changed cannot be told any more. Begin later, or keep more "
                "versions by hoodie.clean.commits.retained"
            ) from error


def row_changes(
    spark: SparkSession,
    address: StorageAddress,
    snapshot: Snapshot,
    changes: Sequence[GroupChange],
) -> DataFrame:
    """The rows that commits changed, in the columns that the table has now."""
    columns = own_columns(snapshot)
    count = max(1, min(len(changes), _WAVES * spark.sparkContext.defaultParallelism))
    reading = RowChangeReading(
        address=address,
        config=snapshot.config,
        schema=snapshot.schema,
        history=snapshot.history,
        columns=columns,
        shares=[tuple(changes[first::count]) for first in range(count)],
    )
    row = spark_schema(columns)
    texts = StructType(CHANGE_SCHEMA.fields[:2])
    found = map_batches(
        spark.range(0, count, 1, count), reading, texts.add("before", row).add("after", row)
    )
    as_text = [fn.to_json(name, {"ignoreNullFields": "false"}).alias(name) for name in _SIDES]
    return found.select("op", "ts_ms", *as_text)
