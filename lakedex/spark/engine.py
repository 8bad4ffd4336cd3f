"""Runs workers as Spark jobs (`SparkEngine`), which have labels and can be cancelled.

An error of a worker reaches the driver as itself. One that would occur in every attempt is returned
as the worker's answer, so that Spark does not try again. One that may pass (the store did not
answer) fails the attempt, so that Spark tries again; it is encoded in the message, from which the
driver restores it when Spark gives up.

`map_batches` is `DataFrame.mapInArrow`, which needs pandas on the driver without a reason. Columns
are passed by position, so names may contain dots or occur twice.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, TypeVar

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException
from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction

from lakedex.engine import LocalEngine

try:
    from pyspark.logger import PySparkLogger
except ImportError:  # before Spark 4
    PySparkLogger = None

from lakedex import errors
from lakedex.errors import LakedexError, StorageError
from lakedex.spark.jvm_contract import CANCELLED_JOB

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[Answer]):
    """What came of a worker: an answer, or an error by its text form."""

    answer: Answer | None = None
    failure: str | None = None

    def unwrapped(self) -> Answer:
        """The answer; the error is raised."""
        if self.failure is not None:
            raise _from_text(self.failure)
        return self.answer  # type: ignore[return-value]


class AttemptFailed(Exception):
    """An attempt that Spark may repeat; the message carries the error."""


def task_result(work: Callable[[], Answer]) -> TaskResult[Answer]:
    """Do the work in a task.

    Raises:
        AttemptFailed: What went wrong may pass.
    """
    try:
        return TaskResult(answer=work())
    except LakedexError as error:
        if type(error) is StorageError:
            raise AttemptFailed(f"{_OPENING}{_to_text(error)}{_CLOSING} {error}") from error
        return TaskResult(failure=_to_text(error))


def error_in_message(text: str) -> LakedexError | None:
    """The error that the text of a failed job carries.

    Example:
        >>> try:
        ...     task_result(lambda: (_ for _ in ()).throw(StorageError("s3://b is not there")))
        ... except AttemptFailed as failed:
        ...     error_in_message(f"Job aborted: {failed}")
        StorageError('s3://b is not there')
    """
    found = _CARRIED.search(text)
    return None if found is None else _from_text(found.group(1))


_OPENING, _CLOSING = "[lakedex:", "]"
_CARRIED = re.compile(r"\[lakedex:([A-Za-z0-9_=-]+)\]")


def _to_text(error: LakedexError) -> str:
    # The nearest class that everybody knows comes first.
    names = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, LakedexError)]
    fields = {name: _plain(value) for name, value in vars(error).items()}
    tree = {"names": names, "message": str(error), "fields": fields}
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).decode()


def _from_text(text: str) -> LakedexError:
    tree = json.loads(base64.urlsafe_b64decode(text))
    known = (getattr(errors, name, None) for name in tree["names"])
    kind = next(one for one in known if one is not None)
    # The constructors differ; what they would set is at hand.
    error: LakedexError = kind.__new__(kind)
    Exception.__init__(error, tree["message"])
    vars(error).update(tree["fields"])
    return error


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class _OutsideOfOurWork(logging.Filter):
    """Passes what is logged of the calls of a user, not of those that a call of ours makes."""

    def __init__(self) -> None:
        super().__init__()
        self.work = threading.local()

    def filter(self, _record: logging.LogRecord) -> bool:
        return not getattr(self.work, "depth", 0)


_OUTSIDE = _OutsideOfOurWork()


@contextmanager
def without_traces() -> Iterator[None]:
    """Keep pyspark 4 from logging errors with their whole Java trace in this thread.

    Whoever uses it raises such an error again, as one of lakedex or in words of its own.
    """
    if PySparkLogger is not None:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).addFilter(_OUTSIDE)
    work = _OUTSIDE.work
    work.depth = getattr(work, "depth", 0) + 1
    try:
        yield
    finally:
        work.depth -= 1


_CANCELLED = re.compile(CANCELLED_JOB)
_POLL_S = 0.2


def run_job(context: SparkContext, label: str, work: Callable[[], Answer]) -> Answer:
    """Do work that runs Spark jobs, under a label; an interrupt cancels them.

    The jobs are waited for in a thread of their own: an interrupt in the middle of a call to the
    JVM would break the connection instead of the job. The thread has the caller's job group and
    other properties, and changes its own copies only.

    Raises:
        LakedexError: The error of a worker, as it was raised there, or what Spark says.
    """
    tag = f"lakedex-{uuid.uuid4().hex}"
    done: Future[Answer] = Future()

    def labelled() -> None:
        try:
            context.setLocalProperty("spark.job.description", label)
            context.setLocalProperty("spark.job.interruptOnCancel", "true")
            context.addJobTag(tag)
            with without_traces():
                result = work()
            done.set_result(result)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            done.set_exception(error)

    InheritableThread(target=labelled, daemon=True).start()
    try:
        # Not `join`: a thread whose join was interrupted says that it has ended.
        wait([done])
    except BaseException:
        # The job may not have been handed in yet, so once may not be enough.
        while not done.done():
            context.cancelJobsWithTag(tag)
            wait([done], _POLL_S)
        raise
    try:
        return done.result()
    except (Py4JError, PySparkException) as error:
        readable = _readable(error, label)
        # The Java trace of a cancelled job explains nothing, and Spark overflows its stack when it
        # searches a long text for the reason why a stream ended.
        raise readable from (None if is_cancelled(readable) else error)


def is_cancelled(error: Exception) -> bool:
    """Whether an error is that of a cancelled Spark job; `LakeSink` uses the same pattern.

    Example:
        >>> is_cancelled(LakedexError("write the files: Job 12 cancelled part of a job group"))
        True
    """
    return _CANCELLED.search(str(error)) is not None


def _readable(error: Exception, label: str) -> LakedexError:
    text = str(error)
    carried = error_in_message(text)
    if carried is not None:
        return carried
    reason = _reason(text)
    if reason.startswith(ModuleNotFoundError.__name__):
        reason += " (the Python of the executors needs pyarrow and numpy; PYSPARK_PYTHON names it)"
    return LakedexError(f"{label}: {reason}")


# The last line of a Python traceback stands before the empty line that ends it.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n(?=[ \t]))*([^\s].*)"
)
_SPARK_ERROR = re.compile(r"(?:^|\n): (.*)")


def _reason(text: str) -> str:
    in_worker = _PYTHON_ERROR.search(text)
    if in_worker:
        return in_worker.group(1).strip()
    on_driver = _SPARK_ERROR.search(text)
    return (on_driver.group(1) if on_driver else text.partition("\n")[0]).strip()


BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_FIRST_WITH_RESOURCE_PROFILES = 4


def map_batches(rows: DataFrame, function: BatchFunction, schema: StructType) -> DataFrame:
    """A DataFrame of what a function makes of each partition's batches.

    Args:
        rows: The input; its columns come as `_0`, `_1` and so on.
        function: Gets the batches of one partition; it can be pickled.
        schema: The columns of the batches that it gives.
    """
    placed = rows.toDF(*[f"_{n}" for n in range(len(rows.columns))])
    udf = UserDefinedFunction(
        function, returnType=schema, name="lakedex", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = udf(*[placed[name] for name in placed.columns])._jc
    if int(pyspark.__version__.partition(".")[0]) >= _FIRST_WITH_RESOURCE_PROFILES:
        mapped = placed._jdf.mapInArrow(column, False, None)  # noqa: FBT003 - a Java method
    else:
        mapped = placed._jdf.pythonMapInArrow(column.expr(), False)  # noqa: FBT003 - a Java method
    return DataFrame(mapped, rows.sparkSession)


Task = TypeVar("Task")

_WAVES = 4
"""A Python task costs some 70 ms whatever it does: beyond these a core's tasks go together."""


