"""Workers that get stuck in mid-write, and rows made on executors; sent there as one file."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from lakedex.errors import InvalidInput, LakedexError
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.task import write_groups

STUCK_S = 300
POLL_S = 0.02
ROWS_A_BATCH = 1000


def tell(path: Path, what: object) -> None:
    """Write a note that others see whole or not at all."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    part.write_text(json.dumps(what), encoding="utf-8")
    part.replace(path)


def stuck_once(notes: str, survives: bool, task):
    """Write the files of a task; the first attempt with two files stops before its second one.

    It goes on when the file `go` is there. One that `survives` stays when its executor dies, as a
    process does that hangs in a call to the system.
    """
    folder = Path(notes)
    number = TaskContext.get().attemptNumber()
    tell(folder / f"attempt-{task.number}-{number}", os.getpid())
    if len(task.groups) < 2 or not _is_first(folder / "victim"):
        return write_groups(task)
    if survives:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    original, done = Publisher.publish, []

    def publish(self, group, data):
        if len(done) == 1:
            tell(folder / "stuck", {"pid": os.getpid(), "task": task.number})
            _wait_for(folder / "go")
        done.append(group)
        return original(self, group, data)

    Publisher.publish = publish
    try:
        answer = write_groups(task)
    except LakedexError as error:
        tell(folder / "end", type(error).__name__)
        raise
    else:
        tell(folder / "end", "done")
        return answer
    finally:
        Publisher.publish = original


def refuse_first(task):
    """Write the files of a task, then fail if it is the first one, for good."""
    answer = write_groups(task)
    if task.number == 0:
        raise InvalidInput("refused by the test")
    return answer


def _is_first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _wait_for(path: Path) -> None:
    end = time.monotonic() + STUCK_S
    while not path.exists() and time.monotonic() < end:
        time.sleep(POLL_S)


def random_payloads(
    version: int, row_bytes: int, ids: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows `id, part, v, payload` of given ids with bytes that no codec makes smaller."""
    for batch in ids:
        for start in range(0, batch.num_rows, ROWS_A_BATCH):
            part = batch.column(0).slice(start, ROWS_A_BATCH)
            numbers = part.to_numpy()
            count = len(numbers)
            data = np.random.default_rng([version, int(numbers[0])]).bytes(count * row_bytes)
            yield pa.record_batch(
                [
                    pa.array(numbers.astype(str)),
                    pa.array((numbers % 4).astype(str)),
                    pa.array(np.full(count, version)),
                    pa.FixedSizeBinaryArray.from_buffers(
                        pa.binary(row_bytes), count, [None, pa.py_buffer(data)]
                    ).cast(pa.binary()),
                ],
                ["id", "part", "v", "payload"],
            )
