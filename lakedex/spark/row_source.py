"""A DataFrame as the input of a write: its partitions are read in their tasks, once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from lakedex.errors import InvalidInput
from lakedex.spark.engine import TaskResult, map_batches, run_job, task_result
from lakedex.spark.jvm_classes import install_classes
from lakedex.spark.schemas import arrow_schema

_TASKS_PER_CORE = 2
Answer = TypeVar("Answer")
PartWorker = Callable[[int, Iterator[pa.RecordBatch]], Answer]

_ANSWERS = StructType([StructField("number", IntegerType()), StructField("answer", BinaryType())])
_ARROW_ANSWERS = pa.schema([("number", pa.int32()), ("answer", pa.binary())])


class DataFrameSource:
    """The rows of a DataFrame."""

    def __init__(self, rows: DataFrame) -> None:
        """Take a DataFrame; nothing of it is computed yet.

        Raises:
            InvalidInput: A column has a type that has no place in a Hudi table.
        """
        self._rows = rows
        self._schema = arrow_schema(_schema_of(rows))

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        return self._schema

    def run(self, label: str, worker: PartWorker[Answer]) -> list[Answer]:
        """Run a worker over the partitions, once, and collect its answers in their order.

        Small partitions that follow each other are one part.
        """
        answer = partial(_answer, worker, self._schema)
        collected = run_job(
            self._rows.sparkSession.sparkContext,
            label,
            lambda: map_batches(_in_few_tasks(self._rows), answer, _ANSWERS).collect(),
        )
        outcomes = sorted(
            ((row["number"], row["answer"]) for row in collected), key=lambda each: each[0]
        )
        unpickled: list[TaskResult[Answer]] = [
            pickle.loads(bytes(answer)) for _, answer in outcomes
        ]
        return [outcome.unwrapped() for outcome in unpickled]


def _in_few_tasks(rows: DataFrame) -> DataFrame:
    """The same rows in the same order, in no more tasks than their size is worth.

    A task in Python costs some 100 ms whatever it does, and frames of 200 small partitions are
    common. Neighbouring partitions share a task; all cores still have work. Rows of a size that
    Spark does not know keep their partitions.
    """
    spark = rows.sparkSession
    fewest = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    return DataFrame(install_classes(spark).CoalescedTasks.over(rows._jdf, fewest), spark)


def _schema_of(rows: DataFrame) -> StructType:
    try:
        return rows.schema
    except PySparkException as error:
        # PySpark itself does not know every type of Spark.
        schema = rows._jdf.schema().simpleString()
        raise InvalidInput(
            f"the rows have a type that has no place in a Hudi table: {schema}"
        ) from error


def _answer(
    worker: PartWorker[Answer], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The one answer for a partition, in a task."""
    context = TaskContext.get()
    number = 0 if context is None else int(context.partitionId())
    outcome = task_result(partial(worker, number, _conformed(batches, schema)))
    yield pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([pickle.dumps(outcome)], pa.binary())],
        schema=_ARROW_ANSWERS,
    )


def _conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the names and types of the source, whatever variants the session prefers.

    Instants come in the session's zone, text and binary may come with long offsets.
    """
    for batch in batches:
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
