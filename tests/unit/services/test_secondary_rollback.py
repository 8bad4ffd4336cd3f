"""Commits taken back after the metadata table has taken them in: secondary indexes stay."""

from __future__ import annotations

import pytest

from lakedex.engine import LocalEngine
from lakedex.services.index_creating import refresh_index
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.table.own_properties import read_own_properties
from lakedex.txn.metadata_rollback import GIVEN_UP, drop_metadata
from lakedex.write.verbs import TableWriter
from tests.support.secondary import RECORD_INDEX, Trips

OFTEN = {
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.automatic": "false",
}
SECONDARY = "secondary_index_idx_rider"


class Compacted(Trips):
    """A table whose metadata table is compacted after every commit."""

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.address, LocalEngine(1), OFTEN)


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path) -> Compacted:
    made = Compacted(tmp_path / "t", request.param, properties=RECORD_INDEX)
    made.writer.insert(made.rows(*((f"k{n}", 1, f"r{n % 3}", "oslo") for n in range(6))))
    made.index("rider")
    return made


def written(trips: Trips, *rows: tuple[object, ...]) -> str:
    instant = trips.writer.upsert(trips.rows(*rows)).instant
    assert instant is not None
    return instant


def test_a_commit_that_was_compacted_is_taken_back_with_its_index(trips):
    newest = written(trips, ("k1", 2, "r2", "oslo"), ("k9", 1, "r1", "rio"))
    assert trips.found("rider = 'r1'") == ["k4", "k9"]
    result = rollback_instant(trips.address, newest)
    assert SECONDARY in result.indexes_rebuilt
    assert trips.found("rider = 'r1'") == ["k1", "k4"]
    assert trips.entries("rider") == sorted(f"r{n % 3}$k{n}" for n in range(6))
    trips.assert_whole()
    assert GIVEN_UP not in read_own_properties(trips.address.open())
    written(trips, ("k1", 3, "r0", "oslo"))
    assert trips.found("rider = 'r1'") == ["k4"]
    trips.assert_whole()


def test_a_restore_keeps_indexes_that_came_before_and_after(trips):
    kept = written(trips, ("k1", 2, "r2", "oslo"))
    trips.index("city")
    written(trips, ("k1", 3, "r1", "rio"))
    restore_table(trips.address, kept)
    assert trips.found("rider = 'r1'") == ["k4"]
    assert trips.found("city = 'rio'") == []
    trips.assert_whole()


def test_cut_short_the_definition_stays_and_the_index_is_built_on_request(trips):
    drop_metadata(trips.address.open())
    written(trips, ("k1", 2, "r2", "oslo"))
    state = {each.name: each.state for each in trips.table().indexes()}
    assert state[SECONDARY] == "defined"
    assert trips.found("rider = 'r2'") == ["k1", "k2", "k5"]
    refresh_index(trips.writer, "idx_rider")
    assert trips.found("rider = 'r2'") == ["k1", "k2", "k5"]
    trips.assert_whole()
    assert SECONDARY in trips.table().snapshot.config.metadata_partitions
