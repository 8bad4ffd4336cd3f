"""Plans to build an index that another engine put on the timeline, carried out here."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lakedex.cli.main import app
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.builds import foreign_plans
from lakedex.index.definitions import format_definitions
from lakedex.services.index_creating import resume_index
from lakedex.services.indexing import adopt_plan
from lakedex.services.indexing.claims import give_up
from lakedex.timeline import Action, Instant, State, write_instant
from lakedex.timeline.plans import PlanKind, write_plan
from tests.support.index_builds import FIRST, RIDER, Interrupted, assert_no_trace, lead, secondary
from tests.support.secondary import Trips, pairs

T = "20991115183005287"
SIMPLE = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.metadata.index.column.stats.enable": "false",
}


def plan(trips: Trips, *names: str, state: State = State.REQUESTED, instant: str = T) -> str:
    """Put a plan on the timeline as Hudi does: it names partitions, and nothing else."""
    snapshot = trips.table().snapshot
    infos = [
        {
            "version": 1,
            "metadataPartitionPath": name,
            "indexUptoInstant": snapshot.timeline.last_completed.requested_time,
            "extraMetadata": {},
        }
        for name in names
    ]
    storage, config = trips.writer.address.open(), snapshot.config
    body = write_plan(PlanKind.INDEX_PLAN, {"indexPartitionInfos": infos})
    requested = Instant(instant, Action.INDEXING, State.REQUESTED)
    write_instant(storage, config, requested, body)
    if state is State.INFLIGHT:
        write_instant(storage, config, Instant(instant, Action.INDEXING, state), b"")
    return instant


def define(trips: Trips, column: str) -> None:
    """Hudi puts the definition beside the others before it plans."""
    snapshot = trips.table().snapshot
    known = {**snapshot.definitions, RIDER: secondary(column)}
    assert snapshot.config.index_defs_path is not None
    path = snapshot.config.index_defs_path
    trips.writer.address.open().replace(path, format_definitions(known))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_planned_secondary_index_is_built_at_the_instant_of_the_plan(tmp_path, kind):
    trips = Trips(tmp_path / "t", kind)
    trips.writer.insert(trips.rows(*FIRST))
    define(trips, "rider")
    early = trips.table().snapshot.timeline.last_completed.requested_time
    time = plan(trips, RIDER, instant=str(int(early) + 1))
    update = trips.rows(("a1", 2, "ada", "oslo"))
    lead(
        trips.writer,
        adopt_plan(trips.writer, time),
        {"write": lambda: trips.writer.upsert(update)},
    )
    timeline = trips.table().snapshot.timeline
    assert timeline.is_completed(time)
    assert timeline.find(time).action is Action.INDEXING
    assert not foreign_plans(timeline)
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_writer_that_began_before_the_plan_was_taken_over_is_waited_for(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    define(trips, "rider")
    early = trips.table().snapshot.timeline.last_completed.requested_time
    time = plan(trips, RIDER, instant=str(int(early) + 1))
    claims = []

    def take_over() -> None:
        claims.append(adopt_plan(trips.writer, time))

    # The writer begins after the plan and before the build: it does not write to the index.
    writer = type(trips.writer)(trips.writer.address, Interrupted(take_over))
    writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    lead(trips.writer, claims[0], {})
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


@pytest.mark.parametrize("names", [["record_index"], ["bloom_filters"], ["column_stats"]])
def test_the_command_line_carries_out_what_is_planned(tmp_path, names):
    trips = Trips(tmp_path / "t", "mor", properties=SIMPLE)
    trips.writer.insert(trips.rows(*FIRST))
    plan(trips, *names)
    said = CliRunner().invoke(app, ["index", "build", trips.path, names[0]])
    assert said.exit_code == 0, said.output
    live = trips.table().snapshot.config.metadata_partitions
    assert {*names} <= {*live}
    assert trips.table().snapshot.timeline.is_completed(T)
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    trips.assert_whole()


def test_what_cannot_be_carried_out_stays_as_it_was(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    plan(trips, RIDER)
    with pytest.raises(InvalidInput, match="has no definition"):
        resume_index(trips.writer, "idx_rider")
    expression = plan(trips, "expr_index_upper", instant=str(int(T) + 1))
    with pytest.raises(UnsupportedFeature, match="expr_index_upper"):
        adopt_plan(trips.writer, expression)
    begun = plan(trips, RIDER, state=State.INFLIGHT, instant=str(int(T) + 2))
    with pytest.raises(InvalidInput, match="gone, or was begun"):
        adopt_plan(trips.writer, begun)
    assert [each.instant for each in foreign_plans(trips.table().snapshot.timeline)] == [
        T,
        expression,
    ]
    assert trips.table().snapshot.config.metadata_partitions_inflight == ()


def test_a_plan_that_failed_leaves_nothing(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(*FIRST))
    define(trips, "rider")
    plan(trips, RIDER)
    give_up(adopt_plan(trips.writer, T))
    assert_no_trace(trips.path, RIDER)
