"""What dead writers left is cleared away by the next one, and what lives is left alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.storage import open_storage
from lakedex.table import Snapshot
from lakedex.timeline import Action, PlanKind, Timeline, load_table_config, write_plan
from tests.support.txn_tables import (
    begin,
    hold_lock_forever,
    new_table,
    recover_and_die,
    whole_write,
    write_and_die,
    write_file,
)

OLD = "20250101000000000"
ROLLBACK = "20250101000000500"


def timelines(path: Path) -> tuple[Timeline, Timeline]:
    storage = open_storage(str(path))
    inner = storage.sub(".hoodie/metadata")
    return (
        Timeline.load(storage, load_table_config(storage)),
        Timeline.load(inner, load_table_config(inner)),
    )


def tree(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def pend(path: Path, time: str, *suffixes: str, age: float = 10_000) -> None:
    """Put files of another engine's instant on the timeline, as old as said."""
    for suffix in suffixes:
        file = path / f".hoodie/timeline/{time}{suffix}"
        file.touch()
        moment = path.stat().st_mtime - age
        os.utime(file, (moment, moment))


def recover(path: Path) -> None:
    begin(path).abort()


def assert_clean(path: Path, instants: set[str] | None = None) -> None:
    """Nothing pends, nothing lies beside the table, and files and timelines agree."""
    data, metadata = timelines(path)
    assert data.pending() == ()
    assert metadata.pending() == ()
    for folder in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.lakedex"):
        assert [file for file in (path / folder).rglob("*") if file.is_file()] == []
    assert not (path / ".hoodie/lock").exists()
    committed = {instant.requested_time for instant in data.write_instants()}
    named = {
        file.name.removesuffix(".parquet").rpartition("_")[2]
        for file in path.rglob("p=*/*.parquet")
    }
    assert named == committed
    logged = {file.name.split("_")[1].partition(".")[0] for file in path.rglob("files/.files-*")}
    assert {time for time in logged if not time.startswith("0000")} == committed
    assert committed == {
        instant.requested_time
        for instant in metadata.write_instants()
        if not instant.requested_time.startswith("0000")
    }
    if instants is not None:
        assert committed == instants


def test_a_killed_writer_is_rolled_back_at_once_and_nothing_else_changes(
    table: Path, processes
) -> None:
    before = tree(table)
    ready = processes.Event()
    writer = processes.Process(target=hold_lock_forever, args=(str(table), ready))
    writer.start()
    assert ready.wait(20)
    writer.kill()
    writer.join()
    assert len(list(table.glob("p=a/*.parquet"))) == 2
    recover(table)
    assert_clean(table)
    after = tree(table)
    assert {name: after[name] for name in before} == before
    assert all(".rollback" in name for name in after.keys() - before.keys())


def test_a_living_writer_is_left_alone(table: Path) -> None:
    # case B40: rollback of a running writer
    living = begin(table)
    living.start_writing()
    storage = open_storage(str(table))
    stat = write_file(storage, living.instant)
    storage.create(f"{living.scratch}/keys-0", b"spilled")
    recover(table)
    assert (table / stat.path).exists()
    assert (table / living.scratch / "keys-0").exists()
    assert timelines(table)[0].is_pending(living.instant)
    living.abort()
    assert not (table / stat.path).exists()


