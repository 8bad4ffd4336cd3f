"""The interface that runs workers: in threads of this process, or as tasks of a Spark job.

A worker is a function of one task. Both can be pickled. A task may run more than once, even
concurrently. Its result is small, because rows are passed in files.
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
        """The number of tasks that run at the same time."""

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task may run more than once, and go on after its answer is needed."""

    def map(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """Return the worker's results in the order of the tasks; raise the first error of a task.

        Args:
            label: A description of the work, for a user interface.
            worker: A function of a module, or a `functools.partial` of one.
            tasks: The arguments of the worker; each can be pickled.
        """

    def map_small(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """Like `map`, for tasks that together take less time than starting a job."""


class LocalEngine:
    """Runs workers in threads of this process.

    Example:
        >>> LocalEngine(2).map("absolute values", abs, [-1, 2])
        [1, 2]
    """

    def __init__(self, parallelism: int | None = None) -> None:
        """Use `parallelism` threads; the default is the number of cores."""
        self._parallelism = parallelism or os.cpu_count() or 1

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""
        return self._parallelism

    @property
    def repeats_tasks(self) -> bool:
        """Always False: a thread runs its task once, and the work ends when all threads have."""
        return False

    def map(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """Return the worker's results in the order of the tasks."""
        del label
        if len(tasks) < 2 or self._parallelism < 2:
            return [worker(task) for task in tasks]
        with ThreadPoolExecutor(min(self._parallelism, len(tasks))) as pool:
            return list(pool.map(worker, tasks))

    def map_small(
        self, label: str, worker: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> list[Answer]:
        """Like `map`, because threads start without a job."""
        return self.map(label, worker, tasks)
