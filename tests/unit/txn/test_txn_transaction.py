"""A write from its beginning to its commit, its abort, or its conflict."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import lakedex
from lakedex.errors import CommitConflict, StorageError, TableNotFound, UnsupportedFeature
from lakedex.filegroup import FileSliceId
from lakedex.storage import open_storage
from lakedex.storage.local import LocalStorage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import (
    Action,
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CommitMetadata,
    CompactionOperation,
    CompactionPlan,
    PlanKind,
    RequestedReplace,
    Timeline,
    WriteStat,
    load_table_config,
    read_plan,
    update_properties,
    write_plan,
)
from lakedex.timeline.history_writer import ArchivedInstant, append_history
from lakedex.txn.markers import MarkerKind, create_marker
from lakedex.txn.transaction import Transaction
from tests.support.txn_tables import (
    OPTIONS,
    begin,
    metadata_commit,
    new_table,
    whole_write,
    write_file,
)
from tests.unit.storage.conftest import BUCKET, moto  # noqa: F401 - a fixture


def plain_table(folder: Path) -> Path:
    """A table without a metadata table, for commits that would pass one by."""
    new_table(folder / "t", metadata=None)
    return folder / "t"


def timeline_of(path: Path) -> Timeline:
    storage = open_storage(str(path))
    return Timeline.load(storage, load_table_config(storage))


def tree(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def new_files(path: Path, before: dict[str, bytes]) -> set[str]:
    after = tree(path)
    assert {name: after.get(name) for name in before} == before
    return {name.replace("_0-0-0", "") for name in after.keys() - before.keys()}


def stat_of(group: FileSliceId) -> CommitMetadata:
    return CommitMetadata({group.partition: (WriteStat(file_id=group.file_id),)})


@pytest.mark.parametrize("metadata", ["log", None])
def test_a_commit_leaves_its_files_and_nothing_beside(tmp_path: Path, metadata: str | None) -> None:
    path = tmp_path / "t"
    new_table(path, metadata=metadata)
    before = tree(path)
    transaction = begin(path)
    time = transaction.instant
    assert transaction.snapshot.timeline.find(time) is None
    assert (path / ".hoodie/.heartbeat" / time).exists()
    assert not (path / transaction.inflight_path).exists()
    completion = whole_write(transaction)
    assert completion > time
    own = {f".hoodie/timeline/{time}{end}" for end in (".commit.requested", ".inflight")}
    own |= {
        f".hoodie/timeline/{time}_{completion}.commit",
        f"p=a/0a0a0a0a-0000-0000-0000-000000000001-0_{time}.parquet",
    }
    written = new_files(path, before)
    assert own <= written
    assert all(time in name for name in written)
    assert len(written - own) == (4 if metadata else 0)
    assert timeline_of(path).last_completed.requested_time == time
    with pytest.raises(CommitConflict, match="has ended already"):
        transaction.commit(lambda _: CommitMetadata(), touched=())
    transaction.abort()
    assert timeline_of(path).is_completed(time)


def test_an_abort_leaves_only_the_record_of_its_rollback(table: Path) -> None:
    before, rows = tree(table), lakedex.open(str(table)).to_arrow()
    with begin(table) as transaction:
        transaction.start_writing()
        stat = write_file(open_storage(str(table)), transaction.instant)
        assert (table / stat.path).exists()
    written = new_files(table, before)
    assert {name.partition(".rollback")[0].rpartition("/")[0] for name in written} == {
        ".hoodie/timeline"
    }
    assert len(written) == 3
    rollback = timeline_of(table).instants[-1]
    assert (rollback.action, rollback.is_completed) == (Action.ROLLBACK, True)
    assert lakedex.open(str(table)).to_arrow().equals(rows)


def test_an_error_while_preparing_takes_the_metadata_table_back_too(table: Path) -> None:
    before = tree(table)
    transaction = begin(table)
    transaction.start_writing()
    write_file(open_storage(str(table)), transaction.instant)

    def prepare(scope):
        metadata_commit(scope, transaction.instant)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.commit(prepare, touched=())
    names = new_files(table, before)
    assert len(names) == 6
    assert all(".rollback" in name for name in names)
    rollback = timeline_of(table).instants[-1].requested_time
    storage = open_storage(str(table))
    for folder in (".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline"):
        data = storage.read(f"{folder}/{rollback}.rollback.requested")
        plan = read_plan(PlanKind.ROLLBACK_PLAN, data)
        assert plan["instantToRollback"]["commitTime"] == transaction.instant
        (done,) = (table / folder).glob(f"{rollback}_*.rollback")
        outcome = read_plan(PlanKind.ROLLBACK_METADATA, done.read_bytes())
        assert outcome["commitsRollback"] == [transaction.instant]
        assert outcome["totalFilesDeleted"] == 1
        deleted = [
            file
            for part in outcome["partitionMetadata"].values()
            for file in part["successDeleteFiles"]
        ]
        planned = [file for part in plan["RollbackRequests"] for file in part["filesToBeDeleted"]]
        assert deleted == planned
        assert deleted[0].startswith(str(table))
        assert not Path(deleted[0]).exists()
    assert Snapshot.open(storage).listing.source == "metadata table"


def test_writes_of_different_groups_both_commit_and_the_second_sees_the_first(
    tmp_path: Path,
) -> None:
    table = plain_table(tmp_path)
    first, second = begin(table), begin(table)
    assert first.instant < second.instant
    seen = []
    for transaction in (second, first):
        transaction.start_writing()
        group = FileSliceId("p=a", f"g{transaction.instant}-0")

        def prepare(scope, group=group):
            seen.append([instant.requested_time for instant, _ in scope.concurrent])
            assert scope.next_time() < scope.next_time()
            return stat_of(group)

        transaction.commit(prepare, touched=[group])
    assert seen == [[], [second.instant]]
    assert timeline_of(table).is_completed(first.instant)


@pytest.mark.parametrize("way", ["stat", "replaced"])
def test_a_write_of_the_same_group_loses_and_is_rolled_back(tmp_path: Path, way: str) -> None:
    table = plain_table(tmp_path)
    group = FileSliceId("p=a", "group-0")
    action = Action.COMMIT if way == "stat" else Action.REPLACECOMMIT
    winner, loser = begin(table, action), begin(table)
    for transaction in (winner, loser):
        transaction.start_writing()
    replaced = CommitMetadata(replaced_file_ids={"p=a": ("group-0",)})
    winner.commit(lambda _: stat_of(group) if way == "stat" else replaced, touched=[group])
    stat = write_file(open_storage(str(table)), loser.instant)
    with pytest.raises(CommitConflict, match=f"group-0 of partition p=a .* {winner.instant}"):
        loser.commit(lambda _: pytest.fail("prepared"), touched=lambda: [group])
    assert not (table / stat.path).exists()
    assert timeline_of(table).find(loser.instant) is None
    assert not (table / ".hoodie/lock").exists()


def test_a_compaction_meanwhile_is_a_conflict_for_base_files_only(tmp_path: Path) -> None:
    new_table(tmp_path / "t", table_type="mor", metadata=None)
    group = FileSliceId("p=a", "group-0")
    logs, base = (
        begin(tmp_path / "t", Action.DELTACOMMIT),
        begin(tmp_path / "t", Action.DELTACOMMIT),
    )
    compaction = begin(tmp_path / "t")
    for transaction in (logs, base, compaction):
        transaction.start_writing()
    done = CommitMetadata({"p=a": (WriteStat(file_id="group-0"),)}, compacted=True)
    compaction.commit(lambda _: done, touched=())
    with pytest.raises(CommitConflict, match="group-0"):
        base.commit(lambda _: CommitMetadata(), touched=[group])
    logs.commit(lambda _: CommitMetadata(), touched=[group], rewritten=())
    assert timeline_of(tmp_path / "t").is_completed(logs.instant)


def test_pending_services_on_the_same_group_are_conflicts(tmp_path: Path) -> None:
    new_table(tmp_path / "t", table_type="mor")
    group = FileSliceId("p=a", "group-0")
    plan = CompactionPlan((CompactionOperation("group-0", "p=a", None, None, ()),))
    part = ClusteringSlice("group-0", "p=a", None, ())
    replace = RequestedReplace("CLUSTER", ClusteringPlan((ClusteringGroup((part,)),)))
    folder = tmp_path / "t/.hoodie/timeline"
    for name, data, hurts_logs in (
        ("20990101000000000.compaction.requested", plan.encode(), False),
        ("20990101000000000.clustering.requested", replace.encode(), True),
    ):
        transaction = begin(tmp_path / "t", Action.DELTACOMMIT)
        transaction.start_writing()
        (folder / name).write_bytes(data)
        with pytest.raises(CommitConflict, match="pending"):
            transaction.commit(
                lambda _: CommitMetadata(), touched=[group], rewritten=() if hurts_logs else None
            )
        (folder / name).unlink()


def test_a_changed_property_is_a_conflict_unless_it_is_adopted(table: Path) -> None:
    change = {"hoodie.table.metadata.partitions": "files,record_index"}
    first, second = begin(table), begin(table)
    for transaction in (first, second):
        transaction.start_writing()
    update_properties(open_storage(str(table)), change)
    with pytest.raises(CommitConflict, match=r"hoodie.table.metadata.partitions was changed"):
        first.commit(lambda _: CommitMetadata(), touched=())
    second.adopt_properties()
    second.commit(lambda _: CommitMetadata(), touched=())


def test_a_write_that_others_rolled_back_cannot_commit(table: Path) -> None:
    transaction = begin(table)
    transaction.start_writing()
    (table / transaction.inflight_path).unlink()
    (table / f".hoodie/timeline/{transaction.instant}.commit.requested").unlink()
    with pytest.raises(CommitConflict, match="another writer rolled it back"):
        transaction.commit(lambda _: CommitMetadata(), touched=())


def test_a_write_that_others_begin_to_roll_back_cannot_commit(table: Path) -> None:
    transaction = begin(table)
    transaction.start_writing()
    info = {"commitTime": transaction.instant, "action": "commit"}
    plan = write_plan(
        PlanKind.ROLLBACK_PLAN, {"instantToRollback": info, "RollbackRequests": [], "version": 1}
    )
    other = str(int(transaction.instant) + 5)
    (table / f".hoodie/timeline/{other}.rollback.requested").write_bytes(plan)
    with pytest.raises(CommitConflict, match=f"began to roll it back as {other}"):
        transaction.commit(lambda _: CommitMetadata(), touched=())


def test_a_write_rolled_back_at_the_last_moment_takes_its_completion_back(table: Path) -> None:
    # case B58: lost lock lease
    transaction = begin(table)
    transaction.start_writing()

    def prepare(scope):
        (table / transaction.inflight_path).unlink()
        return CommitMetadata()

    with pytest.raises(CommitConflict, match="was rolled back by another writer"):
        transaction.commit(prepare, touched=())
    assert timeline_of(table).find(transaction.instant) is None


def test_a_completion_whose_answer_was_lost_is_a_completion(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = begin(table)
    transaction.start_writing()
    create = LocalStorage.create

    def lossy(self, path, data):
        create(self, path, data)
        if path.endswith(".commit"):
            raise StorageError("the answer was lost")

    monkeypatch.setattr(LocalStorage, "create", lossy)
    completion = transaction.commit(lambda _: CommitMetadata(), touched=())
    assert timeline_of(table).completion_time(transaction.instant) == completion


def test_an_abort_that_fails_does_not_hide_the_error_and_is_done_by_the_next(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transaction = begin(table)
    transaction.start_writing()
    stat = write_file(open_storage(str(table)), transaction.instant)

    def fail(*_):
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr("lakedex.txn.transaction.roll_back", fail)
        with caplog.at_level(logging.WARNING, "lakedex"), pytest.raises(ZeroDivisionError):
            transaction.commit(lambda _: 1 / 0, touched=())
    assert "left to the next writer" in caplog.text
    assert (table / stat.path).exists()
    begin(table).abort()
    assert not (table / stat.path).exists()
    assert timeline_of(table).pending() == ()


def test_a_file_that_no_stat_names_is_deleted_before_the_commit(table: Path) -> None:
    transaction = begin(table)
    transaction.start_writing()
    storage = open_storage(str(table))
    stray = f"p=b/stray-0_0-0-1_{transaction.instant}.parquet"
    create_marker(storage, transaction.instant, stray, MarkerKind.CREATE)
    storage.create(stray, b"rows")
    stat = write_file(storage, transaction.instant)
    transaction.commit(lambda _: CommitMetadata({"p=a": (stat,)}), touched=())
    assert not storage.exists(stray)
    assert storage.exists(stat.path)


@pytest.mark.parametrize(
    ("operation", "stored"), [("INSERT_OVERWRITE", None), ("DELETE_PARTITION", "DELETE_PARTITION")]
)
def test_a_replacecommit_is_requested_as_hudi_does(
    table: Path, operation: str, stored: str | None
) -> None:
    with begin(table, Action.REPLACECOMMIT, operation=operation) as transaction:
        request = timeline_of(table).requested_replace(transaction.instant)
        assert (request.operation_type, request.clustering) == (stored, None)
        assert transaction.inflight_path.endswith(f"{transaction.instant}.replacecommit.inflight")


def test_a_missing_table_and_an_old_one_are_refused_without_a_trace(table: Path) -> None:
    with pytest.raises(TableNotFound):
        begin(table.parent / "nothing")
    assert not (table.parent / "nothing").exists()
    properties = table / ".hoodie/hoodie.properties"
    text = properties.read_text().replace("table.version=9", "table.version=8")
    properties.write_text(text)
    before = tree(table)
    with pytest.raises(UnsupportedFeature, match=f"lakedex upgrade {table}"):
        begin(table)
    assert tree(table) == before


def test_commits_are_seen_although_the_oldest_instants_left_the_timeline(tmp_path: Path) -> None:
    table = plain_table(tmp_path)
    late = begin(table)
    late.start_writing()
    between = [begin(table) for _ in range(2)]
    for transaction in between:
        transaction.start_writing()
        transaction.commit(lambda _: CommitMetadata(), touched=())
    first = timeline_of(table).first_active
    data = timeline_of(table).read(first)
    old = ArchivedInstant(first.requested_time, first.completion_time, first.action, data, None)
    append_history(LocalStorage(str(table)), ".hoodie/timeline/history", [old])
    for file in (table / ".hoodie/timeline").glob(f"{first.requested_time}*"):
        file.unlink()

    def prepare(scope):
        assert [instant.requested_time for instant, _ in scope.concurrent] == [
            transaction.instant for transaction in between
        ]
        return CommitMetadata()

    late.commit(prepare, touched=())


@pytest.mark.s3
def test_a_table_on_an_object_store_is_committed_to_and_rolled_back(
    table: Path,
    moto,  # noqa: F811
) -> None:
    address = StorageAddress.of(f"s3://{BUCKET}/txn/t", moto.options)
    storage = address.open()
    for name, data in tree(table).items():
        storage.create(name, data)
    kinds = {"action": Action.COMMIT, "operation": "UPSERT", "options": OPTIONS}
    committed = Transaction.begin(address, **kinds)
    whole_write(committed)
    with Transaction.begin(address, **kinds) as aborted:
        aborted.start_writing()
        write_file(storage, aborted.instant)
    timeline = Timeline.load(storage, load_table_config(storage))
    assert timeline.pending() == ()
    assert timeline.is_completed(committed.instant)
    left = [info.path for info in storage.list_recursive()]
    assert [path for path in left if aborted.instant in path] == []
    assert [path for path in left if ".lakedex" in path or ".temp" in path] == []
    assert storage.read(".hoodie/.locks/table_lock.json").startswith(b'{"expired": true')
