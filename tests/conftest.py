"""Fixtures for the whole suite: real tables that Hudi wrote, unzipped once a session."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.damage import Damage
from tests.support.folders import MEMORY, room_in_memory
from tests.support.golden import GOLDEN_FOLDER, GoldenTable, golden_expected

# Tests that count switch it on; the others leave no counters of tables that are gone tomorrow.
os.environ.setdefault("LAKEDEX_INDEX_USAGE", "off")
# And those that do leave them in no user's folder.
os.environ["XDG_STATE_HOME"] = str(Path(tempfile.gettempdir()) / "lakedex-tests-state")
# The tables of tests are so small that no index would be worth asking.
os.environ.setdefault("LAKEDEX_INDEX_COST", "ignore")

# Tables of tests lie in memory where there is room: what is written has to reach the disk before a
# commit goes on, and tests commit many thousand times. Another folder can be named.
if room_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
# Every JVM of a test is short, also those that programs and clusters of tests start: code that is
# compiled well costs more than it gains, and room for classes that grows step by step is collected
# before each step.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=300m")

# The same examples each time: what the gate says of a change must be about that change.
settings.register_profile(
    "quick",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples each time, as many as a developer waits for: `--hypothesis-profile=new`.
settings.register_profile(
    "new", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quick")

_ONE_PROCESS = "tests/spark/"
_FILE_BY_FILE = "tests/interop/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests with Spark go to one process: two sessions would fight for two cores.

    Those with Hudi wait more than they work; their files are shared out. So are all files with
    `--dist loadfile`, where nothing but Spark is asked for.
    """
    if config.getoption("dist") == "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - not there without xdist

    class SparkTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_FILE_BY_FILE):
                return nodeid.partition("::")[0]
            return _ONE_PROCESS if nodeid.startswith(_ONE_PROCESS) else nodeid

    return SparkTogether(config, log)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], GoldenTable]:
    """`golden(name)` unzips that table once and returns it with its expectations."""
    opened: dict[str, GoldenTable] = {}

    def load(name: str) -> GoldenTable:
        if name not in opened:
            folder = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(GOLDEN_FOLDER / f"{name}.zip") as archive:
                archive.extractall(folder)
            expected = golden_expected(name)
            opened[name] = GoldenTable(name, str(folder / expected["table_dir"]), expected)
        return opened[name]

    return load


@pytest.fixture
def damage(golden, tmp_path) -> Callable[[str], Damage]:
    """`damage(name)` is a copy of a golden table that may be damaged."""

    def copy(name: str) -> Damage:
        target = tmp_path / name
        shutil.copytree(golden(name).path, target)
        return Damage(target)

    return copy


_SECONDS: dict[str, float] = {}
"""How long the tests of each file took, in the process that prints the report."""
_PRINTED_FILES = 25


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, test and tear-down by file."""
    file = report.nodeid.partition("::")[0]
    _SECONDS[file] = _SECONDS.get(file, 0.0) + report.duration


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print where the time went, and keep it for the next look (`--cache-show lakedex/*`)."""
    if len(_SECONDS) <= _PRINTED_FILES or getattr(config, "cache", None) is None:
        return
    config.cache.set("lakedex/seconds", {file: round(s, 2) for file, s in _SECONDS.items()})
    folders: dict[str, float] = {}
    for file, seconds in _SECONDS.items():
        folder = "/".join(Path(file).parts[:2])
        folders[folder] = folders.get(folder, 0.0) + seconds
    terminalreporter.section("seconds by folder, and by file")
    for found, most in ((folders, len(folders)), (_SECONDS, _PRINTED_FILES)):
        for name, seconds in sorted(found.items(), key=lambda each: -each[1])[:most]:
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
