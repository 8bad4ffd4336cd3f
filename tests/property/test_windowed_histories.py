"""Random histories of tables with a record index of the newest days, strangers writing too."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.property.test_random_histories import Histories, changes
from tests.support.history import Commit, History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.windowed import stranger
from tests.support.write_shapes import Shape

INDEXES = ("GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX")


class WindowedHistories(Histories):
    """Three days, of which the index knows one, two or all."""

    @initialize(index=st.sampled_from(INDEXES), days=st.sampled_from((1, 2, 9)))
    def begin(self, index: str, days: int) -> None:
        self.shape = Shape(self.table_type, index, "daily", days)
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.writer = writer_of(
            create(self.shape, self.path), {"hoodie.metadata.compact.max.delta.commits": "3"}
        )

    @rule(changes=changes)
    def upsert_by_a_stranger(self, changes: list[tuple[str, int, int, bool]]) -> None:
        rows = [self.row(key, ver, place) for key, ver, place, _ in changes]
        rows = list({(row.id, row.ver): row for row in rows}.values())
        with stranger(self.shape, self.path) as writer:
            self.history.apply(Commit("upsert", tuple(rows))).write(self.shape, writer)


class WindowedMergeOnReadHistories(WindowedHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [WindowedHistories, WindowedMergeOnReadHistories])
def test_random_histories_with_a_window_leave_the_rows_of_the_model(machine):
    run_histories(machine, count=3, steps=10)
