"""Metadata partitions built for tables that lack them: the data is there, the index is new."""

from __future__ import annotations

import logging
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTable

import lakedex
from lakedex.config import keys
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, LakedexError
from lakedex.filegroup import META_COLUMNS
from lakedex.index import size_estimate
from lakedex.index.size_estimate import stat_groups_for
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, update_properties, write_instant
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.clocks import InstantClock
from lakedex.write.context import WriteContext
from lakedex.write.metadata_build import ensure_metadata
from lakedex.write.metadata_plan import plan_groups
from tests.support.killing_storage import Fuse, Killed, KillingAddress
from tests.support.sample_tables import in_partition, make_rows, new_builder
from tests.support.table_builder import TableBuilder
from tests.support.write_lab import Lab, source

ALL = {
    "files": 1,
    "column_stats": 2,
    "bloom_filters": 2,
    "record_index": 3,
    "partition_stats": 1,
}
KEY = "_hoodie_record_key"
ENGINE = LocalEngine(2)


def stat_columns(snapshot):
    flat = [
        field.name
        for field in snapshot.schema
        if not pa.types.is_nested(field.type) and field.name not in META_COLUMNS
    ]
    return (META_COLUMNS[0], META_COLUMNS[3], META_COLUMNS[2], *flat[:32])


def plan_for(snapshot, groups=ALL, *, columns=None, partitioned=False, schema=None):
    present = snapshot.config.metadata_partitions
    if not snapshot.config.is_partitioned:
        groups = {name: count for name, count in groups.items() if name != "partition_stats"}
    return plan_groups(
        snapshot,
        schema or snapshot.schema,
        dict.fromkeys(present, 1) | groups,
        stat_columns=columns or stat_columns(snapshot),
        partitioned=partitioned,
    )


def ensure(path, address=None, engine=ENGINE, **options):
    address = address or StorageAddress.of(str(path))
    snapshot = Snapshot.open(address.open())
    facts = WriteContext(
        address=address,
        config=snapshot.config,
        schema=snapshot.schema,
        schema_text="",
        instant="20990101000000000",
        committed=CommittedInstants.of(snapshot.timeline),
        scratch=".hoodie/.lakedex/spill/test",
    )
    clock = InstantClock.load(address.open(), snapshot.config)
    plan = plan_for(snapshot, **options)
    ensure_metadata(engine, facts, snapshot, plan, next_time=clock.next)


def strip(path):
    """Take the metadata table away."""
    shutil.rmtree(Path(path) / ".hoodie" / "metadata", ignore_errors=True)
    shutil.rmtree(Path(path) / ".hoodie" / ".index_defs", ignore_errors=True)
    changes = {
        keys.METADATA_PARTITIONS: None,
        keys.METADATA_PARTITIONS_INFLIGHT: None,
        keys.INDEX_DEFS_PATH: None,
    }
    update_properties(StorageAddress.of(str(path)).open(), changes)


def sorted_rows(table):
    return table.sort_by([("_hoodie_partition_path", "ascending"), (KEY, "ascending")])


def assert_whole(path, partitions=ALL):
    table = lakedex.open(str(path))
    report = table.verify()
    assert not report.problems, report.problems[:5]
    expected = set(partitions)
    if not table.snapshot.config.is_partitioned:
        expected.discard("partition_stats")
    assert set(table.snapshot.config.metadata_partitions) == expected
    assert table.snapshot.config.metadata_partitions_inflight == ()
    assert table.snapshot.listing.source == "metadata table"


def hudi_rs_rows(path):
    return pa.Table.from_batches([pa.record_batch(batch) for batch in HudiTable(str(path)).read()])


GOLDEN = (
    "archived",
    "clustered",
    "cow_nonpartitioned",
    "mor_nonpartitioned",
    "schema_evolution_write",
    "sharded_record_index",
    "cow_trips_all_indexes",
    "mor_trips_all_indexes",
    "mor_trips_cleaned",
    "mor_trips_rolledback",
    "schema_evolution",
)


