"""Tables that Hudi writes with a bucket index: read, tended and written, bucket by bucket."""

from __future__ import annotations

import random
import shutil
import uuid
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hudi import HudiTable

import lakedex
from lakedex.config.bucket_options import BucketEngineType
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.services.clustering import cluster_table, schedule_clustering
from lakedex.services.clustering.scheduling import run_pending_clusterings
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.inline import writer_with_services
from lakedex.services.partition_evolving import evolve_partitions
from lakedex.services.repairing import repair_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.services.upgrading.runner import upgrade_table
from lakedex.storage.local import LocalStorage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.bucket_index import are_bucket_ids, find_bucket_index
from lakedex.table.own_properties import read_own_properties
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.buckets import assert_in_buckets
from tests.support.golden import GOLDEN_FOLDER, golden_names
from tests.support.write_lab import Lab, row, source

BUCKETS = [name for name in golden_names() if name.startswith("bucket_")]
OTHERS = [name for name in golden_names() if not name.startswith("bucket_")]
RESIZE = "20261115185111690"
"""The clustering of bucket_consistent_split, which continues bucket_consistent."""


def rows_of(path: str) -> ArrowRowSource:
    table = lakedex.open(path).to_arrow()
    own = [name for name in table.column_names if not name.startswith("_hoodie_")]
    return ArrowRowSource(table.select(own).slice(0, 3))


def writer_of(path: str, options: dict[str, str] | None = None) -> TableWriter:
    return writer_with_services(StorageAddress.of(path), LocalEngine(2), options)


