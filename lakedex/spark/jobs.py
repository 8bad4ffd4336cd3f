"""Spark jobs that people can watch and stop, and whose errors are readable."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from lakedex.errors import LakedexError
from lakedex.spark.jvm_contract import CANCELLED_JOB
from lakedex.spark.outcome import carried_error

Answer = TypeVar("Answer")

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
            done.set_result(work())
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
    carried = carried_error(text)
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