HUDI_RS_CANNOT = ("cow_nonpartitioned", "mor_nonpartitioned")
"""It panics on a column type of these, as Hudi itself wrote them."""


@pytest.mark.parametrize("name", GOLDEN)
def test_a_table_of_hudi_gets_all_indexes(name, golden, tmp_path):
    path = tmp_path / name
    shutil.copytree(golden(name).path, path)
    before = sorted_rows(lakedex.open(str(path)).to_arrow())
    theirs = None if name in HUDI_RS_CANNOT else sorted_rows(hudi_rs_rows(path))
    strip(path)
    ensure(path)
    assert_whole(path)
    assert sorted_rows(lakedex.open(str(path)).to_arrow()).equals(before)
    assert theirs is None or sorted_rows(hudi_rs_rows(path)).equals(theirs)


def built(path, table_type="mor", **options):
    """A table without metadata table: two partitions, updates, deletes."""
    builder = new_builder(path, table_type, (), metadata=None, **options)
    builder.commit([("a", make_rows(0, 30)), ("b", make_rows(30, 60)), ("b", make_rows(60, 80))])
    changed = pa.concat_tables(
        [
            in_partition(make_rows(4, 6, ver=2, text="new"), "a"),
            in_partition(make_rows(40, 41, ver=2), "b"),
        ]
    )
    gone = ["k010", "k070"]
    if table_type == "mor":
        builder.log_commit(updates=changed, deletes=gone)
    else:
        builder.commit([], updates=changed, deletes=gone)
    return builder


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_indexes_of_existing_data_prune(table_type, partitioned, tmp_path):
    builder = built(tmp_path / "t", table_type)
    ensure(builder.path, partitioned=partitioned)
    assert_whole(builder.path)
    table = lakedex.open(str(builder.path))
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(builder.rows()["id"].to_pylist())
    assert len(table.explain("id = 'k033'").files) == 1
    assert [row["id"] for row in table.to_arrow("id = 'k033'").to_pylist()] == ["k033"]
    assert len(table.explain("id = 'k070'").files) == 0
    assert len(table.explain("n = 650").files) == 1
    assert table.to_arrow("n = 650").num_rows == 1
    steps = {step.kind: step for step in table.explain("id = 'k033'").steps}
    if not partitioned:
        assert steps["record_index"].after == 1
    assert hudi_rs_rows(builder.path).num_rows == builder.rows().num_rows


def test_the_definitions_are_those_of_hudi(tmp_path):
    builder = built(tmp_path / "t")
    ensure(builder.path)
    snapshot = Snapshot.open(StorageAddress.of(str(builder.path)).open())
    statistics, records = snapshot.definitions["column_stats"], snapshot.definitions["record_index"]
    assert statistics.version == 2
    assert statistics.source_fields == stat_columns(snapshot)
    assert (records.version, records.options) == (1, {"isPartitioned": "false"})
    assert snapshot.config.raw[keys.INDEX_DEFS_PATH] == ".hoodie/.index_defs/index.json"
    assert snapshot.config.raw[keys.METADATA_PARTITIONS_INFLIGHT] == ""
    listed = snapshot.config.raw[keys.METADATA_PARTITIONS].split(",")
    assert listed == sorted(ALL)
    counts = {name: len(snapshot.metadata.groups(name)) for name in ALL}
    assert counts == ALL


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_empty_table_gets_empty_groups(tmp_path, partitioned):
    builder = new_builder(tmp_path / "t", "cow", (), metadata=None)
    builder.finish()
    (builder.path / ".hoodie" / "timeline").mkdir(exist_ok=True)
    columns = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "n")
    address = StorageAddress.of(str(builder.path))
    snapshot = Snapshot.open(address.open())
    facts = WriteContext(
        address, snapshot.config, builder._files.full_schema, "", "20990101000000000",
        CommittedInstants.of(snapshot.timeline), ".hoodie/.lakedex/spill/test",
    )  # fmt: skip
    plan = plan_for(snapshot, columns=columns, partitioned=partitioned, schema=facts.schema)
    clock = InstantClock.load(address.open(), snapshot.config)
    ensure_metadata(ENGINE, facts, snapshot, plan, next_time=clock.next)
    after = Snapshot.open(address.open())
    assert after.listing.files == {}
    assert after.listing.source == "metadata table"
    counts = {name: len(after.metadata.groups(name)) for name in ALL}
    assert counts == ALL | ({"record_index": 0} if partitioned else {})
    assert after.definitions["record_index"].is_partitioned is partitioned