def content(path: str) -> dict[str, bytes | None]:
    """Every file with its bytes, and every folder."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else None
        for each in Path(path).rglob("*")
    }


def files_of(path: str) -> dict[str, bytes]:
    return {name: data for name, data in content(path).items() if data is not None}


def instants(path: str) -> list[str]:
    return [each.requested_time for each in lakedex.open(path).timeline.write_instants()]


def places(path: str) -> dict[tuple[str, str], str]:
    """The UUID of the file group of every record, by partition and key."""
    names = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    rows = lakedex.open(path).to_arrow(columns=names).to_pylist()
    return {(each[names[0]], each[names[1]]): each[names[2]][:36] for each in rows}


def some_rows(path: str, count: int = 3, **changed: object) -> pa.Table:
    """Rows of the table with some of their columns changed."""
    table = lakedex.open(path).to_arrow()
    own = [name for name in table.column_names if not name.startswith("_hoodie_")]
    rows = table.select(own).slice(0, count)
    for name, value in changed.items():
        values = value if isinstance(value, list) else [value] * rows.num_rows
        field = rows.schema.field(name)
        rows = rows.set_column(own.index(name), field, pa.array(values, field.type))
    return rows


def new_ids(count: int, first: int = 90_000) -> list[str]:
    return [str(number) for number in range(first, first + count)]


@pytest.mark.parametrize("name", BUCKETS)
def test_a_table_of_hudi_is_continued_without_any_option(name, damage):  # case B81
    path = str(damage(name).path)
    before = places(path)
    rings = {k: v for k, v in content(path).items() if ".bucket_index" in k}
    known, new = some_rows(path, 20, val=-7.0), some_rows(path, 20, id=new_ids(20), val=-7.0)
    result = writer_of(path).upsert(ArrowRowSource(pa.concat_tables([known, new])))
    assert result.index_lookups == 0
    after = places(path)
    assert {key: place for key, place in after.items() if key in before} == before
    assert len(after) == len(before) + 20
    assert_in_buckets(path, ["id"])
    found = lakedex.open(path).to_arrow(pc.field("val") == -7.0)
    assert sorted(found["id"].to_pylist()) == sorted([*known["id"].to_pylist(), *new_ids(20)])
    assert lakedex.open(path).verify().ok
    # From then on the table says it, and all verbs go by it.
    kept = read_own_properties(StorageAddress.of(path).open())
    assert kept["hoodie.index.type"] == "BUCKET"
    assert kept["hoodie.bucket.index.num.buckets"] == "4"
    writer = writer_of(path)
    writer.delete(ArrowRowSource(new.slice(0, 10)))
    writer.delete_where("id = '90010'")
    writer.bulk_insert(ArrowRowSource(some_rows(path, 9, id=new_ids(9, 80_000))), "id")
    writer.insert(ArrowRowSource(some_rows(path, 9, id=new_ids(9, 70_000))))
    assert len(places(path)) == len(before) + 20 - 11 + 18
    assert_in_buckets(path, ["id"])
    one = places(path)
    writer.insert_overwrite(ArrowRowSource(some_rows(path, 9, id=new_ids(9), region="eu")))
    left = places(path)
    assert len(left) == 9 + len([key for key in one if key[0] != "eu"])
    assert_in_buckets(path, ["id"])
    assert not {place for key, place in left.items() if key[0] == "eu"} & set(one.values())
    if rings:
        now = content(path)
        assert {k: now[k] for k in rings if rings[k] is not None} == {
            k: v for k, v in rings.items() if v is not None
        }
    writer.upsert(ArrowRowSource(some_rows(path, 9, val=-8.0)))
    assert len(places(path)) == len(left)
    writer.delete_partitions(["eu"])
    writer.upsert(ArrowRowSource(some_rows(path, 9, id=new_ids(9), region="eu")))
    assert len(places(path)) == len(left)
    assert_in_buckets(path, ["id"])
    writer.insert_overwrite_table(ArrowRowSource(some_rows(path, 5)))
    assert len(places(path)) == 5
    assert_in_buckets(path, ["id"])
    assert lakedex.open(path).verify().ok


@pytest.mark.parametrize("name", BUCKETS)
def test_hudi_rs_reads_what_was_written(name, damage):
    path = str(damage(name).path)
    changed = some_rows(path, 20, val=-7.0, ver=1_000)
    writer = writer_of(path)
    writer.upsert(ArrowRowSource(pa.concat_tables([changed, some_rows(path, 9, id=new_ids(9))])))
    writer.delete(ArrowRowSource(changed.slice(0, 3)))
    if name == "bucket_consistent":
        compact_table(writer)  # hudi-rs finds no file group without a base file
    found = pa.Table.from_batches(HudiTable(path).read())
    expected = lakedex.open(path).to_arrow()
    names = ["id", "val", "ver", "region", "_hoodie_record_key"]
    assert sorted(map(str, found.select(names).to_pylist())) == sorted(
        map(str, expected.select(names).to_pylist())
    )


@pytest.mark.parametrize(
    "options", [{"hoodie.index.type": "SIMPLE"}, {"hoodie.index.type": "GLOBAL_BLOOM"}], ids=str
)
@pytest.mark.parametrize("name", ["bucket_simple_cow", "bucket_consistent_merge"])
def test_no_option_makes_a_bucket_table_an_ordinary_one(name, options, damage):  # case B81
    path = str(damage(name).path)
    before = content(path)
    for verb in ("upsert", "insert"):
        with pytest.raises(InvalidInput, match="BUCKET"):
            getattr(writer_of(path, options), verb)(rows_of(path))
        assert content(path) == before, verb


@pytest.mark.parametrize("name", ["bucket_simple_cow", "bucket_consistent_merge"])
def test_an_option_that_is_not_that_of_the_table_is_refused(name, damage):  # case B46
    path = str(damage(name).path)
    before = content(path)
    for options in (
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"},
        {"hoodie.index.bucket.engine": "EXTENDIBLE_HASHING"},
        {"hoodie.bucket.index.hash.field": "txt"},
    ):
        (option, *_) = reversed(options)
        if name == "bucket_consistent_merge" and "EXTENDIBLE" in options[option]:
            continue  # of a ring nothing tells the two engines apart
        with pytest.raises(LakedexError, match=option):
            writer_of(path, options).upsert(rows_of(path))
        assert content(path) == before, option


MOVING = {
    "cluster": lambda writer: cluster_table(writer, "id"),
    "schedule_clustering": lambda writer: schedule_clustering(writer, "id"),
    "evolve_partitions": lambda writer: evolve_partitions(
        writer.address, TransactionOptions(), by=["id"]
    ),
}


@pytest.mark.parametrize("work", MOVING)
@pytest.mark.parametrize("name", ["bucket_simple_cow", "bucket_simple_mor"])
def test_what_moves_records_is_refused_by_name(name, work, damage):
    path = str(damage(name).path)
    for _ in range(2):
        before = content(path)
        with pytest.raises(UnsupportedFeature, match="bucket index"):
            MOVING[work](writer_of(path))
        assert content(path) == before
        writer_of(path).upsert(rows_of(path))  # the second time the table keeps it


@pytest.mark.parametrize("name", BUCKETS)
def test_columns_and_indexes_are_changed(name, damage):
    path = str(damage(name).path)
    before = places(path)
    writer = writer_of(path)
    create_index(writer, "record_index", "id")
    create_index(writer, "on_txt", "txt")
    create_index(writer, "b", "txt", using="bitmap")
    writer.upsert(ArrowRowSource(some_rows(path, 20, val=-7.0, txt="new")))
    writer.delete(ArrowRowSource(some_rows(path, 2)))
    assert len(places(path)) == len(before) - 2
    table = lakedex.open(path)
    assert table.verify().ok
    assert table.to_arrow(pc.field("txt") == "new").num_rows == 18


@pytest.mark.parametrize("name", BUCKETS)
def test_recognised_by_file_ids_or_folder(name, golden):
    found = find_bucket_index(Snapshot.open(StorageAddress.of(golden(name).path).open()))
    assert found is not None
    is_simple = "simple" in name
    assert found.engine is (
        BucketEngineType.SIMPLE if is_simple else BucketEngineType.CONSISTENT_HASHING
    )
    expected = "file ids such as 00000000-" if is_simple else "consistent_hashing_metadata"
    assert expected in found.evidence
    assert found.resize is None


@pytest.mark.parametrize("name", OTHERS)
def test_other_tables_of_hudi_have_none(name, golden):
    assert find_bucket_index(Snapshot.open(StorageAddress.of(golden(name).path).open())) is None


def test_bucket_counts_by_partition_are_recognised_before_the_first_commit(tmp_path):
    lab = Lab(tmp_path)
    folder = Path(lab.path, ".hoodie/.bucket_index/partition_bucket_index_meta")
    folder.mkdir(parents=True)
    (folder / "00000000000000000.hashing_config").write_text("{}")
    with pytest.raises(UnsupportedFeature, match="partition_bucket_index_meta"):
        lab.writer.upsert(source([row("1", "a", 1)]))
    assert lab.rows() == []


def test_a_table_is_recognised_after_rollbacks(damage):
    path = str(damage("bucket_simple_cow").path)
    for _ in range(2):
        rollback_instant(StorageAddress.of(path), instants(path)[-1])
        found = find_bucket_index(Snapshot.open(StorageAddress.of(path).open()))
        assert found is not None
        assert found.engine is BucketEngineType.SIMPLE


def random_ids(chooser: random.Random, count: int) -> list[str]:
    return [f"{uuid.UUID(int=chooser.getrandbits(128), version=4)}-0" for _ in range(count)]


def test_random_file_ids_are_no_buckets():
    """Not even those that begin with 8 decimal digits, of which there is 1 in 43."""
    chooser = random.Random(20261118)
    for _ in range(20_000):
        assert not are_bucket_ids(random_ids(chooser, chooser.choice([1, 1, 1, 2, 3, 5, 20])))
    for count in (1_000, 50_000):
        assert not are_bucket_ids(random_ids(chooser, count))
    decimal = [each for each in random_ids(chooser, 20_000) if each[:8].isdigit()]
    assert len(decimal) > 300
    assert not any(are_bucket_ids([each]) for each in decimal)
    assert not any(are_bucket_ids(decimal[at : at + 2]) for at in range(300))
    # One task of Hudi's numbers its file groups under one UUID: that is one draw, not many.
    task = decimal[0].removesuffix("-0")
    assert not are_bucket_ids([f"{task}-{number}" for number in range(100)])


@pytest.mark.parametrize(
    "numbers",
    [[0], [3], [255], [4095], range(4), range(0, 9000, 1500), [70_001, 9, 123_456]],
    ids=str,
)
def test_bucket_numbers_are_buckets(numbers):
    chooser = random.Random(7)
    ids = [f"{number:08d}{random_ids(chooser, 1)[0][8:]}" for number in numbers]
    assert are_bucket_ids(ids)
    assert are_bucket_ids([*ids, *random_ids(chooser, 3)][:: 1 if len(ids) > 1 else 4])
    assert are_bucket_ids([f"{number:08d}-0000-0000-0000-000000000000-0" for number in numbers])


@pytest.fixture
def resizing(damage):
    """bucket_consistent with a resize that Hudi has planned and not run."""
    path = str(damage("bucket_consistent").path)
    name = f".hoodie/timeline/{RESIZE}.clustering.requested"
    with zipfile.ZipFile(GOLDEN_FOLDER / "bucket_consistent_split.zip") as packed:
        Path(path, name).write_bytes(packed.read(f"bucket_consistent/{name}"))
    return path


@pytest.mark.parametrize("hashing_metadata", ["kept", "lost"])
def test_rows_of_buckets_under_resize_wait(resizing, hashing_metadata):  # case B81
    if hashing_metadata == "lost":
        shutil.rmtree(Path(resizing, ".hoodie/.bucket_index"))
    before, rows = files_of(resizing), lakedex.open(resizing).to_arrow().num_rows
    snapshot = Snapshot.open(StorageAddress.of(resizing).open())
    assert find_bucket_index(snapshot).resize == RESIZE
    changed = ArrowRowSource(some_rows(resizing, rows, val=-7.0))
    with pytest.raises(LakedexError, match=r"bucket|clustering"):
        writer_of(resizing).upsert(changed)
    assert files_of(resizing) == before
    if hashing_metadata == "lost":
        return
    run_pending_clusterings(writer_of(resizing))
    writer_of(resizing).upsert(changed)
    assert lakedex.open(resizing).to_arrow()["val"].unique().to_pylist() == [-7.0]
    assert_in_buckets(resizing, ["id"])
    assert len(places(resizing)) == rows
    assert lakedex.open(resizing).verify().ok


def test_a_resize_plan_is_refused_by_name_in_a_table_of_ours(tmp_path):
    """Whatever the table: the plan itself names the new buckets."""
    lab = Lab(tmp_path, "mor")
    lab.writer.upsert(source([row("1", "a", 1)]))
    name = f".hoodie/timeline/{RESIZE}.clustering.requested"
    with zipfile.ZipFile(GOLDEN_FOLDER / "bucket_consistent_split.zip") as packed:
        Path(lab.path, name).write_bytes(packed.read(f"bucket_consistent/{name}"))
    before = content(lab.path)
    with pytest.raises(UnsupportedFeature, match=RESIZE):
        lab.writer.upsert(source([row("1", "a", 2)]))
    assert content(lab.path) == before


@pytest.mark.parametrize(
    "name", ["bucket_simple_mor", "bucket_consistent", "bucket_consistent_split"]
)
def test_a_compaction_keeps_every_record_in_its_file_group(name, damage):
    path = str(damage(name).path)
    before = places(path)
    hashing = {k: v for k, v in content(path).items() if ".bucket_index" in k}
    assert compact_table(writer_of(path)).files
    table = lakedex.open(path)
    assert not any(each.logs for each in table.files())
    assert places(path) == before
    assert {k: v for k, v in content(path).items() if ".bucket_index" in k} == hashing
    assert table.verify().ok
    writer_of(path).upsert(rows_of(path))
    assert places(path) == before


@pytest.mark.parametrize("name", BUCKETS)
def test_upkeep_is_served(name, damage):
    path = str(damage(name).path)
    address = StorageAddress.of(path)
    before = lakedex.open(path).to_arrow()
    clean_table(address, options={"hoodie.cleaner.commits.retained": "1"})
    archive_table(address)
    table = lakedex.open(path)
    assert table.to_arrow().num_rows == before.num_rows
    assert table.verify().ok


def test_indexes_are_repaired(damage):
    path = str(damage("bucket_simple_mor").path)
    before = places(path)
    for file in Path(path, ".hoodie/metadata/files").glob("*"):
        file.write_bytes(file.read_bytes()[:40])
    assert not lakedex.open(path).verify().ok
    repair_table(writer_of(path))
    assert lakedex.open(path).verify().ok
    assert places(path) == before


@pytest.mark.parametrize("name", ["bucket_simple_mor", "bucket_consistent"])
def test_an_older_table_keeps_its_buckets_when_it_is_upgraded(name, damage):
    path = str(damage(name).path)
    properties = Path(path, ".hoodie/hoodie.properties")
    older = properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=8")
    properties.write_text(older)
    rows, groups = lakedex.open(path).to_arrow().num_rows, places(path)
    assert upgrade_table(StorageAddress.of(path)).to_version == 9
    assert lakedex.open(path).to_arrow().num_rows == rows
    assert places(path) == groups
    writer_of(path).upsert(rows_of(path))
    assert places(path) == groups


def test_buckets_that_another_engine_made_meanwhile_are_seen_before_files_are_written(tmp_path):
    """The first commit of an empty table, between our look at it and our instant."""
    lab = Lab(tmp_path)

    class Late(ArrowRowSource):
        def run(self, label, worker):
            answers = super().run(label, worker)
            lab.writer.upsert(source([row("2", "a", 1)]))
            Path(lab.path, ".hoodie/.bucket_index/consistent_hashing_metadata").mkdir(parents=True)
            return answers

    rows = pa.Table.from_pylist([row("1", "a", 1)])
    with pytest.raises(UnsupportedFeature, match="bucket index"):
        TableWriter(lab.address).upsert(Late(rows))
    assert lab.rows() == [row("2", "a", 1)]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_ordinary_write_lists_one_folder_for_it(kind, tmp_path, monkeypatch):
    lab = Lab(tmp_path, kind)
    lab.writer.upsert(source([row("1", "a", 1)]))
    plain, listed = LocalStorage.folders, []

    def folders(storage, prefix=""):
        listed.append(prefix)
        return plain(storage, prefix)

    monkeypatch.setattr(LocalStorage, "folders", folders)
    TableWriter(lab.address).upsert(source([row("1", "a", 2)]))
    # What `.hoodie` does not have is not listed itself.
    assert listed.count(".hoodie/.bucket_index") == 0
    assert listed.count(".hoodie") == 1
    lab.holds([row("1", "a", 2)])


# cases B70, B75
@pytest.mark.parametrize("name", BUCKETS)
def test_every_record_of_a_bucket_table_is_found_by_every_filter(name, golden):
    """Whatever the hashing metadata say: a resize leaves the first number of buckets in them."""
    path = golden(name).path
    table = lakedex.open(str(path), options=lakedex.ReadOptions(weighs_cost=False))
    rows = table.to_arrow()
    ids = rows["id"].to_pylist()
    assert len(set(ids)) == len(ids) > 50
    for key in ids[:: max(1, len(ids) // 40)]:
        assert table.to_arrow(pc.field("id") == key)["id"].to_pylist() == [key]
    for column in ("region", "txt", "val", "ver", "_hoodie_record_key"):
        values = rows[column].unique()
        for value in values[:5]:
            expected = rows.filter(pc.equal(rows[column], value))
            found = table.to_arrow(pc.field(column) == value)
            assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist()), column
