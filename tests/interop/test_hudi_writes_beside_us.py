"""A JVM writer with the same lock file writes beside lakedex, and no row is lost.

Races of two engines take their time; LAKEDEX_RACES sets how many rounds they go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter
from tests.interop.handing_over import (
    TYPES,
    assert_holds,
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
ROUNDS = int(os.environ.get("LAKEDEX_RACES", "1"))
TURNS_A_ROUND = 3
ATTEMPTS = 8
PAUSE_S = 0.5
JVM_CONFLICTS = ("HoodieWriteConflictException", "HoodieLockException")


@pytest.mark.parametrize("kind", TYPES)
def test_a_jvm_writer_takes_part(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    make_table(path, kind).upsert(source(rows(0, 40, 1)))
    theirs = [turn_of(each, partitions=(0, 1)) for each in range(ROUNDS)]
    mine = [turn_of(each, partitions=(2, 3)) for each in range(TURNS_A_ROUND * ROUNDS)]
    lost: list[str] = []

    def hudi_turns() -> None:
        for batch in theirs:
            write = partial(hudi_writes, spark, path, batch, tmp_path, **LOCKED)
            until_written(write, lost)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(hudi_turns)
        for batch in mine:
            until_written(lambda batch=batch: writer_of(path).upsert(source(batch)), lost)
            time.sleep(PAUSE_S)
        other.result()
    assert_holds(spark, path, merged(rows(0, 40, 1), *theirs, *mine))
    assert not lakedex.open(path).timeline.pending()


class Interrupted(LocalEngine):
    """Lets somebody else write when the data files of a write are there, before its commit."""

    def __init__(self, interruption: Callable[[], None]) -> None:
        super().__init__(2)
        self._interruptions = [interruption]

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._interruptions:
            self._interruptions.pop()()
        return answers


@pytest.mark.parametrize("kind", TYPES)
def test_a_write_that_a_jvm_writer_was_ahead_of(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    make_table(path, kind).upsert(source(rows(0, 40, 1)))
    theirs, mine = rows(8, 16, 2), rows(12, 20, 3)
    ahead = partial(hudi_writes, spark, path, theirs, tmp_path, **LOCKED)
    with pytest.raises(CommitConflict):
        TableWriter(StorageAddress.of(path), Interrupted(ahead)).upsert(source(mine))
    assert not lakedex.open(path).timeline.pending()
    assert_holds(spark, path, merged(rows(0, 40, 1), theirs))
    more = rows(10, 14, 4)
    ahead = partial(hudi_writes, spark, path, more, tmp_path, **LOCKED)
    retried = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    TableWriter(StorageAddress.of(path), Interrupted(ahead), retried).upsert(source(mine))
    # The rows of version 4 are newer than those of version 3 by their ordering value.
    newest = merged(rows(0, 40, 1), theirs, mine, more)
    assert_holds(spark, path, newest)


def turn_of(turn: int, partitions: tuple[int, ...]) -> pa.Table:
    """Some new rows and some known ones, all of a writer's own partitions."""
    table = rows(4 * turn, 4 * turn + 50, 2 + turn)
    chosen = [f"p{number}" for number in partitions]
    return table.filter(pc.is_in(table["p"], pa.array(chosen)))


def until_written(write: Callable[[], object], lost: list[str]) -> None:
    """Write, again and again while the other one is first."""
    for _ in range(ATTEMPTS):
        try:
            write()
        except CommitConflict as error:
            lost.append(str(error))
        except Py4JJavaError as error:
            lost.append(message(error))
            if not any(name in lost[-1] for name in JVM_CONFLICTS):
                raise AssertionError(lost[-1]) from error
        else:
            return
    raise AssertionError(f"the other writer was always first: {lost}")


def message(error: Py4JJavaError) -> str:
    """What an error of the JVM says, with the errors behind it."""
    texts, behind = [], error.java_exception
    while behind is not None:
        texts.append(str(behind.toString()))
        behind = behind.getCause()
    return " <- ".join(texts)
