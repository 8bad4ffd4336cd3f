"""Writes of tables with a bucket index: every verb, two writers at once, rollbacks and archives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, IndexUnusable, InvalidInput, LakedexError
from lakedex.filegroup import reading, stored_keys
from lakedex.index.kinds.bucket import engine as engines
from lakedex.services.compaction import compact_table
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.storage.local import LocalStorage
from lakedex.txn.transaction import Transaction
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.buckets import assert_in_buckets, places
from tests.support.write_lab import Lab, Row, row, source

ENGINES = ("SIMPLE", "CONSISTENT_HASHING", "EXTENDIBLE_HASHING")
KINDS = ("cow", "mor")
RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"
ROWS = [row(f"k{number:02}", "ab"[number % 2], 5, float(number)) for number in range(40)]


def bucket_lab(root: Path, kind: str = "cow", engine: str = "SIMPLE", **options: str) -> Lab:
    properties = {"hoodie.index.bucket.engine": engine, "hoodie.bucket.index.num.buckets": "4"}
    return Lab(root, kind, "BUCKET", properties={**properties, **options})


def in_buckets(lab: Lab) -> None:
    assert_in_buckets(lab.path, ["id"])


def newest(lab: Lab) -> str:
    return lakedex.open(lab.path).timeline.write_instants()[-1].requested_time


def file_ids(lab: Lab, partition: str = "p=a") -> set[str]:
    return {each.file_id for each in lakedex.open(lab.path).files() if each.partition == partition}


def rings(lab: Lab) -> list[str]:
    folder = Path(lab.path, RINGS)
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*_meta"))


@pytest.mark.parametrize("engine", ENGINES)
def test_inserted_keys_that_are_there_come_beside_their_records_in_base_files(engine, tmp_path):
    """As Hudi's handle for inserts puts rows together without looking at their keys."""
    # cases B53, B55
    lab = bucket_lab(tmp_path, "cow", engine)
    lab.writer.upsert(source(ROWS))
    before = file_ids(lab)
    for verb in (lab.writer.insert, lab.writer.bulk_insert):
        result = verb(source([row("k00", "a", 1)]))
        assert (result.inserted, result.updated) == (1, 0)
    assert file_ids(lab) == before
    lab.holds([*ROWS, row("k00", "a", 1), row("k00", "a", 1)])
    # What changes a record changes all of its copies.
    lab.writer.upsert(source([row("k00", "a", 9)]))
    assert {each["ver"] for each in lab.rows() if each["id"] == "k00"} == {9}
    lab.writer.delete(source([row("k00", "a", 9)]))
    lab.holds(ROWS[1:])


@pytest.mark.parametrize("engine", ENGINES)
def test_inserted_keys_that_are_there_are_merged_in_logs(engine, tmp_path):
    lab = bucket_lab(tmp_path, "mor", engine)
    lab.writer.bulk_insert(source([*ROWS, row("k00", "a", 9), row("k00", "a", 7)]))
    lab.holds([row("k00", "a", 9), *ROWS[1:]])
    lab.writer.insert(source([row("k00", "a", 8), row("k02", "a", 6), row("new", "a", 1)]))
    expected = [row("k00", "a", 9), ROWS[1], row("k02", "a", 6), *ROWS[3:], row("new", "a", 1)]
    lab.holds(expected)
    compact_table(lab.writer)
    lab.holds(expected)
    in_buckets(lab)