def test_a_partition_is_added_to_a_metadata_table_that_is_there(tmp_path):
    builder = new_builder(tmp_path / "t", "mor", ("column_stats",), metadata="log")
    builder.commit([("a", make_rows(0, 30)), ("b", make_rows(30, 60))])
    builder.log_commit(updates=in_partition(make_rows(4, 6, ver=2), "a"), deletes=["k040"])
    stray = builder.path / ".hoodie" / "metadata" / "record_index"
    stray.mkdir()
    (stray / ".record-index-0007-0_00000000000000009.log.1_0-0-0").write_bytes(b"half made")
    (builder.path / ".hoodie" / "metadata" / "bloom_filters").mkdir()
    (builder.path / ".hoodie/metadata/bloom_filters/.hoodie_partition_metadata").write_text("x")
    groups = {"files": 1, "column_stats": 2, "record_index": 2, "partition_stats": 1}
    ensure(builder.path, groups=groups)
    assert_whole(builder.path, groups)
    assert not list((builder.path / ".hoodie" / "metadata" / "bloom_filters").glob("*"))
    assert len(lakedex.open(str(builder.path)).explain("id = 'k033'").files) == 1
    assert hudi_rs_rows(builder.path).num_rows == 59


def test_a_second_call_changes_nothing(tmp_path):
    builder = built(tmp_path / "t")
    ensure(builder.path)
    fuse = Fuse()
    ensure(builder.path, KillingAddress(StorageAddress.of(str(builder.path)), fuse))
    assert fuse.count == 0


def test_columns_that_came_are_named_in_the_definition(tmp_path):
    builder = built(tmp_path / "t")
    snapshot = Snapshot.open(StorageAddress.of(str(builder.path)).open())
    some = stat_columns(snapshot)[:5]
    ensure(builder.path, columns=some)
    ensure(builder.path)
    after = Snapshot.open(StorageAddress.of(str(builder.path)).open())
    assert after.definitions["column_stats"].source_fields == stat_columns(snapshot)
    table = lakedex.open(str(builder.path))
    assert table.to_arrow("price > 5").num_rows == table.to_arrow("price > 5", ["id"]).num_rows


def test_files_of_pending_instants_are_not_indexed(tmp_path):
    builder = built(tmp_path / "t", "cow")
    storage = StorageAddress.of(str(builder.path)).open()
    config = Snapshot.open(storage).config
    time = "20250101000000000"
    for state in (State.REQUESTED, State.INFLIGHT):
        write_instant(storage, config, Instant(time, Action.COMMIT, state), b"")
    source = next((builder.path / "p=a").glob("*.parquet"))
    name = f"99999999-0000-0000-0000-000000000000-0_0-0-0_{time}.parquet"
    shutil.copy(source, builder.path / "p=a" / name)
    shutil.copytree(builder.path / "p=a", builder.path / "p=new")
    for file in (builder.path / "p=new").iterdir():
        if time not in file.name:
            file.unlink()
    ensure(builder.path)
    assert_whole(builder.path)
    files = Snapshot.open(storage).listing.files
    assert sorted(files) == ["p=a", "p=b"]
    assert name not in dict(files["p=a"])


