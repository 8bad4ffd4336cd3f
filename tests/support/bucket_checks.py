"""What must hold of a table with a bucket index, whatever was split and merged."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import lakedex
from lakedex.index.kinds.bucket.engine import BucketEngine, RingBuckets, RingEngine, bucket_engine
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.write.resizing.pending import pending_ring
from lakedex.write.verbs import TableWriter
from tests.support.golden import GOLDEN_FOLDER

_PARTITION, _KEY, _FILE = "_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"
_UUID_LETTERS = 36


def snapshot_of(path: str) -> Snapshot:
    return Snapshot.open(StorageAddress.of(path).open())


def content_of(path: str) -> list[dict[str, Any]]:
    """Every row with its meta columns, but for the file name."""
    rows = lakedex.open(path).to_arrow().drop_columns([_FILE]).to_pylist()
    return sorted(rows, key=repr)


def rings_of(path: str) -> dict[str, HashRing]:
    """The ring of each partition, checked against the file groups that are there."""
    snapshot, engine, _ = _opened(path)
    assert isinstance(engine, RingEngine)
    found = {}
    for partition in snapshot.slices.partitions:
        own = [each for each in snapshot.slices if each.partition == partition]
        found[partition] = engine.buckets(partition, own).ring
    return found


def _opened(path: str) -> tuple[Snapshot, BucketEngine, tuple[str, ...]]:
    """The table with the engine of its bucket index and the hash fields."""
    snapshot = snapshot_of(path)
    options = TableWriter(StorageAddress.of(path)).target().options.buckets
    assert options is not None
    engine = bucket_engine(options, snapshot.storage, snapshot.timeline)
    return snapshot, engine, options.fields


def check_buckets(path: str) -> None:
    """Every record is in its bucket, no bucket has two file groups, and all indexes agree."""
    snapshot, engine, fields = _opened(path)
    rows = lakedex.open(path).to_arrow(columns=[_PARTITION, _KEY, _FILE])
    for partition in snapshot.slices.partitions:
        slices = [each for each in snapshot.slices if each.partition == partition]
        found = engine.buckets(partition, slices)
        own = rows.filter(pc.equal(rows[_PARTITION], partition))
        keys = own[_KEY].combine_chunks()
        hashes = hash_keys(keys, fields)
        allowed = [_letters(found.file_ids(hashes).to_pylist())]
        if isinstance(found, RingBuckets):
            pending = pending_ring(snapshot, found.ring)
            if pending is not None:  # what a virtual log file names
                allowed.append(_letters(RingBuckets(pending.ring).file_ids(hashes).to_pylist()))
        stored = _letters(own[_FILE].to_pylist())
        for name, *names in zip(stored, *allowed, strict=True):
            assert name in names
        assert len(set(keys.to_pylist())) == len(keys)
        if isinstance(found, RingBuckets):
            assert len(slices) <= len(found.ring.nodes)
    report = lakedex.open(path).verify()
    assert report.ok, report


def _letters(names: list[str]) -> list[str]:
    return [name[:_UUID_LETTERS] for name in names]


def check_same(path: str, rows: list[dict[str, Any]]) -> None:
    """The rows are the given ones, and in their buckets."""
    assert content_of(path) == rows
    check_buckets(path)


def put_hudis_plan(path: str, table: str, instant: str) -> None:
    """Put the resize plan that Hudi made for a golden table on the timeline of a copy of it."""
    name = f".hoodie/timeline/{instant}.clustering.requested"
    with zipfile.ZipFile(GOLDEN_FOLDER / f"{table}.zip") as packed:
        Path(path, name).write_bytes(packed.read(f"bucket_consistent/{name}"))


def hudis_ring(table: str, partition: str, instant: str) -> HashRing:
    """The ring that Hudi's own run of a plan left."""
    folder = ".hoodie/.bucket_index/consistent_hashing_metadata"
    name = f"bucket_consistent/{folder}/{partition}/{instant}.hashing_meta"
    with zipfile.ZipFile(GOLDEN_FOLDER / f"{table}.zip") as packed:
        return HashRing.from_json(packed.read(name), path=name)
