"""Another number of file groups for the record index while writers go on; nothing is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.services.inline import writer_with_services
from lakedex.services.resharding import reshard_index
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, Instant, State, load_table_config, write_instant
from lakedex.write.row_source import ArrowRowSource
from tests.support.compactions import Interrupted
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing import DieAt, finish, start
from tests.support.row_model import arrow_rows, assert_holds
from tests.support.secondary import Trips
from tests.support.write_shapes import Shape

INDEX = "record_index"
GLOBAL = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
COW = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "hive")


def begin(shape: Shape, path: Path) -> tuple[History, StorageAddress]:
    """A table whose record index has two file groups."""
    history, address = History(shape, rows=60), create(shape, path)
    history.apply(history.insert(60)).write(shape, writer_of(address))
    return history, address


def reshard(address: StorageAddress, count: int) -> None:
    reshard_index(address, LocalEngine(1), INDEX, count)


def groups(path: Path) -> int:
    return len(lakedex.open(path).snapshot.metadata.groups(INDEX))


@pytest.mark.parametrize("shape", [GLOBAL, COW], ids=str)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_write_whose_files_are_there_is_moved(shape, count, tmp_path):
    history, address = begin(shape, tmp_path)
    late = writer_of(
        address, {}, Interrupted("write the files", lambda: reshard(address, count), after=True)
    )
    history.apply(history.mixture(30)).write(shape, late)
    assert groups(tmp_path) == count
    assert_holds(str(tmp_path), history.model)
    history.apply(history.mixture(20)).write(shape, writer_of(address))
    assert_holds(str(tmp_path), history.model)


def test_a_write_that_looks_its_records_up_meanwhile_is_tried_again(tmp_path):
    history, address = begin(GLOBAL, tmp_path)
    commit = history.updates(30)

    def late() -> Interrupted:
        return Interrupted("find the records", lambda: reshard(address, 4), after=False)

    with pytest.raises(CommitConflict, match="the record index was resharded"):
        commit.write(GLOBAL, writer_of(address, {}, late()))
    assert_holds(str(tmp_path), history.model)
    retried = writer_of(address, {"hoodie.write.num.retries.on.conflict.failures": "1"}, late())
    history.apply(commit).write(GLOBAL, retried)
    assert_holds(str(tmp_path), history.model)


def test_a_write_that_has_looked_its_records_up_before_goes_on(tmp_path):
    # It listed the old index under the lock and found its files: these are the keys as it began.
    history, address = begin(GLOBAL, tmp_path)
    commit = history.mixture(30)
    late = Interrupted("find the records", lambda: reshard(address, 4), after=True)
    history.apply(commit).write(GLOBAL, writer_of(address, {}, late))
    assert groups(tmp_path) == 4
    assert_holds(str(tmp_path), history.model)
    following = history.mixture(20)
    history.apply(following).write(GLOBAL, writer_of(address))
    assert_holds(str(tmp_path), history.model)


def test_a_write_of_another_engine_is_waited_for(tmp_path):
    history, address = begin(GLOBAL, tmp_path)
    storage = address.open()
    config = load_table_config(storage)
    instant = f"{int(lakedex.open(tmp_path).timeline.last_completed.requested_time) + 5_000}"
    for state in (State.REQUESTED, State.INFLIGHT):
        write_instant(storage, config, Instant(instant, Action.DELTACOMMIT, state), b"")
    storage.replace(f".hoodie/.heartbeat/{instant}", b"")
    with pytest.raises(CommitConflict, match="of another engine goes on; reshard after it"):
        reshard(address, 4)
    assert groups(tmp_path) == 2
    assert_holds(str(tmp_path), history.model, verify=False)


def test_writers_in_threads_and_a_resharder(tmp_path):
    trips = Trips(tmp_path / "t", "mor")
    trips.writer.insert(trips.rows(*[(f"k{n}", 1, "r", f"c{n % 3}") for n in range(30)]))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "30"}
    problems: list[BaseException] = []

    def write(own: int) -> None:
        try:
            writer = trips.writer.with_options(retries)
            for turn in range(3):
                rows = [(f"k{n}", 10 * turn + 2, f"w{own}", f"c{n % 3}") for n in range(own, 30, 3)]
                new = (f"new-{own}-{turn}", 1, f"w{own}", "c0")
                writer.upsert(trips.rows(*rows, new))
        except BaseException as problem:
            problems.append(problem)
            raise

    threads = [threading.Thread(target=write, args=(own,)) for own in range(3)]
    for thread in threads:
        thread.start()
    for count in (4, 1, 3):
        time.sleep(0.2)
        reshard(trips.address, count)
    for thread in threads:
        thread.join(120)
    assert not problems
    table = trips.table()
    rows = table.to_arrow(None, ["uuid", "rider"]).to_pylist()
    assert len(rows) == len({row["uuid"] for row in rows}) == 30 + 9
    assert {row["rider"] for row in rows if row["uuid"] in ("k0", "k3")} == {"w0"}
    assert table.verify().ok


POINTS = [
    ("create .hoodie/.lakedex/record_index_reshard.json", False),
    ("create .hoodie/.lakedex/record_index_reshard.json", True),
    ("replace .hoodie/hoodie.properties", True),
    ("delete_folder .hoodie/metadata/record_index", True),
    ("create .hoodie/metadata/record_index/record-index-0001", True),
    ("delete_folder .hoodie/.lakedex/reshard-", False),
]


@pytest.mark.parametrize(("point", "is_after"), POINTS)
def test_a_resharding_that_is_killed_loses_nothing(point, is_after, tmp_path):
    history, address = begin(GLOBAL, tmp_path)
    child = start(reshard, address, 4, watch=DieAt(text=point, is_after=is_after))
    assert finish(child) == -9
    rows = lakedex.open(tmp_path).to_arrow().num_rows
    assert rows == len(history.model.live)
    late = history.mixture(20)
    history.apply(late).write(GLOBAL, writer_of(address))
    assert_holds(str(tmp_path), history.model)
    reshard(address, 3)
    assert groups(tmp_path) == 3
    assert_holds(str(tmp_path), history.model)


def test_a_record_index_that_is_far_off_is_resharded_by_a_write(tmp_path):
    history, address = begin(COW, tmp_path)
    reshard(address, 9)
    options = {"lakedex.record.index.reshard.inline": "true"}
    rows = arrow_rows(COW, history.apply(Commit("upsert", tuple(history.new_rows(5)))).rows)
    writer = writer_with_services(address, LocalEngine(1), options)
    writer.upsert(ArrowRowSource(rows))
    assert groups(tmp_path) == 2
    assert_holds(str(tmp_path), history.model)