def test_keys_that_stand_twice_are_told(tmp_path, caplog):
    builder = new_builder(tmp_path / "t", "cow", (), metadata=None)
    builder.commit([("a", make_rows(0, 30)), ("b", make_rows(20, 60))])
    with caplog.at_level(logging.WARNING, "lakedex"):
        ensure(builder.path)
    assert "60 entries for 70 rows" in caplog.text  # case B24: duplicate keys at index build
    table = lakedex.open(str(builder.path))
    assert table.to_arrow("id = 'k025'").num_rows == 2


def test_an_index_that_another_engine_builds_is_left_to_it(tmp_path):
    builder = built(tmp_path / "t")
    ensure(builder.path, groups={"files": 1})
    storage = StorageAddress.of(str(builder.path)).open()
    update_properties(storage, {keys.METADATA_PARTITIONS_INFLIGHT: "record_index"})
    config = Snapshot.open(storage).config
    pending = Instant("20250101000000000", Action.INDEXING, State.REQUESTED)
    write_instant(storage, config, pending, b"")
    with pytest.raises(CommitConflict, match="record_index is being built"):
        ensure(builder.path)


def test_a_damaged_base_file_is_an_error_and_leaves_the_table_as_it_was(tmp_path):
    builder = built(tmp_path / "t", "cow")
    victim = max((builder.path / "p=b").glob("*.parquet"), key=lambda path: path.name[-25:])
    victim.write_bytes(victim.read_bytes()[:-20])
    with pytest.raises(LakedexError, match=victim.name):
        ensure(builder.path)
    config = Snapshot.open(StorageAddress.of(str(builder.path)).open()).config
    assert config.metadata_partitions == ()


SMALL = pa.schema([("id", pa.string()), ("ver", pa.int32()), ("n", pa.int64()), ("p", pa.string())])
FEW = {"files": 1, "column_stats": 1, "record_index": 2}


@pytest.mark.parametrize("start", ["nothing", "files"])
def test_killed_at_any_change_it_succeeds_the_next_time(tmp_path, start):
    template = tmp_path / "t"
    builder = TableBuilder(
        template, SMALL, record_key="id", partition_by="p", ordering="ver", metadata=None
    )
    for part in ("a", "b"):
        rows = [{"id": f"{part}{number}", "ver": 1, "n": number} for number in range(5)]
        builder.commit([(part, pa.Table.from_pylist(rows))])
    if start == "files":
        ensure(template, groups={"files": 1})
    dry = tmp_path / "dry"
    shutil.copytree(template, dry)
    fuse = Fuse()
    ensure(dry, KillingAddress(StorageAddress.of(str(dry)), fuse), groups=FEW)
    assert fuse.count > 15
    for number in range(1, fuse.count + 1):
        path = tmp_path / f"k{number}"
        shutil.copytree(template, path)
        # Half of them die just after the change: it is done, but nobody hears of it.
        address = KillingAddress(StorageAddress.of(str(path)), Fuse(number, after=number % 2 == 0))
        with pytest.raises(Killed):
            ensure(path, address, groups=FEW)
        assert lakedex.open(str(path)).to_arrow("n >= 3", ["id"]).num_rows == 4
        ensure(path, groups=FEW)
        table = lakedex.open(str(path))
        if number % 4 == 0:
            assert_whole(path, FEW)
        assert len(table.explain("id = 'a3'").files) == 1
        assert table.snapshot.metadata.timeline.pending() == ()


def test_a_column_that_older_files_lack_keeps_its_rows(tmp_path):
    """Rows of files from before a column was added are null in it (case B4)."""
    builder = new_builder(tmp_path / "t", "cow", (), metadata=None)
    builder.commit([("a", make_rows(0, 10))])
    base = next((builder.path / "p=a").glob("*.parquet"))
    pq.write_table(pq.ParquetFile(base).read().drop_columns(["price"]), base)
    ensure(builder.path)
    assert_whole(builder.path)
    table = lakedex.open(str(builder.path))
    assert table.to_arrow("price is null").num_rows == 10
    assert table.to_arrow("price > -100").num_rows == 0


