"""Commits taken back one by one, and tables taken back to a savepoint, with every index exact."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise

import pytest

import lakedex
from lakedex.errors import CommitConflict, InvalidInput, UnsupportedFeature
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, Instant, PlanKind, State, load_table_config, write_instant
from lakedex.timeline.plans import read_plan
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import Heartbeat
from lakedex.upkeep import savepoints
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint, list_savepoints
from tests.support.upkeep_lab import BY_HAND, Past, make_past, read_by_hudi_rs
from tests.support.write_lab import Lab, row, source

KINDS = ("cow", "mor")
VERSIONS = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


@pytest.fixture(scope="module")
def pasts(tmp_path_factory):
    options = {"hoodie.metadata.compact.max.delta.commits": "6"}
    return {kind: make_past(tmp_path_factory.mktemp(kind), kind, **options) for kind in KINDS}


@pytest.fixture
def past(pasts, tmp_path):
    return lambda kind: pasts[kind].copied(tmp_path / kind)


@pytest.mark.parametrize("kind", KINDS)
def test_commits_are_taken_back_one_by_one(past, kind):
    """Over a compaction of the metadata table, a clustering and an overwritten partition."""
    table = past(kind)
    rebuilt, last = 0, table.times[:-8:-1]
    for instant, before in pairwise(last):
        result = rollback_instant(table.lab.address, instant)
        rebuilt += bool(result.indexes_rebuilt)
        table.holds(before)
        timeline = lakedex.open(table.path).timeline
        assert timeline.find(instant) is None
        assert timeline.find(result.rollback).is_completed
    assert rebuilt, "no compaction of the metadata table was in the way"
    assert rebuilt < len(last) - 1
    # Cases B34, B56: no instant time is used again.
    assert table.upsert([1, 2, 30], 40) > last[0]
    table.holds()
    assert read_by_hudi_rs(table.path) == table.states[table.times[-1]]


def test_only_the_newest_commit_can_be_taken_back(past):
    table = past("cow")
    address = table.lab.address
    with pytest.raises(InvalidInput, match="was committed after"):
        rollback_instant(address, table.times[-2])
    create_savepoint(address)
    with pytest.raises(InvalidInput, match="savepoint"):
        rollback_instant(address, table.times[-1])
    with pytest.raises(InvalidInput, match="no commit '1'"):
        rollback_instant(address, "1")
    table.holds()


def test_what_a_clean_has_removed_cannot_be_taken_back(past):
    table = past("cow")
    clean_table(table.lab.address, VERSIONS)
    with pytest.raises(InvalidInput, match="removed by a clean"):
        rollback_instant(table.lab.address, table.times[-1])
    table.note(cluster_table(table.lab.writer, "x", "linear"))
    rollback_instant(table.lab.address, table.times[-1])
    table.holds(table.times[-2])


def test_a_pending_plan_is_taken_back_when_told(past):
    table = past("mor")
    storage = table.lab.address.open()
    pending = Instant(str(int(table.times[-1]) + 1), Action.COMPACTION, State.REQUESTED)
    write_instant(storage, load_table_config(storage), pending, b"")
    with pytest.raises(CommitConflict, match="pends, which began after"):
        rollback_instant(table.lab.address, table.times[-1])
    rollback_instant(table.lab.address, pending.requested_time)
    table.holds()
    assert not lakedex.open(table.path).timeline.pending()


@pytest.mark.parametrize(("kind", "back"), [("cow", 8), ("mor", 2)])
def test_a_table_goes_back_to_its_savepoint(past, kind, back):
    table = past(kind)
    saved = table.times[-back]
    kept = create_savepoint(table.lab.address, saved, user="me", comments="before the change")
    assert list_savepoints(lakedex.open(table.path).timeline) == [kept]
    for number in range(3):
        table.upsert([number, number + 9], 60 + number)
    clean_table(table.lab.address, {"hoodie.clean.commits.retained": "1"})
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    archive_table(table.lab.address, few)
    table.holds()
    result = restore_table(table.lab.address, saved)
    assert result.undone == tuple(reversed(table.times[table.times.index(saved) + 1 :]))
    table.holds(saved)
    timeline = lakedex.open(table.path).timeline
    done = timeline.find(result.restore)
    record = read_plan(PlanKind.RESTORE_METADATA, timeline.read(done))
    assert tuple(record["instantsToRollback"]) == result.undone
    assert sorted(record["hoodieRestoreMetadata"]) == sorted(result.undone)
    table.upsert([2, 3, 40], 90)
    table.holds()
    assert read_by_hudi_rs(table.path) == table.states[table.times[-1]]
    delete_savepoint(table.lab.address, saved)
    clean_table(table.lab.address, {"hoodie.clean.commits.retained": "1"})
    table.holds()


def test_a_table_goes_back_to_a_commit_without_savepoint_while_its_files_are_there(past):
    table = past("cow")
    target = table.times[-4]
    clean_table(table.lab.address, {"hoodie.clean.commits.retained": "3"})
    with pytest.raises(InvalidInput, match="were cleaned"):
        restore_table(table.lab.address, target)
    restore_table(table.lab.address, table.times[-3])
    table.holds(table.times[-3])
    assert restore_table(table.lab.address, table.times[-3]).restore is None


def test_a_savepoint_is_not_begun_once_the_lock_is_lost(past, monkeypatch):
    """Who stands still after it has named itself finds the lock taken by others."""
    table = past("cow")
    named = []

    def check():
        if named:
            raise CommitConflict("the lock was lost")

    monkeypatch.setattr(
        savepoints, "locked_table", lambda *args: replace(locked_table(*args), check=check)
    )
    monkeypatch.setattr(Heartbeat, "start", lambda _: named.append(True))
    with pytest.raises(CommitConflict, match="lock was lost"):
        create_savepoint(table.lab.address)
    timeline = lakedex.open(table.path).timeline
    assert not [each for each in timeline.instants if each.action is Action.SAVEPOINT]


def test_a_restore_past_another_savepoint_is_refused(past):
    table = past("cow")
    create_savepoint(table.lab.address, table.times[-2])
    with pytest.raises(InvalidInput, match="has a savepoint: delete that"):
        restore_table(table.lab.address, table.times[-4])
    with pytest.raises(InvalidInput, match="no completed commit"):
        restore_table(table.lab.address, "20200101000000000")
    with pytest.raises(InvalidInput, match="has a savepoint already"):
        create_savepoint(table.lab.address, table.times[-2])
    with pytest.raises(InvalidInput, match="no savepoint '1'"):
        delete_savepoint(table.lab.address, "1")
    table.holds()


def test_the_last_commit_of_hudi_is_taken_back_as_hudi_does(golden, tmp_path):
    path = str(tmp_path / "t")
    shutil.copytree(golden("mor_trips_all_indexes").path, path)
    last = lakedex.open(path).timeline.last_completed
    rollback_instant(StorageAddress.of(path), last.requested_time)
    expected = lakedex.open(golden("mor_trips_rolledback").path)
    key = "_hoodie_record_key"
    found = lakedex.open(path)
    assert found.to_arrow().sort_by(key)[key] == expected.to_arrow().sort_by(key)[key]
    for index in ("record_index", "secondary_index_idx_city"):
        ours, theirs = found.metadata(index), expected.metadata(index)
        assert sorted(ours["key"].to_pylist()) == sorted(theirs["key"].to_pylist())
    assert found.verify().ok


def test_an_index_that_cannot_be_taken_back_is_not_lost(golden, tmp_path):
    """Hudi compacted the data and the metadata table of this one."""
    path = str(tmp_path / "t")
    shutil.copytree(golden("mor_trips_cleaned").path, path)
    before = lakedex.open(path)
    last = before.timeline.last_completed
    with pytest.raises((UnsupportedFeature, InvalidInput)):
        rollback_instant(StorageAddress.of(path), last.requested_time)
    assert lakedex.open(path).timeline.instants == before.timeline.instants


@pytest.mark.parametrize("index", ["RECORD_LEVEL_INDEX", "GLOBAL_SIMPLE"])
def test_a_partition_that_came_or_went_with_the_commit_is_as_before(tmp_path, index):
    past = Past(Lab(tmp_path, "mor", index, **BY_HAND))
    first = past.upsert([0, 1, 3], 1)
    came = past.upsert([2, 5], 2)
    went = past.note(past.lab.writer.delete_partitions(["p=p1"]))
    for instant, before in ((went, came), (came, first)):
        rollback_instant(past.lab.address, instant)
        past.holds(before)
    past.upsert([1, 2, 4], 3)
    past.holds()


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("clean", [VERSIONS, {"hoodie.clean.commits.retained": "1"}])
def test_a_restore_past_a_compaction_that_was_planned_before_loses_nothing(
    tmp_path, clean, is_told
):
    """It began before the commit and completed after it: its base files go, the older must be."""
    past = Past(Lab(tmp_path, "mor", "GLOBAL_RECORD_LEVEL_INDEX", **BY_HAND))
    past.upsert(range(12), 0)
    past.upsert(range(6), 1)
    planned = schedule_compaction(past.lab.writer)
    saved = past.upsert([0, 1], 2)
    run_compaction(past.lab.writer, planned)
    kept = create_savepoint(past.lab.address, saved if is_told else None)
    assert kept.instant == (saved if is_told else planned)
    for version in range(3, 9):
        past.upsert([0, 1, 2, 13, 14], version)
        if version == 5:
            compact_table(past.lab.writer)
    clean_table(past.lab.address, clean)
    restore_table(past.lab.address, kept.instant)
    past.holds(saved)
    past.upsert([1, 7, 20], 50)
    past.holds()


def test_a_time_whose_files_a_compaction_replaced_and_a_clean_removed_is_refused(tmp_path):
    past = Past(Lab(tmp_path, "mor", **BY_HAND))
    past.upsert(range(6), 0)
    past.upsert(range(6), 1)
    planned = schedule_compaction(past.lab.writer)
    saved = past.upsert([0, 1], 2)
    run_compaction(past.lab.writer, planned)
    assert clean_table(past.lab.address, VERSIONS).files
    for call in (create_savepoint, restore_table):
        with pytest.raises(InvalidInput, match="which completed after it, took the place of"):
            call(past.lab.address, saved)
    with pytest.raises(InvalidInput, match="removed by a clean"):
        rollback_instant(past.lab.address, planned)
    past.holds()


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_writes_at_once_the_later_to_complete_goes_first(tmp_path, kind):
    past = Past(Lab(tmp_path / "one", kind, "GLOBAL_RECORD_LEVEL_INDEX", **BY_HAND))
    first = past.upsert(range(9), 0)
    inner: list[str] = []
    one, two = source([row("k00", "p0", 7)]), source([row("k01", "p1", 7)])
    outer = past.lab.meanwhile(lambda: inner.append(past.note(past.lab.writer.upsert(two))))
    later = past.note(outer.upsert(one))
    assert later < inner[0]
    other = past.copied(tmp_path / "two")
    with pytest.raises(InvalidInput, match="was committed after"):
        rollback_instant(other.lab.address, inner[0])
    for instant, before in ((later, inner[0]), (inner[0], first)):
        rollback_instant(other.lab.address, instant)
        other.holds(before)
    kept = create_savepoint(past.lab.address)
    assert kept.instant == later, "all that was there is what completed until then"
    for version in range(8, 11):
        past.upsert([0, 1, 2, 12], version)
    clean_table(past.lab.address, VERSIONS)
    restore_table(past.lab.address, later)
    past.holds(later)
