"""How index builds end: twice, dropped, stopped, taken over, failed."""

from __future__ import annotations

import threading

import pytest

import lakedex
from lakedex.config import keys
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.services.index_creating import create_index, resume_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.indexing import take_up_build
from lakedex.services.indexing.claims import put_down
from lakedex.services.indexing.runner import Stopped, run_build
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.timeline import Action, update_properties
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.verbs import TableWriter
from tests.support.index_builds import FIRST, RIDER, Interrupted, assert_no_trace, lead, start
from tests.support.secondary import Trips, pairs


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path) -> Trips:
    made = Trips(tmp_path / "t", request.param)
    made.writer.insert(made.rows(*FIRST))
    return made


def patience(trips: Trips) -> TransactionOptions:
    return trips.writer.target().patience


def test_the_same_index_twice_and_again(trips):
    claim = start(trips.writer, "rider")
    for wait in (True, False):
        with pytest.raises(InvalidInput, match="being built already"):
            create_index(trips.writer, "idx_rider", "rider", wait=wait)
    assert create_index(trips.writer, "idx_rider", "rider", if_missing=True) is None
    with pytest.raises(CommitConflict, match="another process builds"):
        take_up_build(trips.writer, RIDER)
    lead(trips.writer, claim, {})
    with pytest.raises(InvalidInput, match="already"):
        create_index(trips.writer, "idx_rider", "rider", wait=False)
    trips.assert_whole()


@pytest.mark.parametrize("step", ["read", "write", "switch"])
def test_an_index_that_is_dropped_while_it_is_built(trips, step):
    claim = start(trips.writer, "rider")
    drop = {step: lambda: drop_index(trips.address, "idx_rider", patience(trips))}
    with pytest.raises(CommitConflict, match="was dropped"):
        lead(trips.writer, claim, drop)
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    assert_no_trace(trips.path, RIDER)
    trips.assert_whole()
    create_index(trips.writer, "idx_rider", "city", wait=False).wait(60)
    assert trips.entries("rider") == pairs({"a1": "oslo", "b1": "rio", "c1": "oslo"})


def test_an_index_that_is_dropped_and_made_anew_on_another_column(trips):
    claim = start(trips.writer, "rider")
    others = []

    def swap() -> None:
        drop_index(trips.address, "idx_rider", patience(trips))
        others.append(create_index(trips.writer, "idx_rider", "city", wait=False))

    with pytest.raises(CommitConflict, match="was dropped"):
        lead(trips.writer, claim, {"write": swap})
    assert others[0].wait(60)
    assert trips.entries("rider") == pairs({"a1": "oslo", "b1": "rio", "c1": "oslo"})
    trips.assert_whole()


def test_an_earlier_build_of_the_same_name_does_not_end_a_later_one(trips):
    create_index(trips.writer, "idx_rider", "rider", wait=False).wait(60)
    drop_index(trips.address, "idx_rider", patience(trips))
    put_down(start(trips.writer, "rider"))
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    config = trips.table().snapshot.config
    assert (RIDER in config.metadata_partitions, config.metadata_partitions_inflight) == (
        False,
        (RIDER,),
    )
    assert resume_index(trips.writer, "idx_rider").wait(60)
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_partition_that_another_engine_makes_is_not_that_of_an_earlier_build(trips):
    create_index(trips.writer, "idx_rider", "rider", wait=False).wait(60)
    drop_index(trips.address, "idx_rider", patience(trips))
    inflight = {keys.METADATA_PARTITIONS_INFLIGHT: RIDER}
    update_properties(trips.address.open(), inflight)
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    assert RIDER not in trips.table().snapshot.config.metadata_partitions


def test_a_write_that_knew_of_a_build_that_was_dropped_goes_on_without_it(trips):
    start(trips.writer, "rider")
    act = Interrupted(lambda: drop_index(trips.address, "idx_rider", patience(trips)))
    TableWriter(trips.address, act).upsert(trips.rows(("a1", 2, "ada", "oslo")))
    assert trips.found("rider = 'ada'") == ["a1"]
    trips.writer.upsert(trips.rows(("a1", 3, "amy", "oslo")))
    assert_no_trace(trips.path, RIDER)
    trips.assert_whole()


