"""Several writer processes on one table: no update is lost, no key stands twice.

Where it matters that writers overlap, each waits for the others after its write has begun and
before it is committed.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import lakedex
from lakedex.storage.open import StorageAddress
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing import Watch, finish, server, start
from tests.support.row_model import KEY_COLUMN, Model, Row, assert_holds
from tests.support.write_jobs import try_once, write_until_done
from tests.support.write_shapes import Shape

QUICK = {"hoodie.write.lock.wait_time_ms_between_retry": "20"}
COW = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
MOR = Shape("mor", "GLOBAL_SIMPLE", "simple")
PER_PARTITION = Shape("cow", "BLOOM", "simple")
WINDOWED = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "daily", 2)
CROWDS = [(2, PER_PARTITION), (2, MOR), (4, COW), (4, MOR), (2, WINDOWED)]
BEGUN = ".inflight"


def begin(shape: Shape, path: Path, rows: int = 40) -> History:
    """A table of some rows."""
    history = History(shape, rows=rows)
    history.apply(history.insert(rows)).write(shape, writer_of(create(shape, path)))
    return history


def run_together(shape: Shape, path: Path, shares: list[list[Commit]]) -> None:
    """Each share in a process of its own; all are in their first write at the same time."""
    barrier = server().Barrier(len(shares))
    children = [
        start(
            write_until_done,
            shape,
            str(path),
            share,
            QUICK,
            watch=Watch(hold_at=BEGUN, barrier=barrier),
        )
        for share in shares
    ]
    assert [finish(child) for child in children] == [0] * len(shares)


def versions(rows: list[Row], ver: int) -> Commit:
    """The rows again, with values that tell who wrote them."""
    return Commit("upsert", tuple(row._replace(ver=ver, n=ver % 1000) for row in rows))


@pytest.mark.parametrize(("writers", "shape"), CROWDS, ids=str)
def test_writers_of_other_keys_lose_nothing(shape, writers, tmp_path):
    path = tmp_path / "table"
    history = begin(shape, path)
    rows = sorted(history.model.live.values(), key=lambda row: row.id)
    shares = []
    for number in range(writers):
        mine = rows[number::writers]
        fresh = history.new_rows(5)
        shares.append(
            [
                Commit("upsert", (*versions(mine, 5000 + number).rows, *fresh)),
                Commit("delete", tuple(mine[:2]), ("id", "city")),
            ]
        )
    run_together(shape, path, shares)
    for share in shares:
        for commit in share:
            history.apply(commit)
    assert_holds(str(path), history.model)


@pytest.mark.parametrize(("writers", "shape"), CROWDS, ids=str)
def test_of_writers_of_the_same_keys_the_latest_version_wins(shape, writers, tmp_path):
    path = tmp_path / "table"
    history = begin(shape, path)
    rows = sorted(history.model.live.values(), key=lambda row: row.id)[:20]
    # Whoever commits last, the largest version must be there: a lost update would show.
    shares = [
        [versions(rows[number:], 5000 + (number * 7 + turn * 3) % 10) for turn in range(2)]
        for number in range(writers)
    ]
    run_together(shape, path, shares)
    for share in shares:
        for commit in share:
            history.apply(commit)
    assert_holds(str(path), history.model)


@pytest.mark.parametrize("shape", [COW, MOR, PER_PARTITION], ids=str)
def test_two_writers_of_one_new_key_leave_one_row(shape, tmp_path):
    path = tmp_path / "table"
    history = begin(shape, path)
    fresh = history.new_rows(3)
    shares = [[versions(fresh, 6000)], [versions(fresh, 7000)]]
    run_together(shape, path, shares)
    history.apply(shares[0][0])
    history.apply(shares[1][0])
    assert_holds(str(path), history.model)
    keys = Counter(lakedex.open(str(path)).to_arrow(columns=[KEY_COLUMN])[KEY_COLUMN].to_pylist())
    assert [keys[row.id] for row in fresh] == [1, 1, 1]


def test_one_new_key_in_two_partitions_at_once_is_one_row_under_a_global_index(tmp_path):
    path = tmp_path / "table"
    history = begin(COW, path)
    row = history.new_rows(1)[0]
    places = [COW.places[0], COW.places[1]]
    shares = [
        [Commit("upsert", (row.moved_to(place, row.ts)._replace(ver=9000 + number),))]
        for number, place in enumerate(places)
    ]
    run_together(COW, path, shares)
    for share in shares:
        history.apply(share[0])
    assert_holds(str(path), history.model)


def test_two_writers_that_widen_one_range_are_both_found(tmp_path):
    # case B10: ranges of a partition that two writers change
    path = tmp_path / "table"
    history = begin(COW, path)
    low, high = (row.moved_to(COW.places[0], row.ts) for row in history.new_rows(2))
    low, high = low._replace(n=-100_000), high._replace(n=100_000)
    shares = [[Commit("upsert", (low,))], [Commit("upsert", (high,))]]
    run_together(COW, path, shares)
    for share in shares:
        history.apply(share[0])
    assert_holds(str(path), history.model)
    table = lakedex.open(str(path))
    for row in (low, high):
        question = f"n = {row.n} and city = '{row.city}'"
        assert table.to_arrow(question, columns=["id"])["id"].to_pylist() == [row.id]
        assert table.explain(question).files != table.explain().files


def test_the_writer_that_loses_is_told_so_and_leaves_no_trace(tmp_path):
    path = tmp_path / "table"
    history = begin(COW, path)
    rows = sorted(history.model.live.values(), key=lambda row: row.id)[:5]
    barrier = server().Barrier(2)
    outcomes = []
    children = []
    for number in range(2):
        watch = Watch(hold_at=BEGUN, barrier=barrier)
        said = tmp_path / f"said-{number}"
        commit = versions(rows, 5000 + number)
        children.append(start(try_once, COW, str(path), commit, QUICK, str(said), watch=watch))
        outcomes.append((commit, said))
    assert [finish(child) for child in children] == [0, 0]
    told = [json.loads(said.read_text(encoding="utf-8")) for _, said in outcomes]
    assert told.count(None) == 1
    for (commit, _), error in zip(outcomes, told, strict=True):
        if error is None:
            history.apply(commit)
        else:
            assert error["kind"] == "CommitConflict"
            assert "was not committed: file group" in error["message"]
    assert_holds(str(path), history.model)
    assert not lakedex.open(str(path)).timeline.pending()
    again = Model(COW)
    again.live = dict(history.model.live)
    commit = versions(rows, 9000)
    commit.write(COW, writer_of(StorageAddress.of(str(path))))
    again.upsert(commit.rows)
    assert_holds(str(path), again)
