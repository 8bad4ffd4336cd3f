"""Virtual log files beside a resize: what readers, indexes and services make of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hudi import HudiTable

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, CorruptFile, FileMissing, InvalidInput, ServicePends
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    NamedLog,
    encode_block,
    encode_virtual_content,
    read_blocks,
)
from lakedex.services.clustering.resizing import run_resize
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.metadata_rebuilding import rebuild_metadata
from lakedex.services.repairing import repair_table
from lakedex.services.rollback import restore_table
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from lakedex.write.verbs import TableWriter
from tests.support.bucket_checks import check_buckets, rings_of, snapshot_of
from tests.support.resizing import (
    DUAL,
    VIRTUAL,
    beside,
    lab_of,
    logs_of,
    plan_merge,
    plan_split,
    rows_of,
)
from tests.support.write_lab import Lab, row, source

KEYS = {"hoodie.metadata.global.record.level.index.enable": "true"}


def blocks_of(lab: Lab, name: str):
    return read_blocks(lab.address.open().source(f"p=a/{name}"))


@pytest.mark.parametrize("plan", [plan_split, plan_merge])
def test_records_are_in_the_log_files_of_the_new_buckets_only(plan, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan(lab)
    written = beside(lab, VIRTUAL).upsert(source(rows_of(50, 2)))
    virtual, real = logs_of(lab.path, written.instant), logs_of(lab.path, instant)
    assert len(virtual) == 2
    named = []
    for log in virtual:
        (block,) = blocks_of(lab, log.name)
        assert block.kind is BlockKind.VIRTUAL
        named += json.loads(block.content.read(0, block.content.size))["logFiles"]
    # Of two buckets that become one each has a log file of its own there.
    assert sorted(each["name"] for each in named) == [each.name for each in real]
    assert len(real) == (4 if plan is plan_split else 2)
    kinds = {block.kind for log in real for block in blocks_of(lab, log.name)}
    assert kinds == {BlockKind.AVRO_DATA}
    assert (written.inserted, written.updated) == (0, 50)
    lab.holds(rows_of(50, 2))
    run_resize(lab.writer, instant)
    lab.holds(rows_of(50, 2))
    check_buckets(lab.path)


def test_hudi_rs_refuses_to_miss_the_rows(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, VIRTUAL).upsert(source(rows_of(50, 2)))
    with pytest.raises(Exception, match="Invalid block type"):
        HudiTable(lab.path).read()
    run_resize(lab.writer, instant)
    assert sum(batch.num_rows for batch in HudiTable(lab.path).read()) == 50


def test_all_indexes_answer_as_a_full_scan_while_the_resize_pends(tmp_path):
    stats = {"hoodie.metadata.index.column.stats.enable": "true"}
    lab = lab_of(tmp_path, **KEYS, **stats)
    lab.writer.upsert(source(rows_of(40, 1)))
    create_index(lab.writer, "on_ver", "ver")
    create_index(lab.writer, "on_x", "x", using="bitmap")
    instant = plan_split(lab)
    many = [row(f"k{number:03d}", "a", 2 + number % 3, number / 4) for number in range(30, 60)]
    beside(lab, VIRTUAL).upsert(source(many))
    beside(lab, VIRTUAL).delete(source(rows_of(5, 9)))
    # An index that is built now reads the new log files, too.
    create_index(lab.writer, "on_p", "p", using="bitmap")
    conditions = [
        *(f"id = 'k{number:03d}'" for number in (1, 10, 33, 59)),
        "id IN ('k007', 'k045')",
        *(f"ver = {version}" for version in (1, 2, 4, 9)),
        *(f"x = {value / 4}" for value in (2, 31, 59)),
        "x > 14",
        "x > 20",
        "ver >= 2 AND x < 8",
        "p = 'a'",
    ]
    expected = [*rows_of(25, 1, 5), *many]
    lab.holds(expected, *conditions)
    for condition in ("id = 'k059'", "x > 14.5", "x = 14.75"):
        assert len(lakedex.open(lab.path).explain(condition).files) == 1, condition
    rebuild_metadata(lab.address, LocalEngine(2), snapshot_of(lab.path).config, None)
    lab.holds(expected, *conditions)
    run_resize(lab.writer, instant)
    lab.holds(expected, *conditions)
    check_buckets(lab.path)


def test_reads_of_the_past_and_of_changes_follow(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    first = beside(lab, VIRTUAL).upsert(source(rows_of(10, 2, 35)))
    second = beside(lab, VIRTUAL).delete(source(rows_of(3, 3, 40)))

    def check() -> None:
        table = lakedex.open(lab.path)
        assert table.to_arrow(as_of=first.instant).num_rows == 45
        assert table.to_arrow(as_of=second.instant).num_rows == 42
        assert table.changes(begin=instant)["ver"].to_pylist() == [2] * 7
        told = table.changes("earliest", cdc=True).to_pylist()
        counts = {}
        for each in told:
            name = (each["ts_ms"] == first.instant, each["op"])
            counts[name] = counts.get(name, 0) + 1
        assert counts == {(False, "i"): 40, (True, "u"): 5, (True, "i"): 5, (False, "d"): 3}

    check()
    run_resize(lab.writer, instant)
    check()
    archive_table(
        lab.address,
        {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"},
    )
    lab.holds([*rows_of(35, 1), *rows_of(5, 2, 35), *rows_of(2, 2, 43)])


def test_a_savepoint_keeps_the_log_files_that_virtual_ones_name(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    saved = beside(lab, VIRTUAL).upsert(source(rows_of(20, 2)))
    create_savepoint(lab.address, saved.instant)
    beside(lab, VIRTUAL).upsert(source(rows_of(10, 3)))
    run_resize(lab.writer, instant)
    for version in (4, 5, 6):
        lab.writer.upsert(source(rows_of(60, version)))
        compact_table(lab.writer)
        clean_table(lab.address, {"hoodie.cleaner.commits.retained": "1"})
    expected = [*rows_of(20, 2), *rows_of(20, 1, 20)]
    past = lakedex.open(lab.path).to_arrow(as_of=saved.instant)
    assert past.num_rows == 40
    restore_table(lab.address, saved.instant)
    lab.holds(expected)
    run_resize(lab.writer, instant)
    # The restore built the metadata table again, without statistics of the new log files.
    assert lab.rows() == lab.rows("ver > 0") == sorted(expected, key=repr)
    assert repair_table(lab.writer).after.ok
    lab.holds(expected, "ver = 2")
    check_buckets(lab.path)


def test_dual_and_virtual_writers_go_on_beside_each_other(tmp_path):
    lab = lab_of(tmp_path, **KEYS)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    for version, writes in enumerate([DUAL, VIRTUAL, VIRTUAL, DUAL, VIRTUAL], start=2):
        beside(lab, writes).upsert(source(rows_of(40 - 5 * version, version, version)))
    expected = lab.rows()
    assert {each["ver"] for each in expected} == {1, 2, 3, 4, 5, 6}
    lab.holds(expected, "id = 'k006'", "ver = 4")
    run_resize(lab.writer, instant)
    lab.holds(expected, "id = 'k006'", "ver = 4")
    check_buckets(lab.path)


def test_of_two_writers_one_wins_and_the_other_leaves_nothing(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    late = lab.meanwhile(lambda: beside(lab, VIRTUAL).upsert(source(rows_of(40, 2))))
    late = TableWriter(lab.address, late.target().engine, VIRTUAL)
    with pytest.raises(CommitConflict):
        late.upsert(source(rows_of(40, 3)))
    assert len(logs_of(lab.path, instant)) == 4
    lab.holds(rows_of(40, 2))


@pytest.mark.parametrize("damage", ["gone", "torn", "other", "empty"])
def test_a_log_file_that_a_virtual_one_names_is_not_missed_in_silence(damage, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    beside(lab, VIRTUAL).upsert(source(rows_of(40, 2)))
    log, other = logs_of(lab.path, instant)[:2]
    data = log.read_bytes()
    if damage == "gone":
        log.unlink()
    elif damage == "torn":
        log.write_bytes(data[:-20] + b"\0" * 20)
    elif damage == "other":
        header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: "{}"}
        block = encode_block(BlockKind.AVRO_DATA, header, b"\0" * 8)
        log.write_bytes(block + b"\0" * (len(data) - len(block)))
    else:
        log.write_bytes(b"")
    with pytest.raises((CorruptFile, FileMissing), match=log.name):
        lab.rows()
    assert not lakedex.open(lab.path).verify().ok
    with pytest.raises((CorruptFile, FileMissing), match=log.name):
        run_resize(lab.writer, instant)
    assert other.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"logFiles": []}', b'{"logFiles": [{"name": "../x", "size": 1}]}'],
)
def test_a_damaged_virtual_log_file_is_named(content, tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    plan_split(lab)
    written = beside(lab, VIRTUAL).upsert(source(rows_of(40, 2)))
    log = logs_of(lab.path, written.instant)[0]
    header = {HeaderKey.INSTANT_TIME: written.instant}
    size = log.stat().st_size
    block = encode_block(BlockKind.VIRTUAL, header, content)
    log.write_bytes(block.ljust(size, b"\0"))
    with pytest.raises(CorruptFile, match=log.name):
        lab.rows()


def test_a_virtual_log_file_names_log_files_only(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    plan_split(lab)
    written = beside(lab, VIRTUAL).upsert(source(rows_of(40, 2)))
    log = logs_of(lab.path, written.instant)[0]
    header = {HeaderKey.INSTANT_TIME: written.instant}
    content = encode_virtual_content([NamedLog(".hoodie_partition_metadata", 1)])
    size = log.stat().st_size
    log.write_bytes(encode_block(BlockKind.VIRTUAL, header, content).ljust(size, b"\0"))
    with pytest.raises(CorruptFile, match="a log file"):
        lab.rows()


def test_a_lost_commit_with_virtual_log_files_is_rebuilt(tmp_path):
    lab = lab_of(tmp_path)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    written = beside(lab, VIRTUAL).upsert(source(rows_of(40, 2)))
    (commit,) = Path(lab.path, ".hoodie", "timeline").glob(f"{written.instant}_*")
    commit.write_bytes(b"damaged")
    assert repair_table(lab.writer).after.ok
    lab.holds(rows_of(40, 2))
    run_resize(lab.writer, instant)
    lab.holds(rows_of(40, 2))
    check_buckets(lab.path)


def test_the_table_keeps_the_option_and_a_later_write_may_say_otherwise(tmp_path):
    lab = lab_of(tmp_path, **VIRTUAL)
    lab.writer.upsert(source(rows_of(40, 1)))
    instant = plan_split(lab)
    lab.writer.upsert(source(rows_of(10, 2)))
    assert len(logs_of(lab.path, instant)) == 4
    said = {"lakedex.bucket.resize.writes": "dual"}
    written = beside(lab, said).upsert(source(rows_of(10, 3)))
    kinds = [blocks_of(lab, each.name)[0].kind for each in logs_of(lab.path, written.instant)]
    assert set(kinds) == {BlockKind.AVRO_DATA}
    with pytest.raises(ServicePends):
        beside(lab, {"lakedex.bucket.resize.writes": "refuse"}).upsert(source(rows_of(10, 4)))
    lab.holds([*rows_of(10, 3), *rows_of(30, 1, 10)])
    run_resize(lab.writer, instant)
    assert len(rings_of(lab.path)["p=a"].nodes) == 4


def test_wrong_options_are_refused(tmp_path):
    lab = lab_of(tmp_path)
    name = "lakedex.bucket.resize.writes"
    with pytest.raises(InvalidInput, match="must be one of refuse, dual, virtual"):
        beside(lab, {name: "both"}).upsert(source(rows_of(4, 1)))
    with pytest.raises(InvalidInput, match="contradicts"):
        beside(lab, {**DUAL, **VIRTUAL}).upsert(source(rows_of(4, 1)))
    plain = Lab(tmp_path / "plain", "mor")
    with pytest.raises(InvalidInput, match="says nothing without"):
        TableWriter(plain.address, LocalEngine(1), VIRTUAL).upsert(source(rows_of(4, 1)))
    properties = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    cow = Lab(tmp_path / "cow", "cow", "BUCKET", properties=properties)
    with pytest.raises(InvalidInput, match="copy-on-write"):
        beside(cow, VIRTUAL).upsert(source(rows_of(4, 1)))
    lab.holds([])
