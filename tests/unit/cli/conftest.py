"""Running the command line: inside this process, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lakedex.cli.main import app

ROOT = Path(__file__).parent.parent.parent.parent
NO_WISHES = dict.fromkeys(("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"))
COMMAND = [sys.executable, "-c", "from lakedex.cli.main import main; main()"]


@pytest.fixture
def lakedex() -> Callable[..., Result]:
    """`lakedex("show", path)` runs that command and gives its output and exit code."""

    def run(*arguments: str, **environment: str) -> Result:
        runner = CliRunner(env={**NO_WISHES, **environment})
        return runner.invoke(app, list(arguments), prog_name="lakedex")

    return run


@pytest.fixture
def lakedex_process() -> Callable[..., subprocess.Popen[str]]:
    """As `lakedex`, in a process of its own that is only begun."""

    def start(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    return start
