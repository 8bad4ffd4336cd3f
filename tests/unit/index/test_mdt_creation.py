"""Making a metadata table, adding to it, and laying its record index out anew."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput
from lakedex.index.kinds.files.kind import files_change
from lakedex.index.kinds.record_index.records import write_notes
from lakedex.index.metadata_table import creation, resharding
from lakedex.index.metadata_table.compaction import compact_if_due
from lakedex.index.metadata_table.creation import (
    PartitionPlan,
    create_metadata_table,
    remove_metadata_table,
    remove_partition,
)
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.metadata_table.resharding import (
    finish_resharding,
    forget_resharding,
    note_path,
    reshard_entries,
    unfinished_reshard,
)
from lakedex.index.metadata_table.shard_writer import NotedRecords
from lakedex.timeline import load_table_config
from tests.support.metadata_lab import Lab, file_id

ROOT = Path(__file__).parents[3]


def test_first_records_lie_in_base_files_of_the_first_instants(tmp_path):
    lab = Lab(tmp_path / "t", shards=5, buckets=3)
    entries = [(f"k{i}", f"p={i % 2}", file_id(i % 3)) for i in range(300)]
    lab.create(
        {
            "files": PartitionPlan(1, files_change({"p=0": {"a": 1}, "p=1": {"b": 2}})),
            "record_index": PartitionPlan(
                5,
                NotedRecords(lab.notes(entries), write_notes, 3, time="20231231000000000"),
            ),
            "column_stats": PartitionPlan(2),
        }
    )
    assert lab.stored_files()["p=1"] == {"b": 2}
    places = lab.stored_places()
    assert {key: place[:2] for key, place in places.items()} == {
        key: (path, name) for key, path, name in entries
    }
    assert {place[2] for place in places.values()} == {1703980800000}
    metadata = lab.open()
    assert [group.base_instant for group in metadata.groups("record_index")] == [
        "00000000000000001"
    ] * 5
    assert all(group.base for group in metadata.groups("record_index"))
    assert [group.size_bytes for group in metadata.groups("column_stats")] == [80, 80]
    lab.commit(entries=[("k0", "p=9", file_id(9))], deletes=[("k1", "p=1", file_id(1))])
    assert lab.stored_places()["k0"][0] == "p=9"
    assert len(lab.stored_places()) == 299


def test_a_partition_can_be_added_later(tmp_path):
    lab = Lab(tmp_path / "t")
    lab.create({"files": PartitionPlan(1)})
    lab.commit(added={"p=1": {"a": 1}})
    notes = lab.notes([("k1", "p=1", file_id(1))])
    lab.create({"record_index": PartitionPlan(3, NotedRecords(notes, write_notes, 2))})
    lab.commit(entries=[("k2", "p=1", file_id(1))])
    assert set(lab.stored_places()) == {"k1", "k2"}
    with pytest.raises(InvalidInput, match="record_index already"):
        lab.create({"record_index": PartitionPlan(3)})


def test_an_added_partition_does_not_move_the_start_of_an_archived_timeline(tmp_path):
    lab = Lab(tmp_path / "t")
    lab.create({"files": PartitionPlan(1)})
    lab.commit(added={"p=1": {"a": 1}})
    timeline = lab.root / ".hoodie/metadata/.hoodie/timeline"
    for path in timeline.glob("00000000000000*"):
        path.unlink()
    lab.create({"column_stats": PartitionPlan(2)})
    times = [each.requested_time for each in MetadataStore.open(lab.address).timeline.instants]
    assert min(times).startswith("2024")
    lab.commit(added={"p=2": {"b": 1}})
    assert set(lab.stored_files()) == {"__all_partitions__", "p=1", "p=2"}


# case B39: failure between two partitions
@pytest.mark.parametrize("step", ["begin", "write_first_log", "complete"])
def test_what_a_crash_left_is_removed_before_the_next_attempt(tmp_path, monkeypatch, step):
    lab = Lab(tmp_path / "t")
    lab.create({"files": PartitionPlan(1)})
    lab.commit(added={"p=1": {"a": 1}})
    config = load_table_config(lab.storage)
    home = creation if step == "write_first_log" else MetadataStore
    with monkeypatch.context() as patch:
        patch.setattr(home, step, cut_short)
        with pytest.raises(KeyboardInterrupt):
            create_metadata_table(
                lab.address,
                lab.engine,
                config,
                {"record_index": PartitionPlan(9)},
                next_time=lab.clock.next,
            )
    lab.commit(added={"p=1": {"b": 1}})
    lab.create({"record_index": PartitionPlan(3)})
    store = MetadataStore.open(lab.address)
    assert store.timeline.pending() == ()
    assert len(lab.open().groups("record_index")) == 3
    assert lab.stored_files()["p=1"] == {"a": 1, "b": 1}


def cut_short(*_args, **_kwargs):
    raise KeyboardInterrupt


def test_a_table_that_was_never_registered_is_made_anew(tmp_path, monkeypatch):
    lab = Lab(tmp_path / "t")
    config = load_table_config(lab.storage)
    with monkeypatch.context() as patch:
        patch.setattr(MetadataStore, "complete", cut_short)
        with pytest.raises(KeyboardInterrupt):
            create_metadata_table(
                lab.address,
                lab.engine,
                config,
                {"files": PartitionPlan(1)},
                next_time=lab.clock.next,
            )
    with pytest.raises(InvalidInput, match="files"):
        lab.create({"record_index": PartitionPlan(1)})
    lab.create()
    lab.commit(entries=[("k", "p=1", file_id(1))], added={"p=1": {"a": 1}})
    assert set(lab.stored_places()) == {"k"}
    remove_partition(lab.address, "record_index")
    assert not (lab.root / ".hoodie/metadata/record_index").exists()
    remove_metadata_table(lab.address)
    assert not (lab.root / ".hoodie/metadata").exists()
    remove_partition(lab.address, "record_index")


@pytest.mark.parametrize("partitioned", [False, True], ids=["global", "partitioned"])
def test_resharding_keeps_every_entry(tmp_path, partitioned):
    lab = Lab(tmp_path / "t", partitioned=partitioned)
    lab.create()
    added = {f"p={i}": {"a": 1} for i in range(3)}
    entries = [(f"k{i}é", f"p={i % 3}", file_id(i % 4)) for i in range(200)]
    lab.commit(entries=entries, added=added)
    compact_if_due(
        lab.address, lab.engine, max_delta_commits=1, next_time=lab.clock.next, has_pending=False
    )
    lab.commit(deletes=entries[:20], entries=[("new", "p=0", file_id(9))])
    before = lab.stored_places()
    for count in (7, 2):
        reshard_entries(lab.address, lab.engine, "record_index", count, next_time=lab.clock.next)
        assert lab.stored_places() == before
        assert len(lab.open().groups("record_index")) == count * (3 if partitioned else 1)
        assert "record_index" in load_table_config(lab.storage).metadata_partitions
        assert list((lab.root / ".hoodie/.lakedex").iterdir()) == []
    lab.shards, lab.buckets = 2, 2
    lab.commit(entries=[("newer", "p=1", file_id(9))], deletes=[("new", "p=0", file_id(9))])
    keys = {key[1] if partitioned else key for key in lab.stored_places()}
    assert keys == {key for key, _, _ in entries[20:]} | {"newer"}
    if not partitioned:
        found = lab.open().lookup("record_index", pa.array(["newer", "k50é", "k3é"]))
        assert found["key"].to_pylist() == ["k50é", "newer"]


def test_a_resharding_that_was_cut_short_is_ended_by_the_next_writer(tmp_path, monkeypatch):
    lab = Lab(tmp_path / "t")
    lab.create()
    lab.commit(entries=[(f"k{i}", "p=1", file_id(1)) for i in range(50)], added={"p=1": {"a": 1}})
    before = lab.stored_places()
    with monkeypatch.context() as patch:
        patch.setattr(resharding, "create_metadata_table", cut_short)
        with pytest.raises(KeyboardInterrupt):
            reshard_entries(lab.address, lab.engine, "record_index", 6, next_time=lab.clock.next)
    assert "record_index" not in load_table_config(lab.storage).metadata_partitions
    assert unfinished_reshard(lab.storage, "record_index").file_groups == 6
    with monkeypatch.context() as patch:
        patch.setattr(MetadataStore, "complete", cut_short)
        with pytest.raises(KeyboardInterrupt):
            finish_resharding(lab.address, lab.engine, "record_index", next_time=lab.clock.next)
    assert finish_resharding(lab.address, lab.engine, "record_index", next_time=lab.clock.next)
    assert lab.stored_places() == before
    assert len(lab.open().groups("record_index")) == 6
    assert not finish_resharding(lab.address, lab.engine, "record_index", next_time=lab.clock.next)


def test_a_resharding_that_others_overtook_is_not_ended(tmp_path, monkeypatch):
    lab = Lab(tmp_path / "t")
    lab.create()
    lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"a": 1}})
    with monkeypatch.context() as patch:
        patch.setattr(resharding, "create_metadata_table", cut_short)
        with pytest.raises(KeyboardInterrupt):
            reshard_entries(lab.address, lab.engine, "record_index", 6, next_time=lab.clock.next)
    lab.commit(added={"p=1": {"b": 1}})
    with pytest.raises(IndexUnusable, match="changed since"):
        finish_resharding(lab.address, lab.engine, "record_index", next_time=lab.clock.next)
    note = lab.root / note_path("record_index")
    note.write_bytes(json.dumps({"file_groups": 1}).encode())
    with pytest.raises(CorruptFile, match="reshard"):
        unfinished_reshard(lab.storage, "record_index")
    forget_resharding(lab.address, "record_index")
    assert unfinished_reshard(lab.storage, "record_index") is None


def test_resharding_needs_a_record_index(tmp_path):
    lab = Lab(tmp_path / "t")
    lab.create({"files": PartitionPlan(1)})
    with pytest.raises(IndexUnusable, match="no record index"):
        reshard_entries(lab.address, LocalEngine(1), "record_index", 2, next_time=lab.clock.next)
    with pytest.raises(InvalidInput, match="at least one"):
        reshard_entries(lab.address, LocalEngine(1), "record_index", 0, next_time=lab.clock.next)


def test_workers_need_nothing_but_arrow_and_numpy():
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fastavro", "xxhash", "obstore", "isal", "rich"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
import lakedex.index.metadata_table.shard_writer
import lakedex.index.metadata_table.compaction
import lakedex.index.metadata_table.resharding
import lakedex.index.kinds.record_index.records
import lakedex.index.kinds.secondary.records
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_a_partition_that_is_being_dropped_is_not_read(tmp_path):
    lab = Lab(tmp_path / "t")
    lab.create()
    lab.commit(entries=[(f"k{i}", "p=0", file_id(0)) for i in range(30)])
    partition = lab.root / ".hoodie/metadata/record_index"
    (partition / ".hoodie_partition_metadata").unlink()
    # Hudi writes none into an index without entries: what the properties name is read.
    assert len(lab.stored_places()) == 30
    reader = lab.open()
    lab.register({"files", "column_stats"})
    next(partition.glob(".record-index-0000-0_*")).unlink()
    with pytest.raises(IndexUnusable, match="metadata/record_index is being removed"):
        reader.scan("record_index")
