"""The archive of layout 2: a real one, and ones that are broken."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.config import TableConfig
from lakedex.errors import CorruptFile, FileMissing, LakedexError
from lakedex.storage.local import LocalStorage
from lakedex.timeline import (
    Action,
    ArchivedTimeline,
    CommitMetadata,
    Timeline,
    decode_commit_metadata,
    encode_commit_metadata,
    load_table_config,
)
from lakedex.timeline.lsm_history import LsmHistory

FOLDER = ".hoodie/timeline/history"
CONFIG = TableConfig.from_properties(
    {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.timeline.timezone": "UTC",
    },
    "p",
)


def day(number: int) -> str:
    return f"202611{number:02d}120000000"


@pytest.fixture
def archived_table(golden):
    table = golden("archived")
    storage = LocalStorage(table.path)
    return table.expected, Timeline.load(storage, load_table_config(storage))


def test_archived_commits_are_those_that_hudi_shows(archived_table):
    expected, timeline = archived_table
    listed = {c["commit_time"]: c["state_transition_time"] for c in expected["archived_commits"]}
    found = timeline.archived.instants()
    commits = {i.requested_time: i.completion_time for i in found if i.action is Action.COMMIT}
    assert commits == listed
    assert len(found) == len({i.requested_time for i in found})
    assert list(found) == sorted(found)
    assert any(i.action is Action.CLEAN for i in found)


def test_archived_metadata_counts_what_hudi_counts(archived_table):
    expected, timeline = archived_table
    for commit in expected["archived_commits"]:
        time = commit["commit_time"]
        stats = list(timeline.commit_metadata(timeline.archived.find(time)).stats())
        assert sum(stat.total_write_bytes for stat in stats) == commit["total_bytes_written"]
        assert sum(stat.num_writes for stat in stats) == commit["total_records_written"]
        assert sum(stat.num_updates for stat in stats) == commit["total_update_records_written"]
        assert timeline.completion_time(time) == commit["state_transition_time"]
        assert timeline.is_committed_write(time)
        assert timeline.find(time) is None


def test_active_commits_are_those_that_hudi_shows(archived_table):
    expected, timeline = archived_table
    listed = {c["commit_time"] for c in expected["active_commits"]}
    assert {i.requested_time for i in timeline.write_instants()} == listed


def test_changes_from_the_start_include_archived_commits(archived_table):
    expected, timeline = archived_table
    both = [*expected["archived_commits"], *expected["active_commits"]]
    by_completion = sorted(both, key=lambda commit: commit["state_transition_time"])
    found = [instant.requested_time for instant in timeline.between(None)]
    assert found == [commit["commit_time"] for commit in by_completion]
    second, fourth = (by_completion[at]["state_transition_time"] for at in (1, 3))
    found = [instant.requested_time for instant in timeline.between(second, fourth)]
    assert found == [commit["commit_time"] for commit in by_completion[2:4]]


def test_merged_away_files_are_not_read(archived_table):
    _, timeline = archived_table
    history = LsmHistory(timeline.storage, timeline.config.history_folder)
    names = {info.path for info in timeline.storage.list(FOLDER) if info.path.endswith("parquet")}
    assert {file.path for file in history.files()} < names


def test_a_range_reads_only_the_files_that_overlap_it(archived_table):
    _, timeline = archived_table
    history = LsmHistory(timeline.storage, timeline.config.history_folder)
    first = min(history.files(), key=lambda file: file.first)
    found = history.instants(first.first, first.last)
    assert all(first.first <= time <= first.last for time in found)
    archived = ArchivedTimeline(history)
    only = archived.instants(first.first, first.first)
    assert [instant.requested_time for instant in only] == [first.first]


def test_plans_of_archived_cleans_are_kept(archived_table):
    _, timeline = archived_table
    archived = timeline.archived
    (clean, *_) = [i for i in archived.instants() if i.action is Action.CLEAN]
    assert archived.plan(clean.requested_time) is not None
    (commit, *_) = [i for i in archived.instants() if i.action is Action.COMMIT]
    assert archived.plan(commit.requested_time) is None
    assert archived.metadata("20200101000000000") is None


def test_the_archive_of_a_metadata_table_is_read(archived_table):
    _, timeline = archived_table
    storage = timeline.storage.sub(".hoodie/metadata")
    mdt = Timeline.load(storage, load_table_config(storage))
    found = mdt.archived.instants()
    assert found
    assert found[0].requested_time.startswith("00000000000000")
    assert all(mdt.is_committed_write(i.requested_time) for i in found if i.action.is_write)


def parquet(rows, names=("instantTime", "completionTime", "action", "metadata", "plan")):
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    table = pa.table({name: pa.array(col) for name, col in zip(names, columns, strict=True)})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def make(tmp_path, *, version=b"1", manifest=None, files=None):
    storage = LocalStorage(str(tmp_path))
    files = files or {}
    listed = [{"fileName": name, "fileLen": len(data)} for name, data in files.items()]
    manifest = json.dumps({"files": listed}).encode() if manifest is None else manifest
    storage.create(f"{FOLDER}/_version_", version)
    storage.create(f"{FOLDER}/manifest_1", manifest)
    for name, data in files.items():
        storage.create(f"{FOLDER}/{name}", data)
    return ArchivedTimeline.load(storage, CONFIG)


def test_a_table_without_history_has_no_archived_instants(tmp_path):
    archived = ArchivedTimeline.load(LocalStorage(str(tmp_path)), CONFIG)
    assert archived.instants() == ()
    assert archived.completion_time(day(1)) is None
    assert archived.metadata(day(1)) is None


def test_a_late_completion_in_the_archive_is_found_among_changes(tmp_path):
    data = encode_commit_metadata(CommitMetadata(operation_type="INSERT"))
    rows = [(day(1), day(2), "commit", data, None), (day(3), day(20), "commit", data, None)]
    make(tmp_path, files={f"{day(1)}_{day(3)}_0.parquet": parquet(rows)})
    storage = LocalStorage(str(tmp_path))
    storage.create(f".hoodie/timeline/{day(10)}_{day(11)}.commit", data)
    timeline = Timeline.load(storage, CONFIG)
    found = timeline.between(day(11))
    assert [instant.requested_time for instant in found] == [day(3)]
    assert timeline.commit_metadata(found[0]).operation_type == "INSERT"
    assert timeline.completion_time(day(3)) == day(20)
    assert timeline.as_of(day(2)).between(None) == timeline.between(None, day(2))


def test_an_instant_that_was_archived_since_the_listing_is_still_read(tmp_path):
    data = encode_commit_metadata(CommitMetadata(operation_type="INSERT"))
    storage = LocalStorage(str(tmp_path))
    path = f".hoodie/timeline/{day(1)}_{day(2)}.commit"
    storage.create(path, data)
    timeline = Timeline.load(storage, CONFIG)
    assert timeline.archived.instants() == ()
    rows = [(day(1), day(2), "commit", data, None)]
    make(tmp_path, files={f"{day(1)}_{day(1)}_0.parquet": parquet(rows)})
    storage.delete(path)
    assert timeline.commit_metadata(timeline.instants[0]).operation_type == "INSERT"


@pytest.mark.parametrize("version", [b"", b"x", b"-1", b"../../1", b"9" * 40, b"\xff"])
def test_a_version_file_without_a_number_is_corrupt(tmp_path, version):
    with pytest.raises(CorruptFile):
        make(tmp_path, version=version).instants()


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(FileMissing, match="manifest_7"):
        make(tmp_path, version=b"7").instants()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 100_000,
        b'{"files": 5}',
        b'{"files": [5]}',
        b'{"files": [{"fileName": "../../x_1_0.parquet", "fileLen": 1}]}',
        b'{"files": [{"fileName": "/1_1_0.parquet", "fileLen": 1}]}',
        b'{"files": [{"fileName": "1_1_0.parquet"}]}',
        b'{"files": [{"fileName": "1_1_0.parquet", "fileLen": -5}]}',
        b'{"files": [{"fileName": "1_1_0.parquet", "fileLen": true}]}',
    ],
)
def test_a_manifest_that_is_not_one_is_corrupt(tmp_path, manifest):
    with pytest.raises(CorruptFile):
        make(tmp_path, manifest=manifest).instants()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1PAR1",
        parquet([("x", day(2), "commit", b"", b"")]),
        parquet([(day(1), "x", "commit", b"", b"")]),
        parquet([(day(1), day(2), "conquest", b"", b"")]),
        parquet([(1, 2, 3, 4, 5)]),
        parquet([(day(1), day(2))], names=("instantTime", "completionTime")),
    ],
)
def test_a_history_file_that_is_not_one_is_corrupt(tmp_path, data):
    archived = make(tmp_path, files={f"{day(1)}_{day(9)}_0.parquet": data})
    with pytest.raises(CorruptFile):
        archived.instants()


def test_metadata_that_is_no_bytes_is_none(tmp_path):
    rows = [(day(1), day(2), "commit", "text", None)]
    archived = make(tmp_path, files={f"{day(1)}_{day(1)}_0.parquet": parquet(rows)})
    assert archived.metadata(day(1)) is None


@given(st.data())
def test_damaged_history_files_give_a_result_or_our_error(tmp_path_factory, data):
    metadata = encode_commit_metadata(CommitMetadata())
    original = bytearray(parquet([(day(1), day(2), "commit", metadata, b"")]))
    at = data.draw(st.integers(0, len(original) - 1))
    original[at] = data.draw(st.integers(0, 255))
    files = {f"{day(1)}_{day(1)}_0.parquet": bytes(original)}
    archived = make(tmp_path_factory.mktemp("history"), files=files)
    try:
        archived.instants()
        found = archived.metadata(day(1))
        if found is not None:
            decode_commit_metadata(found, path="x")
    except LakedexError:
        return