def test_a_write_during_which_the_index_becomes_whole_is_in_it(trips):
    claim = start(trips.writer, "rider")
    act = Interrupted(lambda: lead(trips.writer, claim, {}))
    TableWriter(trips.address, act).upsert(trips.rows(("a1", 2, "ada", "oslo")))
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_build_that_is_stopped_is_taken_up_by_another(trips):
    claim = start(trips.writer, "rider")
    stop = threading.Event()
    with pytest.raises(Stopped):
        run_build(trips.writer, claim, stop, lambda step: stop.set() if step == "write" else None)
    # Writers leave it alone, and keep it up to date.
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    assert RIDER in trips.table().snapshot.config.metadata_partitions_inflight
    assert resume_index(trips.writer, "idx_rider").wait(60)
    assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"})
    trips.assert_whole()
    with pytest.raises(InvalidInput, match="not in the making"):
        resume_index(trips.writer, "idx_rider")


def test_a_builder_that_others_took_for_dead_writes_nothing_more(trips):
    claim = start(trips.writer, "rider")

    def take_over() -> None:
        claim.heartbeat.stop()
        assert not SignsOfLife.load(trips.address.open(), patience(trips).heartbeat).is_alive(
            claim.build.instant
        )
        assert resume_index(trips.writer, RIDER).wait(60)

    with pytest.raises(CommitConflict, match="another process has it"):
        lead(trips.writer, claim, {"write": take_over})
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_build_that_fails_leaves_nothing(trips, monkeypatch):
    claim = start(trips.writer, "rider")

    def fail() -> None:
        raise ValueError("no more room")

    with pytest.raises(ValueError, match="no more room"):
        lead(trips.writer, claim, {"write": fail})
    assert_no_trace(trips.path, RIDER)
    trips.assert_whole()


@pytest.mark.parametrize("step", ["read", "write", "switch"])
def test_a_commit_that_is_taken_back_meanwhile_is_not_in_the_index(trips, step):
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo"), ("d1", 1, "dan", "lima")))
    claim = start(trips.writer, "rider")
    newest = trips.table().timeline.last_completed
    assert newest is not None
    lead(
        trips.writer,
        claim,
        {step: lambda: rollback_instant(trips.address, newest.requested_time)},
    )
    assert "record_index" in trips.table().snapshot.config.metadata_partitions
    assert trips.entries("rider") == pairs({"a1": "ann", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


# case B44: metadata compaction behind a pending instant
def test_a_build_that_nobody_goes_on_with_holds_nothing_up(tmp_path):
    trips = Trips(tmp_path / "t", "cow")
    trips.writer.insert(trips.rows(*FIRST))
    put_down(start(trips.writer, "rider"))
    often = {
        "hoodie.metadata.compact.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
    }
    writer = TableWriter(trips.address, options=often)
    for number in range(2, 14):
        writer.upsert(trips.rows(("a1", number, f"ann{number}", "oslo")))
    timeline = trips.table().timeline
    (pending,) = timeline.pending()
    assert timeline.archived.instants(), "the timeline goes on past the pending instant"
    assert timeline.write_instants()[0] > pending
    inner = lakedex.open(f"{trips.path}/.hoodie/metadata").timeline
    assert any(each.action is Action.COMMIT for each in inner.write_instants())
    assert resume_index(trips.writer, RIDER).wait(60)
    assert trips.entries("rider") == pairs({"a1": "ann13", "b1": "bob", "c1": "cem"})
    trips.assert_whole()


def test_a_restore_takes_a_build_away_that_was_put_down(trips):
    """One that somebody is at work on stands in the way of a restore."""
    (first,) = trips.table().timeline.write_instants()
    trips.writer.upsert(trips.rows(("d1", 1, "dan", "lima")))
    claim = start(trips.writer, "rider")
    with pytest.raises(CommitConflict, match="indexing"):
        restore_table(trips.address, first.requested_time)
    put_down(claim)
    done = restore_table(trips.address, first.requested_time)
    assert done.builds_dropped == (RIDER,)
    assert_no_trace(trips.path, RIDER)
    assert trips.found("rider in ('ann', 'bob', 'cem', 'dan')") == ["a1", "b1", "c1"]
    trips.index("rider")
    assert trips.found("rider = 'ann'") == ["a1"]
    trips.assert_whole()
