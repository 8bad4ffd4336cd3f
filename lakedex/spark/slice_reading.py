"""The workers of a scan: rows of file slices, and the changes of rows (CDC)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from lakedex.config import TableConfig
from lakedex.errors import FileMissing
from lakedex.filegroup import META_COLUMNS, FileSlice, ReadContext, read_slice
from lakedex.read.changes import COMMIT_TIME, GroupChange, changed_rows_of, own_columns
from lakedex.schema import SchemaHistory
from lakedex.spark.jobs import map_batches
from lakedex.spark.schemas import spark_schema
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot


@dataclass(frozen=True)
class SliceReading:
    """What a task needs to read slices of a table at one instant."""

    address: StorageAddress
    config: TableConfig
    schema: pa.Schema
    history: SchemaHistory | None
    is_committed: Callable[[str], bool]
    shares: Sequence[Sequence[FileSlice]]
    """The slices of each task."""
    target: pa.Schema
    """The columns to read, as Spark wants them."""
    commits: Sequence[str] | None = None
    """Only rows that were last written by these."""

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the shares whose numbers come."""
        context = ReadContext(
            self.address.open(), self.config, self.schema, self.history, self.is_committed
        )
        columns = list(self.target.names)
        if context.has_virtual_keys:
            # As in Hudi these are shown without values; keys are computed for writers only.
            columns = [name for name in columns if name not in META_COLUMNS]
        if self.commits is not None and COMMIT_TIME not in columns:
            columns.append(COMMIT_TIME)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file_slice in self.shares[number]:
                    for part in self._rows(context, file_slice, columns):
                        rows = self._written(_with_nulls(part, self.target))
                        yield from rows.cast(self.target, safe=False).to_batches()

    def _rows(
        self, context: ReadContext, file_slice: FileSlice, columns: list[str]
    ) -> Iterator[pa.Table]:
        try:
            yield from read_slice(context, file_slice, columns)
        except FileMissing as error:
            raise FileMissing(
                f"table {self.config.name} at {self.address.url}: {error}; it was cleaned since "
                "the query was planned. Create the DataFrame again, or keep more versions by "
                "hoodie.clean.commits.retained"
            ) from error

    def _written(self, rows: pa.Table) -> pa.Table:
        if self.commits is not None:
            times = pa.array(self.commits, pa.string())
            rows = rows.filter(pc.is_in(rows[COMMIT_TIME], value_set=times))
        return rows.select(self.target.names)


def _with_nulls(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """Rows with the meta columns of the target that were not read, without values."""
    for name in target.names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows


CHANGE_COLUMNS = ("op", "ts_ms", "before", "after")
CHANGE_SCHEMA = StructType([StructField(name, StringType()) for name in CHANGE_COLUMNS])
"""As in Hudi: the rows themselves are texts of JSON."""
_SIDES = CHANGE_COLUMNS[2:]
_WAVES = 4


@dataclass(frozen=True)
class RowChangeReading:
    """What a task needs to read the changes of file groups."""

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
                f"{change.commit} changed can no longer be read. Begin later, or keep more "
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
