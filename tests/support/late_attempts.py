"""Attempts at a task that stop, as a machine does that hangs, and go on much later.

An attempt is a real process. Before or after a chosen change of the table's files it sends itself
SIGSTOP, and the test sends SIGCONT when the write that it belongs to is long over.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakedex.engine import LocalEngine
from tests.support import killing

PATIENCE_S = 30.0


@dataclass
class StopAt(killing.Watch):
    """Stops the process at the first creation of a file that is meant."""

    folder: str = ""
    """The file's path begins with this."""
    suffix: str = ""
    """And ends with this."""
    is_after: bool = False
    """Whether the file is made before the process stops."""
    has_stopped: bool = False

    @contextmanager
    def change(self, verb: str, path: str) -> Iterator[None]:
        """Around one change."""
        is_meant = path.startswith(self.folder) and path.endswith(self.suffix)
        stops = verb == "create" and is_meant and not self.has_stopped
        self.has_stopped |= stops
        if stops and not self.is_after:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            yield
        finally:
            if stops and self.is_after:
                os.kill(os.getpid(), signal.SIGSTOP)


class RepeatingEngine(LocalEngine):
    """An engine of this process whose tasks may go on when nobody waits for them, as Spark's do."""

    @property
    def repeats_tasks(self) -> bool:
        return True


@dataclass
class LateEngine(RepeatingEngine):
    """An engine of this process that lets one more attempt at a task begin, and stop."""

    label: str
    """The stage of that attempt."""
    stop: StopAt
    fails: bool = False
    """Whether the stage then fails, so that the write is rolled back."""
    late: list[Any] = field(default_factory=list)

    @property
    def parallelism(self) -> int:
        return 1

    def map(self, label: str, worker: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if label == self.label and not self.late:
            attempt = killing.start(_attempt, worker, tasks[0], watch=self.stop)
            self.late.append(attempt)
            _wait_until_stopped(attempt.pid)
            if self.fails:
                raise JobFailed
        return [worker(task) for task in tasks]

    def wake(self) -> int:
        """Let the late attempt go on to its end, and answer its exit code."""
        (attempt,) = self.late
        os.kill(attempt.pid, signal.SIGCONT)
        return killing.finish(attempt)


class JobFailed(Exception):
    """What becomes of a stage that is to fail."""


ENDED_AS_REFUSED = 1
"""The exit code of an attempt that met an error."""


def _attempt(worker: Callable[[Any], Any], task: Any) -> None:
    # What it says is of no use to anybody.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    worker(task)


def _wait_until_stopped(pid: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        if state == "T":
            return
        time.sleep(0.01)
    raise AssertionError("the attempt did not come to its stop")
