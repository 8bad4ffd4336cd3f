"""`explain(..., assuming=[...])`: indexes that do not exist, held against the real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakedex
from lakedex.errors import InvalidInput
from lakedex.filegroup.names import BaseFile
from lakedex.filegroup.slices import FileSlice
from lakedex.index.advice import Sampled
from lakedex.services.index_creating import create_index
from lakedex.services.what_if import report as what_if_report
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import RECORD_INDEX, Trips

CITIES, ROWS_A_CITY = 8, 30
BARE = {"hoodie.metadata.index.column.stats.enable": "false"}


def rows_of(city: int, changed: bool = False) -> pa.Table:
    """Riders of a city: `common` everywhere, one in two cities, the others in one."""
    numbers = range(ROWS_A_CITY)
    riders = [f"rider-{city}-{number}" for number in numbers]
    riders[0], riders[1] = "common", f"pair-{city // 2}"
    riders[2] = None if city < 3 else riders[2]
    if changed:
        riders[5] = "late"
    return pa.table(
        {
            "uuid": [f"trip-{city}-{number:03d}" for number in numbers],
            "ts": pa.array([city * 100 + number for number in numbers], pa.int64()),
            "rider": riders,
            "city": [f"city-{city}"] * ROWS_A_CITY,
        }
    )


def made(path, kind: str = "cow", properties=BARE) -> Trips:
    trips = Trips(path, kind, properties=properties)
    whole = pa.concat_tables([rows_of(city) for city in range(CITIES)])
    trips.writer.bulk_insert(ArrowRowSource(whole))
    if kind == "mor":
        trips.writer.upsert(ArrowRowSource(rows_of(1, changed=True)))
    return trips


@pytest.fixture(scope="module", params=["cow", "mor"])
def both(request, tmp_path_factory) -> tuple[Trips, Trips]:
    """A table with a record index only, and the same with an index on riders."""
    folder = tmp_path_factory.mktemp("made")
    plain = made(folder / "plain", request.param, {**RECORD_INDEX, **BARE})
    indexed = plain.copied(folder / "indexed")
    indexed.index("rider")
    return plain, indexed


QUESTIONS = [
    "rider = 'common'",
    "rider = 'pair-2'",
    "rider = 'late'",
    "rider = 'rider-1-5'",
    "rider in ('pair-1', 'rider-7-9')",
    "rider is null",
    "rider = 'nobody'",
    "rider like 'pair-%'",
    "rider > 'rider-5' and rider < 'rider-7'",
    "rider = 'common' and city in ('city-1', 'city-2')",
]


@pytest.mark.parametrize("predicate", QUESTIONS)
def test_an_assumed_index_leaves_what_the_real_one_leaves(both, predicate):
    plain, indexed = both
    told = plain.table().explain(predicate, assuming=["rider"])
    real = indexed.table().explain(predicate)
    assert told.expected == len(real.files)
    (step,) = [each for each in told.steps if each.assumed]
    used = next(each for each in real.steps if each.index == "secondary_index_idx_rider")
    if used.used:
        assert (step.before, step.after) == (used.before, used.after)
        assert step.bytes_saved == used.bytes_saved
    assert step.index == "secondary index on rider (assumed)"
    assert f"would read {told.expected} of" in str(told).splitlines()[-1]
    # What is read today stays what it is: nothing was pruned by an index that is not there.
    assert told.files == plain.table().explain(predicate).files


def test_without_assumptions_nothing_is_assumed(both):
    report = both[0].table().explain("rider = 'common'")
    assert report.expected is None
    assert not any(step.assumed for step in report.steps)
    assert "assumed" not in str(report)


@pytest.mark.parametrize("predicate", ["ts < 150", "ts between 320 and 410", "rider = 'zz'"])
def test_assumed_column_stats_leave_what_real_ones_leave(tmp_path, predicate):
    plain = made(tmp_path / "plain")
    stats = {"hoodie.metadata.index.column.stats.enable": "true"}
    real = made(tmp_path / "real", properties=stats).table().explain(predicate)
    told = plain.table().explain(predicate, assuming=["column_stats"])
    assert told.expected == len(real.files) < CITIES
    again = made(tmp_path / "again", properties=stats).table()
    (step,) = [s for s in again.explain(predicate, assuming=["column_stats"]).steps if s.assumed]
    assert not step.used
    assert "already" in step.reason


def test_assumed_key_indexes_find_the_keys(tmp_path):
    trips = made(tmp_path / "t", "mor")
    predicate = "uuid in ('trip-3-004', 'trip-5-001', 'nobody')"
    located = trips.table().explain(predicate, assuming=["record_index"])
    assert located.expected == 2
    # A filter knows nothing of log files: the slice with updates stays.
    filtered = trips.table().explain(predicate, assuming=["bloom_filters"])
    assert filtered.expected == 3
    both = trips.table().explain("uuid = 'trip-3-004' and rider = 'common'",
                                 assuming=["record_index", "rider"])  # fmt: skip
    assert [(step.before, step.after) for step in both.steps if step.assumed] == [(8, 1), (1, 1)]
    assert "needs the record index" in both.steps[-1].reason


def test_of_a_large_table_a_part_is_looked_into(tmp_path, monkeypatch):
    monkeypatch.setattr(what_if_report, "_MOST_SLICES", 4)
    monkeypatch.setattr(what_if_report, "_SAMPLED_SLICES", 4)
    table = made(tmp_path / "t").table()
    everywhere = table.explain("rider = 'common'", assuming=["rider"])
    assert everywhere.expected == CITIES
    assert any("4 of 8 file slices" in note for note in everywhere.notes)
    # Of a value that was not seen, one may expect what other values have.
    unseen = table.explain("rider = 'nobody'", assuming=["rider"])
    assert 1 <= unseen.expected <= 3
    assert table.explain("uuid = 'trip-3-004'", assuming=["record_index"]).expected == 1
    assert 1 <= table.explain("ts < 50", assuming=["column_stats"]).expected <= 2
    chained = table.explain(
        "rider = 'nobody' and uuid = 'trip-0-000'", assuming=["rider", "record_index"]
    )
    assert 1 <= chained.expected <= 3


@pytest.mark.parametrize(
    ("predicate", "name", "words"),
    [
        ("rider <> 'a'", "rider", "neither by =, IN nor by a range"),
        ("ts = 5", "record_index", "no = or IN on the record key"),
    ],
)
def test_an_index_that_would_not_be_asked_says_why(tmp_path, predicate, name, words):
    trips = made(tmp_path / "t")
    report = trips.table().explain(predicate, assuming=[name])
    assert words in report.steps[-1].reason
    assert report.expected == report.total == CITIES
    earlier = trips.table().timeline.write_instants()[-1].requested_time
    trips.writer.upsert(ArrowRowSource(rows_of(1, changed=True)))
    newest = trips.table().explain("rider = 'common'", earlier, assuming=["rider"])
    assert "newest snapshot" in newest.steps[-1].reason


def test_what_cannot_be_assumed_is_told(both):
    plain, indexed = both
    with pytest.raises(InvalidInput, match=r"no column 'nothing'.*rider.*record_index"):
        plain.table().explain("ts = 1", assuming=["nothing"])
    with pytest.raises(InvalidInput, match="list of names, not the text 'rider'"):
        plain.table().explain("ts = 1", assuming="rider")
    there = indexed.table().explain("rider = 'common'", assuming=["rider"])
    assert "secondary_index_idx_rider already" in there.steps[-1].reason
    shouted = indexed.table().explain("rider = 'common'", assuming=["RIDER"])
    assert "secondary_index_idx_rider already" in shouted.steps[-1].reason
    nothing = lakedex.open(plain.path).explain(assuming=["rider"])
    assert nothing.expected == nothing.total


@pytest.mark.parametrize(
    "predicate",
    [
        "ts = 203 and rider = 'rider-2-3'",
        "ts in (200, 700) and rider = 'common'",
        "ts > 650 and rider = 'common'",
        "ts in (2, 102, 302) and rider is null",
        "rider = 'common'",
    ],
)
def test_an_index_on_two_columns_is_assumed_as_it_would_be(columns_of_two, predicate):
    plain, indexed = columns_of_two
    assumed = lakedex.open(plain.path).explain(predicate, assuming=["ts, rider"])
    options = lakedex.ReadOptions(weighs_cost=False)
    real = lakedex.open(indexed.path, options=options).explain(predicate)
    assert assumed.expected == len(real.files)
    assert assumed.steps[-1].index.startswith("secondary index on ts, rider")


@pytest.fixture(scope="module")
def columns_of_two(tmp_path_factory) -> tuple[Trips, Trips]:
    """A table with a record index only, and the same with an index on times and riders."""
    folder = tmp_path_factory.mktemp("two")
    plain = made(folder / "plain", "mor", {**RECORD_INDEX, **BARE})
    indexed = plain.copied(folder / "indexed")
    create_index(indexed.writer, "two", ("ts", "rider"))
    return plain, indexed


def sized_slice(number: int, size: int) -> FileSlice:
    name = f"f{number}_0-0-0_1.parquet"
    base = BaseFile(name, size, f"f{number}", "0-0-0", "1", "parquet")
    return FileSlice("p", f"f{number}", "1", base)


@dataclass(frozen=True)
class DrawnIndex:
    """An index that keeps slices by chance, and tells any number for the usual one."""

    seed: int
    share: float
    typical: float | None
    name: str = "drawn"
    kind: str = "secondary_index"
    lookups: int = 2

    def why_not(self, query):
        return None

    def sample(self, query, slices, share):
        keep = np.random.default_rng(self.seed).random(len(slices)) < self.share
        return Sampled(keep, self.typical if share < 1 else None, "drawn")


@given(
    sizes=st.lists(st.integers(0, 1 << 30), max_size=300),
    drawn=st.lists(
        st.builds(
            DrawnIndex,
            st.integers(0, 99),
            st.sampled_from([0.0, 0.01, 0.5, 1.0]),
            st.none() | st.floats(0, 1e9),
        ),
        max_size=4,
    ),
)
def test_no_figure_of_assumed_indexes_is_more_than_there_is(sizes, drawn):
    # case B85: impossible figures of the advisor
    files = tuple(sized_slice(number, size) for number, size in enumerate(sizes))
    view = what_if_report._View.of(files)
    before, saved = len(files), 0
    for index in drawn:
        step = view.take(index, None)
        assert step.before == before
        assert 0 <= step.after <= step.before
        assert step.bytes_saved >= 0
        before, saved = step.after, saved + step.bytes_saved
    assert saved <= sum(sizes)
    if view.share == 1:
        assert saved == sum(sizes) - sum(each.size_bytes for each in view.slices)
