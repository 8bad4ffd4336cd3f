"""Lost and damaged hashing metadata: nothing is read or written by them, and `repair` makes them
again from the timeline or the keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CorruptFile, IndexUnusable, LakedexError
from lakedex.index.kinds.bucket.resize import MiddlePolicy, ResizeLimits
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.services.clustering.resizing import resize_buckets, run_resize, schedule_resize
from lakedex.services.inline import writer_with_services
from lakedex.services.repairing import repair_table
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import check_buckets, content_of, rings_of
from tests.support.turns import part_of
from tests.support.write_lab import Lab, row, source

RINGS = ("CONSISTENT_HASHING", "EXTENDIBLE_HASHING")
META = Path(".hoodie/.bucket_index/consistent_hashing_metadata")
EVERY = ResizeLimits(1, split_above=0, merge_below=0, most=64)
FIRST = "00000000000000.hashing_meta"
Damage = Callable[[Path], object]


def lab_of(root: Path, engine: str, kind: str = "cow") -> Lab:
    """Two partitions whose buckets were all split once, and one key of which was deleted since."""
    settings = {"hoodie.index.bucket.engine": engine, "hoodie.bucket.index.num.buckets": "4"}
    lab = Lab(root, kind, "BUCKET", properties=settings)
    lab.writer.upsert(source([row(f"k{n}", p, 1) for n in range(40) for p in ("a", "b")]))
    split(lab.path)
    lab.writer.delete(source([row("k7", "a", 2)]))
    return lab


def writer_of(path: str) -> TableWriter:
    return writer_with_services(StorageAddress.of(path), LocalEngine(2))


def split(path: str) -> str:
    instant = schedule_resize(writer_of(path), EVERY, MiddlePolicy())
    assert instant is not None
    run_resize(writer_of(path), instant)
    return instant


@pytest.fixture(scope="module", params=[(e, k) for e in RINGS for k in ("cow", "mor")], ids=str)
def made(request, tmp_path_factory):
    engine, kind = request.param
    return Path(lab_of(tmp_path_factory.mktemp("made"), engine, kind).path)


@pytest.fixture
def table(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "t"))


def newest(path: Path, partition: str = "p=a") -> Path:
    return max((path / META / partition).glob("*.hashing_meta"), key=lambda each: each.name)


def edited(change: Callable[[dict], object], *, by_hudi: bool) -> Damage:
    """A damage of the nodes, in a file of lakedex's or in one without a checksum, as Hudi's."""

    def damage(path: Path) -> None:
        record = json.loads(newest(path).read_text())
        change(record)
        if by_hudi:
            del record["crc32"]
        newest(path).write_text(json.dumps(record))

    return damage


def lose_gap(record: dict) -> None:
    del record["nodes"][3]


def overlap(record: dict) -> None:
    record["nodes"][3]["value"] = record["nodes"][2]["value"]


def rename(record: dict) -> None:
    record["nodes"][3]["fileIdPrefix"] = "deadbeef-0000-3000-8000-000000000000"


def move(record: dict) -> None:
    record["nodes"][3]["value"] -= 100_000_000


def put_first(path: Path) -> None:
    newest(path).write_bytes((newest(path).parent / FIRST).read_bytes())


def lose_both(path: Path) -> None:
    newest(path).with_suffix(".commit").unlink()
    newest(path).unlink()


DAMAGES: dict[str, Damage] = {
    "missing": lambda path: newest(path).unlink(),
    "missing with its mark": lose_both,
    "missing with all before": lambda path: shutil.rmtree(path / META / "p=a"),
    "missing with the folder": lambda path: shutil.rmtree(path / META.parent),
    "truncated": lambda path: newest(path).write_bytes(newest(path).read_bytes()[:-30]),
    "empty": lambda path: newest(path).write_bytes(b""),
    "no JSON": lambda path: newest(path).write_bytes(b"\xff\x00ring"),
    "gap": edited(lose_gap, by_hudi=False),
    "gap of Hudi": edited(lose_gap, by_hudi=True),
    "overlap": edited(overlap, by_hudi=False),
    "overlap of Hudi": edited(overlap, by_hudi=True),
    "other range": edited(move, by_hudi=False),
    "other file group": edited(rename, by_hudi=False),
    "other file group of Hudi": edited(rename, by_hudi=True),
    "other partition": lambda path: newest(path).write_bytes(newest(path, "p=b").read_bytes()),
    "first one in place of the newest": put_first,
}


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def check_reads(path: Path) -> None:
    """What the table has is found by its key, with the bucket index and without an index."""
    options = lakedex.ReadOptions(weighs_cost=False)
    table = lakedex.open(str(path), options=options)
    for number in (0, 7, 20, 34):
        found = table.to_arrow(f"id = 'k{number}'", columns=["p"])["p"].to_pylist()
        assert sorted(found) == (["b"] if number == 7 else ["a", "b"]), number
    for first in range(10):
        keys = ", ".join(f"'k{number}'" for number in range(first, 40, 10))
        found = table.to_arrow(f"id IN ({keys})", columns=["id"])
        assert found.num_rows == (7 if first == 7 else 8)


def check_repaired(path: Path, rows: list, ring: HashRing | None = None) -> None:
    """The table has the rows, each in its bucket, and takes writes and resizes."""
    assert content_of(str(path)) == rows
    check_buckets(str(path))
    check_reads(path)
    if ring is not None:
        assert rings_of(str(path))["p=a"] == ring
    keys = [f"k{number}" for number in range(0, 80, 3)]
    new = [row(each, "a", 9) for each in keys]
    writer_of(str(path)).upsert(source(new))
    check_buckets(str(path))
    table = lakedex.open(str(path)).to_arrow()
    assert table.num_rows == len(rows) + sum(int(each[1:]) >= 40 for each in keys)


@pytest.mark.parametrize("damage", part_of(DAMAGES, 4))
def test_damaged_metadata_are_named_and_made_again(table, damage):  # case B49
    ring, rows = rings_of(str(table))["p=a"], content_of(str(table))
    DAMAGES[damage](table)
    files = files_of(table)
    check_reads(table)
    writer = writer_of(str(table))
    for act in (
        lambda: writer.upsert(source([row("k1", "a", 5), row("new", "a", 5)])),
        lambda: resize_buckets(writer, EVERY, MiddlePolicy()),
    ):
        with pytest.raises((CorruptFile, IndexUnusable), match=r"hashing_meta.*`lakedex repair`"):
            act()
        assert files_of(table) == files
    report = lakedex.open(str(table)).verify()
    assert report.problems
    assert {each.index for each in report.problems} == {"bucket"}
    for each in report.problems:
        assert "p=a" in each.key + each.detail or damage == "missing with the folder"
        assert "hashing_meta" in each.key + each.detail
        assert "`lakedex repair` makes it again" in each.detail
    done = repair_table(writer)
    assert done.ok
    assert f"{META}/p=a/{ring.instant}.hashing_meta" in done.made
    assert "made again" in str(done)
    check_repaired(table, rows, ring)


@pytest.mark.parametrize("with_deletes", [False, True])
def test_without_plans_the_keys_tell_the_ring(table, with_deletes):
    """No version and no plan is left: of the hash of every key its file group is known."""
    writer = writer_of(str(table))
    if with_deletes:
        # Of some buckets nothing is left, or no more than versions that no query reads.
        writer.delete(source([row(f"k{n}", "a", 3) for n in range(3, 40)]))
    rows = content_of(str(table))
    shutil.rmtree(table / META / "p=a")
    for each in (table / ".hoodie/timeline").glob("*.clustering.requested"):
        each.write_bytes(b"")
    done = repair_table(writer)
    assert done.ok, done
    assert len(done.made) == 1
    assert content_of(str(table)) == rows
    check_buckets(str(table))
    writer.upsert(source([row(f"k{n}", "a", 9) for n in range(60)]))
    check_buckets(str(table))
    found = lakedex.open(str(table)).to_arrow("p = 'a'")["id"].to_pylist()
    assert sorted(found) == sorted(f"k{n}" for n in range(60))


OVERWRITES = ("insert_overwrite", "insert_overwrite_table", "delete_partitions")


@pytest.mark.parametrize(("verb", "is_archived"), part_of(product(OVERWRITES, [False, True]), 3))
def test_metadata_lost_after_an_overwrite(table, verb, is_archived):  # cases B49, B70
    writer = writer_of(str(table))
    if verb == "delete_partitions":
        writer.delete_partitions(["p=a"])
        writer.upsert(source([row(f"k{n}", "a", 4) for n in range(20)]))
    else:
        getattr(writer, verb)(source([row(f"k{n}", "a", 4) for n in range(20)]))
    if is_archived:
        for number in range(5):
            writer.upsert(source([row(f"k{number}", "a", 5)]))
        clean_table(writer.address, options={"hoodie.clean.commits.retained": "1"})
        kept = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
        archive_table(writer.address, options={**kept, "hoodie.clean.commits.retained": "1"})
    ring, rows = rings_of(str(table))["p=a"], content_of(str(table))
    newest(table).unlink()
    files = files_of(table)
    with pytest.raises(LakedexError, match=r"hashing_meta.*`lakedex repair`"):
        writer.upsert(source([row("k1", "a", 5)]))
    assert files_of(table) == files
    done = repair_table(writer)
    assert done.ok, done
    assert content_of(str(table)) == rows
    again = rings_of(str(table))["p=a"]
    if not is_archived:
        assert again == ring
    check_buckets(str(table))
    writer.upsert(source([row(f"k{n}", "a", 9) for n in range(60)]))
    check_buckets(str(table))


def test_rows_in_wrong_buckets_are_not_hidden_by_another_ring(tmp_path):
    lab = lab_of(tmp_path, RINGS[0])
    path = Path(lab.path)
    right, rows = newest(path).read_bytes(), lab.rows()
    # Another writer has had another ring, so that some keys are in two file groups now.
    edited(move, by_hudi=True)(path)
    lab.writer.upsert(source(rows))
    newest(path).write_bytes(right)
    files = files_of(path)
    done = repair_table(lab.writer)
    assert not done.ok
    assert (done.made, done.rebuilt) == ((), ())
    (reason,) = set(done.left.values())
    assert "has keys among those of" in reason
    assert "insert_overwrite" in reason
    assert reason in str(done)
    assert files_of(path) == files
    # Nor is a ring made where none is left.
    shutil.rmtree(path / META / "p=a")
    done = repair_table(lab.writer)
    assert not done.ok
    assert "has keys among those of" in done.left[f"{META}/p=a"]
    assert not (path / META / "p=a").exists()
    lab.writer.insert_overwrite(source(rows))
    assert lab.rows() == rows
    check_buckets(lab.path)


def test_metadata_of_hudi_are_made_again(damage):
    """A table that only Hudi wrote; nothing but the timeline has what its ring became."""
    for name in ("bucket_consistent", "bucket_consistent_split", "bucket_consistent_merge"):
        path = Path(damage(name).path)
        rings, rows = rings_of(str(path)), content_of(str(path))
        shutil.rmtree(path / META / "eu")
        newest(path, "us").write_bytes(b"{")
        with pytest.raises(LakedexError, match=r"`lakedex repair`"):
            writer_of(str(path)).upsert(some_rows(path))
        done = repair_table(writer_of(str(path)))
        assert done.ok, done
        assert content_of(str(path)) == rows
        assert rings_of(str(path)) == rings
        check_buckets(str(path))
        writer_of(str(path)).upsert(some_rows(path))
        check_buckets(str(path))
        assert len(content_of(str(path))) == len(rows)


@pytest.mark.parametrize("name", ["bucket_consistent", "bucket_consistent_split"])
def test_a_table_of_hudi_that_lost_the_folder_is_still_one_with_buckets(name, damage):
    # cases B81, B49
    path = Path(damage(name).path)
    rows, rings = content_of(str(path)), rings_of(str(path))
    shutil.rmtree(path / META.parent)
    files = files_of(path)
    with pytest.raises(IndexUnusable, match=r"hashing metadata.*hoodie\.bucket\.index\.num\.buck"):
        writer_of(str(path)).upsert(some_rows(path))
    assert files_of(path) == files
    count = {"hoodie.bucket.index.num.buckets": "4"}
    assert not lakedex.open(str(path)).verify().ok
    assert not repair_table(writer_of(str(path))).ok
    if name == "bucket_consistent":
        done = repair_table(writer_of(str(path)).with_options(count))
        assert done.ok, done
        assert rings_of(str(path)) == rings
    with_count = writer_of(str(path)).with_options(count)
    if name == "bucket_consistent_split":
        with pytest.raises(IndexUnusable, match=r"hashing_meta.*`lakedex repair`"):
            with_count.upsert(some_rows(path))
        done = repair_table(with_count)
        assert done.ok, done
        assert len(done.made) == 3
    with_count.upsert(some_rows(path))
    check_buckets(str(path))
    assert len(content_of(str(path))) == len(rows)


def some_rows(path: Path) -> ArrowRowSource:
    table = lakedex.open(str(path)).to_arrow()
    own = [name for name in table.column_names if not name.startswith("_hoodie_")]
    return ArrowRowSource(table.select(own))
