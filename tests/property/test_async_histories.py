"""Random histories of tables with indexes that no writer maintains: query = scan at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import lakedex
from lakedex.prune.report import Step
from lakedex.services.clustering import cluster_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from tests.property.test_random_histories import Histories, MergeOnReadHistories
from tests.support.history import Commit, History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Row, assert_holds
from tests.support.write_shapes import Shape

NAMES = ("a", "ab", "a$", "\\c", "c", "", None, "Zz")
ASKED: dict[str, Callable[[Row], bool]] = {
    "name = 'a'": lambda row: row.name == "a",
    "name = 'c'": lambda row: row.name == "c",
    "name is null": lambda row: row.name is None,
    "name >= 'a'": lambda row: row.name is not None and row.name >= "a",
    "name = 'a$' and n = 1": lambda row: (row.name, row.n) == ("a$", 1),
    "upper(name) = 'ZZ'": lambda row: row.name == "Zz",
    "upper(name) = 'AB' or n = 0": lambda row: row.name == "ab" or row.n == 0,
    "n in (1, 2)": lambda row: row.n in (1, 2),
}
OPTIONS = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
INDEXES = ("on_name", "on_both", "on_upper", "on_n")
ONLY = lakedex.ReadOptions(weighs_cost=False, without_indexes={"column_stats", "partition_stats"})


class AsyncHistories(Histories):
    """Four indexes of three kinds that are refreshed now and then, each by itself."""

    @initialize(style=st.sampled_from(("simple", "hive")))
    def begin(self, style: str) -> None:
        self.shape = Shape(self.table_type, "GLOBAL_RECORD_LEVEL_INDEX", style)
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.writer = writer_of(create(self.shape, self.path, RECORD_INDEX), OPTIONS)
        lagging = {"maintenance": "async"}
        create_index(self.writer, "on_name", "name", options=lagging)
        create_index(self.writer, "on_both", ("name", "n"), options=lagging)
        create_index(self.writer, "on_upper", "upper(name)", options=lagging)
        create_index(self.writer, "on_n", "n", using="bitmap", options=lagging)
        self.is_ready = True

    def row(self, key: str, ver: int, place: int, *, gone: bool = False) -> Row:
        row = super().row(key, ver, place, gone=gone)
        return row._replace(
            name=NAMES[(row.n or 0) % len(NAMES)], n=None if row.n is None else row.n % 3
        )

    @rule(name=st.sampled_from(INDEXES), rebuild=st.booleans())
    def refresh(self, name: str, rebuild: bool) -> None:
        refresh_index(self.writer, name, rebuild=rebuild)

    @rule()
    def refresh_all(self) -> None:
        for name in INDEXES:
            refresh_index(self.writer, name)

    @precondition(lambda self: self.history.model.live)
    @rule(column=st.sampled_from(("name", "n")))
    def cluster(self, column: str) -> None:
        cluster_table(self.writer, column)

    @rule(places=st.integers(0, 2), ver=st.integers(1, 9), covered=st.booleans())
    def write_and_take_back(self, places: int, ver: int, covered: bool) -> None:
        """A write that an index may have read, and that is rolled back."""
        rows = tuple(self.row(key, ver + 20, places) for key in ("k00000", "k00001"))
        tombs, live = dict(self.tombs), dict(self.history.model.live)
        result = Commit("upsert", rows).write(self.shape, self.writer)
        newest = result.instant
        if covered:
            refresh_index(self.writer, "on_name")
        timeline = self.writer.snapshot().timeline
        later = [each.requested_time for each in timeline.write_instants()]
        for instant in reversed(later):
            if newest is not None and instant >= newest:
                rollback_instant(StorageAddress.of(self.path), instant)
        self.tombs, self.history.model.live = tombs, live

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "is_ready"):
            return
        model, table = self.history.model, lakedex.open(self.path, options=ONLY)
        assert_holds(self.path, model, verify=False)
        for predicate, is_true in ASKED.items():
            expected = sorted(model.key(row) for row in model.live.values() if is_true(row))
            rows = table.to_arrow(predicate, ["_hoodie_record_key"])
            assert sorted(rows["_hoodie_record_key"].to_pylist()) == expected, predicate

    def teardown(self) -> None:
        """After a rebuild an index names no file slice without a row of the value."""
        if hasattr(self, "is_ready"):
            rows = [self.row(f"z{at}", 40, at)._replace(name=f"needle{at}") for at in range(3)]
            self.write(Commit("upsert", tuple(rows)))
            for name in INDEXES:
                refresh_index(self.writer, name, rebuild=True)
            without = ONLY.without_indexes | {"secondary_index_async-on_both"}
            table = lakedex.open(self.path, options=replace(ONLY, without_indexes=without))
            for number in range(3):
                step = _step(table, f"name = 'needle{number}'", "secondary_index_async-on_name")
                assert step.after == 1 < step.before, step
            rows = list(self.history.model.live.values())
            step = _step(table, "n = 1", "bitmap_index_on_n")
            assert step.after <= sum(row.n == 1 for row in rows), step
        super().teardown()


def _step(table: lakedex.Table, predicate: str, index: str) -> Step:
    (step,) = [each for each in table.explain(predicate).steps if each.index == index]
    assert step.used, step.reason
    return step


class AsyncLogHistories(AsyncHistories, MergeOnReadHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [AsyncHistories, AsyncLogHistories])
def test_queries_find_the_rows_of_a_scan_however_far_an_index_lags(machine):
    run_histories(machine, count=2, steps=8)
