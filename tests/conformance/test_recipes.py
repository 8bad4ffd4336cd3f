"""The recipes for engines without Hudi run as they stand in the docs, and give the right rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import lakedex

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
DEAR = 20.0


@pytest.fixture(scope="module")
def told(golden, tmp_path_factory) -> dict[str, Any]:
    """What the code of the page leaves behind, all of it run once."""
    folder = tmp_path_factory.mktemp("recipes")
    shutil.copytree(golden("cow_trips_all_indexes").path, folder / "trips")
    shutil.copytree(golden("mor_trips_all_indexes").path, folder / "changing_trips")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    space: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), space)
        space["dear"] = _rows(
            lakedex.open("changing_trips"), lambda row: (row["fare"] or 0.0) > DEAR
        )
        space["expected"] = _rows(
            lakedex.open("trips"),
            lambda row: row["rider"] == "rider-B" and row["city"] == "los_angeles",
        )
    return space


def _rows(table: lakedex.Table, test: Any) -> list[dict[str, Any]]:
    """All rows are read, and filtered here."""
    found = [row for row in table.to_arrow().to_pylist() if test(row)]
    assert found
    return found


def test_engines_read_the_pruned_files(told):
    expected = sorted((row["uuid"], row["rider"], row["fare"]) for row in told["expected"])
    assert sorted(told["found"]) == expected
    assert sorted(told["frame"].rows()) == expected
    assert 0 < len(told["paths"]) < len(told["trips"].files())


def test_engines_take_merged_rows_as_arrow(told):
    most: dict[str, float] = {}
    for row in told["dear"]:
        most[row["city"]] = max(row["fare"], most.get(row["city"], 0.0))
    assert told["dearest"] == most
    expected = sorted((row["uuid"], row["fare"]) for row in told["dear"])
    assert sorted(told["polars_rows"].rows()) == expected


def test_merged_rows_and_files_go_together(told):
    assert told["logged"]
    expected = sorted((row["uuid"], row["fare"]) for row in told["dear"])
    assert sorted(told["united"]) == expected