@pytest.mark.parametrize("kind", KINDS)
def test_an_insert_may_be_merged_drop_or_refuse_known_keys(kind, tmp_path):
    lab = bucket_lab(tmp_path, kind)
    lab.writer.upsert(source(ROWS))
    some = [row("k00", "a", 9), row("new", "a", 1)]
    policy = "hoodie.datasource.insert.dup.policy"
    with pytest.raises(InvalidInput, match="'k00' is in the table already"):
        TableWriter(lab.address, options={policy: "fail"}).insert(source(some))
    lab.holds(ROWS)
    TableWriter(lab.address, options={policy: "drop"}).insert(source(some))
    lab.holds([*ROWS, row("new", "a", 1)])
    merging = {"hoodie.merge.allow.duplicate.on.inserts": "false"}
    TableWriter(lab.address, options=merging).insert(source(some))
    lab.holds([row("k00", "a", 9), *ROWS[1:], row("new", "a", 1)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_key_comes_back_with_any_ordering_value(kind, engine, tmp_path):  # case B27
    lab = bucket_lab(tmp_path, kind, engine)
    lab.writer.upsert(source(ROWS))
    absent = [row(f"x{number}", "a", 1) for number in range(9)]
    lab.writer.delete(source([*ROWS[:6], *absent, row("y", "no such partition", 1)]))
    lab.holds(ROWS[6:])
    assert not list(Path(lab.path).glob("p=no*"))
    back = [row("k00", "a", 1, 7.0), row("k02", "a", 9), *absent]
    lab.writer.upsert(source(back))
    lab.holds([*ROWS[6:], *back])
    lab.writer.delete(source(back))
    lab.writer.insert(source(back[:2]))
    lab.holds([*ROWS[6:], *back[:2]])
    in_buckets(lab)


def test_no_file_is_read_to_find_a_key(tmp_path, monkeypatch):
    lab = bucket_lab(tmp_path, "mor")
    lab.writer.upsert(source(ROWS))
    opened: list[str] = []
    plain = LocalStorage.source

    def seen(storage: LocalStorage, path: str, *args: int | None) -> object:
        opened.append(path)
        return plain(storage, path, *args)

    monkeypatch.setattr(LocalStorage, "source", seen)
    result = lab.writer.upsert(source([{**each, "ver": 6} for each in ROWS[:9]]))
    assert not [path for path in opened if path.startswith("p=")]
    # Of a file group that is there a log says no more: its rows count as updates, as in Hudi.
    assert (result.updated, result.inserted, result.index_lookups) == (9, 0, 0)
    lab.writer.delete(source(ROWS[:1]))
    assert not [path for path in opened if path.startswith("p=")]
    monkeypatch.undo()
    lab.holds([{**each, "ver": 6} for each in ROWS[1:9]] + ROWS[9:])


def test_only_file_groups_with_deletes_are_searched_and_only_where_rows_go(tmp_path, monkeypatch):
    lab = bucket_lab(tmp_path, "mor")
    lab.writer.upsert(source(ROWS))
    lab.writer.delete(source(ROWS[:2]))
    where = places(lab.path)
    deleted = {each.file_id for each in lakedex.open(lab.path).files() if each.logs}
    assert len(deleted) == 2
    read: set[str] = set()
    plain = reading.read_slice

    def seen(context: object, current: object, *args: object, **named: object) -> object:
        read.add(current.file_id)
        return plain(context, current, *args, **named)

    monkeypatch.setattr(stored_keys, "read_slice", seen)
    elsewhere = [each for each in ROWS[2:] if where[f"p={each['p']}", each["id"]] not in deleted]
    lab.writer.upsert(source(elsewhere[:4]))
    assert not read
    there = next(each for each in ROWS[2:] if where[f"p={each['p']}", each["id"]] in deleted)
    lab.writer.upsert(source([there]))
    assert read == {where[f"p={there['p']}", there["id"]]}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_two_writers_that_begin_a_bucket_exclude_each_other(kind, engine, tmp_path):
    # cases B48, B52, B77: one of them wins, and the bucket has one file group
    lab = bucket_lab(tmp_path, kind, engine)
    lab.writer.upsert(source([row("z", "c", 1)]))
    other = TableWriter(lab.address)
    writer = lab.meanwhile(lambda: other.upsert(source(ROWS[:20])))
    with pytest.raises(CommitConflict, match="file group"):
        writer.upsert(source(ROWS[10:]))
    lab.holds([*ROWS[:20], row("z", "c", 1)])
    before = places(lab.path)
    lab.writer.upsert(source(ROWS[10:]))
    lab.holds([*ROWS, row("z", "c", 1)])
    assert before.items() <= places(lab.path).items()
    in_buckets(lab)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_conflict_is_tried_again_with_the_buckets_as_they_are_then(kind, engine, tmp_path):
    lab = bucket_lab(tmp_path, kind, engine)
    lab.writer.upsert(source(ROWS[:4]))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "2"}
    for act in (
        lambda: TableWriter(lab.address).insert_overwrite(source([row("z", "a", 1)])),
        lambda: TableWriter(lab.address).delete_partitions(["p=a"]),
        lambda: TableWriter(lab.address).insert_overwrite_table(source([row("y", "b", 1)])),
    ):
        interrupted = lab.meanwhile(act)
        interrupted.with_options(retries).upsert(source(ROWS))
        in_buckets(lab)
        assert {each["id"] for each in ROWS} <= {each["id"] for each in lab.rows()}
        assert lakedex.open(lab.path).verify().ok


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_bucket_beside_an_overwrite_is_in_conflict(kind, engine, tmp_path):
    """Neither changes a file group of the other, and yet the bucket would have two."""
    lab = bucket_lab(tmp_path, kind, engine)
    where = file_ids_by_key(tmp_path / "elsewhere", kind, engine)
    first = "k00"
    second = next(key for key in where if where[key] != where[first])
    lab.writer.upsert(source([row(first, "a", 1)]))
    overwriting = lab.meanwhile(lambda: lab.writer.upsert(source([row(second, "a", 1)])))
    with pytest.raises(CommitConflict, match="buckets of partition 'p=a'"):
        overwriting.insert_overwrite(source([row(second, "a", 3)]))
    lab.holds([row(first, "a", 1), row(second, "a", 1)])
    lab.writer.delete(source([row(first, "a", 1), row(second, "a", 1)]))
    third = next(key for key in where if where[key] not in (where[first], where[second]))
    adding = lab.meanwhile(lambda: lab.writer.insert_overwrite(source([row(third, "a", 3)])))
    with pytest.raises(CommitConflict, match="buckets of partition 'p=a'"):
        adding.upsert(source([row(third, "a", 1)]))
    lab.holds([row(third, "a", 3)])
    assert len(rings(lab)) in (0, 2)
    in_buckets(lab)


def file_ids_by_key(root: Path, kind: str, engine: str) -> dict[str, str]:
    lab = bucket_lab(root, kind, engine)
    lab.writer.upsert(source([row(f"k{number:02}", "a", 1) for number in range(40)]))
    return {key: file_id for (_, key), file_id in places(lab.path).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bucket_that_another_engine_began_meanwhile_is_in_conflict(kind, tmp_path, monkeypatch):
    """Of Hudi's file ids of new buckets all but the number is random."""
    lab = bucket_lab(tmp_path, kind)
    lab.writer.upsert(source([row("z", "c", 1)]))

    def names(_: object, numbers: object) -> pa.Array:
        return pa.array([f"{number:08}-1111-4222-8333-444444444444-0" for number in numbers])

    def as_hudi() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(engines.SimpleBuckets, "group_names", names)
            lab.writer.upsert(source([row("k00", "a", 1)]))

    with pytest.raises(CommitConflict, match="buckets of partition 'p=a'"):
        lab.meanwhile(as_hudi).upsert(source(ROWS))
    lab.holds([row("k00", "a", 1), row("z", "c", 1)])
    lab.writer.upsert(source(ROWS))
    lab.holds([*ROWS, row("z", "c", 1)])
    in_buckets(lab)


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_is_rolled_back_leaves_no_hashing_metadata(kind, engine, tmp_path):
    lab = bucket_lab(tmp_path, kind, engine)
    lab.writer.upsert(source(ROWS))
    first = ["p=a/00000000000000.hashing_meta", "p=b/00000000000000.hashing_meta"]
    assert rings(lab) == first
    # One that dies, one that loses, one that is taken back.
    with pytest.raises(CommitConflict):
        lab.meanwhile(lambda: lab.writer.upsert(source(ROWS[:1]))).insert_overwrite(
            source([row("z", "a", 1)])
        )
    assert rings(lab) == first

    def die(*_: object) -> str:
        raise KeyboardInterrupt

    plain = Transaction._complete
    Transaction._complete = die
    try:
        with pytest.raises(KeyboardInterrupt):
            lab.writer.insert_overwrite(source([row("z", "a", 1)]))
    finally:
        Transaction._complete = plain
    assert rings(lab) == first
    lab.holds(ROWS)
    lab.writer.insert_overwrite(source([row("z", "a", 1)]))
    instant = newest(lab)
    assert rings(lab) == [first[0], f"p=a/{instant}.hashing_meta", first[1]]
    assert Path(lab.path, RINGS, f"p=a/{instant}.commit").read_bytes() == b""
    rollback_instant(lab.address, instant)
    assert rings(lab) == first
    assert not Path(lab.path, RINGS, f"p=a/{instant}.commit").exists()
    lab.holds(ROWS)
    lab.writer.upsert(source(ROWS))
    lab.holds(ROWS)
    in_buckets(lab)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_file_groups_are_found_after_archiving_and_a_restore(kind, engine, tmp_path):
    # cases B49, B70
    lab = bucket_lab(tmp_path, kind, engine)
    upkeep = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    writer = TableWriter(lab.address, LocalEngine(2), upkeep)
    writer.upsert(source(ROWS))
    writer.insert_overwrite(source(ROWS[::2]))
    writer.delete_partitions(["p=b"])
    writer.insert_overwrite(source(ROWS[1::2]))
    generation = file_ids(lab), file_ids(lab, "p=b")
    for version in range(6, 12):
        writer.upsert(source([{**each, "ver": version} for each in ROWS]))
        assert (file_ids(lab), file_ids(lab, "p=b")) == generation
    saved = newest(lab)
    create_savepoint(lab.address, saved)
    if kind == "mor":
        compact_table(writer)
    for version in range(12, 16):
        writer.upsert(source([{**each, "ver": version} for each in ROWS]))
    options = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2"}
    clean_table(lab.address, options=options)
    archived = archive_table(lab.address, {**options, "hoodie.keep.max.commits": "3"})
    timeline = lakedex.open(lab.path).timeline
    if archived.instants:
        assert not [i for i in timeline.write_instants() if i.action.value == "replacecommit"]
    writer.upsert(source([{**each, "ver": 16} for each in ROWS]))
    assert (file_ids(lab), file_ids(lab, "p=b")) == generation
    writer.insert_overwrite_table(source(ROWS[:5]))
    restore_table(lab.address, saved)
    lab.holds([{**each, "ver": 11} for each in ROWS])
    writer.upsert(source([{**each, "ver": 17} for each in ROWS]))
    lab.holds([{**each, "ver": 17} for each in ROWS])
    assert (file_ids(lab), file_ids(lab, "p=b")) == generation
    in_buckets(lab)


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_lost_hashing_metadata_are_made_again_or_the_write_is_refused(engine, tmp_path):
    lab = bucket_lab(tmp_path, "cow", engine)
    lab.writer.upsert(source(ROWS))
    shutil.rmtree(Path(lab.path, RINGS))
    lab.writer.upsert(source(ROWS))
    lab.holds(ROWS)
    lab.writer.insert_overwrite(source(ROWS[::2]))
    for each in Path(lab.path, RINGS, "p=a").iterdir():
        each.unlink()
    rows: list[Row] = ROWS[::2]
    with pytest.raises(IndexUnusable, match="hashing"):
        lab.writer.upsert(source(rows))
    for each in Path(lab.path, RINGS, "p=b").glob("*_meta"):
        each.write_text('{"version": 0}')
    with pytest.raises(LakedexError, match="hashing_meta"):
        lab.writer.upsert(source(ROWS[1::2]))
    assert lab.rows() == ROWS


@pytest.mark.parametrize("verb", ["delete_partitions", "insert_overwrite_table"])
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_buckets_whose_file_groups_hudi_replaced_get_others(engine, verb, tmp_path):
    """Hudi stores no hashing metadata then; a row in a file group that is gone is lost to all."""
    lab = bucket_lab(tmp_path, "mor", engine)
    lab.writer.upsert(source(ROWS))
    if verb == "delete_partitions":
        lab.writer.delete_partitions(["p=a"])
    else:
        lab.writer.insert_overwrite_table(source([row("z", "b", 1)]))
    replacing = newest(lab)
    if verb != "delete_partitions":
        lab.writer.delete_partitions(["p=b"])
    for each in Path(lab.path, RINGS).rglob("*"):
        if each.name.startswith("2"):
            each.unlink()
    left = lab.rows()
    for version in (1, 2):
        lab.writer.upsert(source([row("k00", "a", version), row("k02", "a", version)]))
        lab.holds(
            [*left, row("k00", "a", 2), row("k02", "a", 2)]
            if version == 2
            else [*left, row("k00", "a", 1), row("k02", "a", 1)]
        )
    assert any(each.name == f"{replacing}.hashing_meta" for each in Path(lab.path).rglob("*_meta"))
    in_buckets(lab)


class _Twice(LocalEngine):
    """Runs every task twice, as speculation and retries do; only one answer counts."""

    def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
        super().map(label, worker, tasks)
        return super().map(label, worker, tasks)

    @property
    def repeats_tasks(self) -> bool:
        return True


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_run_twice_make_no_second_file_group(kind, engine, tmp_path):  # cases B48, B77
    lab = bucket_lab(tmp_path, kind, engine)
    writer = TableWriter(lab.address, _Twice(2))
    for version in (5, 6):
        writer.upsert(source([{**each, "ver": version} for each in ROWS]))
        lab.holds([{**each, "ver": version} for each in ROWS])
        in_buckets(lab)
    files = {each.name for each in Path(lab.path).rglob("*.parquet") if ".hoodie" not in str(each)}
    assert len(files) == sum(len(file_ids(lab, name)) for name in ("p=a", "p=b")) * (
        2 if kind == "cow" else 1
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_partitions_and_bucket_numbers_are_not_one_text(engine, tmp_path):  # case B47
    properties = {"hoodie.index.bucket.engine": engine, "hoodie.bucket.index.num.buckets": "16"}
    lab = Lab(tmp_path, "cow", "BUCKET", properties=properties)
    rows = [row(f"k{number}", "aaaa1"[3 : 4 + number % 2], 1) for number in range(300)]
    for _ in range(2):
        lab.writer.upsert(source(rows))
        lab.holds(rows)
    assert {len(file_ids(lab, f"p={name}")) for name in ("a", "a1")} == {16}
    assert not file_ids(lab, "p=a") & file_ids(lab, "p=a1")


def test_a_sorted_bulk_insert_sorts_each_bucket(tmp_path):
    lab = bucket_lab(tmp_path)
    rows = [row(f"k{number:03}", "a", 1, float(-number * 7919 % 200)) for number in range(200)]
    lab.writer.bulk_insert(ArrowRowSource(pa.Table.from_pylist(rows)), "x")
    in_buckets(lab)
    table = lakedex.open(lab.path).to_arrow(columns=["x", "_hoodie_file_name"])
    for name in table["_hoodie_file_name"].unique().to_pylist():
        own = table.filter(pa.compute.equal(table["_hoodie_file_name"], name))["x"].to_pylist()
        assert own == sorted(own)
