"""Writers on machines whose clocks are minutes apart: times grow, and who lives is let live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from lakedex.config import TimelineZone
from lakedex.errors import CommitConflict
from lakedex.storage import Storage, open_storage
from lakedex.storage.object_store import memory_storage
from lakedex.timeline import from_epoch_ms
from lakedex.txn import clocks, heartbeat
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions, is_alive
from lakedex.txn.lock import LockOptions, lease, open_lock
from lakedex.txn.working_folders import CLOCK, writer_path
from lakedex.upkeep.cleaning import clean_table
from tests.support.write_lab import Lab, row, source

MINUTE_MS = 60_000
SKEWS = [0, 5 * MINUTE_MS, -7 * MINUTE_MS, 2 * MINUTE_MS, 0, -MINUTE_MS]
T = "20261115183005287"


@contextmanager
def clock_off_by(skew_ms: int) -> Iterator[None]:
    """What is done here is done on a machine whose clock is off."""
    right = clocks.own_now_ms

    def wrong() -> int:
        return right() + skew_ms

    with (
        mock.patch.object(clocks, "own_now_ms", wrong),
        mock.patch.object(heartbeat, "own_now_ms", wrong),
        mock.patch.object(lease, "_now_ms", wrong),
    ):
        yield


@contextmanager
def store_later_by(seconds: float) -> Iterator[None]:
    """So much later, by the clock of the store alone."""
    stamp = lease.store_stamp_ms

    def later(storage: Storage) -> int:
        found = stamp(storage)
        assert found is not None
        return found + int(seconds * 1000)

    with mock.patch.object(lease, "store_stamp_ms", later):
        yield


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writers_minutes_apart_neither_share_nor_reorder_times(tmp_path, kind):
    # case B56: two instants with one time
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX")
    written: list[str] = []
    for number, skew in enumerate(SKEWS * 2):
        with clock_off_by(skew):
            result = lab.writer.upsert(source([row("a", "p", number), row(f"k{number}", "p", 1)]))
            clean_table(lab.address, {"hoodie.clean.commits.retained": "3"})
        assert result.instant is not None
        written.append(result.instant)
    timeline = lab.writer.snapshot().timeline
    moments = [
        moment
        for each in timeline.write_instants()
        for moment in (each.requested_time, each.completion_time)
    ]
    assert moments == sorted(set(moments))
    assert [each.requested_time for each in timeline.write_instants()] == written
    others = [row(f"k{number}", "p", 1) for number in range(len(written))]
    lab.holds([row("a", "p", len(written) - 1), *others], "id = 'a'")


@pytest.mark.parametrize("skew", [-9 * MINUTE_MS, 9 * MINUTE_MS])
def test_two_writers_at_once_with_clocks_apart_both_commit(tmp_path, skew):
    lab = Lab(tmp_path, "cow", "SIMPLE")
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))

    def other() -> None:
        with clock_off_by(skew):
            lab.writer.upsert(source([row("b", "q", 2)]))

    # Without a look at the store's clock the one would take the other for dead, and undo it.
    lab.meanwhile(other).upsert(source([row("a", "p", 2)]))
    lab.holds([row("a", "p", 2), row("b", "q", 2)])


def test_a_beat_that_is_old_by_every_clock_is_of_the_dead(table):
    storage = open_storage(str(table))
    options = HeartbeatOptions(interval_seconds=20)
    beat = Heartbeat(storage, T, options)
    beat.start()
    try:
        for skew in (-10 * MINUTE_MS, 0, 10 * MINUTE_MS):
            with clock_off_by(skew):
                assert is_alive(storage, T, options)
        later = clocks.own_now_ms() + 10 * MINUTE_MS
        with (
            clock_off_by(10 * MINUTE_MS),
            mock.patch.object(heartbeat, "store_now_ms", return_value=later),
        ):
            assert not is_alive(storage, T, options)
    finally:
        beat.stop()
    assert not storage.exists(CLOCK)


@pytest.fixture(params=["file", "object"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path)) if request.param == "file" else memory_storage()


NOW = LockOptions(wait_seconds=0)
OTHERS = ".hoodie/.locks/table_lock.json"


@pytest.mark.parametrize("holder", [-9 * MINUTE_MS, 0, 9 * MINUTE_MS])
@pytest.mark.parametrize("other", [-9 * MINUTE_MS, 9 * MINUTE_MS])
def test_a_lease_is_not_told_by_two_clocks(storage, holder, other):
    # case B58: lost lock lease
    with clock_off_by(holder):
        held = open_lock(storage, NOW)
        held.acquire()
    with clock_off_by(other):
        # However late it is by the own clock, the holder has just given a sign of life.
        with pytest.raises(CommitConflict, match="is held by"):
            open_lock(storage, NOW).acquire()
        # However early it is by the own clock, the store knows that the lease ran out.
        with store_later_by(32), open_lock(storage, NOW) as taken:
            taken.check()
            with clock_off_by(holder), pytest.raises(CommitConflict, match="was lost"):
                held.check()
    held.release()
    assert not storage.exists(CLOCK)


def test_a_lock_that_is_watched_for_a_lease_needs_no_other_clock(storage, monkeypatch):
    brief = LockOptions(wait_seconds=9, lease_seconds=0.2, renew_seconds=0.1, poll_seconds=0.02)
    held = open_lock(storage, brief)
    monkeypatch.setattr(type(held), "_renew_often", lambda *_: None)
    monkeypatch.setattr(lease, "store_stamp_ms", lambda _: None)
    held.acquire()
    with open_lock(storage, brief), pytest.raises(CommitConflict, match="was lost"):
        held.check()
    held.release()


def test_a_lock_of_the_jvm_is_given_its_own_time():
    storage = memory_storage()
    storage.create(OTHERS, b'{"expired": false, "validUntil": 1, "owner": "jvm"}')
    with store_later_by(290), pytest.raises(CommitConflict, match="the writer jvm"):
        open_lock(storage, NOW).acquire()
    with store_later_by(302), open_lock(storage, NOW) as lock:
        lock.check()


def test_a_claimed_time_is_taken_by_nobody_else(tmp_path):
    # Case B56: its writer paused before its first request and may continue at any time.
    lab = Lab(tmp_path, "cow", "SIMPLE")
    lab.writer.upsert(source([row("a", "p", 1)]))
    storage = open_storage(lab.path)
    claimed = from_epoch_ms(clocks.own_now_ms() + 10 * MINUTE_MS, TimelineZone.UTC)
    beating = Heartbeat(storage, claimed, HeartbeatOptions())
    beating.start()
    record = json.loads(storage.read(writer_path(claimed)))
    record["process"]["host"] = "elsewhere"
    storage.replace(writer_path(claimed), json.dumps(record).encode())
    result = lab.writer.upsert(source([row("b", "p", 1)]))
    assert result.instant is not None
    assert result.instant > claimed
    assert storage.exists(writer_path(claimed))
    lab.writer.upsert(source([row("c", "p", 1)]))
    assert not storage.exists(writer_path(claimed))
    beating.stop()
