"""Writers beside a resize: refused or moved to the new buckets, and nothing is lost."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, ServicePends
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.services.clustering.resizing import (
    pending_resizes,
    resize_buckets,
    run_resize,
    schedule_resize,
)
from lakedex.services.inline import writer_with_services
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.write.resizing import ResizeLimits
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import check_buckets, rings_of, snapshot_of
from tests.support.write_lab import Lab, row, source

SPLIT_ALL = ResizeLimits(1, split_above=0, merge_below=0, most=64)
MERGE_ALL = ResizeLimits.of(1 << 20, split=2.0, merge=0.5)
ENGINES = ["CONSISTENT_HASHING", "EXTENDIBLE_HASHING"]


class Interrupted(LocalEngine):
    """Lets something happen once, after data files are written."""

    def __init__(self, act, label="write the files"):
        super().__init__(2)
        self._act, self._label = act, label

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if label == self._label and self._act is not None:
            act, self._act = self._act, None
            act()
        return answers


def lab_of(tmp_path, kind="mor", engine="CONSISTENT_HASHING", **options) -> Lab:
    properties = {
        "hoodie.index.bucket.engine": engine,
        "hoodie.bucket.index.num.buckets": "2",
    }
    return Lab(tmp_path, kind, "BUCKET", properties=properties, **options)


def rows_of(partition: str, count: int, version: int) -> list[dict]:
    return [row(f"k{number:03d}", partition, version, 0.5) for number in range(count)]


def split(writer: TableWriter) -> str:
    instant = schedule_resize(writer, SPLIT_ALL, MiddlePolicy())
    assert instant is not None
    run_resize(writer, instant)
    return instant


@pytest.fixture(params=["cow", "mor"])
def kind(request):
    return request.param


@pytest.mark.parametrize("engine", ENGINES)
def test_updates_of_buckets_under_resize_are_refused(engine, kind, tmp_path):
    lab = lab_of(tmp_path, kind, engine)
    lab.writer.upsert(source([*rows_of("a", 30, 1), *rows_of("b", 30, 1)]))
    only = {"hoodie.clustering.plan.strategy.partition.selected": "p=a"}
    instant = schedule_resize(lab.writer.with_options(only), SPLIT_ALL, MiddlePolicy())
    with pytest.raises(ServicePends, match=instant):
        lab.writer.upsert(source(rows_of("a", 3, 2)))
    lab.writer.upsert(source(rows_of("b", 30, 2)))
    lab.holds([*rows_of("a", 30, 1), *rows_of("b", 30, 2)])
    run_resize(lab.writer, instant)
    lab.writer.upsert(source(rows_of("a", 30, 3)))
    lab.holds([*rows_of("a", 30, 3), *rows_of("b", 30, 2)])
    check_buckets(lab.path)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_writer_that_began_under_the_old_ring_is_moved_to_the_new_one(engine, kind, tmp_path):
    lab = lab_of(tmp_path, kind, engine)
    lab.writer.upsert(source(rows_of("a", 40, 1)))
    done = []

    def resize() -> None:
        # The writer's plan is not on the timeline as one of a resize: it will find the new ring.
        done.append(split(TableWriter(lab.address)))

    TableWriter(lab.address, Interrupted(resize)).upsert(source(rows_of("a", 40, 2)))
    assert done
    lab.holds(rows_of("a", 40, 2))
    check_buckets(lab.path)
    assert len(rings_of(lab.path)["p=a"].nodes) == 4


def test_a_writer_under_several_rings_is_moved_each_time(kind, tmp_path):
    lab = lab_of(tmp_path, kind)
    lab.writer.upsert(source(rows_of("a", 40, 1)))
    acts = []

    class Often(LocalEngine):
        def map(self, label, worker, tasks):
            answers = super().map(label, worker, tasks)
            if label == "write the files" and len(acts) < 3:
                acts.append(1)
                writer = TableWriter(lab.address)
                if len(acts) == 2:
                    resize_buckets(writer, MERGE_ALL)
                else:
                    split(writer)
            return answers

    TableWriter(lab.address, Often(2)).upsert(source(rows_of("a", 40, 2)))
    assert len(acts) == 3
    lab.holds(rows_of("a", 40, 2))
    check_buckets(lab.path)


def test_a_bucket_that_stays_is_written_while_others_are_split(tmp_path, kind):
    lab = lab_of(tmp_path, kind)
    lab.writer.upsert(source(rows_of("a", 40, 1)))
    ring = rings_of(lab.path)["p=a"]
    groups = lakedex.open(lab.path).to_arrow()
    stays = ring.nodes[1].prefix
    names = zip(groups["id"].to_pylist(), groups["_hoodie_file_name"].to_pylist(), strict=True)
    own = [row(key, "a", 2, 0.5) for key, name in names if stays in name]
    assert own

    class OneBucket(MiddlePolicy):
        def changes(self, ring, sizes, limits, hashes):
            found = super().changes(ring, sizes, limits, hashes)
            return [each for each in found if each.numbers == (0,)]

    def resize() -> None:
        instant = schedule_resize(TableWriter(lab.address), SPLIT_ALL, OneBucket())
        (group,) = snapshot_of(lab.path).timeline.requested_replace(instant).clustering.groups
        assert stays not in group.slices[0].file_id
        run_resize(TableWriter(lab.address), instant)

    before = [each.requested_time for each in snapshot_of(lab.path).timeline.write_instants()]
    result = TableWriter(lab.address, Interrupted(resize)).upsert(source(own))
    after = [each.requested_time for each in snapshot_of(lab.path).timeline.write_instants()]
    assert len(after) == len(before) + 2
    assert result.instant < after[-1], "the write was not begun again"
    updated = {each["id"] for each in own}
    lab.holds([*own, *(each for each in rows_of("a", 40, 1) if each["id"] not in updated)])
    check_buckets(lab.path)


def test_a_resize_that_loses_against_a_writer_is_run_again(kind, tmp_path):
    """A write that began before the plan completes while the resize runs."""
    lab = lab_of(tmp_path, kind)
    lab.writer.upsert(source(rows_of("a", 40, 1)))
    met = []

    def write() -> None:
        with pytest.raises(CommitConflict) as conflict:
            lab.writer.upsert(source(rows_of("a", 40, 2)))
        met.append(conflict)

    writer = TableWriter(lab.address, Interrupted(write))
    instant = schedule_resize(writer, SPLIT_ALL, MiddlePolicy())
    run_resize(writer, instant)
    assert met
    lab.holds(rows_of("a", 40, 1))
    check_buckets(lab.path)


def test_a_new_bucket_in_the_place_of_one_that_goes_is_refused(tmp_path, kind):
    """An empty bucket has no file group that a plan could name."""
    lab = lab_of(tmp_path, kind)
    lab.writer.upsert(source(rows_of("a", 1, 1)))
    (group,) = lakedex.open(lab.path).files()
    ring = rings_of(lab.path)["p=a"]
    assert len(ring.nodes) == 2
    many = rows_of("a", 30, 2)

    def schedule() -> None:
        instant = schedule_resize(TableWriter(lab.address), MERGE_ALL)
        (planned,) = snapshot_of(lab.path).timeline.requested_replace(instant).clustering.groups
        assert [each.file_id for each in planned.slices] == [group.file_id]

    other = [each for each in many if each["id"] != "k000"]
    with pytest.raises(CommitConflict, match=r"splits or merges|pending clustering"):
        TableWriter(lab.address, Interrupted(schedule)).upsert(source(other))
    lab.holds(rows_of("a", 1, 1))
    (instant,) = pending_resizes(snapshot_of(lab.path).timeline)
    run_resize(lab.writer, instant)
    lab.writer.upsert(source(many))
    lab.holds(many)
    check_buckets(lab.path)


def test_overwrites_and_resizes_exclude_each_other(tmp_path, kind):
    lab = lab_of(tmp_path, kind)
    lab.writer.upsert(source([*rows_of("a", 30, 1), *rows_of("b", 30, 1)]))
    TableWriter(lab.address, Interrupted(lambda: split(TableWriter(lab.address)))).insert_overwrite(
        source(rows_of("a", 20, 2))
    )
    lab.holds([*rows_of("a", 20, 2), *rows_of("b", 30, 1)])
    check_buckets(lab.path)
    instant = schedule_resize(lab.writer, MERGE_ALL)
    with pytest.raises(CommitConflict, match=instant):
        lab.writer.insert_overwrite(source(rows_of("b", 20, 3)))
    rollback_instant(lab.address, instant)
    lab.writer.insert_overwrite(source(rows_of("b", 20, 3)))
    resize_buckets(lab.writer, MERGE_ALL)
    lab.holds([*rows_of("a", 20, 2), *rows_of("b", 20, 3)])
    check_buckets(lab.path)


@pytest.mark.parametrize("engine", ENGINES)
def test_buckets_are_resized_beside_writes_when_options_say_so(engine, kind, tmp_path):
    lab = lab_of(tmp_path, kind, engine)
    inline = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.class": (
            "org.apache.hudi.client.clustering.plan.strategy."
            "SparkConsistentBucketClusteringPlanStrategy"
        ),
        "hoodie.clustering.execution.strategy.class": (
            "org.apache.hudi.client.clustering.run.strategy."
            "SparkConsistentBucketClusteringExecutionStrategy"
        ),
        "hoodie.parquet.max.file.size": "1500",
        "hoodie.bucket.index.max.num.buckets": "8",
    }
    writer = writer_with_services(StorageAddress.of(lab.path), LocalEngine(2), inline)
    for version in range(1, 7):
        writer.upsert(source(rows_of("a", 20 * version, version)))
    lab.holds(rows_of("a", 120, 6))
    check_buckets(lab.path)
    assert 4 < len(rings_of(lab.path)["p=a"].nodes) <= 8
