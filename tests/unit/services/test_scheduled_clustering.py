"""Clusterings that are planned at one time and run at another, as by another process."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

import lakedex
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.services.clustering import cluster_table, run_clustering, schedule_clustering
from lakedex.services.inline import writer_with_services
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, RequestedReplace, State
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import HEARTBEATS
from tests.support.compactions import assert_all_agree, begin
from tests.support.history import Commit, History, create, writer_of
from tests.support.killing_storage import Fuse, Killed, KillingAddress
from tests.support.write_lab import Lab, row, source
from tests.support.write_shapes import WRITE_OPTIONS, Shape

COW = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
MOR = Shape("mor", "BLOOM", "simple")


@pytest.mark.parametrize("shape", [COW, MOR], ids=str)
def test_a_plan_is_run_later_in_the_order_that_it_was_made_for(shape, tmp_path):
    path = str(tmp_path)
    history = begin(shape, path, rows=60)
    writer = writer_of(StorageAddress.of(path))
    instant = schedule_clustering(writer, ["n", "name"], "hilbert")
    before = lakedex.open(path)
    (pending,) = before.timeline.pending()
    assert (pending.action, pending.state) == (Action.CLUSTERING, State.REQUESTED)
    assert schedule_clustering(writer, "n") is None, "every group is in the plan"
    assert_all_agree(path, history, verify=False)
    with pytest.raises(CommitConflict, match="pending clustering"):
        history.updates(4).write(shape, writer)
    fresh = Commit("upsert", tuple(history.new_rows(6)))
    history.apply(fresh).write(shape, writer)
    kept = {each.id for each in lakedex.open(path).files()} - {each.id for each in before.files()}
    result = run_clustering(writer, instant)
    assert result.instant == instant
    table = lakedex.open(path)
    assert table.timeline.find(instant).action is Action.REPLACECOMMIT
    assert not table.timeline.pending()
    assert {each.id for each in table.files()} & {each.id for each in before.files()} == set()
    assert kept <= {each.id for each in table.files()}, "what came after the plan stays"
    assert_all_agree(path, history)
    history.apply(history.updates(8)).write(shape, writer)
    assert_all_agree(path, history)
    with pytest.raises(InvalidInput, match=f"no clustering {instant} pends"):
        run_clustering(writer, instant)


def test_a_plan_of_hudi_with_several_groups_and_no_columns_is_run(tmp_path):
    """Without sort columns the rows are in the order of their keys."""
    history = History(COW, rows=60)
    small = {"hoodie.parquet.max.file.size": "4000", "hoodie.parquet.small.file.limit": "0"}
    writer = writer_of(create(COW, tmp_path), small)
    for _ in range(2):
        history.apply(history.insert(40)).write(COW, writer)
    instant = schedule_clustering(writer, "n")
    requested = tmp_path / f".hoodie/timeline/{instant}.clustering.requested"
    asked = RequestedReplace.decode(requested.read_bytes(), path="plan")
    groups = [
        replace(group, slices=slices)
        for group in asked.clustering.groups
        for slices in (group.slices[:1], group.slices[1:])
        if slices
    ]
    assert len(groups) > len(asked.clustering.groups)
    plan = replace(asked.clustering, groups=tuple(groups), strategy_params={}, extra=None)
    requested.write_bytes(replace(asked, clustering=plan).encode())
    run_clustering(writer, instant)
    assert_all_agree(tmp_path, history)
    table = lakedex.open(str(tmp_path))
    for file in table.files():
        found = table.to_arrow(f"_hoodie_file_name = '{file.base.name}'")["id"].to_pylist()
        assert found == sorted(found, key=str.encode)


@pytest.mark.parametrize("how", ["inline", "schedule.inline"])
def test_a_write_clusters_when_its_options_say_so(how, tmp_path):
    path = str(tmp_path)
    history = begin(COW, path, logs=0)
    options = WRITE_OPTIONS | {
        f"hoodie.clustering.{how}": "true",
        "hoodie.clustering.inline.max.commits": "3",
        "hoodie.clustering.plan.strategy.sort.columns": "n",
    }
    writer = writer_with_services(StorageAddress.of(path), options=options)
    states = []
    for _ in range(3):
        history.apply(Commit("insert", tuple(history.new_rows(3)))).write(COW, writer)
        timeline = lakedex.open(path).timeline
        planned = [
            instant.state
            for instant in timeline.instants
            if timeline.requested_action(instant.requested_time) is Action.CLUSTERING
        ]
        states.append(planned)
    last = State.COMPLETED if how == "inline" else State.REQUESTED
    assert states == [[], [last], [last]]
    assert_all_agree(path, history)


def test_wrong_arguments_plan_nothing(tmp_path):
    history = begin(COW, tmp_path, rows=12, logs=0)
    writer = writer_of(StorageAddress.of(str(tmp_path)))
    for by, where in (((), None), ("nobody", None), ("n", "n > 3")):
        with pytest.raises(InvalidInput):
            schedule_clustering(writer, by, where=where)
    assert not lakedex.open(str(tmp_path)).timeline.pending()
    assert cluster_table(writer, "n").instant is not None
    assert_all_agree(tmp_path, history)


def test_a_plan_outlives_a_rollback_of_its_run_that_was_cut_short(tmp_path):
    """Whoever comes next ends the rollback, and does not take the plan for a dead write."""
    lab = Lab(tmp_path / "made")
    lab.writer.insert(source([row(f"k{i}", "p", 1, float(i)) for i in range(4)]))
    instant = schedule_clustering(lab.writer, "x")
    for number in range(1, 40, 3):
        path = tmp_path / str(number)
        shutil.copytree(lab.path, path)
        address, fuse = StorageAddress.of(str(path)), Fuse()
        dying = KillingAddress(address, fuse)
        run = Transaction.resume(dying, instant, action=Action.CLUSTERING)
        run.start_writing()
        fuse.blow_at = fuse.count + number
        with suppress(Killed):
            run.abort()
        # The threads of a process end with it.
        for thread in (run._heartbeat, run._lock):
            thread._stop.set()
        shutil.rmtree(path / HEARTBEATS)
        (path / ".hoodie/lock").unlink(missing_ok=True)
        Transaction.begin(address, action=Action.COMMIT, operation="UPSERT").abort()
        pending = lakedex.open(str(path)).timeline.pending()
        assert [each.requested_time for each in pending] == [instant], number
        if not fuse.blown:
            break
    assert number > 5
