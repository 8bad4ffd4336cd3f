"""Where work runs: the same workers in threads of this process, or as tasks of a Spark job.

A worker is a function of one task; function and tasks can be pickled, and a task may run more than
once, also twice at the same time. What it answers is small: rows travel in files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Engine(Protocol):
    """Runs workers over tasks."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task may run more than once, and go on after its answer is needed."""

    def map(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """The worker's answers in the order of the tasks; the first error of a task is raised.

        Args:
            label: What the work is, for people who watch it.
            worker: A function of a module, or a `functools.partial` of one.
            tasks: What to work on; each can be pickled.
        """

    def map_small(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """As `map`, for tasks that are less work all together than to start a job for them."""


class LocalEngine:
    """Runs workers in threads of this process.

    Example:
        >>> LocalEngine(2).map("absolute values", abs, [-1, 2])
        [1, 2]
    """

    def __init__(self, parallelism: int | None = None) -> None:
        """Use as many threads as there are cores, unless told otherwise."""
        self._parallelism = parallelism or os.cpu_count() or 1

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        return self._parallelism

    @property
    def repeats_tasks(self) -> bool:
        """Always False: a thread runs its task once, and the work ends when all threads have."""
        return False

    def map(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """The worker's answers in the order of the tasks."""
        del label
        if len(tasks) < 2 or self._parallelism < 2:
            return [worker(task) for task in tasks]
        with ThreadPoolExecutor(min(self._parallelism, len(tasks))) as pool:
            return list(pool.map(worker, tasks))

    def map_small(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """As `map`: here all work is near."""
        return self.map(label, worker, tasks)
