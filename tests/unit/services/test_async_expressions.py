"""Expression indexes that are built while writers go on."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import lakedex
from lakedex import ReadOptions
from lakedex.cli.main import app
from lakedex.engine import LocalEngine
from lakedex.index.definitions import IndexDefinition
from lakedex.services.index_creating import create_index, resume_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.indexing import BackgroundBuild, start_build
from lakedex.services.indexing.claims import put_down
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.index_builds import FIRST, assert_no_trace, lead
from tests.support.killing import DieAt, finish, start
from tests.support.secondary import Trips

ZONE = "lakedex.expression.time.zone"
HOUR = IndexDefinition(
    "expr_index_idx_hour",
    "column_stats",
    "from_unixtime",
    ("ts",),
    {"expr": "from_unixtime", "format": "HH"},
    2,
)
UPPER = IndexDefinition(
    "expr_index_idx_upper", "column_stats", "upper", ("rider",), {"expr": "upper"}, 2
)
LOWER = IndexDefinition(
    "expr_index_idx_lower", "bloom_filters", "lower", ("rider",), {"expr": "lower"}, 2
)


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path) -> Trips:
    made = Trips(tmp_path / "t", request.param)
    made.writer.insert(made.rows(*FIRST))
    return made


def files(trips: Trips, predicate: str, zone: str = "UTC") -> int:
    """How many files are read, after the rows were held against a full scan."""
    told = lakedex.open(trips.path, options=ReadOptions(time_zone=zone, weighs_cost=False))
    plain = ReadOptions(time_zone=zone, without_indexes={"all"})
    found, scanned = (
        sorted(each.to_arrow(predicate, ["uuid"])["uuid"].to_pylist())
        for each in (told, lakedex.open(trips.path, options=plain))
    )
    assert found == scanned, predicate
    return len(told.explain(predicate).files)


def changes(trips: Trips) -> dict[str, object]:
    """An update with a new file, a delete, and a file that is cleaned away."""
    return {
        "read": lambda: trips.writer.upsert(
            trips.rows(("a1", 3600, "ada", "oslo"), ("d1", 7200, "dan", "lima"))
        ),
        "write": lambda: trips.writer.delete(trips.rows(("b1", 9, None, "rio"))),
        "switch": lambda: trips.writer.upsert(trips.rows(("e1", 3601, "eva", "lyon"))),
    }


@pytest.mark.parametrize("made", [UPPER, LOWER, HOUR], ids=lambda each: each.name)
def test_writers_between_all_steps(trips, made):
    claim = start_build(trips.writer, {ZONE: "Asia/Kolkata"}, [made])
    steps = lead(trips.writer, claim, changes(trips))
    assert steps == ["read", "write", "switch"], "commits that told the index need no second look"
    trips.assert_whole()
    asked = {
        UPPER.name: ("upper(rider) = '{}'", "DAN", "EVA"),
        LOWER.name: ("lower(rider) = '{}'", "dan", "eva"),
        HOUR.name: ("from_unixtime(ts, 'HH') = '{}'", "07", "06"),
    }
    predicate, lima, lyon = asked[made.name]
    # Filters tell nothing of the two slices that may have log files.
    logged = 2 if made is LOWER else 0
    assert 1 <= files(trips, predicate.format(lima), "Asia/Kolkata") <= 1 + logged
    assert files(trips, predicate.format("none"), "Asia/Kolkata") <= logged
    # Case B29: a writer in another time zone keeps the index.
    elsewhere = trips.writer.with_options({ZONE: "America/Lima"})
    elsewhere.upsert(trips.rows(("f1", 7201, "Dan", "quito")))
    assert 2 <= files(trips, predicate.format(lima), "Asia/Kolkata") <= 2 + logged
    assert files(trips, predicate.format(lyon), "Asia/Kolkata") <= 2 + logged
    trips.assert_whole()


def test_by_name_and_in_the_background(trips):
    build = create_index(trips.writer, "idx_upper", "upper(rider)", wait=False)
    assert isinstance(build, BackgroundBuild)
    assert build.wait(60)
    assert build.indexes == ("expr_index_idx_upper",)
    assert files(trips, "upper(rider) = 'ANN'") == 1
    option = {"expr": "lower", "hoodie.metadata.index.async": "true"}
    other = create_index(trips.writer, "idx_lower", "rider", using="bloom_filters", options=option)
    assert other.wait(60)
    assert files(trips, "lower(rider) = 'bob'") == 1
    trips.assert_whole()


def test_it_is_not_asked_before_it_is_whole_and_is_taken_up_by_its_name(trips):
    put_down(start_build(trips.writer, {ZONE: "UTC"}, [HOUR]))
    trips.writer.upsert(trips.rows(("d1", 7200, "dan", "lima")))
    assert files(trips, "from_unixtime(ts, 'HH') = '02'") == 3
    assert resume_index(trips.writer, "idx_hour").wait(60)
    assert files(trips, "from_unixtime(ts, 'HH') = '02'") == 1
    trips.assert_whole()


def test_one_that_is_dropped_leaves_no_trace(trips):
    put_down(start_build(trips.writer, {ZONE: "UTC"}, [HOUR]))
    trips.writer.upsert(trips.rows(("d1", 7200, "dan", "lima")))
    drop_index(trips.address, "idx_hour", trips.writer.target().patience)
    assert_no_trace(trips.path, HOUR.name)
    trips.writer.upsert(trips.rows(("d1", 7201, "dov", "lima")))
    trips.assert_whole()


def test_a_clean_takes_entries_away_while_it_is_built(tmp_path):
    trips = Trips(tmp_path / "t")
    for ver in range(4):
        trips.writer.upsert(trips.rows(("a1", ver, f"r{ver}", "oslo")))
    claim = start_build(trips.writer, {}, [UPPER])

    def clean() -> None:
        trips.writer.upsert(trips.rows(("a1", 10, "new", "oslo")))
        assert clean_table(trips.address, {"hoodie.clean.commits.retained": "1"}).files

    lead(trips.writer, claim, {"switch": clean})
    assert files(trips, "upper(rider) = 'NEW'") == 1
    trips.assert_whole()


def build_hours(path: str) -> None:
    """A job for a process of its own."""
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1), {ZONE: "Asia/Kolkata"})
    create_index(writer, "idx_hour", "from_unixtime(ts, 'HH')", wait=False).wait()


@pytest.mark.parametrize(("is_after", "is_whole"), [(False, False), (True, True)])
def test_one_that_is_killed_at_its_end_is_whole_with_its_zone_or_not_there(
    tmp_path, is_after, is_whole
):
    """The completed instant decides; whoever comes next finds the time zone too."""
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    death = DieAt(text=".indexing", skip=2, is_after=is_after)
    assert finish(start(build_hours, trips.path, watch=death)) == -9
    trips.writer.with_options({ZONE: "UTC"}).upsert(trips.rows(("d1", 7200, "dan", "lima")))
    assert (HOUR.name in trips.table().snapshot.config.metadata_partitions) == is_whole
    asked = "from_unixtime(ts, 'HH') = '07'"
    assert files(trips, asked, "Asia/Kolkata") == (1 if is_whole else 3)
    trips.assert_whole()


def test_the_command_line_builds_one(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    asked = ["index", "build", trips.path, "idx_upper", "--on", "upper(rider)"]
    done = CliRunner().invoke(app, asked)
    assert done.output.strip() == f"built {UPPER.name}"
    assert files(trips, "upper(rider) = 'ANN'") == 1
