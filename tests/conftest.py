"""Fixtures for the whole suite: real tables that Hudi wrote, unzipped once a session."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

GOLDEN_FOLDER = Path(__file__).parent / "golden"

settings.register_profile(
    "quick", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quick")


@dataclass(frozen=True, slots=True)
class GoldenTable:
    """A table that real Hudi wrote, and what Hudi itself says it holds."""

    name: str
    path: str
    expected: dict[str, Any]


def golden_names() -> list[str]:
    """The names of all golden tables, sorted."""
    return sorted(path.stem for path in GOLDEN_FOLDER.glob("*.zip"))


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], GoldenTable]:
    """`golden(name)` unzips that table once and returns it with its expectations."""
    opened: dict[str, GoldenTable] = {}

    def load(name: str) -> GoldenTable:
        if name not in opened:
            folder = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(GOLDEN_FOLDER / f"{name}.zip") as archive:
                archive.extractall(folder)
            expected = json.loads((GOLDEN_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
            opened[name] = GoldenTable(name, str(folder / expected["table_dir"]), expected)
        return opened[name]

    return load