def test_writers_without_heartbeat_are_judged_by_their_age(table: Path) -> None:
    # case B40: rollback of a running writer
    pend(table, OLD, ".commit.requested", ".inflight")
    young = "20250101000000001"
    pend(table, young, ".commit.requested", age=10)
    marked = table / ".hoodie/.temp" / OLD
    marked.mkdir(parents=True)
    name = f"p=b/f-0_0-1-2_{OLD}.parquet"
    (table / name).write_bytes(b"rows")
    (marked / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (marked / "MARKERS0").write_text(f"{name}.marker.CREATE\n")
    recover(table)
    assert timelines(table)[0].is_pending(OLD)  # its markers are young
    for file in marked.iterdir():
        os.utime(file, (1, 1))
    recover(table)
    data = timelines(table)[0]
    assert data.find(OLD) is None
    assert data.is_pending(young)
    assert not (table / name).exists()
    assert not marked.exists()


def test_a_savepoint_that_nobody_is_at_work_on_does_not_stay(table: Path) -> None:
    """As a delete leaves it that was cut short, or a process that stood still in between."""
    saved = timelines(table)[0].write_instants()[-1].requested_time
    young = "20250101000000001"
    pend(table, saved, ".savepoint.inflight")
    pend(table, young, ".savepoint.inflight", age=10)
    before = {file for file in tree(table) if "savepoint" not in file}
    recover(table)
    assert [each.requested_time for each in timelines(table)[0].pending()] == [saved, young]
    for file in (table / ".hoodie/timeline").glob(f"{saved}*"):
        os.utime(file, (1, 1))
    recover(table)
    data = timelines(table)[0]
    assert [each.requested_time for each in data.pending()] == [young]
    assert data.is_completed(saved)
    assert before <= tree(table).keys()


def test_pending_services_are_left_alone(table: Path) -> None:
    names = [f"{action}.requested" for action in ("compaction", "clustering", "indexing", "clean")]
    for number, name in enumerate(names):
        pend(table, f"2025010100000000{number}", f".{name}")
    recover(table)
    assert len(timelines(table)[0].pending()) == len(names)


@pytest.mark.parametrize("body", [b"", b"Obj\x01 broken", None])
def test_a_rollback_without_a_readable_plan_does_not_stay(table: Path, body: bytes | None) -> None:
    # case B38: unreadable plan
    pend(table, OLD, ".commit.requested", ".inflight")
    pend(table, ROLLBACK, ".rollback.inflight")
    if body is not None:
        pend(table, ROLLBACK, ".rollback.requested")
        file = table / f".hoodie/timeline/{ROLLBACK}.rollback.requested"
        file.write_bytes(body)
        os.utime(file, (1, 1))
    recover(table)
    assert_clean(table)
    data = timelines(table)[0]
    assert data.find(ROLLBACK) is None
    assert data.find(OLD) is None


def test_a_rollback_of_another_engine_is_finished_and_its_plan_not_trusted(table: Path) -> None:
    pend(table, OLD, ".commit.requested", ".inflight")
    name = f"f-0_0-1-2_{OLD}.parquet"
    for folder in ("p=a", "p=b"):
        (table / folder / name).write_bytes(b"rows")
    (outside,) = table.glob("p=b/*_0-0-0_*.parquet")
    request = {
        "partitionPath": "p=a",
        "fileId": "",
        "latestBaseInstant": "",
        "filesToBeDeleted": [f"file:/elsewhere/p=b/{name}", str(outside), "/etc/passwd", "p=a/.."],
        "logBlocksToBeDeleted": {f"/x/.g-0_{OLD}.log.1_0-0-0": 1},
    }
    plan = {
        "instantToRollback": {"commitTime": OLD, "action": "commit"},
        "RollbackRequests": [request, {**request, "partitionPath": "../t2"}],
    }
    pend(table, ROLLBACK, ".rollback.requested", ".rollback.inflight")
    file = table / f".hoodie/timeline/{ROLLBACK}.rollback.requested"
    file.write_bytes(write_plan(PlanKind.ROLLBACK_PLAN, plan))
    recover(table)
    assert timelines(table)[0].pending() != ()  # the plan is young: its writer may live
    os.utime(file, (1, 1))
    recover(table)
    data = timelines(table)[0]
    assert data.pending() == ()
    assert data.find(ROLLBACK).is_completed
    assert not (table / "p=a" / name).exists()
    assert (table / "p=b" / name).exists()
    assert outside.exists()


@pytest.mark.parametrize("time", ["", "x", "../../p=a"])
def test_a_plan_that_names_no_instant_deletes_nothing(table: Path, time: str) -> None:
    plan = {"instantToRollback": {"commitTime": time, "action": "commit"}, "RollbackRequests": []}
    pend(table, ROLLBACK, ".rollback.requested")
    file = table / f".hoodie/timeline/{ROLLBACK}.rollback.requested"
    file.write_bytes(write_plan(PlanKind.ROLLBACK_PLAN, plan))
    os.utime(file, (1, 1))
    kept = table / ".hoodie/.temp/kept"
    kept.parent.mkdir(exist_ok=True)
    kept.touch()
    recover(table)
    assert timelines(table)[0].pending() == ()
    assert kept.exists()
    assert len(list(table.glob("p=*/*.parquet"))) == 2


@pytest.mark.parametrize(
    "files", [(".rollback.requested",), (".rollback.requested", ".rollback.inflight")]
)
def test_a_rollback_of_a_complete_commit_is_dropped(table: Path, files: tuple[str, ...]) -> None:
    # Its writer was taken for dead, came back and completed, before anything was deleted.
    done = timelines(table)[0].last_completed.requested_time
    plan = {"instantToRollback": {"commitTime": done, "action": "commit"}, "RollbackRequests": []}
    pend(table, ROLLBACK, *files)
    file = table / f".hoodie/timeline/{ROLLBACK}.rollback.requested"
    file.write_bytes(write_plan(PlanKind.ROLLBACK_PLAN, plan))
    os.utime(file, (1, 1))
    recover(table)
    assert_clean(table, {done})
    assert len(list(table.glob("p=*/*.parquet"))) == 2


def test_left_over_markers_go_with_the_files_that_nobody_committed(table: Path) -> None:
    transaction = begin(table)
    whole_write(transaction)
    storage = open_storage(str(table))
    gone, ancient = "20990101000000000", "20200101000000000"
    for time in (gone, ancient):
        write_file(storage, time, "p=b")
    committed = table / ".hoodie/.temp" / transaction.instant / "p=a"
    committed.mkdir(parents=True)
    (own,) = table.glob(f"p=a/*_{transaction.instant}.parquet")
    (committed / f"{own.name}.marker.CREATE").touch()
    storage.create(f".hoodie/.lakedex/spill/{gone}/keys-0", b"x")
    recover(table)
    assert own.exists()
    assert not committed.exists()
    assert list(table.glob(f"p=b/*_{gone}.parquet")) == []
    assert not (table / ".hoodie/.lakedex/spill" / gone).exists()
    assert len(list(table.glob(f"p=b/*_{ancient}.parquet"))) == 1  # may be archived


def run(processes, target, path: Path, changes: int) -> bool:
    """Whether the process ended by itself; it dies before its change number `changes` else."""
    process = processes.Process(target=target, args=(str(path), changes))
    process.start()
    process.join(30)
    assert process.exitcode in (0, -9)
    return process.exitcode == 0


def test_a_write_killed_before_any_of_its_changes_is_undone_or_whole(
    tmp_path: Path, processes
) -> None:
    # case B58: lost lock lease
    new_table(tmp_path / "original")
    first = {i.requested_time for i in timelines(tmp_path / "original")[0].write_instants()}
    outcomes = []
    for changes in range(100):
        path = tmp_path / "t"
        shutil.copytree(tmp_path / "original", path)
        ended = run(processes, write_and_die, path, changes)
        visible = {i.requested_time for i in timelines(path)[0].write_instants()}
        recover(path)
        assert_clean(path, visible)
        outcomes.append(len(visible - first))
        shutil.rmtree(path)
        if ended:
            break
    assert outcomes == sorted(outcomes)
    assert outcomes.count(0) > 12
    assert outcomes.count(1) > 4
    assert ended


def test_a_rollback_killed_before_any_of_its_changes_is_finished_by_the_next(
    tmp_path: Path, processes
) -> None:
    # case B38: unreadable plan
    original = tmp_path / "original"
    new_table(original)
    first = {i.requested_time for i in timelines(original)[0].write_instants()}
    # The newest state before completion: data files, and the metadata table's deltacommit.
    for changes in range(12, 100):
        shutil.rmtree(original)
        new_table(original)
        run(processes, write_and_die, original, changes)
        data, metadata = timelines(original)
        times = {i.requested_time for i in data.pending()}
        if times & {i.requested_time for i in metadata.completed()}:
            break
    rows = lakedex.open(str(original)).to_arrow()
    for changes in range(100):
        path = tmp_path / "t"
        shutil.copytree(original, path)
        ended = run(processes, recover_and_die, path, changes)
        # Readers see the old state at every moment.
        listing = Snapshot.open(open_storage(str(path))).listing
        assert listing.source == "metadata table"
        assert lakedex.open(str(path)).to_arrow().equals(rows)
        recover(path)
        assert_clean(path, first)
        rolled = [i for i in timelines(path)[1].completed() if i.action is Action.ROLLBACK]
        assert len(rolled) == 1
        shutil.rmtree(path)
        if ended:
            break
    assert ended
    assert changes > 20
