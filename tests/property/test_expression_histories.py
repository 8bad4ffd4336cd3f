"""Random histories of tables with expression indexes: what they find is what a full scan finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import lakedex
from lakedex import ReadOptions
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.cleaning import clean_table
from tests.property.test_random_histories import Histories
from tests.support.history import History, create, writer_of
from tests.support.random_histories import run_histories
from tests.support.row_model import Row, assert_holds
from tests.support.write_shapes import Shape

NAMES = ("a", "Ab", "aB", "straße", "ŉ", "\U0001f600", "", None, "B", "É")
OPTIONS = {"hoodie.metadata.compact.max.delta.commits": "3", "hoodie.clean.automatic": "false"}
ZONE = "lakedex.expression.time.zone"
ZONES = ("UTC", "America/New_York", "+05:30")
PREDICATES = (
    "upper(name) = 'AB'",
    "upper(name) in ('B', 'STRASSE')",
    "upper(name) is null",
    "upper(name) >= 'B'",
    "upper(name) like 'A%'",
    "lower(name) = 'ab'",
    "lower(name) in ('', 'é')",
    "date_format(at, 'MM/dd/yyyy') = '01/01/2024'",
    "date_format(at, 'MM/dd/yyyy') <= '01/01/2024'",
    "date_format(at, 'MM/dd/yyyy') is null",
    "hour(at) between 0 and 6",
    "concat(coalesce(lower(trim(name)), '-'), hour(at)) = 'ab0'",
    "concat(coalesce(lower(trim(name)), '-'), hour(at)) < 'a'",
    "at < timestamp '2024-01-01 12:00:00'",
    "name = 'aB'",
    "name is null",
)
INDEXES = {
    "shouted": ("name", "column_stats", {"expr": "upper"}),
    "quiet": ("name", "bloom_filters", {"expr": "lower"}),
    "day": ("at", "column_stats", {"expr": "date_format", "format": "MM/dd/yyyy"}),
    "hour": ("at", "column_stats", {"expr": "hour"}),
    "both": ("concat(coalesce(lower(trim(name)), '-'), hour(at))", "column_stats", {}),
}


class ComputedHistories(Histories):
    """Five indexes, four of which come and go, one of them on two columns."""

    @initialize(zone=st.sampled_from(ZONES), style=st.sampled_from(("simple", "hive")))
    def begin(self, zone: str, style: str) -> None:
        self.shape = Shape(self.table_type, "GLOBAL_RECORD_LEVEL_INDEX", style)
        self.history = History(self.shape)
        self.path = str(Path(self.folder) / "table")
        self.zone = zone
        # Whoever writes later computes in the zone of the index, not in its own.
        self.writer = writer_of(create(self.shape, self.path), OPTIONS | {ZONE: "Asia/Tokyo"})
        self.there: set[str] = set()
        self.make("day")

    def make(self, name: str) -> None:
        column, using, options = INDEXES[name]
        create_index(self.writer, name, column, using=using, options=options | {ZONE: self.zone})
        self.there.add(name)

    def row(self, key: str, ver: int, place: int, *, gone: bool = False) -> Row:
        row = super().row(key, ver, place, gone=gone)
        return row._replace(name=NAMES[(row.n or 0) % len(NAMES)])

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def create_or_drop(self, name: str) -> None:
        if name not in self.there:
            self.make(name)
        elif name != "day":
            drop_index(StorageAddress.of(self.path), name, self.writer.target().patience)
            self.there.discard(name)

    @precondition(lambda self: self.history.model.live)
    @rule(column=st.sampled_from(("name", "at")))
    def cluster(self, column: str) -> None:
        cluster_table(self.writer, column)

    @rule()
    def compact(self) -> None:
        if self.table_type == "mor":
            compact_table(self.writer)

    @rule()
    def clean(self) -> None:
        # case B67: expression index entries of cleaned files
        clean_table(self.writer.address, {"hoodie.clean.commits.retained": "1"})

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "there"):
            return
        assert_holds(self.path, self.history.model)
        for zone in {self.zone, "UTC"}:
            table = lakedex.open(self.path, options=ReadOptions(time_zone=zone))
            plain = ReadOptions(time_zone=zone, without_indexes={"all"})
            scanned = lakedex.open(self.path, options=plain)
            for predicate in PREDICATES:
                found = table.to_arrow(predicate, ["_hoodie_record_key"])
                expected = scanned.to_arrow(predicate, ["_hoodie_record_key"])
                assert sorted(found[0].to_pylist()) == sorted(expected[0].to_pylist()), predicate


class ComputedLogHistories(ComputedHistories):
    """The same with log files."""

    table_type = "mor"


@pytest.mark.parametrize("machine", [ComputedHistories, ComputedLogHistories])
def test_random_histories_find_what_a_scan_finds(machine):
    # cases B6, B11, B61, B64, B65, B67
    run_histories(machine, count=2, steps=8)
