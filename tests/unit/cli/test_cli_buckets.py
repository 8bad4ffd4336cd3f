"""`lakedex buckets` and `Table.buckets`: the buckets as they are, and what a resize does next."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import lakedex as package
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.rescaling import rescale_buckets
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import rings_of, snapshot_of
from tests.support.write_lab import Lab, row, source

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
RINGS = Path(".hoodie/.bucket_index/consistent_hashing_metadata")
SPLITS = {
    "hoodie.parquet.max.file.size": "1500",
    "hoodie.bucket.index.split.threshold": "1.0",
    "hoodie.bucket.index.merge.threshold": "0.1",
}


def writer_of(path: str, **options: str) -> TableWriter:
    return TableWriter(StorageAddress.of(path), options=options)


def table_of(folder: Path, engine: str, count: int, rows: int, kind: str = "cow") -> Lab:
    properties = {
        "hoodie.index.bucket.engine": engine,
        "hoodie.bucket.index.num.buckets": str(count),
    }
    lab = Lab(folder, kind, "BUCKET", properties=properties)
    if rows:
        lab.writer.upsert(source([row(f"k{n}", "a", 1) for n in range(rows)]))
    return lab


def given(options: dict[str, str]) -> list[str]:
    return [part for name, value in options.items() for part in ("--option", f"{name}={value}")]


@pytest.mark.parametrize("name", ["bucket_consistent", "bucket_consistent_merge"])
def test_the_buckets_are_those_of_the_ring_and_of_the_files(name, golden):
    path = str(golden(name).path)
    report = package.open(path).buckets()
    table = package.open(path)
    assert report.engine == "CONSISTENT_HASHING"
    assert report.hash_fields == ("id",)
    for own in report.partitions:
        ring = rings_of(path)[own.partition]
        slices = {s.file_id: s for s in table.files() if s.partition == own.partition}
        rows = table.to_arrow(f"region = '{own.partition.removeprefix('region=')}'")
        assert own.rows == rows.num_rows
        assert [(each.first_hash, each.last_hash) for each in own.buckets] == ring.ranges()
        for each in own.buckets:
            assert each.size_bytes == slices[each.file_id].size_bytes
            assert each.rows == table.read_slices([slices[each.file_id]]).num_rows
            assert each.log_files == len(slices[each.file_id].logs)


@pytest.mark.parametrize("policy", ["records", "middle"])
@pytest.mark.parametrize("options", [SPLITS, {}], ids=["splits", "merges"])
def test_what_is_due_is_what_the_next_resize_does(options, policy, damage):
    path = str(damage("bucket_consistent").path)
    said = {**options, "lakedex.bucket.resize.policy": policy}
    before = rings_of(path)
    report = package.open(path).buckets(options=said)
    assert len(report.due) == (12 if options else 3)
    instant = schedule_resize(writer_of(path, **said))
    plan = snapshot_of(path).timeline.requested_replace(instant).clustering
    planned = {
        (group.slices[0].partition_path, *sorted(each.file_id for each in group.slices)): (
            group.output_file_groups
        )
        for group in plan.groups
    }
    nodes = {name: [node.file_id for node in ring.nodes] for name, ring in before.items()}
    due = {
        (name, *sorted(nodes[name][number] for number in each.buckets)): each.into
        for name, each in report.due
    }
    assert due == planned
    pends = package.open(path).buckets(options=said)
    assert not pends.due
    assert {p.instant for own in pends.partitions for p in own.pending} == {instant}
    sizes = {name: sum(each.bytes_read for n, each in report.due if n == name) for name in nodes}
    again = {own.partition: sum(p.bytes_read for p in own.pending) for own in pends.partitions}
    assert again == sizes
    run_resize(writer_of(path, **said), instant)
    grown = {own.partition: len(own.buckets) for own in package.open(path).buckets().partitions}
    for name, ring in before.items():
        added = sum(each.into - len(each.buckets) for n, each in report.due if n == name)
        assert grown[name] == len(ring.nodes) + added


def test_one_plan_is_bounded_and_the_rest_waits(damage):
    path = str(damage("bucket_consistent").path)
    said = {**SPLITS, "lakedex.bucket.resize.max.bytes": "1"}
    report = package.open(path).buckets(options=said)
    assert len(report.due) == 1
    assert sum(len(own.waiting) for own in report.partitions) == 11


def test_extendible_buckets_are_split_at_prefixes(tmp_path):
    lab = table_of(tmp_path, "EXTENDIBLE_HASHING", 2, 400)
    sizes = [each.size_bytes for each in package.open(lab.path).files()]
    said = {"hoodie.parquet.max.file.size": str(min(sizes) // 3)}
    due = [each for _, each in package.open(lab.path).buckets(options=said).due]
    assert {each.action for each in due} == {"split"}
    resize_buckets(writer_of(lab.path, **said))
    again = package.open(lab.path).buckets(options=said)
    assert again.count > 2
    assert not again.due
    assert again.partitions[0].rows == 400


def test_a_fixed_number_is_rescaled_until_its_sizes_are_good(tmp_path, lakedex):
    lab = table_of(tmp_path, "SIMPLE", 2, 3000)
    size = max(each.size_bytes for each in package.open(lab.path).files())
    said = {"hoodie.parquet.max.file.size": str(size // 4)}
    ((partition, due),) = package.open(lab.path).buckets(options=said).due
    assert (partition, due.action, due.buckets) == ("p=a", "rescale", (0, 1))
    assert due.into in (8, 16)
    printed = lakedex("buckets", lab.path, *given(said)).stdout
    assert f"lakedex resize PATH --buckets {due.into}\n" in printed
    rescale_buckets(lab.writer, due.into)
    assert package.open(lab.path).buckets(options=said).due == ()
    assert "all buckets are of a good size" in lakedex("buckets", lab.path, *given(said)).stdout


def test_numbers_by_partition_are_shown(tmp_path, lakedex):
    lab = table_of(tmp_path, "SIMPLE", 4, 40)
    lab.writer.upsert(source([row(f"k{n}", "b", 1) for n in range(40)]))
    rescale_buckets(lab.writer, 3, ["p=b"])
    report = package.open(lab.path).buckets()
    assert [(own.partition, len(own.buckets)) for own in report.partitions] == [
        ("p=a", 4),
        ("p=b", 3),
    ]
    printed = lakedex("buckets", lab.path).stdout
    assert "numbers by partition: ^p=b$,3;.*,4" in printed
    assert package.open(lab.path).buckets("p=b").partitions == report.partitions[1:]
    named = lakedex("buckets", lab.path, "--partition", "p=b").stdout
    assert "p=b: 3 buckets" in named
    assert "p=a" not in named


@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING"])
@pytest.mark.parametrize("count", [1, 8, 256, 10_000])
def test_any_number_of_buckets_fits_80_columns(engine, count, tmp_path, lakedex):
    lab = table_of(tmp_path, engine, count, 300 if count < 10_000 else 40, "mor")
    files = len(package.open(lab.path).files())
    terminal = lakedex("buckets", lab.path, FORCE_COLOR="1", COLUMNS="80").stdout
    assert COLOURS.search(terminal)
    lines = COLOURS.sub("", terminal).splitlines()
    pictures = [line for line in lines if re.fullmatch("[ ▁▂▃▄▅▆▇█]{80}", line)]
    assert len(pictures) == 1
    assert pictures[0].strip()
    tables = [line for line in lines if not line.startswith(("t:", "target"))]
    assert max(map(len, tables)) <= 80
    piped = lakedex("buckets", lab.path)
    assert not COLOURS.search(piped.stdout)
    assert pictures[0] in piped.stdout
    assert ("left out" in piped.stdout) is (count > 12)
    if count > 12:
        assert f"{count - 12:,} buckets left out" in piped.stdout
    (own,) = json.loads(lakedex("buckets", lab.path, "--json").stdout)["partitions"]
    assert len(own["buckets"]) == own["count"] == count
    assert sum(each["size_bytes"] > 0 for each in own["buckets"]) == files
    assert own["rows"] == (300 if count < 10_000 else 40)
    every = lakedex("buckets", lab.path, "--limit", "256", "--no-rows").stdout
    assert ("left out" in every) is (count > 256)
    assert " rows" not in every.partition("p=a")[2]


def test_an_output_of_ascii_gets_a_picture_of_ascii(tmp_path, lakedex_process):
    lab = table_of(tmp_path, "CONSISTENT_HASHING", 4, 40)
    process = lakedex_process("buckets", lab.path, PYTHONIOENCODING="ascii")
    printed, _ = process.communicate()
    assert process.returncode == 0
    assert re.search("\n[.:=+*#@-]{80}\n", printed)


def test_of_many_partitions_those_with_resizes_and_the_largest_are_shown(tmp_path, lakedex):
    lab = table_of(tmp_path, "SIMPLE", 1, 0)
    lab.writer.upsert(source([row(f"k{n}", f"{n % 30:02}", 1) for n in range(60)]))
    lab.writer.upsert(source([row(f"new{n}", "17", 1) for n in range(2000)]))
    printed = lakedex("buckets", lab.path).stdout
    assert printed.count("times the mean") == 8
    assert "\np=17: 1 bucket" in printed
    assert "22 partitions left out; --partition PATH shows one" in printed
    assert len(json.loads(lakedex("buckets", lab.path, "--json").stdout)["partitions"]) == 30


@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING", "EXTENDIBLE_HASHING"])
def test_an_empty_table_has_no_buckets_yet(engine, tmp_path, lakedex):
    lab = table_of(tmp_path, engine, 4, 0)
    report = package.open(lab.path).buckets()
    assert (report.engine, report.first_count, report.partitions) == (engine, 4, ())
    result = lakedex("buckets", lab.path)
    assert result.exit_code == 0
    assert "no partition has rows yet" in result.stdout


def test_a_table_without_buckets_is_refused_by_name(golden, lakedex):
    result = lakedex("buckets", golden("cow_trips_all_indexes").path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "table cow_trips has no bucket index" in result.stderr


def test_what_is_wrong_with_a_question_is_named(golden):
    table = package.open(golden("bucket_consistent").path)
    with pytest.raises(InvalidInput, match="no partition 'uss'; did you mean 'us'"):
        table.buckets("uss")
    with pytest.raises(InvalidInput, match=r"split\.treshold"):
        table.buckets(options={"hoodie.bucket.index.split.treshold": "1.5"})


def test_damaged_hashing_metadata_are_named(damage, lakedex):
    path = damage("bucket_consistent").path
    (ring,) = Path(path, RINGS, "eu").glob("*.hashing_meta")
    data = ring.read_bytes()
    ring.write_bytes(data[:40])
    with pytest.raises(CorruptFile, match=str(RINGS / "eu")):
        package.open(path).buckets()
    result = lakedex("buckets", str(path))
    assert result.exit_code == 2
    assert ring.name in result.stderr
    assert lakedex("buckets", str(path), "--partition", "us").exit_code == 0
    ring.write_bytes(re.sub(rb'("fileIdPrefix" *: *")', rb"\g<1>0", data))
    with pytest.raises(IndexUnusable, match="no bucket of the hashing metadata"):
        package.open(path).buckets("eu")
    ring.unlink()
    with pytest.raises(IndexUnusable, match="'eu' has file groups and no hashing metadata"):
        package.open(path).buckets()


def test_a_pending_resize_is_told_with_how_to_run_it(damage, lakedex):
    path = str(damage("bucket_consistent").path)
    instant = schedule_resize(writer_of(path, **SPLITS))
    assert pending_resizes(snapshot_of(path).timeline) == (instant,)
    printed = lakedex("buckets", path).stdout
    assert printed.count(f"split pends: {instant}") == 12
    assert f"lakedex resize PATH --instant {instant}" in printed
    assert "P" * 80 in printed
