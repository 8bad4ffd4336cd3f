"""The file groups that a commit wrote to, found without decoding what it says of each file."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.timeline import Timeline
from tests.support.secondary import Trips

GOLDEN = ["v6_cow", "v6_mor", "v8_mor", "cow_trips_all_indexes", "mor_trips_all_indexes"]


def same_ids(timeline: Timeline) -> int:
    """How many commits wrote files; each answer is that of the decoded stats."""
    count = 0
    for instant in timeline.write_instants():
        cheap = Timeline.load(timeline.storage, timeline.config).written_file_ids(instant, 1_000)
        stats = timeline.commit_metadata(instant).stats()
        assert {*cheap} == {stat.file_id for stat in stats if stat.file_id}
        count += bool(cheap)
    return count


@pytest.mark.parametrize("name", GOLDEN)
def test_the_ids_in_commits_of_hudi_are_those_of_their_stats(name, golden):
    assert same_ids(lakedex.open(golden(name).path).timeline)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_ids_in_our_commits_are_those_of_their_stats(kind, tmp_path):
    trips = Trips(tmp_path / "t", kind)
    for city in ("oslo", "rome"):
        trips.writer.upsert(trips.rows(("k1", 1, "ann", city), ("k2", 1, "bob", "oslo")))
    trips.writer.insert_overwrite(trips.rows(("k3", 1, "ann", "oslo")))
    timeline = trips.table().timeline
    assert same_ids(timeline) == 3
