"""Clusterings beside other writers: no update is lost, nobody waits for a dead one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.services.clustering import cluster_table
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing import finish, start
from tests.support.row_model import assert_holds
from tests.support.write_jobs import write_until_done
from tests.support.write_shapes import Shape

COW = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
MOR = Shape("mor", "BLOOM", "simple")
CLUSTER = Commit("cluster", columns=("n",), strategy="linear")
LAYING_OUT, WRITING = "lay out the rows", "write the files"


class Interrupted(LocalEngine):
    """An engine that lets something else happen before the first work of a kind."""

    def __init__(self, label: str, happens: Callable[[], None]) -> None:
        super().__init__(1)
        self._label = label
        self._happens: Callable[[], None] | None = happens

    def map(self, label: str, worker: Any, tasks: Sequence[Any]) -> list[Any]:
        if label == self._label and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return super().map(label, worker, tasks)


def begin(shape: Shape, path: Path, rows: int = 60) -> History:
    history = History(shape, rows=rows)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(rows)).write(shape, writer)
    history.apply(history.updates(10)).write(shape, writer)
    return history


def files_of(path: Path) -> set[Path]:
    return {file for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}


def interrupted(path: Path, label: str, happens: Callable[[], None]) -> Any:
    """A clustering in the middle of which something happens."""
    address = StorageAddress.of(str(path))
    return cluster_table(writer_of(address, engine=Interrupted(label, happens)), "n")


@pytest.mark.parametrize("shape", [COW, MOR], ids=str)
@pytest.mark.parametrize("label", [LAYING_OUT, WRITING])
def test_writes_to_what_is_being_clustered_are_refused(shape, label, tmp_path):
    history = begin(shape, tmp_path)
    other = writer_of(StorageAddress.of(str(tmp_path)))
    refused = [
        history.updates(8),
        history.deletes(8),
        history.overwrite(5),
        Commit("delete_partitions", partitions=("oslo",)),
    ]

    def happens() -> None:
        before = files_of(tmp_path)
        for commit in refused:
            with pytest.raises(CommitConflict, match=r"pending clustering .* write again when"):
                commit.write(shape, other)
        assert files_of(tmp_path) == before
        assert cluster_table(other, "price").instant is None

    result = interrupted(tmp_path, label, happens)
    assert lakedex.open(str(tmp_path)).timeline.is_completed(result.instant)
    assert_holds(str(tmp_path), history.model)
    history.apply(refused[0]).write(shape, other)
    assert_holds(str(tmp_path), history.model)


@pytest.mark.parametrize("shape", [COW, MOR], ids=str)
def test_new_rows_are_written_beside_a_clustering(shape, tmp_path):
    history = begin(shape, tmp_path)
    rows = [row._replace(n=100_000 + at) for at, row in enumerate(history.new_rows(9))]
    fresh = Commit("upsert", tuple(rows))
    other = writer_of(StorageAddress.of(str(tmp_path)))
    past = lakedex.open(str(tmp_path))
    before = past.to_arrow()
    result = interrupted(tmp_path, WRITING, lambda: history.apply(fresh).write(shape, other))
    table = lakedex.open(str(tmp_path))
    assert table.timeline.is_completed(result.instant)
    assert_holds(str(tmp_path), history.model)
    # The ranges of the partitions are those of both writers.
    question = f"n = 100003 and city = '{rows[3].city}'"
    assert table.to_arrow(question)["id"].to_pylist() == [rows[3].id]
    assert past.to_arrow().equals(before), "an open snapshot stays what it was"


@pytest.mark.parametrize("is_added_before", [True, False])
def test_a_key_that_came_and_was_clustered_meanwhile_is_noticed(is_added_before, tmp_path):
    """Two writers of one new key: the first one's row is in a file of the clustering by then."""
    history = begin(COW, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    row = history.new_rows(1)[0]
    fresh = Commit("upsert", (row,))

    def happens() -> None:
        if is_added_before:
            fresh.write(COW, writer_of(address))
        cluster_table(writer_of(address), "n")

    mine = Commit("upsert", (row._replace(ver=row.ver + 1),))
    own_files = {"hoodie.parquet.small.file.limit": "0"}
    late = writer_of(address, own_files, Interrupted(WRITING, happens))
    if is_added_before:
        with pytest.raises(CommitConflict, match="another writer inserted the key"):
            mine.write(COW, late)
        history.apply(fresh)
    else:
        history.apply(mine).write(COW, late)
    assert_holds(str(tmp_path), history.model)


def test_a_clustering_loses_to_a_writer_that_does_not_heed_it(tmp_path, monkeypatch):
    """As Hudi's SparkAllowUpdateStrategy lets a writer do."""
    history = begin(MOR, tmp_path)
    before = files_of(tmp_path)
    other = writer_of(StorageAddress.of(str(tmp_path)))
    update = history.apply(history.updates(12))

    def happens() -> None:
        with monkeypatch.context() as patched:
            name = "lakedex.txn.conflicts.clustering_conflict"
            patched.setattr(name, lambda *_, **__: None)
            update.write(MOR, other)

    with pytest.raises(CommitConflict, match="was changed by deltacommit"):
        interrupted(tmp_path, WRITING, happens)
    table = lakedex.open(str(tmp_path))
    assert not table.timeline.pending()
    assert all(instant.action is not Action.REPLACECOMMIT for instant in table.timeline.completed())
    newest = table.timeline.last_completed.requested_time
    assert all(newest in file.name for file in files_of(tmp_path) - before)
    assert_holds(str(tmp_path), history.model)


def test_a_lost_clustering_is_tried_again_where_options_say_so(tmp_path, monkeypatch):
    history = begin(COW, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    update = history.apply(history.updates(12))

    def happens() -> None:
        with monkeypatch.context() as patched:
            name = "lakedex.txn.conflicts.clustering_conflict"
            patched.setattr(name, lambda *_, **__: None)
            update.write(COW, writer_of(address))

    again = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    result = cluster_table(writer_of(address, again, Interrupted(WRITING, happens)), "n")
    assert lakedex.open(str(tmp_path)).timeline.is_completed(result.instant)
    assert_holds(str(tmp_path), history.model)


def test_two_processes_that_write_and_cluster_lose_nothing(tmp_path):
    history = begin(COW, tmp_path)
    changes = [history.apply(make(10)) for make in (history.updates, history.mixture)]
    options = {"hoodie.write.lock.wait_time_ms_between_retry": "20"}
    children = [
        start(write_until_done, COW, str(tmp_path), commits, options)
        for commits in (changes, [CLUSTER] * 3)
    ]
    assert [finish(child) for child in children] == [0, 0]
    assert_holds(str(tmp_path), history.model)


def test_a_clustering_of_hudi_that_pends_is_left_alone(tmp_path):
    """Only plans that lakedex itself made are taken back when their process is dead."""
    history = begin(COW, tmp_path)
    plan = {}

    def happens() -> None:
        (pending,) = lakedex.open(str(tmp_path)).timeline.pending()
        name = f"{pending.requested_time}.clustering.requested"
        plan["data"] = (tmp_path / ".hoodie/timeline" / name).read_bytes()

    interrupted(tmp_path, LAYING_OUT, happens)
    name = "20300101000000000.clustering.requested"
    (tmp_path / ".hoodie/timeline" / name).write_bytes(plan["data"])
    writer = writer_of(StorageAddress.of(str(tmp_path)))
    history.apply(history.insert(5)).write(COW, writer)
    (pending,) = lakedex.open(str(tmp_path)).timeline.pending()
    assert pending.requested_time == "20300101000000000"
    assert_holds(str(tmp_path), history.model)
