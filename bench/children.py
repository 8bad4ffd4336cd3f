"""Measurements in processes of their own, on the PySpark 3.5 that all peers run on."""

from __future__ import annotations

import json
import os
import subprocess

from report import ROOT

PYTHON = ROOT / ".venv-interop" / "bin" / "python"
PATIENCE_SECONDS = 1800
FRAMES = (8, 200)
"""Into how many partitions Spark has cut the rows that engines get."""


def answer_of(script: str, *arguments: object, partitions: int = 0) -> dict:
    """Run a script of `bench/peers`; the last line that it prints is its answer, in JSON.

    `run.py --against` sets `PYTHONPATH` to another revision of lakedex: that is measured then.

    Args:
        script: The name of the script.
        arguments: Its command line.
        partitions: The partitions of the frames that it reads; as Spark reads the files if 0.
    """
    environment = {"PYTHONPATH": str(ROOT), **os.environ, "PYSPARK_PYTHON": str(PYTHON)}
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "bench" / "peers" / script), *map(str, arguments)],
        env={**environment, "LAKEDEX_BENCH_PARTITIONS": str(partitions)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    if done.returncode:
        causes = [
            line for line in done.stderr.splitlines() if "Error" in line or "Caused by" in line
        ]
        reason = "\n".join([*causes[:5], done.stderr[-2000:]])
        raise RuntimeError(f"{script} {arguments[0]} failed: {reason}")
    return json.loads(done.stdout.splitlines()[-1])
