"""Random histories of tables that have every kind of index at once, some of which come and go.

Each kind has histories of its own elsewhere; here they share commits, properties and lookups.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import lakedex
from lakedex import ReadOptions
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.rollback import rollback_instant
from lakedex.upkeep.cleaning import clean_table
from tests.property.test_random_histories import Histories
from tests.support.history import Commit, History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Model, Row, assert_holds
from tests.support.write_shapes import Shape

NAMES = ("a", "Ab", "aB", "a$", "\U0001f600", "", None, "B")
OPTIONS = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
INDEXES = {
    "by_name": ("name", "", {}),
    "by_number": ("n", "", {"lakedex.covering": "true"}),
    "by_both": (("name", "n"), "", {}),
    "shouted": ("upper(name)", "column_stats", {}),
    "quiet": ("lower(name)", "bloom_filters", {}),
    "day": ("date_format(at, 'yyyy-MM-dd')", "column_stats", {}),
    "mixed": ("concat(trim(name), '-', n)", "column_stats", {}),
    "bits": ("name", "bitmap", {}),
    "bits_of_hour": ("hour(at)", "bitmap", {}),
}
PREDICATES = (
    "name = 'Ab'",
    "name in ('a', 'a$') and n > 0",
    "name is null",
    "name like 'a%' or n = 1",
    "name = 'aB' and n = 2",
    "name >= 'B'",
    "n <= 1",
    "upper(name) = 'AB'",
    "lower(name) in ('ab', 'b')",
    "date_format(at, 'yyyy-MM-dd') <= '2024-01-01'",
    "at < timestamp '2024-01-01 12:00:00'",
    "concat(trim(name), '-', n) = 'Ab-1'",
    "concat(trim(name), '-', n) is null",
    "hour(at) between 3 and 9",
    "id = 'k00003' and name <> 'a'",
    "id in ('k00001', 'k00005')",
)


class TogetherHistories(Histories):
    """Nine indexes beside column stats, partition stats and the record index."""

    @initialize(
        index=st.sampled_from(("GLOBAL_RECORD_LEVEL_INDEX", "GLOBAL_SIMPLE", "BLOOM")),
        first=st.sets(st.sampled_from(sorted(INDEXES)), min_size=4),
    )
    def begin(self, index: str, first: set[str]) -> None:
        self.shape = Shape(self.table_type, index, "hive")
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.writer = writer_of(create(self.shape, self.path, RECORD_INDEX), OPTIONS)
        self.there: set[str] = set()
        self.before: Model | None = None
        self.stood_twice = False
        for name in sorted(first):
            self.make(name)

    def make(self, name: str) -> None:
        columns, using, options = INDEXES[name]
        create_index(self.writer, name, columns, using=using, options=options)
        self.there.add(name)

    def row(self, key: str, ver: int, place: int, *, gone: bool = False) -> Row:
        row = super().row(key, ver, place, gone=gone)
        odd = NAMES[(row.n or 0) % len(NAMES)]
        return row._replace(name=odd, n=None if row.n is None else row.n % 3)

    def write(self, commit: Commit) -> None:
        self.before = self.history.model.copy()
        newest = self.newest()
        super().write(commit)
        if self.newest() == newest:
            self.before = None  # It changed nothing, so that there is nothing to take back.

    def newest(self) -> str:
        done = lakedex.open(self.path).timeline.write_instants()
        return max((each.requested_time for each in done), default="")

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def create_or_drop(self, name: str) -> None:
        self.before = None
        if name in self.there:
            drop_index(self.writer.address, name, self.writer.target().patience)
            self.there.discard(name)
        else:
            self.make(name)

    @precondition(lambda self: self.there)
    @rule(at=st.integers(0, 100))
    def refresh(self, at: int) -> None:
        self.before = None
        refresh_index(self.writer, sorted(self.there)[at % len(self.there)])

    @precondition(lambda self: self.before is not None)
    @rule()
    def take_the_last_write_back(self) -> None:
        rollback_instant(self.writer.address, self.newest())
        self.history.model = self.before
        self.before = None

    @precondition(lambda self: self.history.model.live)
    @rule(column=st.sampled_from(("name", "at")))
    def cluster(self, column: str) -> None:
        self.before = None
        cluster_table(self.writer, column)

    @rule()
    def compact(self) -> None:
        self.before = None
        if self.table_type == "mor":
            compact_table(self.writer)

    @rule()
    def clean(self) -> None:
        self.before = None
        clean_table(self.writer.address, {"hoodie.clean.commits.retained": "1"})

    def judge(self) -> None:
        """Where keys are unique within partitions only, the record index cannot agree with all."""
        assert_holds(self.path, self.history.model, verify=False)
        problems = lakedex.open(self.path).verify().problems
        rows = self.history.model.live.values()
        if len({row.id for row in rows}) < len(rows):
            self.stood_twice = True
        if not self.stood_twice:
            assert not problems, "\n".join(map(str, problems[:10]))

    def teardown(self) -> None:
        try:
            if hasattr(self, "there"):
                self.judge()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "there"):
            return
        self.judge()
        table = lakedex.open(self.path)
        plain = lakedex.open(self.path, options=ReadOptions(without_indexes={"all"}))
        for predicate in PREDICATES:
            found = table.to_arrow(predicate, ["_hoodie_record_key"])
            expected = plain.to_arrow(predicate, ["_hoodie_record_key"])
            assert sorted(found[0].to_pylist()) == sorted(expected[0].to_pylist()), predicate


class TogetherLogHistories(TogetherHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [TogetherHistories, TogetherLogHistories])
def test_random_histories_find_what_a_scan_finds(machine):
    run_histories(machine, count=2, steps=5)
