"""Times, heartbeats and markers."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from lakedex.config import TimelineZone
from lakedex.errors import InvalidInput
from lakedex.storage import open_storage
from lakedex.storage.object_store import memory_storage
from lakedex.timeline import load_table_config
from lakedex.txn.clocks import InstantClock
from lakedex.txn.heartbeat import Heartbeat, HeartbeatOptions, SignsOfLife, is_alive
from lakedex.txn.lock import LockOptions, open_lock
from lakedex.txn.markers import MarkerKind, create_marker, marked_files
from lakedex.txn.process import ProcessId

T = "20261115183005287"
FILE = f"f-0_0-0-0_{T}.parquet"


def test_times_taken_under_the_lock_by_four_threads_never_collide(table: Path) -> None:
    # case B56: two instants with one time
    storage = open_storage(str(table))
    config = load_table_config(storage)
    taken: list[str] = []

    def work() -> None:
        lock = open_lock(storage, LockOptions(poll_seconds=0.002))
        for _ in range(5):
            with lock:
                clock = InstantClock.load(storage, config)
                for _ in range(3):
                    taken.append(clock.next())
                storage.create(f".hoodie/timeline/{taken[-1]}.commit.requested", b"")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 60
    assert taken == sorted(set(taken))


def test_times_come_after_a_future_time_of_either_timeline(table: Path) -> None:
    storage = open_storage(str(table))
    config = load_table_config(storage)
    names = {
        ".hoodie/timeline/20991231235959998_20991231235959999.commit": "21000101000000000",
        ".hoodie/metadata/.hoodie/timeline/21990101000000000_21990101000000005.deltacommit": (
            "21990101000000006"
        ),
    }
    for name, expected in names.items():
        storage.create(name, b"")
        assert InstantClock.load(storage, config).next() == expected


def test_a_clock_that_goes_back_gives_growing_times() -> None:
    moments = iter([5_000, 4_000, 1_000, 6_000])
    clock = InstantClock(TimelineZone.UTC, "", lambda: next(moments))
    times = [clock.next() for _ in range(4)]
    assert [time[-5:] for time in times] == ["05000", "05001", "05002", "06000"]


def test_a_heartbeat_is_an_empty_file_that_is_refreshed(table: Path) -> None:
    storage = open_storage(str(table))
    # Beats may come late on a busy machine; one from 1970 is too old all the same.
    options = HeartbeatOptions(interval_seconds=0.05, tolerable_misses=100)
    heartbeat = Heartbeat(storage, T, options)
    heartbeat.start()
    beat = table / ".hoodie/.heartbeat" / T
    assert beat.read_bytes() == b""
    os.utime(beat, (1, 1))
    deadline = time.monotonic() + 5
    while beat.stat().st_mtime < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert is_alive(storage, T)
    heartbeat.stop()
    assert not beat.exists()
    assert not is_alive(storage, T)


def test_a_writer_is_dead_when_its_process_is_gone_or_its_beats_are_old(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(str(table))
    me = ProcessId.current()
    gone = ProcessId(me.host, me.machine, me.number, "1")
    monkeypatch.setattr(ProcessId, "current", lambda: gone)
    dead = Heartbeat(storage, T, HeartbeatOptions())
    dead.start()
    assert not is_alive(storage, T)
    monkeypatch.setattr(ProcessId, "current", lambda: ProcessId("elsewhere", "other", 1, "1"))
    far = Heartbeat(storage, T, HeartbeatOptions(interval_seconds=10, tolerable_misses=2))
    far.start()
    assert is_alive(storage, T)
    beat = table / ".hoodie/.heartbeat" / T
    for age, alive in ((25, True), (35, False), (-25, True), (-10_000, False)):
        os.utime(beat, (time.time() - age, time.time() - age))
        assert is_alive(storage, T) is alive, age
    dead.stop()
    far.stop()


def test_a_writer_without_heartbeat_lives_by_other_signs(table: Path) -> None:
    life = SignsOfLife.load(open_storage(str(table)), HeartbeatOptions())
    now = life.now_ms
    assert life.is_alive(T, [1, now - 100_000])
    assert not life.is_alive(T, [1, now - 200_000, now + 10_000_000])
    with pytest.raises(InvalidInput):
        HeartbeatOptions(tolerable_misses=0)


def test_markers_of_both_engines_are_read_and_hostile_ones_are_not_believed() -> None:
    storage = memory_storage()
    create_marker(storage, T, f"p=a/{FILE}", MarkerKind.MERGE)
    create_marker(storage, T, f"p=a/{FILE}", MarkerKind.MERGE)
    create_marker(storage, T, f".g-0_{T}.log.1_0-0-0", MarkerKind.CREATE)
    folder = f".hoodie/.temp/{T}"
    assert [info.path for info in storage.list_recursive(folder)] == [
        f"{folder}/.g-0_{T}.log.1_0-0-0.marker.CREATE",
        f"{folder}/p=a/{FILE}.marker.MERGE",
    ]
    storage.create(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    hostile = [
        f"p=b/{FILE}.marker.CREATE",
        f"../other/{FILE}.marker.CREATE",
        f"/abs/{FILE}.marker.CREATE",
        f".hoodie/metadata/files/{FILE}.marker.CREATE",
        "p=b/f-0_0-0-0_20200101000000000.parquet.marker.CREATE",
        ".hoodie/hoodie.properties.marker.CREATE",
        f"p=b/{FILE}",
        "",
    ]
    storage.create(f"{folder}/MARKERS0", "\n".join(hostile).encode() + b"\xff\n")
    expected = (f".g-0_{T}.log.1_0-0-0", f"p=a/{FILE}", f"p=b/{FILE}")
    assert marked_files(storage, T) == expected
    assert marked_files(storage, "20200101000000000") == ()
