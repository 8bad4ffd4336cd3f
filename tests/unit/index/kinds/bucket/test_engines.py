"""Engines over the tables that Hudi wrote, and hashing metadata through the life of a table."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.config import TableConfig
from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput, UnsupportedFeature
from lakedex.index.kinds.bucket.engine import (
    SimpleBuckets,
    bucket_engine,
    simple_file_id,
)
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER, HashingMetadata
from lakedex.index.kinds.bucket.partition_counts import (
    PartitionCounts,
    load_partition_counts,
    store_partition_counts,
)
from lakedex.index.kinds.bucket.ring import HASH_MASK, even_ring
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.object_store import memory_storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Timeline
from tests.support.golden import golden_names

SIMPLE = BucketOptions(BucketEngineType.SIMPLE, 4, ("id",))
RING = BucketOptions(BucketEngineType.CONSISTENT_HASHING, 4, ("id",))
PREFIXES = BucketOptions(BucketEngineType.EXTENDIBLE_HASHING, 4, ("id",))


def snapshot_of(path):
    return Snapshot.open(StorageAddress.of(str(path)).open())


def slices_by_partition(snapshot):
    found = defaultdict(list)
    for each in snapshot.slices:
        found[each.partition].append(each)
    return found


@pytest.mark.parametrize("name", [each for each in golden_names() if each.startswith("bucket_")])
def test_every_key_of_hudi_is_in_the_bucket_that_the_engine_says(name, golden):
    path = golden(name).path
    snapshot = snapshot_of(path)
    options = SIMPLE if "simple" in name else RING
    engine = bucket_engine(options, snapshot.storage, snapshot.timeline)
    names = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    rows = lakedex.open(str(path)).to_arrow(columns=names)
    assert rows.num_rows > 60
    for partition, slices in slices_by_partition(snapshot).items():
        own = rows.filter(pa.compute.equal(rows[names[0]], partition))
        buckets = engine.buckets(partition, slices)
        computed = buckets.file_ids(hash_keys(own[names[1]].combine_chunks(), ["id"]))
        stored = [each[:38] for each in own[names[2]].to_pylist()]
        assert computed.to_pylist() == [each.removesuffix("_") for each in stored]


def test_file_ids_do_not_depend_on_who_computes_them():
    keys = hash_keys(pa.array([str(number) for number in range(50)]), ["id"])
    for options in (SIMPLE, RING, PREFIXES):
        ids = []
        for _ in range(2):
            ids.append(
                engine_of_nothing(options).replaced("p", [], "20260101000000000").file_ids(keys)
            )
        assert ids[0].equals(ids[1])
        assert len(ids[0].unique()) == 4
    assert simple_file_id("p1", 1) != simple_file_id("p", 11)
    assert SimpleBuckets("p", 4).file_id(1) != SimpleBuckets("q", 4).file_id(1)


def engine_of_nothing(options):
    """An engine over a table without any file."""
    properties = {"hoodie.table.name": "t", "hoodie.table.version": "9"}
    config = TableConfig.from_properties(properties, "hoodie.properties")
    storage = memory_storage()
    return bucket_engine(options, storage, Timeline(storage, config, ()))


@pytest.fixture
def split_table(damage):
    return Path(damage("bucket_consistent_split").path)


def ring_of(path, partition="us"):
    snapshot = snapshot_of(path)
    slices = slices_by_partition(snapshot)[partition]
    return HashingMetadata(snapshot.storage, snapshot.timeline).load(partition, slices)


def test_the_newest_ring_of_a_completed_resize_is_loaded(split_table):
    folder = split_table / FOLDER / "us"
    assert len(ring_of(split_table).nodes) == 8
    (mark,) = folder.glob("2*.commit")
    mark.unlink()
    assert len(ring_of(split_table).nodes) == 8
    snapshot = snapshot_of(split_table)
    HashingMetadata(snapshot.storage, snapshot.timeline).mark("us")
    assert mark.exists()


def test_an_archived_resize_counts_as_long_as_it_is_marked(split_table):  # case B49
    snapshot = snapshot_of(split_table)
    ring, slices = ring_of(split_table), slices_by_partition(snapshot)["us"]
    newest = snapshot.timeline.instants[-1]
    assert newest.requested_time > ring.instant
    later = Timeline(snapshot.storage, snapshot.config, [newest])
    metadata = HashingMetadata(snapshot.storage, later)
    assert metadata.load("us", slices) == ring
    (split_table / FOLDER / "us" / f"{ring.instant}.commit").unlink()
    # Neither marked nor in the archive: the ring before it has none of the file groups.
    with pytest.raises(IndexUnusable, match="is no bucket of the hashing metadata"):
        metadata.load("us", slices)


def test_a_resize_that_was_restored_away_does_not_count_though_it_is_marked(damage):  # case B49
    path = Path(damage("bucket_consistent").path)
    ring = ring_of(path)
    later = ring.with_new_groups("20261201000000000")
    snapshot = snapshot_of(path)
    metadata = HashingMetadata(snapshot.storage, snapshot.timeline)
    metadata.store(later)
    (path / FOLDER / "us" / f"{later.instant}.commit").write_bytes(b"")
    assert ring_of(path) == ring
    metadata.discard(later.instant)
    assert not list((path / FOLDER / "us").glob(f"{later.instant}*"))
    assert ring_of(path) == ring


def test_lost_metadata_of_a_first_ring_are_made_again(damage):
    path = Path(damage("bucket_consistent").path)
    ring = ring_of(path)
    shutil.rmtree(path / FOLDER / "us")
    snapshot = snapshot_of(path)
    slices = slices_by_partition(snapshot)["us"]
    engine = bucket_engine(RING, snapshot.storage, snapshot.timeline)
    with pytest.raises(IndexUnusable, match="no hashing metadata"):
        engine.buckets("us", slices)
    assert engine.created("us", slices).ring == ring
    assert ring_of(path) == ring


def test_lost_metadata_of_a_later_ring_are_never_replaced_by_the_default_one(split_table):
    shutil.rmtree(split_table / FOLDER / "us")
    snapshot = snapshot_of(split_table)
    slices = slices_by_partition(snapshot)["us"]
    engine = bucket_engine(RING, snapshot.storage, snapshot.timeline)
    with pytest.raises(IndexUnusable, match=r"00000000000000.hashing_meta \(which is missing\)"):
        engine.created("us", slices)
    assert not (split_table / FOLDER / "us").exists()


def test_damaged_metadata_are_named(split_table):
    instant = ring_of(split_table).instant
    (split_table / FOLDER / "us" / f"{instant}.hashing_meta").write_text("{")
    with pytest.raises(CorruptFile, match=f"us/{instant}.hashing_meta"):
        ring_of(split_table)
    other = (split_table / FOLDER / "eu" / f"{instant}.hashing_meta").read_bytes()
    (split_table / FOLDER / "us" / f"{instant}.hashing_meta").write_bytes(other)
    with pytest.raises(CorruptFile, match="the ring of partition 'us'"):
        ring_of(split_table)


def test_a_table_without_partitions_has_its_ring_in_the_folder_itself(damage):
    path = Path(damage("cow_nonpartitioned").path)
    snapshot = snapshot_of(path)
    metadata = HashingMetadata(snapshot.storage, snapshot.timeline)
    assert metadata.load_or_create(even_ring("", 4), []) == even_ring("", 4)
    assert (path / FOLDER / "00000000000000.hashing_meta").is_file()
    assert metadata.load("") == even_ring("", 4)
    assert metadata.partitions() == [""]


def test_who_comes_second_takes_the_ring_that_is_there(damage):
    path = Path(damage("bucket_consistent").path)
    snapshot = snapshot_of(path)
    metadata = HashingMetadata(snapshot.storage, snapshot.timeline)
    assert metadata.load_or_create(even_ring("new", 4), []) == even_ring("new", 4)
    assert metadata.load_or_create(even_ring("new", 8), []) == even_ring("new", 4)


def test_simple_buckets_of_a_rolled_back_and_a_replaced_group(damage):
    path = str(damage("bucket_simple_mor").path)
    instants = [each.requested_time for each in lakedex.open(path).timeline.write_instants()]
    rollback_instant(StorageAddress.of(path), instants[-1])
    snapshot = snapshot_of(path)
    engine = bucket_engine(SIMPLE, snapshot.storage, snapshot.timeline)
    for partition, slices in slices_by_partition(snapshot).items():
        buckets = engine.buckets(partition, slices)
        after = engine.replaced(partition, slices, "20270101000000000")
        before = {buckets.file_id(number) for number in range(4)}
        assert not before & {after.file_id(number) for number in range(4)}


def test_a_simple_table_with_a_bucket_too_many_is_refused(damage):
    path = str(damage("bucket_simple_cow").path)
    snapshot = snapshot_of(path)
    slices = slices_by_partition(snapshot)["eu"]
    few = BucketOptions(BucketEngineType.SIMPLE, 2, ("id",))
    with pytest.raises(IndexUnusable, match="none of its 2 buckets"):
        bucket_engine(few, snapshot.storage, snapshot.timeline).buckets("eu", slices)
    with pytest.raises(IndexUnusable, match="two file groups"):
        bucket_engine(SIMPLE, snapshot.storage, snapshot.timeline).buckets("eu", slices * 2)


def test_numbers_of_buckets_by_partition(damage, tmp_path):
    path = Path(damage("bucket_simple_cow").path)
    snapshot = snapshot_of(path)
    assert load_partition_counts(snapshot.storage, snapshot.timeline) is None
    counts = PartitionCounts("e.,8; ^us$ , 16", 4)
    store_partition_counts(snapshot.storage, counts)
    store_partition_counts(snapshot.storage, PartitionCounts("x,1", 4))
    assert load_partition_counts(snapshot.storage, snapshot.timeline) == counts
    assert [counts.count(each) for each in ("eu", "us", "usa", "ap")] == [8, 16, 4, 4]
    engine = bucket_engine(SIMPLE, snapshot.storage, snapshot.timeline)
    assert engine.created("us", []).count == 16
    file = path / ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    (file / "00000000000000.hashing_config").write_text('{"expressions": "e,x"}')
    with pytest.raises(CorruptFile, match="hashing_config"):
        load_partition_counts(snapshot.storage, snapshot.timeline)


@pytest.mark.parametrize(
    "text", ["a", "a,0", "a,-1", "a,1000001", "a,b,1", ",", "a,1;", "a,99999999999"]
)
def test_wrong_rules_are_refused(text):
    with pytest.raises(InvalidInput, match="pattern and a number"):
        PartitionCounts(text, 4)


def test_patterns_that_may_mean_something_else_are_refused():
    with pytest.raises(UnsupportedFeature):
        PartitionCounts(r"(?=a)b,4", 4)


def test_hashes_of_many_buckets_are_shared_out_evenly():
    keys = hash_keys(pa.array([f"key-{number}" for number in range(20_000)]), ["id"])
    for options in (SIMPLE, RING, PREFIXES):
        buckets = engine_of_nothing(options).replaced("p", [], "20260101000000000")
        sizes = np.bincount(buckets.numbers(buckets.hashes(keys)))
        assert len(sizes) == 4
        assert sizes.min() > 4_500
        assert buckets.hashes(keys).max() <= HASH_MASK
