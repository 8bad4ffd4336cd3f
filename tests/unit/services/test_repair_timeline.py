"""Timeline files damaged on purpose: what nothing is lost with is put right, the rest is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.errors import CorruptFile, LakedexError
from lakedex.services.clustering.scheduling import schedule_clustering
from lakedex.services.compaction import compact_table
from lakedex.services.compaction.scheduling import schedule_compaction
from lakedex.services.repairing import repair_table
from lakedex.timeline import Action
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.retained import clean_outcome
from tests.support.secondary import Trips

FEW = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
OFTEN = FEW | {
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.trigger.max.commits": "1",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp("made") / "t", "mor")
    for number in range(1, 9):
        made.writer.with_options(OFTEN).upsert(made.rows(("a1", number, f"r{number}", "oslo")))
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    return template.copied(tmp_path / "t")


def timeline_of(trips: Trips) -> Path:
    return Path(trips.path, ".hoodie/timeline")


# traps: B38
@pytest.mark.parametrize(
    ("action", "damage"),
    [("compaction", b""), ("compaction", b"garbage"), ("clustering", b"\0" * 200)],
)
def test_a_plan_that_cannot_be_read_goes(trips, action, damage):
    if action == "compaction":
        assert schedule_compaction(trips.writer)
    else:
        trips.writer.upsert(trips.rows(("b1", 1, "bob", "oslo")))
        assert schedule_clustering(trips.writer, "rider")
    (plan,) = timeline_of(trips).glob(f"*.{action}.requested")
    plan.write_bytes(damage)
    (problem,) = lakedex.open(trips.path).verify().problems
    assert (problem.index, plan.name in problem.detail) == ("timeline", True)
    done = repair_table(trips.writer)
    assert done.ok, str(done)
    assert not lakedex.open(trips.path).timeline.pending_of(Action.COMPACTION, Action.CLUSTERING)
    assert trips.found("rider = 'r8'") == ["a1"]
    trips.writer.upsert(trips.rows(("a1", 20, "new", "oslo")))
    assert trips.found("rider = 'new'") == ["a1"]
    trips.assert_whole()


@pytest.mark.parametrize("name", ["_version_", "manifest_"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_the_list_of_archives_is_written_anew(trips, name, damage):
    history = timeline_of(trips) / "history"
    before = [each.requested_time for each in lakedex.open(trips.path).timeline.archived.instants()]
    assert before
    file = max(history.glob(f"{name}*"), key=lambda each: each.name)
    if damage is None:
        file.unlink()
        if name == "_version_":
            return  # as in a table that has no archive
    else:
        file.write_bytes(damage)
    (problem,) = lakedex.open(trips.path).verify().problems
    assert (problem.index, file.name in problem.detail) == ("timeline", True)
    assert repair_table(trips.writer).ok
    after = [each.requested_time for each in lakedex.open(trips.path).timeline.archived.instants()]
    assert after == before
    trips.writer.upsert(trips.rows(("a1", 20, "new", "oslo")))
    assert archive_table(trips.address, FEW)
    trips.assert_whole()


def test_an_archive_that_cannot_be_read_is_named(trips):
    for file in (timeline_of(trips) / "history").glob("*.parquet"):
        file.write_bytes(b"garbage")
    with pytest.raises(LakedexError, match="history"):
        lakedex.open(trips.path).timeline.archived.instants()
    done = repair_table(trips.writer)
    (problem,) = done.after.problems
    assert (problem.index, "history" in problem.detail) == ("timeline", True)
    assert not done.rebuilt


def test_what_a_clean_did_is_written_anew_by_its_plan(trips):
    for number in (20, 21):
        trips.writer.upsert(trips.rows(("a1", number, f"r{number}", "oslo")))
        compact_table(trips.writer)
    assert clean_table(trips.address, OFTEN | {"hoodie.clean.commits.retained": "1"}).files
    (file,) = timeline_of(trips).glob("*.clean")
    before = lakedex.open(trips.path).timeline
    (clean,) = (each for each in before.completed() if each.action is Action.CLEAN)
    said = clean_outcome(before, clean)
    file.write_bytes(file.read_bytes()[:99])
    (problem,) = lakedex.open(trips.path).verify().problems
    assert (problem.index, file.name in problem.detail) == ("timeline", True)
    assert repair_table(trips.writer).ok
    assert clean_outcome(lakedex.open(trips.path).timeline, clean) == said
    trips.assert_whole()


def test_an_older_commit_that_cannot_be_read_is_named_and_indexes_are_repaired(trips):
    oldest = min(timeline_of(trips).glob("*.deltacommit"))
    oldest.write_bytes(b"garbage")
    (problem,) = lakedex.open(trips.path).verify().problems
    assert (problem.index, oldest.name in problem.detail) == ("timeline", True)
    shutil.rmtree(Path(trips.path, ".hoodie/metadata/record_index"))
    done = repair_table(trips.writer)
    assert [each.detail for each in done.after.problems] == [problem.detail]
    assert trips.found("rider = 'r8'") == ["a1"]


def test_a_commit_that_cannot_be_read_is_named_and_nothing_is_changed(trips):
    newest = max(timeline_of(trips).glob("*.deltacommit"))
    newest.write_bytes(b"garbage")
    before = sorted(Path(trips.path).rglob("*"))
    with pytest.raises(CorruptFile, match=newest.name):
        repair_table(trips.writer)
    assert sorted(Path(trips.path).rglob("*")) == before
