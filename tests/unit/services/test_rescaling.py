"""Tables with a fixed number of buckets get another one, in one step and with every index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.kinds.bucket.engine import SimpleBuckets
from lakedex.services.index_creating import create_index
from lakedex.services.inline import writer_with_services
from lakedex.services.rescaling import rescale_buckets
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import check_buckets, check_same, content_of, snapshot_of
from tests.support.buckets import assert_in_buckets
from tests.support.history import History, create, writer_of
from tests.support.killing import changes_of, finish_killed
from tests.support.row_model import assert_holds
from tests.support.write_lab import Lab, row, source
from tests.support.write_shapes import Shape

CONFIGS = Path(".hoodie/.bucket_index/partition_bucket_index_meta/configs")


def writer(path: str, **options: str) -> TableWriter:
    return writer_with_services(StorageAddress.of(path), LocalEngine(2), options)


def groups(path: str) -> set:
    return {each.id for each in lakedex.open(path).files()}


@pytest.mark.parametrize("name", ["bucket_simple_cow", "bucket_simple_mor"])
def test_a_table_of_hudis_gets_more_and_fewer_buckets(name, damage):
    path = str(damage(name).path)
    before, keys = content_of(path), ("id",)
    first = len({each.file_id[:8] for each in lakedex.open(path).files()})
    for count in (2 * first + 1, 1, first):
        old = groups(path)
        result = rescale_buckets(writer(path), count)
        assert result.file_groups_replaced == len(old)
        assert groups(path).isdisjoint(old), "every generation has file ids of its own"
        check_same(path, before)
        assert_in_buckets(path, keys, count)
        assert rescale_buckets(writer(path), count).instant is None
    newest = max(Path(path, CONFIGS).iterdir()).read_text()
    config = json.loads(newest)
    assert config["defaultBucketNumber"] == first
    assert config["expressions"] == f".*,{first}"
    assert config["instant"] == result.instant


@pytest.mark.parametrize("style", ["simple", "composite", "nonpartitioned"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writes_go_on_in_the_new_buckets(kind, style, tmp_path):
    shape, path = Shape(kind, "BUCKET", style), str(tmp_path)
    history = History(shape, seed=3, rows=150)
    whole = {"hoodie.metadata.global.record.level.index.enable": "true"}
    own = create(shape, path, whole if style == "nonpartitioned" else {})
    table = writer_of(own)
    if style == "nonpartitioned":
        create_index(table, "on_name", "name")
    create_index(table, "on_n", "n", using="bitmap")
    commits = (each for each in history.commits(9) if each.verb != "cluster")
    for number, commit in enumerate(commits):
        commit.write(shape, table)
        count = (4, 7, 2, 16)[number // 3 % 4]
        if number % 3 == 0:
            rescale_buckets(TableWriter(own), count)
        assert_holds(path, history.model)
        assert_in_buckets(path, shape.key_fields, count)
    check_buckets(path)


def test_some_partitions_get_another_number(tmp_path):
    lab = Lab(tmp_path, "mor", "BUCKET", properties={"hoodie.bucket.index.num.buckets": "2"})
    rows = [row(f"k{n}", place, 1) for n in range(40) for place in "abc"]
    lab.writer.upsert(source(rows))
    rescale_buckets(lab.writer, 5, ["p=b"])
    lab.holds(rows)
    check_buckets(lab.path)
    counts = {p: len([g for g in groups(lab.path) if g.partition == p]) for p in ("p=a", "p=b")}
    assert counts == {"p=a": 2, "p=b": 5}
    newer = [row(f"k{n}", place, 2) for n in range(60) for place in "abcd"]
    lab.writer.upsert(source(newer))
    lab.holds(newer)
    check_buckets(lab.path)
    assert len([each for each in groups(lab.path) if each.partition == "p=b"]) == 5
    rescale_buckets(lab.writer, 3, ["p=b", "p=d"])
    lab.holds(newer)
    rescale_buckets(lab.writer, 3)
    lab.holds(newer)
    check_buckets(lab.path)
    with pytest.raises(InvalidInput, match="no partition 'p=z'"):
        rescale_buckets(lab.writer, 3, ["p=z"])


def test_options_say_the_new_number_from_then_on(tmp_path):  # case B46
    lab = Lab(tmp_path, "cow", "BUCKET", properties={"hoodie.bucket.index.num.buckets": "2"})
    lab.writer.upsert(source([row(f"k{n}", "a", 1) for n in range(20)]))
    rescale_buckets(lab.writer, 6)
    rows = [row(f"k{n}", "a", 2) for n in range(20)]
    with pytest.raises(InvalidInput, match=r"num\.buckets='2' contradicts"):
        lab.writer.with_options({"hoodie.bucket.index.num.buckets": "2"}).upsert(source(rows))
    lab.writer.with_options({"hoodie.bucket.index.num.buckets": "6"}).upsert(source(rows))
    lab.holds(rows)
    check_buckets(lab.path)


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "1 to 1000000"), (10**9, "1 to 1000000"), ("4", "whole number"), (True, "whole number")],
)
def test_a_wrong_number_changes_nothing(count, message, damage):
    path = str(damage("bucket_simple_cow").path)
    before = {str(each) for each in Path(path).rglob("*")}
    with pytest.raises(InvalidInput, match=message):
        rescale_buckets(writer(path), count)
    assert {str(each) for each in Path(path).rglob("*")} == before


def test_a_ring_has_no_number_to_set(damage):
    with pytest.raises(InvalidInput, match="split and merged by their size"):
        rescale_buckets(writer(str(damage("bucket_consistent").path)), 8)


def test_a_rescale_that_is_rolled_back_brings_the_number_back(damage):
    path = str(damage("bucket_simple_mor").path)
    before, old = content_of(path), groups(path)
    done = rescale_buckets(writer(path), 9)
    rollback_instant(StorageAddress.of(path), done.instant)
    assert groups(path) == old
    check_same(path, before)
    again = rescale_buckets(writer(path), 3)
    more = rescale_buckets(writer(path), 11)
    rollback_instant(StorageAddress.of(path), more.instant)
    assert_in_buckets(path, ("id",), 3)
    rollback_instant(StorageAddress.of(path), again.instant)
    assert groups(path) == old
    check_same(path, before)


class Interrupted(LocalEngine):
    def __init__(self, act):
        super().__init__(2)
        self._act = act

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._act is not None:
            act, self._act = self._act, None
            act()
        return answers


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("key", ["k1", "new"])
@pytest.mark.parametrize("place", ["a", "b"])
def test_a_writer_that_began_under_the_old_number_is_refused(place, key, kind, tmp_path):
    """Also where it adds a file group, or a partition, that the rescale did not see."""
    lab = Lab(tmp_path, kind, "BUCKET", properties={"hoodie.bucket.index.num.buckets": "4"})
    rows = [row(f"k{n}", "a", 1) for n in range(3)]
    lab.writer.upsert(source(rows))
    late = TableWriter(
        lab.address, Interrupted(lambda: rescale_buckets(TableWriter(lab.address), 9))
    )
    change = row(key, place, 2)
    with pytest.raises(CommitConflict):
        late.upsert(source([change]))
    lab.holds(rows)
    check_buckets(lab.path)
    lab.writer.upsert(source([change]))
    kept = [each for each in rows if (each["id"], each["p"]) != (key, place)]
    lab.holds([*kept, change])
    check_buckets(lab.path)


@pytest.mark.parametrize("place", ["a", "b"])
def test_a_write_beside_a_rescale_is_rescaled_too(place, tmp_path):
    lab = Lab(tmp_path, "mor", "BUCKET", properties={"hoodie.bucket.index.num.buckets": "4"})
    rows = [row(f"k{n}", "a", 1) for n in range(3)]
    lab.writer.upsert(source(rows))
    new = row("k77", place, 2)
    beside = Interrupted(lambda: TableWriter(lab.address).upsert(source([new])))
    rescale_buckets(TableWriter(lab.address, beside), 9)
    lab.holds([*rows, new])
    check_buckets(lab.path)
    ids = {each.file_id for each in lakedex.open(lab.path).files()}
    assert all(int(each[:8]) < 9 for each in ids)
    assert SimpleBuckets("p=a", 4).file_id(0) not in ids


def rescale(path: str) -> None:
    rescale_buckets(writer(path), 7)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_rescale_that_dies_leaves_the_old_number_or_the_new_one(after, damage, tmp_path):
    origin = str(damage("bucket_simple_mor").path)
    before, old = content_of(origin), groups(origin)
    counted = str(tmp_path / "counted")
    shutil.copytree(origin, counted)
    changes = changes_of(rescale, counted, result=tmp_path / "changes")
    chosen = set(range(0, len(changes), 15))
    chosen.update(n for n, each in enumerate(changes) if "hashing_config" in each)
    chosen.update(n for n, each in enumerate(changes) if ".replacecommit" in each)
    states = set()
    for at in sorted(chosen):
        path = str(tmp_path / f"killed{at}")
        shutil.copytree(origin, path)
        finish_killed(rescale, path, at=at, after=after, result=tmp_path / "end")
        check_same(path, before)
        states.add(groups(path) == old)
        rescale(path)
        check_same(path, before)
        assert_in_buckets(path, ("id",), 7)
        assert not snapshot_of(path).timeline.pending(), at
        shutil.rmtree(path)
    assert True in states
    assert not after or False in states
