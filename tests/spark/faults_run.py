"""Runs the program of faults in a process of its own, and gives what it left and told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.event_log import TaskEnd, task_ends

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
WIDTH = 8192
WRITE = "write the files"


@dataclass(frozen=True)
class Run:
    """What a run of the program left and told."""

    folder: Path
    told: dict[str, dict[str, Any]]
    ends: list[TaskEnd]

    def reasons(self, step: str, job: str) -> list[str]:
        return [end.reason for end in self.ends if (end.group, end.job) == (step, job)]

    def speculated(self, step: str, job: str) -> list[str]:
        """How the second attempts of a job ended that Spark made out of impatience."""
        return [
            end.reason
            for end in self.ends
            if (end.group, end.job) == (step, job) and end.is_speculative
        ]

    def was_in_the_middle(self, step: str) -> bool:
        return 0 < (self.told[step]["files_then"] or 0) < self.told[step]["files"]

    def missed(self) -> list[str]:
        """The steps whose trouble came too early or too late, as it may on a busy machine."""
        came = {
            "load": lambda: (
                "ExecutorLostFailure" in self.reasons("load", WRITE)
                and self.was_in_the_middle("load")
            ),
            "upsert": lambda: (
                "ExecutorLostFailure" in self.reasons("upsert", WRITE)
                and self.was_in_the_middle("upsert")
            ),
            "delete": lambda: (
                "ExceptionFailure" in self.reasons("delete", WRITE)
                and self.was_in_the_middle("delete")
            ),
            "slow": lambda: "Success" in self.speculated("slow", "read the rows"),
            "zombie": lambda: (
                "Success" in self.speculated("zombie", WRITE)
                and bool(self.told["zombie"]["was_stopped"])
                and self.was_in_the_middle("zombie")
            ),
        }
        return [step for step in self.told if not came[step]()]


def run_with_trouble(
    folder: Path, executor_python: str, rows: int, *steps: str, tries: int = 3
) -> Run:
    """Run the program, again where a machine so busy that Spark gave up spoilt its trouble."""
    for number in range(tries):
        own = folder / f"try-{number}"
        own.mkdir()
        run = run_program(own, executor_python, rows, *steps)
        if not run.missed():
            break
    return run


def run_program(folder: Path, executor_python: str, rows: int, *steps: str) -> Run:
    """Let the program take these steps, the first with so many rows of 8 kB."""
    program = [sys.executable, str(FOLDER / "faults_program.py")]
    given = [str(folder), executor_python, str(rows), str(WIDTH), *steps]
    with subprocess.Popen(
        program + given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{FOLDER / 'executor_site'}{os.pathsep}{ROOT}"},
        start_new_session=True,
    ) as process:
        try:
            out, problems = process.communicate(timeout=240)
        finally:
            # Executors are processes of the same group.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, problems[-4000:]
    return Run(folder, json.loads(out.splitlines()[-1]), task_ends(folder / "events"))
