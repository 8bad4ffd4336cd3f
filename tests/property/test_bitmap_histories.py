"""Random histories of tables with bitmap indexes: what they find is what a full scan finds."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import lakedex
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from tests.property.test_expression_histories import ZONE, ComputedHistories
from tests.support.random_histories import run_histories

INDEXES = {"name": "name", "shouted": "upper(name)", "hour": "hour(at)", "at": "at", "day": "n"}


class BitmapHistories(ComputedHistories):
    """Five indexes that come and go, runs that are merged early, and verified every time."""

    def make(self, name: str) -> None:
        options = {ZONE: self.zone}
        create_index(self.writer, name, INDEXES[name], using="bitmap", options=options)
        self.there.add(name)

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def create_or_drop(self, name: str) -> None:
        if name not in self.there:
            self.make(name)
        elif name != "day":
            drop_index(StorageAddress.of(self.path), name, self.writer.target().patience)
            self.there.discard(name)

    @precondition(lambda self: getattr(self, "there", None))
    @rule()
    def refresh_and_verify(self) -> None:
        for name in sorted(self.there):
            refresh_index(self.writer, name)
        report = lakedex.open(self.path).verify()
        assert report.ok, report
        assert not [note for note in report.notes if "bitmap" in str(note)], report.notes


class BitmapLogHistories(BitmapHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [BitmapHistories, BitmapLogHistories])
def test_random_histories_find_what_a_scan_finds(machine, monkeypatch):
    monkeypatch.setattr("lakedex.write.file_indexes._MOST_RUNS", 3)
    monkeypatch.setenv("LAKEDEX_INDEX_COST", "ignore")
    run_histories(machine, count=2, steps=8)
