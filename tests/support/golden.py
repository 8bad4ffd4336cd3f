"""The golden tables: which there are, and what Hudi says of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN_FOLDER = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True, slots=True)
class GoldenTable:
    """A table that real Hudi wrote, and what Hudi itself says it holds."""

    name: str
    path: str
    expected: dict[str, Any]


def golden_names() -> list[str]:
    """The names of all golden tables, sorted."""
    return sorted(path.stem for path in GOLDEN_FOLDER.glob("*.zip"))


@cache
def golden_expected(name: str) -> dict[str, Any]:
    """What Hudi says of one golden table."""
    return json.loads((GOLDEN_FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def golden_queries() -> list[tuple[str, dict[str, Any]]]:
    """All queries with known answers, as (table, query)."""
    return [(name, query) for name in golden_names() for query in golden_expected(name)["queries"]]
