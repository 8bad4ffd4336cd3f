"""Writers that look for others at work on their file groups before they write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSlice
from lakedex.services.compaction import schedule_compaction
from lakedex.timeline import Action
from lakedex.txn.conflicts import EarlyLook
from lakedex.txn.heartbeat import HeartbeatOptions
from lakedex.txn.markers import MarkerKind, create_marker
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import heartbeat_path
from lakedex.write.verbs import TableWriter
from tests.support.plain_listing import files_below
from tests.support.write_lab import Lab, row, source

EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
RETRY = {"hoodie.write.num.retries.on.conflict.failures": "1"}
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def table(root: Path, kind: str) -> Lab:
    lab = Lab(root, kind, "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    return lab


def slice_of(lab: Lab, partition: str) -> FileSlice:
    slices = lab.writer.snapshot().slices
    return next(each for each in slices if each.partition == f"p={partition}")


def marked(lab: Lab, partition: str, action: Action = Action.COMMIT) -> Transaction:
    """Another writer that has begun with the file group of a partition."""
    other = Transaction.begin(lab.address, action=action, operation="UPSERT")
    other.start_writing()
    mark(lab, partition, other.instant)
    return other


def mark(lab: Lab, partition: str, instant: str) -> None:
    current = slice_of(lab, partition)
    path = current.path_of(f"{current.file_id}_0-9-0_{instant}.parquet")
    create_marker(lab.address.open(), instant, path, MarkerKind.MERGE)


@KINDS
def test_a_writer_gives_up_before_it_writes_what_another_one_writes(tmp_path, kind):
    lab = table(tmp_path, kind)
    seen: list[str] = []

    def second() -> None:
        before = files_below(tmp_path)
        with pytest.raises(
            CommitConflict, match=r"is being written by .*whose writer lives"
        ) as lost:
            lab.writer.with_options(EARLY).upsert(source([row("a", "p", 3)]))
        seen.append(str(lost.value))
        new = {each for each in files_below(tmp_path) - before if "/.hoodie/" not in each}
        assert not new

    lab.meanwhile(second).upsert(source([row("a", "p", 2)]))
    assert "p" in seen[0]
    lab.holds([row("a", "p", 2), row("b", "q", 1)], "id = 'a'")


def test_without_the_option_who_commits_first_wins(tmp_path):
    lab = table(tmp_path, "cow")
    first = lab.meanwhile(lambda: lab.writer.upsert(source([row("a", "p", 3)])))
    with pytest.raises(CommitConflict, match="was changed by commit"):
        first.upsert(source([row("a", "p", 2)]))
    lab.holds([row("a", "p", 3), row("b", "q", 1)], "id = 'a'")


@KINDS
def test_other_file_groups_are_written_at_the_same_time(tmp_path, kind):
    lab = table(tmp_path, kind)
    early = lab.writer.with_options(EARLY)
    first = lab.meanwhile(lambda: early.upsert(source([row("b", "q", 3)])))
    first.upsert(source([row("a", "p", 2)]))
    lab.holds([row("a", "p", 2), row("b", "q", 3)], "id = 'a'", "id = 'b'")


def test_the_write_is_tried_again_as_after_any_conflict(tmp_path):
    lab = table(tmp_path, "cow")
    other = marked(lab, "p")

    class Engine(LocalEngine):
        written = 0

        def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
            if label == "write the files":
                self.written += 1
                if self.written == 2:
                    other.abort()
            return super().map(label, worker, tasks)

    engine = Engine(1)
    TableWriter(lab.address, engine, EARLY | RETRY).upsert(source([row("a", "p", 5)]))
    assert engine.written == 2
    lab.holds([row("a", "p", 5), row("b", "q", 1)])


def test_a_commit_since_the_beginning_is_noticed_before_files_are_written(tmp_path):
    lab = table(tmp_path, "cow")

    labels: list[str] = []

    class Engine(LocalEngine):
        def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
            answers = super().map(label, worker, tasks)
            labels.append(label)
            if label == "find the records" and labels.count(label) == 1:
                lab.writer.upsert(source([row("a", "p", 7)]))
            return answers

    with pytest.raises(CommitConflict, match="was not written: file group"):
        TableWriter(lab.address, Engine(1), EARLY).upsert(source([row("a", "p", 5)]))
    assert "write the files" not in labels
    lab.holds([row("a", "p", 7), row("b", "q", 1)])


def test_markers_of_the_dead_and_of_compactions_stop_no_log_file(tmp_path):
    lab = table(tmp_path, "mor")
    lab.writer.upsert(source([row("a", "p", 2)]))
    storage, snapshot = lab.address.open(), lab.writer.snapshot()
    group = slice_of(lab, "p").id
    instant = schedule_compaction(lab.writer)
    assert instant is not None
    look = EarlyLook("20300101000000000", HeartbeatOptions())
    with Transaction.resume(lab.address, instant, action=Action.COMPACTION) as compaction:
        compaction.start_writing()
        mark(lab, "p", instant)
        said = look.conflict(storage, snapshot.config, group, rewrites=True)
        assert said is not None
        assert f"compaction {instant}" in said
        assert look.conflict(storage, snapshot.config, group, rewrites=False) is None
        storage.delete(heartbeat_path(instant))
        assert look.conflict(storage, snapshot.config, group, rewrites=True) is None
