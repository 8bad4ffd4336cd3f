"""Compactions beside writers, other compactions and clusterings, and those whose process dies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import CommitConflict, ServicePends
from lakedex.services.clustering import cluster_table, run_clustering, schedule_clustering
from lakedex.services.compaction import (
    compact_table,
    run_compaction,
    runner,
    schedule_compaction,
)
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, State
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.compactions import (
    MERGING,
    Interrupted,
    assert_all_agree,
    begin,
    logged,
    run_job,
    schedule_job,
)
from tests.support.history import Commit, History, writer_of
from tests.support.killing import DieAt, Watch, changes_of, finish, start
from tests.support.row_model import arrow_rows, assert_holds
from tests.support.write_jobs import write_and_serve
from tests.support.write_shapes import WRITE_OPTIONS, Shape

MOR = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
BLOOM = Shape("mor", "BLOOM", "simple")
UNHEEDED = ("lakedex.txn.transaction.group_conflict", "lakedex.write.assign_stage.service_conflict")
"""What a writer of another engine does not ask."""
EVERY = os.environ.get("LAKEDEX_KILLS") == "all"


def state_of(path: Path, instant: str) -> State:
    return lakedex.open(str(path)).timeline.find(instant).state


@pytest.mark.parametrize(("shape", "after"), [(MOR, False), (BLOOM, True)], ids=str)
def test_changes_made_while_a_compaction_runs_are_kept(shape, after, tmp_path):
    history = begin(shape, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    other = writer_of(address)

    def happens() -> None:
        for make in (logged, History.deletes, History.reinserts):
            history.apply(make(history, 8)).write(shape, other)
        assert_holds(str(tmp_path), history.model, verify=False)

    busy = writer_of(address, engine=Interrupted(MERGING, happens, after=after))
    result = compact_table(busy)
    assert state_of(tmp_path, result.instant) is State.COMPLETED
    assert_all_agree(tmp_path, history)
    history.apply(logged(history)).write(shape, other)
    compact_table(other)
    assert_all_agree(tmp_path, history)


def test_a_write_that_began_before_a_compaction_was_planned_is_kept(tmp_path):
    """Its log completes after the plan, and so counts for the new slice, whoever is first."""
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    planned = []

    def happens() -> None:
        planned.append(schedule_compaction(writer_of(address)))

    late = writer_of(address, engine=Interrupted("write the files", happens))
    history.apply(logged(history)).write(MOR, late)
    assert_all_agree(tmp_path, history, verify=False)
    run_compaction(writer_of(address), planned[0])
    assert_all_agree(tmp_path, history)
    log_instants = {log.instant_time for f in lakedex.open(str(tmp_path)).files() for log in f.logs}
    assert max(log_instants) < planned[0], "the write began earlier, and is still a log"

    def compacts() -> None:
        compact_table(writer_of(address))

    late = writer_of(address, engine=Interrupted("write the files", compacts))
    history.apply(logged(history)).write(MOR, late)
    assert_all_agree(tmp_path, history)


def test_base_files_are_not_written_where_a_compaction_pends(tmp_path):
    """A base file of an earlier instant would be hidden by that of the compaction."""
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    rows = history.new_rows(9)

    def happens() -> None:
        schedule_compaction(writer_of(address))

    late = writer_of(address, engine=Interrupted("write the files", happens))
    overwrite = history.overwrite(4)
    with pytest.raises(CommitConflict, match="pending compaction"):
        overwrite.write(MOR, late)
    assert_holds(str(tmp_path), history.model)
    # New rows find their way beside it.
    history.apply(Commit("upsert", tuple(rows))).write(MOR, writer_of(address))
    assert_holds(str(tmp_path), history.model)
    with pytest.raises(CommitConflict, match="pending compaction"):
        history.overwrite(4).write(MOR, writer_of(address))
    compact_table(writer_of(address))
    history.apply(history.overwrite(4)).write(MOR, writer_of(address))
    assert_all_agree(tmp_path, history)


def test_a_compaction_that_a_dead_process_left_is_finished_by_the_write_in_its_way(tmp_path):
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    instant = schedule_compaction(writer_of(address))
    overwrite = history.overwrite(4)
    with pytest.raises(ServicePends, match=f"pending compaction {instant}"):
        overwrite.write(MOR, writer_of(address))
    assert_holds(str(tmp_path), history.model)
    inline = WRITE_OPTIONS | {"hoodie.compact.inline": "true"}
    write_and_serve(MOR, str(tmp_path), history.apply(history.overwrite(4)), inline)
    assert not lakedex.open(str(tmp_path)).timeline.pending_of(Action.COMPACTION)
    assert_all_agree(tmp_path, history)


def test_a_group_that_was_replaced_after_the_plan_is_left_out(tmp_path, monkeypatch):
    """As by a writer of another engine, which does not ask for pending compactions."""
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    instant = schedule_compaction(writer_of(address))
    with monkeypatch.context() as patched:
        for name in UNHEEDED:
            patched.setattr(name, lambda *_, **__: None)
        history.apply(history.overwrite(4)).write(MOR, writer_of(address))
    operations = lakedex.open(str(tmp_path)).timeline.compaction_plan(instant).operations
    result = run_compaction(writer_of(address), instant)
    assert 0 < result.files < len(operations)
    assert_all_agree(tmp_path, history)


def test_a_compaction_loses_to_a_writer_that_replaces_its_groups_and_is_run_again(
    tmp_path, monkeypatch
):
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))

    def happens() -> None:
        with monkeypatch.context() as patched:
            for name in UNHEEDED:
                patched.setattr(name, lambda *_, **__: None)
            history.apply(history.overwrite(4)).write(MOR, writer_of(address))

    before = len(lakedex.open(str(tmp_path)).files())
    result = compact_table(writer_of(address, engine=Interrupted(MERGING, happens)))
    assert 0 < result.files < before
    assert_all_agree(tmp_path, history)
    assert not list((tmp_path / ".hoodie/.temp").rglob("*.marker.*"))


def test_columns_that_change_while_a_compaction_runs_are_in_its_files(tmp_path):
    history = begin(BLOOM, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    rows = [history.changed(row) for row in history.sample(6)]

    def happens() -> None:
        wider = arrow_rows(BLOOM, rows).append_column("extra", pa.array(range(6), pa.int64()))
        writer_of(address).upsert(ArrowRowSource(wider))

    compact_table(writer_of(address, engine=Interrupted(MERGING, happens)))
    table = lakedex.open(str(tmp_path))
    assert table.to_arrow("extra >= 0").num_rows == 6
    assert table.verify().ok
    newest = table.timeline.commit_metadata(
        max(table.timeline.write_instants(), key=lambda each: each.completion_time)
    )
    assert newest.compacted
    assert '"extra"' in newest.extra["schema"], "whoever goes by completion times sees it too"


def test_two_processes_do_not_run_one_plan(tmp_path):
    history = begin(MOR, tmp_path)
    address = StorageAddress.of(str(tmp_path))
    instant = schedule_compaction(writer_of(address))

    def happens() -> None:
        with pytest.raises(CommitConflict, match=f"another process runs the compaction {instant}"):
            run_compaction(writer_of(address), instant)
        assert compact_table(writer_of(address)).instant is None, "it is left to the other one"

    run_compaction(writer_of(address, engine=Interrupted(MERGING, happens)), instant)
    assert_all_agree(tmp_path, history)


def test_a_plan_that_another_process_takes_first_is_left_to_it(tmp_path, monkeypatch):
    history = begin(MOR, tmp_path)
    writer = writer_of(StorageAddress.of(str(tmp_path)))

    def schedule_and_lose(writer: TableWriter) -> str | None:
        instant = schedule_compaction(writer)
        run_compaction(writer, instant)
        return instant

    monkeypatch.setattr(runner, "schedule_compaction", schedule_and_lose)
    assert compact_table(writer).instant is None
    assert_all_agree(tmp_path, history)


def test_compaction_and_clustering_keep_out_of_each_others_way(tmp_path):
    history = begin(MOR, tmp_path)
    writer = writer_of(StorageAddress.of(str(tmp_path)))
    only = {"hoodie.clustering.plan.strategy.partition.selected": "oslo"}
    clustering = schedule_clustering(writer.with_options(only), "n")
    compaction = schedule_compaction(writer)
    table = lakedex.open(str(tmp_path))
    planned = {op.partition_path for op in table.timeline.compaction_plan(compaction).operations}
    assert planned == {"rio", "lima"}
    assert cluster_table(writer, "n").instant is None, "every group is in one of the plans"
    assert_all_agree(tmp_path, history, verify=False)
    run_compaction(writer, compaction)
    assert_all_agree(tmp_path, history)
    run_clustering(writer, clustering)
    assert_all_agree(tmp_path, history)
    assert not lakedex.open(str(tmp_path)).timeline.pending()


# Processes that die.


@pytest.fixture(scope="module", params=["compaction", "clustering"])
def scene(request, tmp_path_factory):
    """A table, and the same with a plan on its timeline."""
    folder = tmp_path_factory.mktemp(request.param)
    history = begin(BLOOM, folder / "plain", rows=24)
    shutil.copytree(folder / "plain", folder / "planned")
    writer = writer_of(StorageAddress.of(str(folder / "planned")))
    if request.param == "compaction":
        instant = schedule_compaction(writer)
    else:
        instant = schedule_clustering(writer, "n")
    return request.param, folder, history, instant


def run(service: str, path: Path, instant: str) -> None:
    """Run a plan in this process."""
    run_job(str(path), service, instant)


def test_a_schedule_that_is_killed_left_a_plan_or_nothing(scene, tmp_path):
    service, folder, history, _ = scene
    for after in (False, True):
        path = tmp_path / f"killed-{after}"
        shutil.copytree(folder / "plain", path)
        death = DieAt(text=f".{service}.requested", is_after=after)
        assert finish(start(schedule_job, str(path), service, watch=death)) == -9
        pending = lakedex.open(str(path)).timeline.pending()
        assert len(pending) == after
        assert_all_agree(path, history)
        for instant in pending:
            run(service, path, instant.requested_time)
        assert_all_agree(path, history)


KILLED_AT = (
    ".lakedex/writers/",
    ".inflight",
    ".marker.",
    ".parquet",
    "metadata/.hoodie/timeline/",
    ".deltacommit",
    "delete_folder .hoodie/.temp",
)


def deaths(service: str, instant: str, planned: Path, folder: Path) -> list[Watch]:
    """Before or after a change of each kind; at every change with LAKEDEX_KILLS=all."""
    if not EVERY:
        texts = (*KILLED_AT, f".hoodie/timeline/{instant}_")
        return [DieAt(text=text, is_after=at % 2 == 1) for at, text in enumerate(texts)]
    shutil.copytree(planned, folder / "count")
    job = str(folder / "count"), service, instant
    changes = changes_of(run_job, *job, result=folder / "seen")
    return [Watch(number, after) for number in range(len(changes)) for after in (False, True)]


def test_a_run_that_is_killed_is_rolled_back_and_run_by_another_process(scene, tmp_path):
    service, folder, history, instant = scene
    for number, death in enumerate(deaths(service, instant, folder / "planned", tmp_path)):
        path = tmp_path / "killed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(folder / "planned", path)
        assert finish(start(run_job, str(path), service, instant, watch=death)) == -9
        assert_holds(str(path), history.model, verify=False)
        if state_of(path, instant) is not State.COMPLETED:
            run(service, path, instant)
            assert_nothing_left(path, str(death))
        assert state_of(path, instant) is State.COMPLETED, death
        assert_all_agree(path, history, verify=number % 2 == 1)


def test_the_next_write_takes_a_dead_run_back_and_leaves_the_plan(scene, tmp_path):
    service, folder, history, instant = scene
    path = tmp_path / "t"
    shutil.copytree(folder / "planned", path)
    # The metadata table has it, the table itself has not.
    death = DieAt(text=f"create .hoodie/timeline/{instant}_")
    assert finish(start(run_job, str(path), service, instant, watch=death)) == -9
    assert state_of(path, instant) is State.INFLIGHT
    own = History(history.shape, rows=24)
    own.model = history.model.copy()
    new = own.apply(Commit("upsert", tuple(r._replace(id=f"new{r.id}") for r in own.new_rows(5))))
    new.write(BLOOM, writer_of(StorageAddress.of(str(path))))
    assert state_of(path, instant) is State.REQUESTED
    assert [i.action for i in lakedex.open(str(path)).timeline.pending()] == [Action(service)]
    assert_all_agree(path, own)
    run(service, path, instant)
    assert_all_agree(path, own)


def assert_nothing_left(path: Path, where: str) -> None:
    """No marker, no spill file, no sign of life, and no data file of a run that failed."""
    for folder in (".temp", ".heartbeat", ".lakedex/spill", ".lakedex/writers"):
        left = [file for file in (path / ".hoodie" / folder).rglob("*") if file.is_file()]
        assert not left, f"{where}: {left}"
    listed = lakedex.open(str(path)).snapshot.listing.files
    names = {name for files in listed.values() for name, _ in files}
    for file in path.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            assert file.name in names, f"{where}: {file.name} is in no commit"


def test_a_plan_outlives_a_rollback_that_is_killed_too(scene, tmp_path):
    service, folder, history, instant = scene
    dead = tmp_path / "dead"
    shutil.copytree(folder / "planned", dead)
    death = DieAt(text=".deltacommit.inflight", is_after=True)
    assert finish(start(run_job, str(dead), service, instant, watch=death)) == -9
    taken_off = f"delete .hoodie/timeline/{instant}.{service}.inflight"
    for text, after in ((".rollback.requested", True), (taken_off, False), (taken_off, True)):
        path = tmp_path / "killed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(dead, path)
        death = DieAt(text=text, is_after=after)
        assert finish(start(run_job, str(path), service, instant, watch=death)) == -9
        run(service, path, instant)
        assert state_of(path, instant) is State.COMPLETED
        assert_all_agree(path, history, verify=after)
        assert_nothing_left(path, f"{after} {text}")
