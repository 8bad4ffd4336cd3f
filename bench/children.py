"""Measurements in processes of their own, on the PySpark 3.5 that all peers run on."""

from __future__ import annotations

import json
import os
import subprocess

from report import ROOT

PYTHON = ROOT / ".venv-interop" / "bin" / "python"
PATIENCE_SECONDS = 1800


def answer_of(script: str, *arguments: object) -> dict:
    """Run a script of `bench/peers`; the last line that it prints is its answer, in JSON."""
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "bench" / "peers" / script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(PYTHON)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    if done.returncode:
        causes = [
            line for line in done.stderr.splitlines() if "Error" in line or "Caused by" in line
        ]
        told = "\n".join([*causes[:5], done.stderr[-2000:]])
        raise RuntimeError(f"{script} {arguments[0]} failed: {told}")
    return json.loads(done.stdout.splitlines()[-1])
