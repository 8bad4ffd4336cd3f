"""Timeline files damaged on purpose: what nothing is lost with is put right, the rest is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hudi import HudiTable

import lakedex
from lakedex.errors import CorruptFile, LakedexError
from lakedex.services.clustering import cluster_table
from lakedex.services.clustering.scheduling import run_clustering, schedule_clustering
from lakedex.services.compaction import compact_table
from lakedex.services.compaction.scheduling import schedule_compaction
from lakedex.services.repairing import repair_table
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.timeline import Action, CommitMetadata
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.retained import clean_outcome
from lakedex.upkeep.savepoints import create_savepoint, list_savepoints
from tests.support.secondary import RECORD_INDEX, Trips

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


# case B38: unreadable plan
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


def commit_of(path: str, time: str) -> CommitMetadata:
    timeline = lakedex.open(path).timeline
    return timeline.commit_metadata(timeline.find(time))


def files_told(metadata: CommitMetadata) -> set[tuple[object, ...]]:
    """What a commit says of its files that does not depend on who counted the rows of logs."""
    return {
        (
            stat.path,
            stat.file_size_bytes,
            stat.num_writes,
            stat.prev_base_file,
            stat.base_file,
            stat.log_files,
            *(() if stat.log_files else (stat.prev_commit, stat.num_inserts, stat.num_deletes)),
        )
        for stat in metadata.stats()
    }


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_commit_that_cannot_be_read_is_written_anew_by_its_files(kind, damage, tmp_path):
    trips = Trips(tmp_path / "t", kind)
    trips.writer.insert(trips.rows(*((f"k{n}", 1, "r1", "oslo") for n in range(4))))
    trips.writer.upsert(trips.rows(("k1", 2, "r2", "oslo"), ("k9", 2, "r2", "rio")))
    trips.writer.delete(trips.rows(("k2", 3, "r1", "oslo")))
    before = lakedex.open(trips.path).to_arrow()
    files = sorted(each for each in timeline_of(trips).iterdir() if "_" in each.name)
    times = [each.name.partition("_")[0] for each in files]
    told = [commit_of(trips.path, time) for time in times]
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    problems = lakedex.open(trips.path).verify().problems
    found = [each.detail for each in problems if each.index == "timeline"]
    assert all(file.name in detail for file, detail in zip(files, found, strict=True))
    assert repair_table(trips.writer).ok
    for time, said in zip(times, told, strict=True):
        rebuilt = commit_of(trips.path, time)
        assert files_told(rebuilt) == files_told(said), time
        assert rebuilt.schema_text == said.schema_text
        assert rebuilt.operation_type == "UNKNOWN"
    assert lakedex.open(trips.path).to_arrow().equals(before)
    assert sum(batch.num_rows for batch in HudiTable(trips.path).read()) == before.num_rows
    trips.writer.upsert(trips.rows(("k1", 20, "new", "oslo")))
    assert trips.found("rider = 'new'") == ["k1"]
    trips.assert_whole()


def test_a_compaction_and_a_clustering_are_written_anew_by_their_plans(trips):
    trips.writer.upsert(trips.rows(("a1", 20, "r20", "oslo")))
    compacted = compact_table(trips.writer)
    instant = schedule_clustering(trips.writer, "rider")
    run_clustering(trips.writer, instant)
    times = [compacted.instant, instant]
    said = [commit_of(trips.path, time) for time in times]
    before = lakedex.open(trips.path).to_arrow()
    for time in times:
        (file,) = timeline_of(trips).glob(f"{time}_*")
        file.write_bytes(b"garbage")
    done = repair_table(trips.writer)
    assert done.ok, str(done)
    found = [commit_of(trips.path, time) for time in times]
    assert [each.operation_type for each in found] == ["COMPACT", "CLUSTER"]
    assert [each.compacted for each in found] == [True, False]
    assert [each.replaced_file_ids for each in found] == [each.replaced_file_ids for each in said]
    assert [{stat.path for stat in each.stats()} for each in found] == [
        {stat.path for stat in each.stats()} for each in said
    ]
    assert lakedex.open(trips.path).to_arrow().equals(before)
    trips.writer.upsert(trips.rows(("a1", 30, "new", "oslo")))
    assert trips.found("rider = 'new'") == ["a1"]
    trips.assert_whole()


def test_a_savepoint_that_cannot_be_read_is_written_anew(trips):
    made = create_savepoint(trips.address, user="ann")
    trips.writer.upsert(trips.rows(("a1", 20, "r20", "oslo")))
    compact_table(trips.writer)
    (file,) = timeline_of(trips).glob("*.savepoint")
    file.write_bytes(file.read_bytes()[:99])
    assert repair_table(trips.writer).ok
    (found,) = list_savepoints(lakedex.open(trips.path).timeline)
    assert (found.instant, found.files) == (made.instant, made.files)
    clean_table(trips.address, OFTEN)
    restore_table(trips.address, made.instant)
    assert trips.found("rider = 'r8'") == ["a1"]


def test_an_overwrite_that_cannot_be_read_is_named_and_can_be_rolled_back(tmp_path):
    trips = Trips(tmp_path / "t")
    trips.writer.insert(trips.rows(("k1", 1, "r1", "oslo"), ("k2", 1, "r2", "rio")))
    result = trips.writer.insert_overwrite(trips.rows(("k3", 2, "r3", "oslo")))
    (file,) = timeline_of(trips).glob("*.replacecommit")
    file.write_bytes(b"garbage")
    before = sorted(Path(trips.path).rglob("*"))
    with pytest.raises(CorruptFile, match=file.name):
        repair_table(trips.writer)
    assert sorted(Path(trips.path).rglob("*")) == before
    rollback_instant(trips.address, result.instant)
    assert sorted(lakedex.open(trips.path).to_arrow()["uuid"].to_pylist()) == ["k1", "k2"]
    trips.writer.upsert(trips.rows(("k1", 20, "new", "oslo")))
    trips.assert_whole()


def test_a_clustering_that_is_lost_with_its_timeline_changes_no_rows_after_a_repair(tmp_path):
    made = Trips(tmp_path / "t", "cow", properties=RECORD_INDEX)
    for number in range(1, 4):
        made.writer.upsert(made.rows((f"a{number}", number, f"r{number}", "oslo")))
    cluster_table(made.writer, "rider")
    made.writer.upsert(made.rows(("a1", 9, "r9", "oslo")))

    def changes() -> list[str]:
        return sorted(map(repr, lakedex.open(made.path).changes("earliest", cdc=True).to_pylist()))

    right = changes()
    for file in timeline_of(made).glob("2*"):
        file.unlink()
    assert repair_table(made.writer).ok
    assert changes() == right
