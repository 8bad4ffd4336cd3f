"""Attempts that go on when their write has ended: they leave nothing, and take nothing away."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex.config import TableConfig
from lakedex.engine import LocalEngine
from lakedex.index.deltacommit import commit_changes
from lakedex.index.written import CommitChanges
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.timeline import Action, CommitMetadata, Timeline, load_table_config
from lakedex.timeline.history_writer import ArchivedInstant, start_history
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.late_attempts import ENDED_AS_REFUSED, JobFailed, LateEngine, StopAt
from tests.support.plain_listing import (
    count_of_newest_base_files,
    data_files,
    files_below,
    strays,
)

SCHEMA = pa.schema([("id", pa.string()), ("ver", pa.int64()), ("p", pa.string())])
INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "1",
}
WRITE, RECORD_INDEX = "write the files", "write the index record_index"
COMPACTION = "compact the metadata table"
STOPS = {
    "before its marker": StopAt(folder=".hoodie/.temp/"),
    "before its file": StopAt(folder="p=x/", suffix="parquet"),
    "after its file": StopAt(folder="p=x/", suffix="parquet", is_after=True),
}
LOG_STOPS = {
    name: StopAt(folder=stop.folder.replace("p=x/", "p=x/."), is_after=stop.is_after)
    for name, stop in STOPS.items()
}


def table_at(root: Path, table_type: str) -> StorageAddress:
    address = StorageAddress.of(str(root))
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ver", "p", table_type, INDEX))
    return address


def rows(first: int, last: int, ver: int) -> ArrowRowSource:
    ids = [f"k{n:03}" for n in range(first, last)]
    return ArrowRowSource(
        pa.table({"id": ids, "ver": [ver] * len(ids), "p": ["x"] * len(ids)}, schema=SCHEMA)
    )


def upsert(address: StorageAddress, first: int, last: int, ver: int, engine=None) -> str | None:
    return TableWriter(address, engine or LocalEngine(1)).upsert(rows(first, last, ver)).instant


def assert_holds(root: Path, expected: dict[str, int]) -> None:
    found = lakedex.open(root).to_arrow(columns=["id", "ver"]).to_pylist()
    assert {row["id"]: row["ver"] for row in found} == expected
    assert len(found) == len(expected)
    assert sum(batch.num_rows for batch in HudiTable(str(root)).read()) == len(expected)
    report = lakedex.open(root).verify()
    assert report.ok, report.problems[:3]


def keys(first: int, last: int, ver: int) -> dict[str, int]:
    return {f"k{n:03}": ver for n in range(first, last)}


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_one_that_ends_after_the_commit_changes_nothing(tmp_path, table_type, name):
    root = tmp_path / "t"
    address = table_at(root, table_type)
    upsert(address, 0, 40, 1)
    stop = (STOPS if table_type == "cow" else LOG_STOPS)[name]
    engine = LateEngine(WRITE, stop)
    upsert(address, 20, 60, 2, engine)
    before = data_files(root)
    assert engine.wake() == ENDED_AS_REFUSED
    assert data_files(root) == before
    assert strays(root) == []
    assert_holds(root, keys(0, 20, 1) | keys(20, 60, 2))
    if table_type == "cow":
        assert count_of_newest_base_files(root) == 60


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_one_that_ends_after_the_rollback_leaves_no_file(tmp_path, table_type, name):
    root = tmp_path / "t"
    address = table_at(root, table_type)
    upsert(address, 0, 40, 1)
    stop = (STOPS if table_type == "cow" else LOG_STOPS)[name]
    engine = LateEngine(WRITE, stop, fails=True)
    with pytest.raises(JobFailed):
        upsert(address, 20, 60, 2, engine)
    assert engine.wake() == ENDED_AS_REFUSED
    assert strays(root) == []
    assert_holds(root, keys(0, 40, 1))
    upsert(address, 20, 60, 3)
    assert strays(root) == []
    assert_holds(root, keys(0, 20, 1) | keys(20, 60, 3))


@pytest.mark.parametrize("name", STOPS)
def test_one_that_ends_when_its_commit_is_archived_takes_no_file_away(tmp_path, name):
    root = tmp_path / "t"
    address = table_at(root, "cow")
    engine = LateEngine(WRITE, STOPS[name])
    first = upsert(address, 0, 40, 1, engine)
    # Rows of another partition, so that the files of the first commit stay the newest.
    other = pa.table({"id": ["o"], "ver": [1], "p": ["y"]}, schema=SCHEMA)
    TableWriter(address, LocalEngine(1)).upsert(ArrowRowSource(other))
    archive(root, first)
    before = data_files(root)
    assert engine.wake() == ENDED_AS_REFUSED
    assert data_files(root) == before
    assert_holds(root, keys(0, 40, 1) | {"o": 1})
    assert strays(root) == []


def test_one_that_makes_a_file_anew_which_was_cleaned_away_removes_it(tmp_path):
    root = tmp_path / "t"
    address = table_at(root, "cow")
    engine = LateEngine(WRITE, STOPS["before its file"])
    upsert(address, 0, 40, 1, engine)
    (old,) = data_files(root)
    upsert(address, 0, 40, 2)
    clean(address, old)
    before = data_files(root)
    assert old not in before
    assert engine.wake() == ENDED_AS_REFUSED
    assert data_files(root) == before
    assert_holds(root, keys(0, 40, 2))
    assert count_of_newest_base_files(root) == 40


INDEX_STOPS = {
    "before its file": StopAt(folder=".hoodie/metadata/record_index/"),
    "after its file": StopAt(folder=".hoodie/metadata/record_index/", is_after=True),
}


@pytest.mark.parametrize("name", INDEX_STOPS)
@pytest.mark.parametrize("end", ["commit", "rollback", "archived"])
def test_one_of_the_record_index_leaves_and_takes_nothing_either(tmp_path, end, name):
    root = tmp_path / "t"
    address = table_at(root, "mor")
    upsert(address, 0, 40, 1)
    engine = LateEngine(RECORD_INDEX, INDEX_STOPS[name], fails=end == "rollback")
    expected = keys(0, 40, 1)
    if end == "rollback":
        with pytest.raises(JobFailed):
            upsert(address, 40, 60, 2, engine)
    else:
        instant = upsert(address, 40, 60, 2, engine)
        expected |= keys(40, 60, 2)
    if end == "archived":
        upsert(address, 0, 10, 3)
        expected |= keys(0, 10, 3)
        metadata = root / ".hoodie" / "metadata"
        earlier = [each for each in instants(metadata) if each <= instant]
        archive(metadata, *earlier)
    engine.wake()
    assert strays(root) == []
    assert_holds(root, expected)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_one_of_a_compaction_that_another_writer_finished_changes_nothing(
    tmp_path, fails, is_after
):
    root = tmp_path / "t"
    address = table_at(root, "mor")
    upsert(address, 0, 40, 1)
    stop = StopAt(folder=".hoodie/metadata/", suffix=".hfile", is_after=is_after)
    engine = LateEngine(COMPACTION, stop, fails=fails)
    writer = TableWriter(address, engine, {"hoodie.metadata.compact.max.delta.commits": "1"})
    if fails:
        # The write itself is committed then, and what it began is left to the next one.
        with pytest.raises(JobFailed):
            writer.upsert(rows(20, 60, 2))
        upsert(address, 60, 61, 2)
    else:
        writer.upsert(rows(20, 61, 2))
    before = files_below(root)
    engine.wake()
    assert files_below(root) == before
    assert strays(root) == []
    assert_holds(root, keys(0, 20, 1) | keys(20, 61, 2))


def opened(root: Path) -> tuple[Storage, TableConfig]:
    storage = StorageAddress.of(str(root)).open()
    return storage, load_table_config(storage)


def instants(root: Path) -> list[str]:
    return [each.requested_time for each in Timeline.load(*opened(root)).completed()]


def archive(root: Path, *times: str | None) -> None:
    """Move completed instants from the active timeline to the archive, as Hudi does."""
    storage, config = opened(root)
    timeline = Timeline.load(storage, config)
    found = [each for each in timeline.completed() if each.requested_time in times]
    start_history(
        storage,
        config.history_folder,
        [
            ArchivedInstant(
                each.requested_time, each.completion_time, each.action, timeline.read(each), None
            )
            for each in found
        ],
    )
    for info in storage.list(config.timeline_folder):
        if info.path.rpartition("/")[2].partition("_")[0].partition(".")[0] in times:
            storage.delete(info.path)


def clean(address: StorageAddress, path: str) -> None:
    """Remove a file from the list of files, then from its folder."""
    partition, _, name = path.rpartition("/")
    with Transaction.begin(address, action=Action.COMMIT, operation="UPSERT") as transaction:
        transaction.start_writing()

        def prepare(scope: CommitScope) -> CommitMetadata:
            changes = CommitChanges(removed={partition: [name]})
            engine = LocalEngine(1)
            times = scope.next_time
            commit_changes(address, engine, transaction.instant, changes, next_time=times)
            text = Timeline.load(*opened(Path(address.url)))
            last = text.commit_metadata(text.write_instants()[-1])
            return CommitMetadata({}, last.extra, "UPSERT")

        transaction.commit(prepare, touched=())
    address.open().delete(path)
