"""The metadata table over many commits: log blocks put together, compaction that nothing blocks."""

from __future__ import annotations

import shutil

import pytest

import lakedex
from lakedex.services.compaction import run_compaction, schedule_compaction
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, State
from tests.support.compactions import assert_all_agree, begin, logged
from tests.support.history import History, create, writer_of
from tests.support.write_shapes import Shape

MOR = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
EVERY_THREE = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
    "hoodie.metadata.compact.max.delta.commits": "100",
}


def metadata_timeline(path):
    return lakedex.open(str(path / ".hoodie/metadata")).timeline


def test_log_blocks_are_put_together_and_say_the_same(tmp_path):
    history = History(MOR, rows=30)
    writer = writer_of(create(MOR, tmp_path), EVERY_THREE)
    makes = [history.insert, history.updates, history.deletes, history.moves, history.overwrite]
    makes += [history.mixture, history.drop_partition, history.deletes]
    for make in makes:
        history.apply(make(20 if make == history.insert else 8)).write(MOR, writer)
    assert_all_agree(tmp_path, history)
    timeline = metadata_timeline(tmp_path)
    done = [
        instant
        for instant in timeline.completed()
        if timeline.requested_action(instant.requested_time) is Action.LOGCOMPACTION
    ]
    assert len(done) >= 2
    plan = timeline.compaction_plan(done[-1].requested_time)
    assert plan.strategy["compactorClassName"].endswith("LogCompactionExecutionHelper")
    assert plan.preserve_metadata
    assert timeline.commit_metadata(done[-1]).operation_type == "LOG_COMPACT"
    assert most_blocks(tmp_path) <= 5 < len(makes) <= most_logs(tmp_path)
    # A compaction takes them for what they stand for, and clears the way for new ones.
    soon = EVERY_THREE | {"hoodie.metadata.compact.max.delta.commits": "1"}
    for _ in range(2):
        history.apply(logged(history)).write(MOR, writer.with_options(soon))
    assert most_blocks(tmp_path) <= 2
    assert_all_agree(tmp_path, history)


def most_blocks(path) -> int:
    """The most log blocks that a reader of one file group goes through."""
    snapshot = lakedex.open(str(path)).snapshot
    metadata = snapshot.metadata
    return max(
        len(metadata.group_reader(name, group.file_id).log_blocks)
        for name in snapshot.config.metadata_partitions
        for group in metadata.groups(name)
    )


def most_logs(path) -> int:
    """The most log files of one file group."""
    snapshot = lakedex.open(str(path)).snapshot
    names = snapshot.config.metadata_partitions
    return max(len(group.logs) for name in names for group in snapshot.metadata.groups(name))


def test_a_log_compaction_that_was_cut_short_is_dropped(tmp_path):
    """Case B44: a pending one, also of Hudi, does not block the compaction for ever."""
    history = begin(MOR, tmp_path, logs=0)
    folder = tmp_path / ".hoodie/metadata/.hoodie/timeline"
    for state in ("requested", "inflight"):
        (folder / f"20200101000000000.logcompaction.{state}").write_bytes(b"")
    soon = {"hoodie.metadata.compact.max.delta.commits": "2"}
    writer = writer_of(StorageAddress.of(str(tmp_path)), soon)
    for _ in range(2):
        history.apply(logged(history)).write(MOR, writer)
    timeline = metadata_timeline(tmp_path)
    assert not timeline.pending()
    assert any(each.action is Action.COMMIT for each in timeline.completed())
    assert_all_agree(tmp_path, history)


def test_a_plan_that_pends_does_not_hold_the_metadata_table_up(tmp_path):
    """Case B44: a compaction that was scheduled long ago has no metadata to roll back."""
    history = begin(MOR, tmp_path, logs=1)
    options = {"hoodie.metadata.compact.max.delta.commits": "3"}
    writer = writer_of(StorageAddress.of(str(tmp_path)), options)
    instant = schedule_compaction(writer)
    for _ in range(7):
        history.apply(logged(history, 6)).write(MOR, writer)
        assert most_logs(tmp_path) <= 4
    run_compaction(writer, instant)
    assert_all_agree(tmp_path, history)


def test_a_compaction_of_hudi_that_died_late_is_taken_back_to_its_plan(tmp_path, monkeypatch):
    """Case B44: it had committed to the metadata table and blocked its compaction since."""
    history = begin(MOR, tmp_path)
    writer = writer_of(StorageAddress.of(str(tmp_path)))
    instant = schedule_compaction(writer)

    class Died(Exception):
        pass

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr("lakedex.txn.transaction.Transaction._complete", dies)
        patched.setattr("lakedex.txn.transaction.Transaction.abort", lambda _: None)
        with pytest.raises(Died):
            run_compaction(writer, instant)
    # As Hudi leaves it: no sign of a lakedex process, and nothing of it is young.
    for name in (".lakedex/writers", ".heartbeat", ".lakedex/spill"):
        shutil.rmtree(tmp_path / ".hoodie" / name, ignore_errors=True)
    monkeypatch.setattr("lakedex.txn.recovery._other_signs", lambda *_: ())
    assert metadata_timeline(tmp_path).is_completed(instant)
    soon = {"hoodie.metadata.compact.max.delta.commits": "2"}
    later = writer_of(StorageAddress.of(str(tmp_path)), soon)
    for _ in range(2):
        history.apply(logged(history, 6)).write(MOR, later)
    assert lakedex.open(str(tmp_path)).timeline.find(instant).state is State.REQUESTED
    history.apply(logged(history, 6)).write(MOR, later)
    assert most_logs(tmp_path) <= 2
    assert_all_agree(tmp_path, history)
    run_compaction(later, instant)
    assert_all_agree(tmp_path, history)
