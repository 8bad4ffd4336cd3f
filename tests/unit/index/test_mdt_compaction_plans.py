"""Compaction plans of the metadata table that are pending when a writer comes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from tests.support.secondary import RECORD_INDEX, Trips

OFTEN = {"hoodie.metadata.compact.max.delta.commits": "2"}


@pytest.mark.parametrize("later", [1, 7, 1_000_000_000], ids=["1 ms", "7 ms", "a day"])
def test_a_copied_plan_does_not_hide_what_was_written_since(tmp_path, later):
    trips = Trips(tmp_path / "t", "cow", properties=RECORD_INDEX)
    folder = Path(trips.path, ".hoodie/metadata/.hoodie/timeline")
    for number in range(6):
        has_plan = any(folder.glob("*.compaction.requested"))
        writer = trips.writer if has_plan else trips.writer.with_options(OFTEN)
        writer.upsert(trips.rows((f"k{number}", number, f"r{number}", "oslo")))
    (plan,) = folder.glob("*.compaction.requested")
    time = int(plan.name.split(".")[0])
    shutil.copyfile(plan, folder / f"{time + later}.compaction.requested")
    trips.writer.upsert(trips.rows(("k9", 9, "r9", "oslo")))

    rows = lakedex.open(trips.path).to_arrow(columns=["uuid"])
    assert sorted(rows["uuid"].to_pylist()) == [*(f"k{number}" for number in range(6)), "k9"]
    assert lakedex.open(trips.path).verify().ok
