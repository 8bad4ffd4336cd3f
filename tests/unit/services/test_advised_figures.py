"""Figures of estimates and advice, held against real indexes on tables of one to hundreds of files.

Values are even, skewed, clustered, constant and mostly null. No figure is ever more than there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.index.advice import Demand
from lakedex.index.registry import metadata_kind
from lakedex.index.size_estimate import files_per_value, files_with_any
from lakedex.services.index_creating import create_index
from lakedex.services.index_estimating import estimate_index, sampled_table
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import RECORD_INDEX, Trips

SIZES = [(1, 30), (3, 40), (12, 300), (60, 50), (240, 15)]
"""Files, and rows in each."""
EVEN = ("one", "five", "clustered", "nulls", "constant", "number")
SKEWED = "skewed"
QUERIES = 12
NO_STATS = {"hoodie.metadata.index.column.stats.enable": "false"}
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("one", pa.string()),
        ("five", pa.string()),
        ("clustered", pa.string()),
        ("nulls", pa.string()),
        ("constant", pa.string()),
        ("number", pa.int32()),
        ("skewed", pa.string()),
        ("city", pa.string()),
    ]
)


@dataclass(frozen=True)
class Sized:
    """A table of so many files, without indexes and with a record index, and its rows."""

    bare: Trips
    indexed: Trips
    rows: pa.Table
    files: int

    def files_of(self, column: str) -> float:
        """In how many files a value is, in the mean over the values."""
        found = self.rows.group_by([column]).aggregate([("city", "count_distinct")])
        return pc.mean(found["city_count_distinct"]).as_py()


def make_rows(files: int, each: int) -> pa.Table:
    """One file for each city."""
    rng = np.random.default_rng(files)
    count = files * each
    numbers, mixed = np.arange(count), rng.permutation(count)
    texts = {
        "uuid": numbers,
        "one": mixed,
        "five": rng.permutation(count) % max(1, count // 5),
        "clustered": numbers // 3,
        "constant": numbers * 0,
        "skewed": np.minimum(rng.zipf(1.3, count), 1 << 20),
        "city": numbers // each,
    }
    columns = {name: [f"{name}-{value:04d}" for value in found] for name, found in texts.items()}
    columns["nulls"] = [None if value % 3 else f"n-{value % 97}" for value in mixed.tolist()]
    columns |= {"ts": numbers, "number": mixed % 1000}
    return pa.table(columns).select(SCHEMA.names).cast(SCHEMA)


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]} files")
def sized(request, tmp_path_factory) -> Sized:
    folder = tmp_path_factory.mktemp("sized")
    rows = make_rows(*request.param)
    made = []
    for name, properties in (("bare", NO_STATS), ("indexed", RECORD_INDEX)):
        trips = Trips(folder / name, schema=SCHEMA, properties=properties)
        trips.writer.bulk_insert(ArrowRowSource(rows))
        made.append(trips)
    return Sized(made[0], made[1], rows, request.param[0])


def size_of(trips: Trips, name: str) -> int:
    (made,) = [each for each in trips.table().indexes() if each.name.endswith(name)]
    return made.size_bytes


def test_the_size_of_an_estimate_is_that_of_the_index(sized):
    # case B85: impossible figures of the advisor
    told = {name: estimate_index(sized.indexed.table().snapshot, name) for name in (*EVEN, SKEWED)}
    both = estimate_index(sized.indexed.table().snapshot, ["number", "five"])
    for name, estimate in told.items():
        sized.indexed.index(name)
        real = size_of(sized.indexed, f"_idx_{name}")
        assert estimate.size_bytes == pytest.approx(real, rel=0.15), name
    create_index(sized.indexed.writer, "both", ["number", "five"])
    assert both.size_bytes == pytest.approx(size_of(sized.indexed, "-both"), rel=0.15)


def test_files_per_value_are_within_the_range_that_is_promised(sized):
    # case B85: impossible figures of the advisor
    snapshot = sized.bare.table().snapshot
    for name in EVEN:
        told = estimate_index(snapshot, name)
        assert told.files_per_value == pytest.approx(sized.files_of(name), rel=0.25), name
        values = len(pc.unique(sized.rows[name]))
        assert told.values == pytest.approx(values, rel=0.25), name
    told = estimate_index(snapshot, SKEWED)
    real = sized.files_of(SKEWED)
    assert 0.75 * real <= told.files_per_value <= min(sized.files, 3 * real)
    if sized.files <= 24:
        assert told.files_per_value == pytest.approx(real), "every file is read"


def test_indexes_that_a_table_has_once_take_what_was_told(sized, tmp_path):
    # case B85: impossible figures of the advisor
    own = sized.bare.copied(tmp_path / "t")
    sampled = sampled_table(own.table().snapshot)
    keys = metadata_kind("record_index").estimate_size(sampled, ())
    stats = metadata_kind("column_stats")
    ranges = [stats.estimate_size(sampled, (name,)) for name in ("one", "number")]
    create_index(own.writer, "record_index", "uuid")
    create_index(own.writer, "column_stats", ["one", "number"])
    assert keys.size_bytes == pytest.approx(size_of(own, "record_index"), rel=0.25)
    told = sum(each.size_bytes for each in ranges)
    assert told == pytest.approx(size_of(own, "column_stats"), rel=0.5), "one file group is shared"


@pytest.mark.parametrize("column", ["ts", "one", "clustered", "constant"])
def test_column_stats_leave_the_files_that_were_told(sized, tmp_path, column):
    # case B85: impossible figures of the advisor
    own = sized.bare.copied(tmp_path / "t")
    sampled = sampled_table(own.table().snapshot)
    told = metadata_kind("column_stats").estimate_size(sampled, (column,)).files_per_value
    create_index(own.writer, "column_stats", column)
    table = own.table()
    values = sized.rows[column].unique().to_pylist()
    asked = values[:: max(1, len(values) // 25)]
    left = [len(table.files(f"{column} = {value!r}")) for value in asked]
    assert 1 <= told <= sized.files
    # The mean of some values beside that of others: both have their chance.
    assert told == pytest.approx(float(np.mean(left)), rel=0.35, abs=1.0)


@pytest.fixture
def counting(monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "on")
    monkeypatch.setenv("LAKEDEX_INDEX_COST", "ignore")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("counting")
def test_advice_never_leaves_more_files_than_queries_read(sized, tmp_path):
    # case B85: impossible figures of the advisor
    own = sized.bare.copied(tmp_path / "t")
    table = own.table()
    cities = sized.rows["city"].unique().to_pylist()[:6]
    few = "city IN ({})".format(", ".join(map(repr, cities)))
    for column in ("uuid", "five", "clustered", "skewed"):
        values = sized.rows[column].unique().to_pylist()[:400]
        asked = f"{column} IN ({', '.join(map(repr, values))})"
        for predicate in (asked, f"{asked} AND {few}", f"{column} = {values[0]!r}"):
            table.to_arrow(predicate, ["uuid"])
    advice = own.table().advise("t")
    for note in advice.notes:
        shown = re.search(r"leave about ([\d,.]+) of the ([\d,.]+) files", note)
        if shown:
            left, read = (float(each.replace(",", "")) for each in shown.groups())
            assert left <= read <= sized.files, note
    for proposal in advice.proposals:
        most = proposal.queries * sized.files
        assert 0 < proposal.files_saved < most, proposal
    assert advice.notes or advice.proposals


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("column", ["one", "five"])
def test_what_a_proposal_saves_is_what_its_index_saves(sized, tmp_path, column):
    # case B85: impossible figures of the advisor
    own = sized.bare.copied(tmp_path / "t")
    values = sized.rows[column].unique().to_pylist()
    draw = np.random.default_rng(5)
    asked = [[values[at] for at in draw.integers(0, len(values), 3)] for _ in range(QUERIES)]
    predicates = [f"{column} IN ({', '.join(map(repr, each))})" for each in asked]
    table = own.table()
    for predicate in predicates:
        table.to_arrow(predicate, ["uuid"])
    told = [e for e in own.table().advise("t").proposals if e.kind == "secondary_index"]
    create_index(own.writer, "record_index", "uuid")
    own.index(column)
    saved = sum(sized.files - len(own.table().files(predicate)) for predicate in predicates)
    if told:
        assert told[0].files_saved == pytest.approx(saved, rel=0.25, abs=QUERIES / 2)
    else:
        assert saved <= 0.35 * QUERIES * sized.files, "too little to be proposed"


@given(
    seen=st.lists(st.integers(1, 24), max_size=200),
    slices=st.integers(1, 24),
    more=st.integers(0, 500),
    values=st.floats(0, 1e6),
)
def test_no_figure_is_more_than_there_is(seen, slices, more, values):
    # case B85: impossible figures of the advisor
    files = slices + more
    per_value = files_per_value(np.minimum(np.array(seen, np.int64), slices), slices, files)
    assert 1 <= per_value <= files
    assert 0 <= files_with_any(values, per_value, files) <= files


@given(
    scans=st.integers(1, 1_000),
    read=st.integers(0, 100_000),
    values=st.integers(0, 10**7),
    per_value=st.floats(0.01, 1e6),
    files=st.integers(0, 10_000),
)
def test_a_query_never_reads_more_with_an_index_than_without(scans, read, values, per_value, files):
    # case B85: impossible figures of the advisor
    demand = Demand("c", scans, read, values)
    left = demand.left(demand.values_a_scan, per_value, files)
    assert 0 <= left <= demand.files_a_scan
    assert 0 <= demand.saved(left) <= read + 1e-6
