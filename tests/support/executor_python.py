"""The Python of executors, with pyarrow and numpy only."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def executor_python_path() -> str:
    """Its path; `make` makes it if it is not there."""
    subprocess.run(["make", ".venv-executor/.ready"], cwd=ROOT, check=True, capture_output=True)
    return str(ROOT / ".venv-executor" / "bin" / "python")
