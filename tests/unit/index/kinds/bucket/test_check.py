"""Verifying bucket indexes: what is damaged is named, and whole tables have no problem."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.errors import CorruptFile
from lakedex.filegroup import RECORD_KEY, FileSliceId
from lakedex.index.kinds.bucket.check import start
from lakedex.index.kinds.bucket.engine import bucket_engine
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER
from lakedex.index.kinds.bucket.ring import HashRing, NodeTag
from lakedex.index.verification.check import Subject
from lakedex.index.verification.findings import Findings, ProblemKind
from lakedex.storage.paths import join
from tests.support.bucket_slices import BucketFiles

ENGINES = list(BucketEngineType)
SIMPLE, RING, PREFIXES = ENGINES
KEYS = [f"key-{number:03d}" for number in range(300)]
FIRST = "00000000000000.hashing_meta"


def files_of(engine, count=8):
    options = BucketOptions(engine, count, ("id",))
    kept = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": engine.value,
        "hoodie.bucket.index.num.buckets": str(count),
        "hoodie.bucket.index.hash.field": "id",
    }
    files = BucketFiles.empty(("id",), options, kept)
    files.add("p", KEYS)
    files.add("q", KEYS[:100])
    return files


def verified(files):
    findings = Findings()
    subject = Subject(files.indexed, {}, findings)
    check = start("bucket", subject)
    for number, each in enumerate(subject.slices):
        rows = files.rows[each.id]
        check.see_rows(number, rows.slice(0, 20))
        check.see_rows(number, rows.slice(20))
    check.finish()
    return findings


def problems(files):
    return verified(files).problems.get("bucket", [])


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_whole_table_has_no_problem(engine):
    findings = verified(files_of(engine))
    assert findings.problems == {}
    assert findings.checked["bucket"] == 400
    assert findings.notes == []


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_rows_in_wrong_buckets_are_named(engine):
    files = files_of(engine)
    first, second, *_ = [place for place in files.rows if place.partition == "p"]
    twice = files.keys[second][0].as_py()
    moved = "key-999"
    buckets = bucket_engine(files.options, files.storage, files.source.timeline).created("p", [])
    assert buckets.file_ids(hash_keys(pa.array([moved]), ["id"])).to_pylist() != [first.file_id]
    rows = files.rows[first]
    files.rows[first] = pa.concat_tables([rows, pa.table({RECORD_KEY: [twice, moved]})])
    one, other = problems(files)
    assert (one.kind, other.kind) == (ProblemKind.WRONG, ProblemKind.WRONG)
    assert (one.key, other.key) == (twice, moved)
    assert f"its row is in {'0' if engine is SIMPLE else 'that'}" in one.detail
    assert one.detail.endswith("its bucket has a row of the key too")
    assert other.detail.endswith(f"p/{first.file_id}")


def test_two_file_groups_of_a_bucket_are_named():  # cases B48, B77
    files = files_of(SIMPLE)
    place = next(iter(files.rows))
    other = place.file_id[:9] + "6ddb-4dff-83ee-36af5292a301-0"
    files.put_rows("p", other, files.rows[place])
    (problem,) = problems(files)
    assert problem.kind is ProblemKind.DUPLICATE
    assert problem.key == f"p/{other}"
    assert place.file_id in problem.detail


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_file_groups_that_are_no_buckets_are_named(engine):
    files = files_of(engine)
    stray = "00000008-83ee-36af-5292-a301a301a301-0"
    files.put_rows("q", stray, files.rows[next(iter(files.rows))])
    (problem,) = problems(files)
    assert (problem.kind, problem.key) == (ProblemKind.EXTRA, f"q/{stray}")
    assert problem.place == FileSliceId("q", stray)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version": 7}', None], ids=str)
def test_damaged_and_missing_hashing_metadata_are_named(data):
    files = files_of(RING)
    path = join(FOLDER, "q", FIRST)
    if data is None:
        files.storage.delete(path)
    else:
        files.storage.replace(path, data)
    (problem,) = problems(files)
    assert problem.kind is (ProblemKind.MISSING if data is None else ProblemKind.UNREADABLE)
    assert problem.key == path
    assert "partition 'q'" in problem.detail
    assert "`lakedex repair` makes it again" in problem.detail
    # The other partition is verified all the same.
    assert verified(files).checked["bucket"] == 300


def test_nodes_of_a_plan_are_no_ring():
    files = files_of(RING)
    path = join(FOLDER, "q", FIRST)
    ring = HashRing.from_json(files.storage.read(path), path=path)
    node = replace(ring.nodes[0], tag=NodeTag.DELETE)
    files.storage.replace(path, replace(ring, nodes=(node, *ring.nodes[1:])).to_json())
    (problem,) = problems(files)
    assert problem.kind is ProblemKind.WRONG
    assert "DELETE" in problem.detail


def test_a_ring_that_is_no_directory_of_prefixes_is_named():
    files = files_of(PREFIXES)
    path = join(FOLDER, "q", FIRST)
    ring = HashRing.from_json(files.storage.read(path), path=path)
    node = ring.nodes[0]
    moved = type(node)(node.value - 5, node.prefix)
    gapped = HashRing("q", (moved, *ring.nodes[1:]), first_count=8)
    files.storage.replace(path, gapped.to_json())
    found = problems(files)
    assert any("is no prefix" in each.detail for each in found)


def test_outdated_versions_are_named(golden):
    report = lakedex.open(golden("bucket_consistent_split").path).verify()
    assert report.ok
    (note,) = report.notes
    for partition in ("ap", "eu", "us"):
        assert f"{FOLDER}/{partition}/{FIRST}" in note


def test_versions_of_writes_that_did_not_complete_are_named(damage):
    path = Path(damage("bucket_consistent").path)
    folder = path / FOLDER / "eu"
    shutil.copy(folder / FIRST, folder / "20270101000000000.hashing_meta")
    report = lakedex.open(path).verify()
    assert report.ok
    (note,) = report.notes
    assert f"{FOLDER}/eu/20270101000000000.hashing_meta" in note


def test_a_table_of_hudi_with_damaged_hashing_metadata_is_read_whole(damage):
    path = Path(damage("bucket_consistent").path)
    (path / FOLDER / "eu" / FIRST).write_bytes(b"{")
    table = lakedex.open(path, options=lakedex.ReadOptions(weighs_cost=False))
    assert table.to_arrow("id = 'key-00012'").num_rows == 1
    report = table.verify()
    assert {problem.index for problem in report.problems} == {"bucket"}
    assert all(f"{FOLDER}/eu" in problem.key for problem in report.problems)
    snapshot = table.snapshot
    engine = bucket_engine(BucketOptions(RING, 4, ("id",)), snapshot.storage, snapshot.timeline)
    with pytest.raises(CorruptFile, match="hashing_meta"):
        engine.buckets("eu", [])


def test_a_table_whose_parameters_nothing_tells_has_a_note():
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, 64, ("id",)))
    files.add("p", KEYS[:2])
    findings = verified(files)
    assert findings.problems == {}
    assert "hoodie.bucket.index.num.buckets" in findings.notes[0]