class SparkEngine:
    """Runs workers on the executors of a Spark application."""

    def __init__(self, context: SparkContext) -> None:
        """Use the executors of this context; they must have been shipped the package."""
        self._context = context
        self._driver = LocalEngine()

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        return int(self._context.defaultParallelism)

    @property
    def repeats_tasks(self) -> bool:
        """Always True: Spark runs tasks again that failed, and slow ones twice."""
        return True

    def map(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """The worker's answers in the order of the tasks; the first error of a task is raised.

        Args:
            label: The description of the job.
            worker: A function of a module, or a `functools.partial` of one.
            tasks: What to work on; each can be pickled.
        """
        if not tasks:
            return []
        count = min(len(tasks), _WAVES * self.parallelism)
        # Neighbours are often alike in size, so they go to different groups.
        numbered = list(enumerate(tasks))
        groups = [numbered[first::count] for first in range(count)]
        done: list[list[tuple[int, TaskResult[Answer]]]] = run_job(
            self._context,
            label,
            lambda: self._context.parallelize(groups, count).map(partial(_work, worker)).collect(),
        )
        outcomes = sorted(chain.from_iterable(done), key=_number)
        # A group ends at its first error, so what is missing comes after one that is here.
        return [outcome.unwrapped() for _, outcome in outcomes]

    def map_small(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """As `map`, in threads of the driver: a job costs some 200 ms whatever it does."""
        return self._driver.map(label, worker, tasks)


def _work(
    worker: Callable[[Task], Answer], group: Sequence[tuple[int, Task]]
) -> list[tuple[int, TaskResult[Answer]]]:
    done: list[tuple[int, TaskResult[Answer]]] = []
    for number, task in group:
        outcome = task_result(partial(worker, task))
        done.append((number, outcome))
        if outcome.failure is not None:
            break
    return done


def _number(numbered: tuple[int, TaskResult[Answer]]) -> int:
    return numbered[0]
