"""Advice about indexes, from queries that real tables were asked."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.prune.usage import IndexUsage, TableUsage, flush, keep_usage
from lakedex.services.advising import joined_advice
from lakedex.storage import open_storage
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import RECORD_INDEX, Trips

CITIES, ROWS_A_CITY = 12, 40
NO_STATS = {"hoodie.metadata.index.column.stats.enable": "false"}
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("driver", pa.string()),
        ("kind", pa.string()),
        ("city", pa.string()),
    ]
)


@pytest.fixture(autouse=True)
def counting(monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "on")
    # These tables are so small that a read would ask no index at all.
    monkeypatch.setenv("LAKEDEX_INDEX_COST", "ignore")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(path, properties) -> Trips:
    """Riders are in one file each, drivers in two or three, a kind in every file.

    Times and keys grow from file to file; the others are in no order.
    """
    trips = Trips(path, schema=SCHEMA, properties=properties)
    numbers = range(CITIES * ROWS_A_CITY)
    mixed = np.random.default_rng(3).permutation(len(numbers)).tolist()
    rows = pa.table(
        {
            "uuid": [f"trip-{number:05d}" for number in numbers],
            "ts": pa.array(numbers, pa.int64()),
            "rider": [f"rider-{number}" for number in mixed],
            "driver": [f"driver-{number % 200}" for number in mixed],
            "kind": [f"kind-{number % 3}" for number in numbers],
            "city": [f"city-{number // ROWS_A_CITY:02d}" for number in numbers],
        }
    )
    trips.writer.bulk_insert(ArrowRowSource(rows))
    return trips


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, Trips]:
    folder = tmp_path_factory.mktemp("made")
    return {
        "indexed": made(folder / "indexed", {**RECORD_INDEX, **NO_STATS}),
        "bare": made(folder / "bare", NO_STATS),
    }


@pytest.fixture
def trips(originals, tmp_path) -> Trips:
    """A table with a record index."""
    return originals["indexed"].copied(tmp_path / "t")


@pytest.fixture
def bare(originals, tmp_path) -> Trips:
    """A table without any index."""
    return originals["bare"].copied(tmp_path / "t")


def ask(trips: Trips, predicate: str, times: int = 1) -> None:
    table = trips.table()
    for _ in range(times):
        table.to_arrow(predicate, ["uuid"])


def test_what_queries_asked_for_is_proposed_best_first(trips):
    ask(trips, "rider = 'rider-7'", 6)
    ask(trips, "driver in ('driver-1', 'driver-2')", 3)
    ask(trips, "kind = 'kind-1'", 9)
    advice = trips.table().advise("trips")
    assert advice.statements == [
        "CREATE INDEX idx_rider ON trips (rider)",
        "CREATE INDEX idx_driver ON trips (driver)",
    ]
    rider, driver = advice.proposals
    # A query of a rider read all files, and one would have been enough.
    assert (rider.queries, rider.files_saved) == (6, 6 * (CITIES - 1))
    assert driver.queries == 3
    assert 3 * 4 < driver.files_saved < 3 * 9
    assert rider.benefit > driver.benefit > 0
    assert rider.bytes_per_change > 0
    assert "6 queries compared rider (=) and read 12.0 files each" in rider.reason
    (note,) = [each for each in advice.notes if ".kind: a secondary" in each]
    assert "would leave about 12.0 of the 12.0 files" in note


def test_a_proposal_does_what_it_said_and_is_not_made_again(trips):
    ask(trips, "rider = 'rider-7'", 4)
    (told,) = trips.table().advise().proposals
    assert told.statement == f"CREATE INDEX idx_rider ON lakedex.`{trips.path}` (rider)"
    trips.index("rider")
    (made_one,) = [each for each in trips.table().indexes() if each.kind == "secondary_index"]
    assert told.size_bytes == pytest.approx(made_one.size_bytes, rel=0.25)
    assert len(trips.table().files("rider = 'rider-7'")) == CITIES - told.files_saved / 4
    assert not trips.table().advise().proposals


def test_a_table_without_a_record_index_is_told_of_it(bare):
    ask(bare, "uuid = 'trip-00007'", 5)
    ask(bare, "rider = 'rider-7'", 5)
    advice = bare.table().advise("trips")
    keys = next(each for each in advice.proposals if each.kind == "record_index")
    assert keys.statement == "CREATE INDEX record_index ON trips (uuid)"
    assert keys.files_saved == 5 * (CITIES - 1)
    rider = next(each for each in advice.proposals if each.kind == "secondary_index")
    assert "record.level.index.enable'='true'" in rider.statement
    assert rider.size_bytes > keys.size_bytes > 0
    assert "record index that it needs" in rider.reason


def test_column_stats_are_proposed_once_for_all_columns_that_gain(bare):
    ask(bare, "ts > 400 and ts < 410", 5)
    ask(bare, "uuid like 'trip-0001%'", 2)
    ask(bare, "kind > 'kind-1'", 2)
    (stats,) = [e for e in bare.table().advise("trips").proposals if e.kind == "column_stats"]
    assert stats.statement == "CREATE INDEX column_stats ON trips (ts, uuid)"
    assert stats.queries == 7
    assert stats.files_saved > 5 * CITIES / 2


def test_an_index_that_nobody_asks_is_to_be_dropped(trips):
    trips.index("driver")
    trips.index("rider")
    ask(trips, "rider = 'rider-7'", 9)
    assert not trips.table().advise().proposals
    ask(trips, "rider = 'rider-8'", 3)
    (drop,) = trips.table().advise("trips").proposals
    assert drop.statement == "DROP INDEX idx_driver ON trips"
    assert drop.reason.startswith("none of 12 queries asked it")
    assert drop.size_bytes > 0
    assert drop.bytes_per_change > 0
    assert "frees" in str(trips.table().advise("trips"))


def test_an_index_that_never_left_anything_out_is_to_be_dropped(trips):
    trips.index("kind")
    ask(trips, "kind = 'kind-1'", 12)
    (drop,) = trips.table().advise("trips").proposals
    assert drop.statement == "DROP INDEX idx_kind ON trips"
    assert "12 of 12 queries asked it, and it left out no file" in drop.reason


def test_of_two_indexes_on_one_column_one_is_enough(trips):
    trips.index("rider")
    trips.index("rider", "idx_twice")
    ask(trips, "rider = 'rider-8'")
    (drop,) = trips.table().advise("trips").proposals
    assert drop.index == "idx_twice"
    assert "secondary_index_idx_rider is on the same column" in drop.reason


def test_without_queries_nothing_is_proposed(trips):
    trips.index("driver")
    advice = trips.table().advise("trips")
    assert not advice.proposals
    assert str(advice).splitlines()[0] == "no index to create or to drop, no buckets to resize"
    assert "no query with a predicate was counted" in advice.notes[0]


def test_counters_of_columns_that_are_gone_do_no_harm(trips):
    other = lakedex.open(trips.path)
    ask(trips, "rider = 'rider-8'")
    gone = TableUsage(indexes={"secondary_index_gone": IndexUsage(offered=99)}, scans=99)
    assert keep_usage(open_storage(trips.path), gone)
    assert [each.index for each in other.advise().proposals] == ["idx_rider"]


def test_a_name_that_is_taken_is_minded(trips):
    trips.index("driver", "idx_rider")
    ask(trips, "rider = 'rider-8'")
    (told,) = trips.table().advise("trips").proposals
    assert told.statement == "CREATE INDEX idx_rider_2 ON trips (rider)"


def test_tables_are_ranked_together(originals, tmp_path):
    few, many = (originals["indexed"].copied(tmp_path / name) for name in ("few", "many"))
    ask(few, "rider = 'rider-7'", 2)
    ask(many, "rider = 'rider-7'", 7)
    both = joined_advice([few.table().advise("few"), many.table().advise("many")])
    assert [each.table for each in both.proposals] == ["many", "few"]


def test_the_command_line_advises(trips):
    ask(trips, "rider = 'rider-7'", 4)
    flush()
    shown = CliRunner().invoke(app, ["advise", trips.path, "--json"], prog_name="lakedex")
    (proposal,) = json.loads(shown.output)["proposals"]
    assert proposal["index"] == "idx_rider"
    assert proposal["benefit"] > 0
    plain = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["advise", trips.path])
    assert "CREATE INDEX idx_rider" in plain.output
    assert "44" in plain.output
