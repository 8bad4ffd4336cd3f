"""The lock of a table: one holder among threads, processes and engines, and none after death."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.storage import Storage, open_storage
from lakedex.storage.object_store import memory_storage
from lakedex.txn.lock import LockOptions, open_lock
from lakedex.txn.process import ProcessId
from tests.support.txn_tables import count_under_lock, hold_lock_forever
from tests.unit.storage.conftest import moto, s3  # noqa: F401 - fixtures

FILE = ".hoodie/lock"
OBJECT = ".hoodie/.locks/table_lock.json"
QUICK = LockOptions(wait_seconds=10, poll_seconds=0.005)
SHORT = LockOptions(wait_seconds=9, lease_seconds=0.4, renew_seconds=0.2, poll_seconds=0.02)
RENEWED = LockOptions(wait_seconds=9, lease_seconds=1.5, renew_seconds=0.25, poll_seconds=0.02)
IMPATIENT = LockOptions(wait_seconds=0.1, poll_seconds=0.02)


@pytest.fixture(params=["file", "object", pytest.param("s3", marks=pytest.mark.s3)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "s3":
        return request.getfixturevalue("s3")
    return open_storage(str(tmp_path)) if request.param == "file" else memory_storage()


def test_threads_exclude_each_other(storage: Storage) -> None:
    state = {"inside": 0, "rounds": 0}

    def work() -> None:
        lock = open_lock(storage, QUICK)
        for _ in range(5):
            with lock:
                state["inside"] += 1
                assert state["inside"] == 1
                time.sleep(0.001)
                lock.check()
                state["inside"] -= 1
                state["rounds"] += 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state == {"inside": 0, "rounds": 15}


def test_processes_exclude_each_other(tmp_path: Path, processes) -> None:
    (tmp_path / "number").write_text("0")
    workers = [processes.Process(target=count_under_lock, args=(str(tmp_path), 20)) for _ in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "number").read_text() == "60"
    assert not (tmp_path / FILE).exists()


def test_the_lock_of_a_killed_process_is_taken_at_once(table: Path, processes) -> None:
    ready = processes.Event()
    holder = processes.Process(target=hold_lock_forever, args=(str(table), ready))
    holder.start()
    assert ready.wait(20)
    with pytest.raises(CommitConflict, match=f"{FILE} is held by process {holder.pid} on"):
        open_lock(open_storage(str(table)), IMPATIENT).acquire()
    holder.kill()
    holder.join()
    with open_lock(open_storage(str(table)), IMPATIENT) as lock:
        lock.check()
    assert not (table / FILE).exists()


def test_the_lock_object_of_a_killed_process_is_taken_at_once(processes) -> None:
    storage = memory_storage()
    open_lock(storage, QUICK).acquire()
    held = storage.read(OBJECT)
    me = ProcessId.current()
    with pytest.raises(CommitConflict, match=f"{OBJECT} is held by process {me.number} on"):
        open_lock(storage, IMPATIENT).acquire()
    gone = processes.Process(target=int)
    gone.start()
    gone.join()
    ended = me.to_json() | {"pid": gone.pid}
    name = json.loads(held)["owner"].rpartition("-")[0]
    owner = f"{name}-{json.dumps(ended).encode().hex()}"
    storage.replace(OBJECT, json.dumps(json.loads(held) | {"owner": owner}).encode())
    with open_lock(storage, IMPATIENT) as lock:
        lock.check()
    assert json.loads(storage.read(OBJECT)).keys() == {"expired", "validUntil", "owner"}


def test_a_lock_of_another_engine_is_waited_for_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / FILE).touch()
    storage = open_storage(str(tmp_path))
    with pytest.raises(CommitConflict, match=f"{tmp_path}/{FILE} is held by another engine"):
        open_lock(storage, IMPATIENT).acquire()
    assert (tmp_path / FILE).read_bytes() == b""
    threading.Timer(0.2, (tmp_path / FILE).unlink).start()
    with open_lock(storage, QUICK):
        assert json.loads((tmp_path / FILE).read_bytes())["lockThreadName"]


def test_a_lease_is_renewed_while_its_holder_lives(storage: Storage) -> None:
    with open_lock(storage, RENEWED) as lock:
        time.sleep(2.2)
        lock.check()
        with pytest.raises(CommitConflict):
            open_lock(storage, IMPATIENT).acquire()


def test_a_holder_that_slept_through_its_lease_finds_out(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # case B58: lost lock lease
    sleeper, other = open_lock(storage, SHORT), open_lock(storage, QUICK)
    monkeypatch.setattr(type(sleeper), "_renew_often", lambda *_: None)
    # On one machine a live process is told by its lease too, when it does not renew it.
    sleeper.acquire()
    begun = time.monotonic()
    other.acquire()
    assert time.monotonic() - begun > 0.4
    with pytest.raises(CommitConflict, match="was lost"):
        sleeper.check()
    sleeper.release()
    other.check()
    other.release()
    with open_lock(storage, IMPATIENT):
        pass


def test_check_after_release_and_double_acquire_are_errors(storage: Storage) -> None:
    lock = open_lock(storage, QUICK)
    with lock, pytest.raises(RuntimeError, match="held already"):
        lock.acquire()
    with pytest.raises(CommitConflict, match="is not held"):
        lock.check()


def test_the_lock_object_has_the_fields_of_the_jvm_and_is_never_removed() -> None:
    storage = memory_storage()
    lock = open_lock(storage, QUICK)
    with lock:
        held = json.loads(storage.read(OBJECT))
        assert held.keys() == {"expired", "validUntil", "owner"}
        assert held["expired"] is False
        assert 25_000 < held["validUntil"] - time.time() * 1000 < 31_000
    freed = json.loads(storage.read(OBJECT))
    assert freed == {**held, "expired": True}


@pytest.mark.parametrize(
    ("record", "free"),
    [
        # By its clock the lease ran out long ago, and yet it was written just now.
        ({"expired": False, "validUntil": 1, "owner": "jvm"}, False),
        ({"expired": False, "validUntil": 1, "owner": f"lakedex-{'9' * 5000}-x"}, False),
        ({"expired": True, "validUntil": 4_000_000_000_000, "owner": "jvm"}, True),
        ({"expired": False, "validUntil": 4_000_000_000_000, "owner": "jvm"}, False),
        ("not JSON", False),
        ([], False),
    ],
)
def test_a_lock_object_of_the_jvm_is_respected(record: object, free: bool) -> None:
    storage = memory_storage()
    data = record if isinstance(record, str) else json.dumps(record)
    storage.create(OBJECT, data.encode())
    lock = open_lock(storage, IMPATIENT)
    if free:
        lock.acquire()
        lock.release()
        return
    with pytest.raises(CommitConflict, match=OBJECT):
        lock.acquire()
    assert storage.read(OBJECT) == data.encode()


def test_a_process_number_given_away_again_is_not_the_old_process() -> None:
    me = ProcessId.current()
    assert not me.is_surely_dead()
    assert ProcessId(me.host, me.machine, me.number, "1").is_surely_dead()
    assert not ProcessId("elsewhere", me.machine, 4_000_000, "1").is_surely_dead()
    assert not ProcessId(me.host, "another boot", 4_000_000, "1").is_surely_dead()
    for hostile in (
        None,
        3,
        {},
        {"pid": -1},
        {"pid": True, "host": "h"},
        {**me.to_json(), "host": 1},
    ):
        assert ProcessId.from_json(hostile) is None


@pytest.mark.parametrize(
    "wrong", [{"renew_seconds": 20}, {"wait_seconds": -1}, {"poll_seconds": 0}]
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        LockOptions(**wrong)
