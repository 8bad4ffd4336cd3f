"""A JVM writer with the same lock file writes beside lakedex, and no row is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError

import lakedex
from lakedex.errors import CommitConflict
from tests.interop.handing_over import (
    TYPES,
    assert_holds,
    by_lakedex,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)

LOCKED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.automatic": "true",
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.num_retries": "150",
}
PATIENT = {"hoodie.write.lock.wait_time_ms_between_retry": "100"}
ROUNDS = 3
ATTEMPTS = 30
JVM_CONFLICTS = ("HoodieWriteConflictException", "HoodieLockException")


@pytest.mark.parametrize("kind", TYPES)
def test_a_jvm_writer_takes_part(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    make_table(path, kind).upsert(source(rows(0, 40, 1)))
    problems: list[BaseException] = []
    lost: list[str] = []

    def hudi_turns() -> None:
        try:
            for turn in range(ROUNDS):
                batch = rows(100 + 10 * turn, 120 + 10 * turn, 2 + turn)
                until_written(
                    lambda batch=batch: hudi_writes(spark, path, batch, tmp_path, **LOCKED),
                    Py4JJavaError,
                    lost,
                )
        except BaseException as error:  # noqa: BLE001 - told by the test below
            problems.append(error)

    other = threading.Thread(target=hudi_turns)
    other.start()
    writer, turn = writer_of(path, PATIENT), 0
    mine = []
    while other.is_alive() or turn < ROUNDS:
        batch = rows(200 + 10 * turn, 220 + 10 * turn, 2 + turn)
        until_written(lambda batch=batch: writer.upsert(source(batch)), CommitConflict, lost)
        mine.append(batch)
        turn += 1
        time.sleep(0.3)
    other.join()
    assert not problems, message(problems[0])
    theirs = [rows(100 + 10 * each, 120 + 10 * each, 2 + each) for each in range(ROUNDS)]
    expected = merged(rows(0, 40, 1), *theirs, *mine)
    assert len(by_lakedex(path)) == len(expected)
    assert_holds(spark, path, expected)
    assert not lakedex.open(path).timeline.pending()


def until_written(write: Callable[[], object], conflict: type[Exception], lost: list[str]) -> None:
    """Write, again and again while the other one is first."""
    for attempt in range(ATTEMPTS):
        try:
            write()
        except conflict as error:
            lost.append(message(error))
            told = isinstance(error, CommitConflict) or any(
                name in lost[-1] for name in JVM_CONFLICTS
            )
            if attempt == ATTEMPTS - 1 or not told:
                raise
        else:
            return


def message(error: BaseException) -> str:
    """What an error says, of the JVM with the errors behind it."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    texts, behind = [], error.java_exception
    while behind is not None:
        texts.append(str(behind.toString()))
        behind = behind.getCause()
    return " <- ".join(texts)
