"""Runs workers as the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from pyspark import SparkContext

from lakedex.engine import LocalEngine
from lakedex.spark.jobs import TaskResult, run_job, task_result

Task = TypeVar("Task")
Answer = TypeVar("Answer")

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
