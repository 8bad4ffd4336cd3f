"""Work on Spark: order, errors as themselves, retries, labels and cancelling."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from lakedex.errors import (
    CorruptFile,
    FileMissing,
    InvalidInput,
    LakedexError,
    StorageError,
    UnsupportedFeature,
)
from lakedex.spark.engine import SparkEngine
from tests.spark.conftest import ATTEMPTS


@pytest.fixture
def engine(lake, spark):
    return SparkEngine(spark.sparkContext)


def test_answers_come_in_the_order_of_the_tasks_from_other_processes(engine):
    answers = engine.map("square", lambda n: (n * n, os.getpid()), list(range(37)))
    assert [square for square, _ in answers] == [n * n for n in range(37)]
    assert os.getpid() not in {pid for _, pid in answers}


def test_no_tasks_are_no_job(engine):
    assert engine.map("nothing", abs, []) == []


def test_parallelism_is_that_of_the_context(engine):
    assert engine.parallelism == 2


def test_many_tasks_share_few_spark_tasks(engine, spark):
    def partition(_task: int) -> int:
        from pyspark import TaskContext  # noqa: PLC0415 - runs on an executor

        return TaskContext.get().partitionId()

    answers = engine.map("group", partition, list(range(100)))
    assert len(set(answers)) == 4 * spark.sparkContext.defaultParallelism


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: InvalidInput("column 'x' is not there"), InvalidInput, "column 'x' is not there"),
        (
            lambda: CorruptFile("a.hfile", 16, expected="magic", actual=b"XX"),
            CorruptFile,
            "a.hfile at offset 16: expected magic, found b'XX'",
        ),
        (
            lambda: UnsupportedFeature("bootstrap", table_version=6),
            UnsupportedFeature,
            "bootstrap is not supported (table version 6)",
        ),
        (lambda: FileMissing("gone.parquet"), FileMissing, "gone.parquet"),
    ],
)
def test_an_error_of_lakedex_arrives_as_itself(engine, make, kind, message):
    def fail(task: int) -> int:
        if task == 3:
            raise make()
        return task

    with pytest.raises(kind) as caught:
        engine.map("fail", fail, list(range(6)))
    assert type(caught.value) is kind
    assert str(caught.value) == message
    if kind is CorruptFile:
        assert (caught.value.path, caught.value.offset) == ("a.hfile", 16)


def test_the_first_error_in_task_order_is_raised(engine):
    def fail(task: int) -> int:
        if task in {5, 11, 30}:
            raise InvalidInput(f"task {task}")
        return task

    with pytest.raises(InvalidInput, match=r"^task 5$"):
        engine.map("fail", fail, list(range(40)))


def test_any_other_error_is_told_in_one_line(engine):
    def fail(task: int) -> int:
        raise ValueError(f"boom {task}")

    with pytest.raises(LakedexError) as caught:
        engine.map("find the records", fail, [7])
    assert str(caught.value) == "find the records: ValueError: boom 7"
    assert caught.value.__cause__ is not None


def test_an_error_that_will_come_again_is_not_tried_again(engine, tmp_path):
    tries = str(tmp_path / "tries")

    def fail(_task: int) -> int:
        _note(tries)
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        engine.map("fail", fail, [0])
    assert _count(tries) == 1


def test_a_store_that_fails_once_is_asked_again(engine, tmp_path):
    tries = str(tmp_path / "tries")

    def recover(task: int) -> int:
        _note(tries)
        if _count(tries) < ATTEMPTS:
            raise StorageError("the store does not answer")
        return task

    assert engine.map("recover", recover, [5]) == [5]
    assert _count(tries) == ATTEMPTS


def test_a_store_that_keeps_failing_is_told_as_itself(engine, tmp_path):
    tries = str(tmp_path / "tries")

    def fail(_task: int) -> int:
        _note(tries)
        raise StorageError("s3://bucket/a: it's “down” [for now]\nreally")

    with pytest.raises(StorageError) as caught:
        engine.map("fail", fail, [0])
    assert str(caught.value) == "s3://bucket/a: it's “down” [for now]\nreally"
    assert _count(tries) == ATTEMPTS


def test_the_job_has_the_label_and_the_users_own_group(engine, spark):
    context = spark.sparkContext
    context.setJobGroup("mine", "what I do")

    def properties(_task: int) -> tuple[str, str]:
        from pyspark import TaskContext  # noqa: PLC0415 - runs on an executor

        found = TaskContext.get()
        return (
            found.getLocalProperty("spark.jobGroup.id"),
            found.getLocalProperty("spark.job.description"),
        )

    try:
        assert engine.map("write the files", properties, [0]) == [("mine", "write the files")]
        assert context.getLocalProperty("spark.job.description") == "what I do"
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)


@pytest.mark.parametrize("handler", [None, signal.default_int_handler], ids=["spark", "plain"])
def test_an_interrupt_cancels_the_job(engine, spark, tmp_path, handler):
    # Spark's own handler cancels all jobs; a notebook puts its own in that place.
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler or before)
    started = tmp_path / "started"
    path = str(started)

    def sleep(_task: int) -> int:
        _note(path)
        time.sleep(120)
        return 0

    def interrupt() -> None:
        _until(started.exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.map("sleep", sleep, [0, 1])
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    tracker = spark.sparkContext.statusTracker()
    _until(lambda: not list(tracker.getActiveStageIds()))
    assert engine.map("go on", abs, [-1]) == [1]


def _note(path: str) -> None:
    with Path(path).open("ab") as file:
        file.write(b".")


def _count(path: str) -> int:
    return Path(path).stat().st_size


def _until(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
