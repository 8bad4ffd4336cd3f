"""Buckets of a ring are split and merged: plans of Hudi's and of lakedex, run by lakedex."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import (
    CommitConflict,
    CorruptFile,
    IndexUnusable,
    InvalidInput,
    UnsupportedFeature,
)
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.index.kinds.bucket.ring import NodeTag, nodes_of_plan
from lakedex.services.clustering import cluster_table, run_clustering, schedule_clustering
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.clustering.scheduling import run_pending_clusterings
from lakedex.services.compaction import compact_table, schedule_compaction
from lakedex.services.inline import writer_with_services
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, RequestedReplace
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from lakedex.write.resizing import ResizeLimits
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import (
    check_buckets,
    check_same,
    content_of,
    hudis_ring,
    put_hudis_plan,
    rings_of,
    snapshot_of,
)

SPLIT = ("bucket_consistent_split", "20261115185111690")
MERGE = ("bucket_consistent_merge", "20261115185136384")
SMALL = ResizeLimits.of(1500, split=1.0, merge=0.1)
"""Under which every bucket of the golden tables is split."""
LARGE = ResizeLimits.of(1 << 20, split=2.0, merge=0.9)
"""Under which all buckets of a partition are merged."""
META = Path(".hoodie/.bucket_index/consistent_hashing_metadata")


def split_once(path: str):
    """Split all buckets at the middle of their range."""
    instant = schedule_resize(writer_of(path), SMALL, MiddlePolicy())
    return run_resize(writer_of(path), instant)


def merge_once(path: str):
    """Merge all buckets of each partition."""
    (result,) = resize_buckets(writer_of(path), LARGE)
    return result


def writer_of(path: str, **options: str) -> TableWriter:
    return writer_with_services(StorageAddress.of(path), LocalEngine(2), options)


@pytest.fixture
def table(damage):
    return str(damage("bucket_consistent").path)


def plan_of(path: str, instant: str):
    return snapshot_of(path).timeline.requested_replace(instant).clustering


@pytest.mark.parametrize("name", [SPLIT, MERGE], ids=lambda name: name[0])
def test_hudis_pending_plan_is_run_to_the_ring_that_hudi_makes(name, table):  # case B81
    golden, instant = name
    put_hudis_plan(table, golden, instant)
    before = content_of(table)
    result = run_clustering(writer_of(table), instant)
    assert result.instant == instant
    assert result.file_groups_replaced == 12
    check_same(table, before)
    for partition, ring in rings_of(table).items():
        expected = hudis_ring(golden, partition, instant)
        assert ring == expected
        assert json.loads(ring.to_json()) == json.loads(expected.to_json())
    done = snapshot_of(table).timeline.find(instant)
    assert done.action is Action.REPLACECOMMIT
    assert not snapshot_of(table).timeline.pending()
    assert content_of(table) == before


@pytest.mark.parametrize("name", ["bucket_consistent_split", "bucket_consistent_merge"])
def test_a_table_that_hudi_resized_is_resized_again(name, damage):  # case B70
    path = str(damage(name).path)
    before = content_of(path)
    for limits in (SMALL, LARGE):
        sizes = {partition: len(ring.nodes) for partition, ring in rings_of(path).items()}
        results = resize_buckets(writer_of(path), limits)
        assert results
        check_same(path, before)
        after = {partition: len(ring.nodes) for partition, ring in rings_of(path).items()}
        assert all((after[each] > sizes[each]) is (limits is SMALL) for each in sizes)
        assert all(ring.first_count == 4 for ring in rings_of(path).values())
    assert set(after.values()) == {1}
    assert resize_buckets(writer_of(path), LARGE) == []


def test_a_plan_has_the_form_that_hudi_runs(table):
    instant = schedule_resize(writer_of(table), SMALL)
    plan = plan_of(table, instant)
    assert plan.strategy_class.endswith("SparkConsistentBucketClusteringExecutionStrategy")
    assert plan.preserve_metadata is True
    put_hudis_plan(table, *SPLIT)
    hudis = plan_of(table, SPLIT[1])
    assert plan.strategy_class == hudis.strategy_class
    ours, other = plan.groups[0], hudis.groups[0]
    assert ours.extra.keys() == other.extra.keys()
    assert ours.metrics.keys() == other.metrics.keys()
    nodes, known = (json.loads(each.extra["clustering.group.child.node"]) for each in (ours, other))
    assert nodes[0].keys() == known[0].keys()
    assert ours.output_file_groups == len(nodes)
    assert {node["tag"] for node in nodes} == {"REPLACE"}
    assert [each.file_id for each in ours.slices]
    assert ours.slices[0].log_files


def test_what_goes_away_in_a_merge_has_no_file_id(table):  # case B50
    instant = schedule_resize(writer_of(table), LARGE)
    for group in plan_of(table, instant).groups:
        text = group.extra["clustering.group.child.node"]
        gone = [each for each in json.loads(text) if each["tag"] == "DELETE"]
        assert len(gone) == 3
        assert all(each["fileIdPrefix"] is None for each in gone)
        tags = [node.tag for node in nodes_of_plan(text, path="")]
        assert tags.count(NodeTag.REPLACE) == 1
        assert group.output_file_groups == 1


def test_hudis_policy_splits_at_the_middle_of_the_range(table):
    before = content_of(table)
    result = split_once(table)
    check_same(table, before)
    golden, instant = SPLIT
    for partition, ring in rings_of(table).items():
        values = [node.value for node in hudis_ring(golden, partition, instant).nodes]
        assert [node.value for node in ring.nodes] == values
    assert result.file_groups_replaced == 12


def test_a_schedule_leaves_partitions_under_resize_alone(table):
    """Two rings of one partition count in the order of their instants, so one must wait."""
    writer, before = writer_of(table), content_of(table)
    only = {"hoodie.clustering.plan.strategy.partition.selected": "eu"}
    first = schedule_resize(writer_of(table, **only), SMALL)
    assert schedule_resize(writer_of(table, **only), LARGE) is None
    second = schedule_resize(writer, SMALL)
    assert pending_resizes(snapshot_of(table).timeline) == (first, second)
    partitions = [
        {each.partition_path for group in plan_of(table, instant).groups for each in group.slices}
        for instant in (first, second)
    ]
    assert partitions == [{"eu"}, {"ap", "us"}]
    assert content_of(table) == before
    run_resize(writer, second)
    check_same(table, before)
    run_resize(writer, first)
    check_same(table, before)
    assert all(len(ring.nodes) > 4 and ring.sequence == 1 for ring in rings_of(table).values())


def test_readers_see_the_old_buckets_until_the_resize_completes(table, monkeypatch):
    before = content_of(table)
    seen = []

    class Looking(LocalEngine):
        def map(self, label, worker, tasks):
            answers = super().map(label, worker, tasks)
            if label == "write the files":
                seen.append(content_of(table))
                check_buckets(table)
            return answers

    resize_buckets(TableWriter(StorageAddress.of(table), Looking(2)), SMALL)
    assert seen
    assert all(each == before for each in seen)


def test_of_two_runs_of_one_plan_one_wins(table):
    instant, before = schedule_resize(writer_of(table), SMALL), content_of(table)
    met = []

    class Racing(LocalEngine):
        def map(self, label, worker, tasks):
            if label == "write the files":
                with pytest.raises(CommitConflict, match="another process runs") as error:
                    run_resize(writer_of(table), instant)
                met.append(error)
            return super().map(label, worker, tasks)

    run_resize(TableWriter(StorageAddress.of(table), Racing(2)), instant)
    assert met
    check_same(table, before)
    with pytest.raises(InvalidInput, match=f"no clustering {instant} pends"):
        run_resize(writer_of(table), instant)


def test_clustering_of_a_table_with_a_ring_is_a_resize(table):
    before = content_of(table)
    small = {
        "hoodie.parquet.max.file.size": "1024",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "1024",
    }
    instant = schedule_clustering(writer_of(table, **small), "val", where="region = 'eu'")
    assert pending_resizes(snapshot_of(table).timeline) == (instant,)
    plan = plan_of(table, instant)
    assert {each.partition_path for group in plan.groups for each in group.slices} == {"eu"}
    assert plan.strategy_params == {"hoodie.clustering.plan.strategy.sort.columns": "val"}
    (result,) = run_pending_clusterings(writer_of(table))
    assert result.instant == instant
    check_same(table, before)
    for each in lakedex.open(table).files():
        if each.partition == "eu" and each.base is not None:
            rows = lakedex.open(table).to_arrow(pc.field("_hoodie_file_name") == each.base.name)
            assert rows["val"].to_pylist() == sorted(rows["val"].to_pylist())
    assert cluster_table(writer_of(table, **small)).file_groups_replaced
    check_same(table, before)
    assert cluster_table(writer_of(table)).file_groups_replaced, "small buckets are merged"
    check_same(table, before)


@pytest.mark.parametrize("verb", [resize_buckets, cluster_table, schedule_clustering])
def test_buckets_of_a_fixed_number_are_not_resized(verb, damage):
    path = str(damage("bucket_simple_mor").path)
    with pytest.raises((InvalidInput, UnsupportedFeature), match="fixed number"):
        verb(writer_of(path))


def test_a_table_without_buckets_is_refused_by_name(damage):
    path = str(damage("cow_nonpartitioned").path)
    with pytest.raises(InvalidInput, match="no bucket index to resize"):
        resize_buckets(writer_of(path))


def files_of(path: str) -> set[str]:
    return {str(each.relative_to(path)) for each in Path(path).rglob("*") if each.is_file()}


def test_a_plan_that_is_taken_back_leaves_nothing(table):
    before, rings = content_of(table), rings_of(table)
    instant = schedule_resize(writer_of(table), SMALL)
    rollback_instant(StorageAddress.of(table), instant)
    assert not snapshot_of(table).timeline.pending()
    check_same(table, before)
    assert rings_of(table) == rings
    resize_buckets(writer_of(table), SMALL)
    check_same(table, before)


def test_a_resize_that_is_rolled_back_brings_the_former_ring_back(table):
    before, rings = content_of(table), rings_of(table)
    groups = {each.id for each in lakedex.open(table).files()}
    result = split_once(table)
    assert rings_of(table) != rings
    rollback_instant(StorageAddress.of(table), result.instant)
    check_same(table, before)
    assert rings_of(table) == rings
    assert {each.id for each in lakedex.open(table).files()} == groups
    assert not [
        each for each in files_of(table) if result.instant in each and "timeline" not in each
    ]


@pytest.mark.parametrize("name", [SPLIT, MERGE], ids=lambda name: name[0])
def test_a_resize_of_hudis_is_taken_back_with_its_ring(name, damage):
    golden, instant = name
    path = str(damage(golden).path)
    first = rings_of(str(damage("bucket_consistent").path))
    done = [each.requested_time for each in snapshot_of(path).timeline.write_instants()]
    rollback_instant(StorageAddress.of(path), done[-1])
    before = content_of(path)
    rollback_instant(StorageAddress.of(path), instant)
    check_same(path, before)
    assert rings_of(path) == first
    assert not list(Path(path, META).rglob(f"{instant}*"))


@pytest.mark.parametrize("name", [SPLIT, MERGE], ids=lambda name: name[0])
def test_a_restore_undoes_resizes(name, damage):
    golden, instant = name
    path = str(damage(golden).path)
    done = [each.requested_time for each in snapshot_of(path).timeline.write_instants()]
    assert done[2] == instant
    expected = {partition: ring.nodes for partition, ring in rings_of(path).items()}
    resize_buckets(writer_of(path), SMALL)
    resize_buckets(writer_of(path), LARGE)
    restore_table(StorageAddress.of(path), done[-1])
    check_buckets(path)
    assert {partition: ring.nodes for partition, ring in rings_of(path).items()} == expected
    restore_table(StorageAddress.of(path), done[1])
    check_buckets(path)
    assert rings_of(path) == rings_of(str(damage("bucket_consistent").path))


def resize_often(path: str, rounds: int) -> list[dict]:
    before = content_of(path)
    for number in range(rounds):
        (split_once, merge_once)[number % 2](path)
    return before


def test_rings_are_found_after_their_instants_are_archived(table):  # case B49
    before = resize_often(table, 6)
    rings = rings_of(table)
    keep = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    compact_table(writer_of(table))
    clean_table(StorageAddress.of(table), keep)
    for _ in range(3):
        resize_often(table, 2)
        clean_table(StorageAddress.of(table), keep)
        if archive_table(StorageAddress.of(table), keep).instants:
            break
    else:
        raise AssertionError("nothing was archived")
    check_same(table, before)
    assert all(ring.sequence > rings[each].sequence for each, ring in rings_of(table).items())
    snapshot = snapshot_of(table)
    for file in Path(table, META).rglob("*.hashing_meta"):
        instant = file.name.removesuffix(".hashing_meta")
        if snapshot.timeline.find(instant) is None:
            assert file.with_suffix(".commit").exists()


def test_outdated_rings_are_cleaned_with_the_files_of_their_instants(table):
    versions = dict.fromkeys(rings_of(table), 1)
    before = resize_often(table, 4)
    kept = {each: len(list(Path(table, META, each).glob("*.hashing_meta"))) for each in versions}
    assert set(kept.values()) == {5}
    instants = [each.requested_time for each in snapshot_of(table).timeline.write_instants()]
    create_savepoint(StorageAddress.of(table), instants[2])
    clean_table(StorageAddress.of(table), {"hoodie.cleaner.commits.retained": "1"})
    assert set(Path(table, META, "eu").glob("*.hashing_meta")) >= {
        Path(table, META, "eu", f"{instants[2]}.hashing_meta")
    }
    check_same(table, before)


def test_clean_removes_rings_that_no_reader_needs(table):
    before = resize_often(table, 4)
    instants = [each.requested_time for each in snapshot_of(table).timeline.write_instants()]
    clean_table(StorageAddress.of(table), {"hoodie.cleaner.commits.retained": "1"})
    for partition in rings_of(table):
        left = sorted(each.name for each in Path(table, META, partition).glob("*.hashing_meta"))
        assert [name.split(".")[0] for name in left] == instants[-2:]
        marks = sorted(each.stem for each in Path(table, META, partition).glob("*.commit"))
        assert marks == instants[-2:]
    check_same(table, before)
    resize_buckets(writer_of(table), SMALL)
    check_same(table, before)


def test_a_record_in_a_foreign_bucket_is_not_lost(table):
    """Its bucket would be one that stays, with perhaps a newer version of the record."""
    one, other = rings_of(table)["eu"].nodes[:2]
    compact_table(writer_of(table))
    (base,) = Path(table, "eu").glob(f"{one.prefix}*.parquet")
    (target,) = Path(table, "eu").glob(f"{other.prefix}*.parquet")
    target.write_bytes(base.read_bytes())
    instant = schedule_resize(writer_of(table), SMALL, MiddlePolicy())
    plan = plan_of(table, instant)
    alone = tuple(g for g in plan.groups if g.slices[0].file_id == other.file_id)
    requested = Path(table, f".hoodie/timeline/{instant}.clustering.requested")
    requested.write_bytes(
        RequestedReplace("CLUSTER", replace(plan, groups=alone), extra={}).encode()
    )
    before = files_of(table)
    with pytest.raises(IndexUnusable, match="is in a bucket that its hash does not belong to"):
        run_resize(writer_of(table), instant)
    assert pending_resizes(snapshot_of(table).timeline) == (instant,)
    assert {each for each in files_of(table) - before if each.startswith("eu/")} == set()


@pytest.mark.parametrize(
    ("damage_extra", "error"),
    [
        ({"clustering.group.sequence.no": "7"}, CommitConflict),
        ({"clustering.group.sequence.no": "x"}, CorruptFile),
        ({"clustering.group.child.node": "[]"}, CorruptFile),
        ({"clustering.group.child.node": "{"}, CorruptFile),
        (
            {
                "clustering.group.child.node": json.dumps(
                    [{"value": 7, "fileIdPrefix": "6c842363-cf3b-413f-bab5-5bd8544fed31",
                      "tag": "REPLACE"}]
                )
            },
            InvalidInput,
        ),
        (
            {
                "clustering.group.child.node": json.dumps(
                    [{"value": 7, "fileIdPrefix": None, "tag": "DELETE"},
                     {"value": 9, "fileIdPrefix": "6c842363-cf3b-413f-bab5-5bd8544fed31",
                      "tag": "REPLACE"}]
                )
            },
            InvalidInput,
        ),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_go_with_the_ring_changes_nothing(damage_extra, error, table):
    before, rings = content_of(table), rings_of(table)
    instant = schedule_resize(writer_of(table), SMALL)
    plan = plan_of(table, instant)
    first = plan.groups[0]
    groups = (replace(first, extra={**first.extra, **damage_extra}), *plan.groups[1:])
    requested = Path(table, f".hoodie/timeline/{instant}.clustering.requested")
    requested.write_bytes(
        RequestedReplace("CLUSTER", replace(plan, groups=groups), extra={}).encode()
    )
    with pytest.raises(error):
        run_resize(writer_of(table), instant)
    assert content_of(table) == before
    rollback_instant(StorageAddress.of(table), instant)
    check_same(table, before)
    assert rings_of(table) == rings


def test_a_bucket_in_a_pending_compaction_is_left_alone(table):
    schedule_compaction(writer_of(table))
    assert schedule_resize(writer_of(table), SMALL) is None
