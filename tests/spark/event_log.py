"""What became of the tasks of a Spark application, read from its event log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TaskEnd:
    """An attempt at a task that has ended."""

    group: str
    """The job group."""
    job: str
    """The description of the job."""
    reason: str
    """`Success`, or what Spark says: `ExecutorLostFailure`, `ExceptionFailure`, `TaskKilled`."""
    is_speculative: bool


def task_ends(folder: Path) -> list[TaskEnd]:
    """All attempts that have ended, in that order."""
    (path,) = (path for path in folder.iterdir() if not path.name.endswith(".crc"))
    jobs: dict[int, tuple[str, str]] = {}
    found = []
    with path.open(encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            if event["Event"] == "SparkListenerJobStart":
                names = event["Properties"]
                job = names.get("spark.jobGroup.id", ""), names.get("spark.job.description", "")
                jobs |= dict.fromkeys(event["Stage IDs"], job)
            elif event["Event"] == "SparkListenerTaskEnd":
                reason = event["Task End Reason"]["Reason"]
                is_speculative = event["Task Info"]["Speculative"]
                found.append(TaskEnd(*jobs[event["Stage ID"]], reason, is_speculative))
    return found