def test_workers_load_no_more_than_other_workers_do():
    """Executors have Arrow and numpy, and little else."""
    code = """
import sys
import lakedex.write.handles
before = set(sys.modules)
import lakedex.write.build_survey
print(*(name for name in set(sys.modules) - before if not name.startswith(("lakedex", "pyarrow"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"fastavro", "xxhash", "obstore", "isal", "rich", "pyspark"}
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}


def test_tasks_and_answers_can_be_pickled(tmp_path):
    class Pickling(LocalEngine):
        def map(self, label, worker, tasks):
            worker, tasks = pickle.loads(pickle.dumps((worker, tasks)))
            return pickle.loads(pickle.dumps(super().map(label, worker, tasks)))

    builder = built(tmp_path / "t")
    ensure(builder.path, engine=Pickling(2))
    assert_whole(builder.path)


COLUMNS = 30
WIDE = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64())]
    + [(f"c{number}", pa.int64()) for number in range(COLUMNS)]
)


def wide_rows(partitions: int, version: int = 1) -> list[dict]:
    values = {f"c{number}": number for number in range(1, COLUMNS)}
    return [
        {"id": f"k{at}", "p": f"p{at:02}", "ver": version, "c0": 10 * at + version, **values}
        for at in range(partitions)
    ]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("groups", [1, 4, 7])
def test_column_stats_in_several_file_groups_answer_as_one_would(tmp_path, kind, groups):
    count = {"hoodie.metadata.index.column.stats.file.group.count": str(groups)}
    lab = Lab(tmp_path, kind, schema=WIDE, properties=count)
    lab.writer.insert(source(wide_rows(20), WIDE))
    lab.writer.upsert(source(wide_rows(4, 2), WIDE))
    rows = wide_rows(4, 2) + wide_rows(20)[4:]
    table = lakedex.open(lab.path)
    assert len(table.snapshot.metadata.groups("column_stats")) == groups
    filled = [group for group in table.snapshot.metadata.groups("column_stats") if group.size_bytes]
    assert len(filled) == groups, "every group has entries"
    lab.holds(rows, "c0 = 101", "c0 < 25", "c7 = 7", "c20 > 100", "c0 IS NULL")
    assert len(table.files("c0 = 101")) == 1
    assert len(table.files("c20 > 100")) == 0
    assert pa.Table.from_batches(HudiTable(lab.path).read()).num_rows == len(rows)


def test_a_wide_table_of_many_files_gets_a_file_group_for_ten_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(size_estimate, "_LEAST_STATS_A_GROUP", 100)
    off = {"hoodie.metadata.index.column.stats.enable": "false"}
    lab = Lab(tmp_path, schema=WIDE, properties=off)
    lab.writer.insert(source(wide_rows(20), WIDE))
    create_index(lab.writer, "column_stats", [f"c{number}" for number in range(COLUMNS)])
    table = lakedex.open(lab.path)
    listed = table.snapshot.definitions["column_stats"].source_fields
    assert len(table.snapshot.metadata.groups("column_stats")) == -(-len(listed) // 10) == 4
    lab.holds(wide_rows(20), "c0 = 101", "c20 > 100")
    assert len(table.files("c0 = 101")) == 1


@pytest.mark.parametrize(
    ("columns", "files", "groups"),
    [
        (5, 0, 2),
        (35, 0, 2),
        (35, 1_000, 2),
        (35, 8_600, 3),
        (35, 12_000, 4),
        (100, 50_000, 10),
        (5, 400_000, 2),
        (23, 286_603, 7),
    ],
)
def test_file_groups_of_column_stats_follow_columns_and_files(columns, files, groups):
    assert stat_groups_for(columns, files) == groups
