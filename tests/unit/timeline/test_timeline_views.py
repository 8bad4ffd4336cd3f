"""Views of hand-made timelines: what pends, what is visible, time travel, change ranges."""

from __future__ import annotations

import pytest

from lakedex.config import TableConfig
from lakedex.errors import AlreadyExists, FileMissing
from lakedex.storage.local import LocalStorage
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    State,
    Timeline,
    encode_commit_metadata,
    new_instant_time,
    to_epoch_ms,
    write_instant,
)

REQUESTED, INFLIGHT, COMPLETED = State


def day(number: int) -> str:
    return f"202611{number:02d}120000000"


def make(tmp_path, names, version=9):
    props = {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.table.timeline.timezone": "UTC",
    }
    config = TableConfig.from_properties(props, "p")
    folder = tmp_path / config.timeline_folder
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return Timeline.load(LocalStorage(str(tmp_path)), config)


def times(instants):
    return [instant.requested_time for instant in instants]


def test_the_furthest_state_of_each_instant_counts(tmp_path):
    timeline = make(
        tmp_path,
        [
            f"{day(1)}.commit.requested",
            f"{day(1)}.inflight",
            f"{day(1)}_{day(2)}.commit",
            f"{day(3)}.compaction.requested",
            f"{day(3)}.compaction.inflight",
            f"{day(4)}.compaction.requested",
            f"{day(4)}_{day(5)}.commit",
            "hoodie.properties",
        ],
    )
    assert timeline.instants == (
        Instant(day(1), Action.COMMIT, COMPLETED, day(2)),
        Instant(day(3), Action.COMPACTION, INFLIGHT),
        Instant(day(4), Action.COMMIT, COMPLETED, day(5)),
    )
    assert times(timeline.pending_of(Action.COMPACTION)) == [day(3)]
    assert timeline.requested_action(day(4)) is Action.COMPACTION
    assert timeline.is_pending(day(3))
    assert timeline.find(day(9)) is None


def test_pending_writes_are_invisible_even_when_they_are_the_oldest(tmp_path):
    timeline = make(tmp_path, [f"{day(2)}.deltacommit.inflight", f"{day(3)}_{day(4)}.deltacommit"])
    assert timeline.is_committed_write(day(1))
    assert not timeline.is_committed_write(day(2))
    assert timeline.is_committed_write(day(3))
    assert not timeline.is_committed_write(day(5))


def test_a_table_without_completed_writes_shows_nothing(tmp_path):
    timeline = make(tmp_path, [f"{day(2)}.deltacommit.inflight", f"{day(3)}_{day(4)}.clean"])
    assert timeline.last_completed is None
    assert not timeline.is_committed_write(day(1))
    assert not timeline.is_committed_write(day(3))


def test_archiving_past_a_savepoint_leaves_a_hole_that_counts_as_committed(tmp_path):
    timeline = make(
        tmp_path,
        [
            f"{day(1)}_{day(2)}.commit",
            f"{day(1)}_{day(9)}.savepoint",
            f"{day(5)}_{day(6)}.commit",
        ],
    )
    assert timeline.savepoints() == (day(1),)
    assert timeline.is_committed_write(day(1))
    assert timeline.is_committed_write(day(3))
    assert timeline.find(day(1)).action is Action.COMMIT


def test_time_travel_goes_by_requested_time(tmp_path):
    names = [f"{day(1)}_{day(8)}.commit", f"{day(3)}_{day(4)}.commit"]
    timeline = make(tmp_path, names)
    view = timeline.as_of("2026-11-02")
    assert times(view.completed()) == [day(1)]
    assert view.is_committed_write(day(1))
    assert not view.is_committed_write(day(3))
    early = timeline.as_of("2026-10-01")
    assert early.completed() == ()
    assert early.is_committed_write("20260901120000000")
    assert not early.is_committed_write("20261015120000000")


def test_changes_go_by_completion_time_in_layout_two(tmp_path):
    names = [f"{day(1)}_{day(8)}.commit", f"{day(3)}_{day(4)}.commit", f"{day(5)}.inflight"]
    timeline = make(tmp_path, names)
    assert times(timeline.between(None)) == [day(3), day(1)]
    assert times(timeline.between("000", day(4))) == [day(3)]
    assert times(timeline.between(day(4), day(8))) == [day(1)]
    assert times(timeline.between(day(8))) == []


def test_changes_go_by_requested_time_in_layout_one(tmp_path):
    names = [f"{day(1)}.commit", f"{day(3)}.commit"]
    timeline = make(tmp_path, names, version=6)
    assert times(timeline.between(day(1), day(3))) == [day(3)]
    assert timeline.completion_time(day(1)) is None
    assert timeline.completion_time_or_self(day(1)) == day(1)


def test_unknown_and_pending_instants_have_no_completion_time(tmp_path):
    names = [f"{day(3)}_{day(4)}.commit", f"{day(5)}.inflight"]
    timeline = make(tmp_path, names)
    assert timeline.completion_time(day(3)) == day(4)
    assert timeline.completion_time(day(1)) is None
    assert timeline.completion_time(day(5)) is None
    assert timeline.completion_time_or_self(day(1)) == day(1)


def test_an_instant_is_created_once(tmp_path):  # case B56: two instants with one time
    timeline = make(tmp_path, [])
    data = encode_commit_metadata(CommitMetadata(operation_type="UPSERT"))
    instant = Instant(day(1), Action.COMMIT, COMPLETED, day(2))
    path = write_instant(timeline.storage, timeline.config, instant, data)
    assert path == f".hoodie/timeline/{day(1)}_{day(2)}.commit"
    with pytest.raises(AlreadyExists):
        write_instant(timeline.storage, timeline.config, instant, b"other")
    again = Timeline.load(timeline.storage, timeline.config)
    assert again.commit_metadata(instant).operation_type == "UPSERT"
    assert again.read(instant) == data


def test_an_instant_that_was_rolled_back_since_the_listing_is_missing(tmp_path):
    timeline = make(tmp_path, [f"{day(1)}_{day(2)}.commit"])
    timeline.storage.delete(f".hoodie/timeline/{day(1)}_{day(2)}.commit")
    with pytest.raises(FileMissing):
        timeline.commit_metadata(timeline.instants[0])


def test_new_times_come_after_every_time_in_use(tmp_path):
    timeline = make(tmp_path, [f"{day(1)}_{day(8)}.commit", f"{day(3)}.inflight"])
    now = to_epoch_ms(day(9), timeline.config.timezone)
    assert new_instant_time(timeline, now) == day(9)
    late = to_epoch_ms(day(2), timeline.config.timezone)
    assert new_instant_time(timeline, late) == "20261108120000001"


def test_new_times_come_after_suffixed_times(tmp_path):  # case B37: instant times with a suffix
    timeline = make(tmp_path, ["00000000000000010.deltacommit", f"{day(1)}001.commit"], version=6)
    late = to_epoch_ms(day(1), timeline.config.timezone)
    assert new_instant_time(timeline, late) == "20261101120000001"


def test_a_timeline_of_leading_zeros_only_does_not_hold_time_back(tmp_path):
    timeline = make(tmp_path, ["00000000000000010.deltacommit"], version=6)
    now = to_epoch_ms(day(1), timeline.config.timezone)
    assert new_instant_time(timeline, now) == day(1)
