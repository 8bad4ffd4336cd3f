"""Index builds whose process is killed at a change of a file; writers or builders come after it.

A default run takes a sample of the kill points; LAKEDEX_KILLS=all takes every one.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.services.index_creating import create_index, resume_index
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action
from lakedex.write.verbs import TableWriter
from tests.support.index_builds import FIRST, RIDER, assert_no_trace
from tests.support.killing import DieAt, changes_of, finish, finish_killed, start
from tests.support.secondary import RECORD_INDEX, Trips, pairs

EVERY = os.environ.get("LAKEDEX_KILLS") == "all"
POINTS = 4


def build(path: str) -> None:
    """A job for a process of its own."""
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1))
    create_index(writer, "idx_rider", "rider", wait=False).wait()


def take_up(path: str) -> None:
    """Another such job."""
    resume_index(TableWriter(StorageAddress.of(path), LocalEngine(1)), "idx_rider").wait()


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp("made") / "t", "mor")
    made.writer.insert(made.rows(*FIRST))
    return made


def points_of(job, path: str, tmp_path: Path, count: int) -> list[tuple[int, bool, str]]:
    """Kill points of a job with the changes that they lie at, other ones each day."""
    copy = tmp_path / "counted"
    shutil.copytree(path, copy)
    changes = changes_of(job, str(copy), result=tmp_path / "seen")
    assert any("indexing" in change or "record_index" in change for change in changes)
    found = [(at, after, change) for at, change in enumerate(changes) for after in (False, True)]
    step = 1 if EVERY else max(1, len(found) // count)
    return found[int(time.time() // 86_400) % step :: step]


# cases B39, B41, B66
def test_after_a_killed_build_a_writer_leaves_a_whole_index_or_none(template, tmp_path):
    for at, after, change in points_of(build, template.path, tmp_path, POINTS):
        where = f"{'after' if after else 'before'} {at}: {change}"
        trips = template.copied(tmp_path / f"killed-{at}-{after}")
        finish_killed(build, trips.path, at=at, after=after, result=tmp_path / "end")
        assert trips.found("rider = 'bob'") == ["b1"], where
        trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
        assert trips.found("rider in ('ada', 'ann')") == ["a1"], where
        trips.assert_whole()
        snapshot = trips.table().snapshot
        if RIDER in snapshot.config.metadata_partitions:
            assert RIDER in snapshot.definitions, where
            assert snapshot.config.metadata_partitions_inflight == (), where
            assert not snapshot.timeline.pending_of(Action.INDEXING), where
            assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"}), where
        else:
            try:
                assert_no_trace(trips.path, RIDER)
            except AssertionError as problem:
                raise AssertionError(where) from problem
            trips.index("rider")
            assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"}), where
        shutil.rmtree(trips.path)


def test_after_a_killed_build_another_builder_goes_on(template, tmp_path):
    for at, after, change in points_of(build, template.path, tmp_path, POINTS // 2):
        where = f"{'after' if after else 'before'} {at}: {change}"
        trips = template.copied(tmp_path / f"killed-{at}-{after}")
        finish_killed(build, trips.path, at=at, after=after, result=tmp_path / "end")
        try:
            resume_index(trips.writer, "idx_rider").wait()
        except InvalidInput:
            # It had not begun, or was as good as done.
            create_index(trips.writer, "idx_rider", "rider", if_missing=True)
        trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
        assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"}), where
        trips.assert_whole()
        shutil.rmtree(trips.path)


def test_a_builder_that_goes_on_is_killed_too(template, tmp_path):
    begun = template.copied(tmp_path / "begun")
    assert finish(start(build, begun.path, watch=DieAt(text=".hfile"))) == -9
    for at, after, change in points_of(take_up, begun.path, tmp_path, POINTS // 2):
        where = f"{'after' if after else 'before'} {at}: {change}"
        trips = begun.copied(tmp_path / f"killed-{at}-{after}")
        finish_killed(take_up, trips.path, at=at, after=after, result=tmp_path / "end")
        if at % 2:
            drop_if_there(trips)
        trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
        assert trips.found("rider in ('ada', 'ann')") == ["a1"], where
        if RIDER not in trips.table().snapshot.config.metadata_partitions:
            assert_no_trace(trips.path, RIDER)
        trips.assert_whole()
        shutil.rmtree(trips.path)


def drop_if_there(trips: Trips) -> None:
    try:
        drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    except InvalidInput:
        return


def build_ranges(path: str) -> None:
    """A build of two partitions at once."""
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1))
    create_index(writer, "column_stats", ["rider"], wait=False).wait()


# case B39: failure between two partitions
@pytest.mark.parametrize("text", ["partition_metadata", ".hfile"])
def test_a_build_that_is_killed_between_two_partitions(tmp_path, text):
    properties = {**RECORD_INDEX, "hoodie.metadata.index.column.stats.enable": "false"}
    trips = Trips(tmp_path / "t", "cow", properties=properties)
    trips.writer.insert(trips.rows(*FIRST))
    counted = trips.copied(tmp_path / "counted")
    changes = changes_of(build_ranges, counted.path, result=tmp_path / "seen")
    at = next(at for at, each in enumerate(changes) if "/partition_stats/" in each and text in each)
    told = [each for each in changes[:at] if text in each]
    assert any("/column_stats/" in each for each in told)
    death = DieAt(text=text, skip=len(told))
    assert finish(start(build_ranges, trips.path, watch=death)) == -9
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
    for name in ("column_stats", "partition_stats"):
        assert_no_trace(trips.path, name)
    create_index(trips.writer, "column_stats", ["rider"], wait=False).wait()
    assert trips.found("rider = 'ada'") == ["a1"]
    trips.assert_whole()


# cases B39, B66: failure between two partitions; leftovers of a failed CREATE INDEX
@pytest.mark.parametrize("wait", [True, False], ids=["inline", "background"])
def test_a_build_of_a_secondary_and_a_record_index_that_is_killed_leaves_both_or_none(
    tmp_path, wait
):
    plain = Trips(tmp_path / "t", "mor", properties={"hoodie.index.type": "GLOBAL_SIMPLE"})
    plain.writer.insert(plain.rows(*FIRST))
    job = build_inline if wait else build
    for at, after, change in points_of(job, plain.path, tmp_path, POINTS // 2):
        where = f"{'after' if after else 'before'} {at}: {change}"
        trips = plain.copied(tmp_path / f"killed-{at}-{after}")
        finish_killed(job, trips.path, at=at, after=after, result=tmp_path / "end")
        assert trips.found("rider = 'bob'") == ["b1"], where
        trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))
        live = trips.table().snapshot.config.metadata_partitions
        assert ("record_index" in live) == (RIDER in live), where
        assert trips.found("rider in ('ada', 'ann')") == ["a1"], where
        trips.assert_whole()
        if RIDER not in live:
            assert_no_trace(trips.path, RIDER)
            trips.index("rider")
        assert trips.entries("rider") == pairs({"a1": "ada", "b1": "bob", "c1": "cem"}), where
        shutil.rmtree(trips.path)


def build_inline(path: str) -> None:
    """The same build in one commit."""
    create_index(TableWriter(StorageAddress.of(path), LocalEngine(1)), "idx_rider", "rider")


def upsert(path: str) -> None:
    """A write, in a process of its own."""
    trips = Trips.opened(path)
    trips.writer.upsert(trips.rows(("a1", 2, "ada", "oslo")))


def test_a_writer_that_is_killed_while_it_clears_a_dead_build_away(template, tmp_path):
    dead = template.copied(tmp_path / "dead")
    # The last file of an indexing action: the one without a state in its name.
    death = DieAt(text=".indexing", skip=2)
    assert finish(start(build, dead.path, watch=death)) == -9
    assert RIDER in dead.table().snapshot.definitions, "it died with all but the instant written"
    changes = changes_of(upsert, dead.copied(tmp_path / "d").path, result=tmp_path / "clearing")
    last = next(at for at, change in enumerate(changes) if "commit.requested" in change)
    assert any(f"delete_folder .hoodie/metadata/{RIDER}" in change for change in changes[:last])
    step = 1 if EVERY else 6
    for at in range(int(time.time() // 86_400) % step, last, step):
        trips = dead.copied(tmp_path / f"killed-{at}")
        finish_killed(upsert, trips.path, at=at, after=False, result=tmp_path / "end")
        trips.writer.upsert(trips.rows(("b1", 2, "bea", "rio")))
        assert trips.found("rider in ('ann', 'bea')") == ["a1", "b1"], changes[at]
        assert_no_trace(trips.path, RIDER)
        trips.assert_whole()
