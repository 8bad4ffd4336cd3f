"""Keys that stand several times after plain inserts: a delete removes every copy (traps: B71)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.config.keys import (
    INDEX_DEFS_PATH,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
)
from lakedex.config.write_index import WriteIndex
from lakedex.table.snapshot import Snapshot
from lakedex.timeline import update_properties
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.unique_keys import noted_unique
from tests.support.write_lab import Lab, Row, row, source

INDEXES = [index.value for index in WriteIndex]
RECORD_INDEXES = [index.value for index in WriteIndex if index.uses_record_index]
KINDS = ["cow", "mor"]


def labelled(key: str, partition: str = "p", version: int = 1) -> list[Row]:
    """Three copies of a key that a reader can tell apart."""
    return [row(key, partition, version, x) for x in (1.0, 2.0, 3.0)]


def with_copies(root: Path, kind: str, index: str) -> Lab:
    """The key `a` stands three times in one file and twice more in another one."""
    lab = Lab(root, kind, index)
    lab.writer.upsert(source([row("b", "p", 1), row("c", "q", 1)]))
    # A file of its own for each insert, then rows that fill up the smallest one.
    lab.writer.bulk_insert(source(labelled("a")))
    lab.writer.bulk_insert(source([row("a", "p", 1, 4.0), row("a", "p", 1, 5.0)]))
    assert len(lab.rows("id = 'a'")) == 5
    assert len(copies_by_file(lab)) == 2
    return lab


def copies_by_file(lab: Lab) -> dict[str, int]:
    names = lakedex.open(lab.path).to_arrow("id = 'a'")["_hoodie_file_name"].to_pylist()
    return {name: names.count(name) for name in names}


def keys(*names: str) -> ArrowRowSource:
    return source([row(name, "p", 1) for name in names])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
def test_delete_removes_every_copy_of_a_key(tmp_path: Path, kind: str, index: str) -> None:
    lab = with_copies(tmp_path, kind, index)
    result = lab.writer.delete(keys("a", "unknown"))
    assert result.deleted == 5
    lab.holds([row("b", "p", 1), row("c", "q", 1)], "id = 'a'", "id = 'b'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_delete_by_condition_removes_every_copy(tmp_path: Path, kind: str, index: str) -> None:
    lab = with_copies(tmp_path, kind, index)
    lab.writer.delete_where("id = 'a'")
    lab.holds([row("b", "p", 1), row("c", "q", 1)], "id = 'a'")


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"])
def test_copies_under_log_files_go_too(tmp_path: Path, index: str) -> None:
    lab = with_copies(tmp_path, "mor", index)
    lab.writer.upsert(source([row("a", "p", 7, 9.0), row("b", "p", 2)]))
    assert [found["x"] for found in lab.rows("id = 'a'")].count(9.0) >= 1
    lab.writer.delete(keys("a"))
    lab.holds([row("b", "p", 2), row("c", "q", 1)], "id = 'a'")
    lab.writer.upsert(source([row("a", "p", 1)]))
    lab.holds([row("a", "p", 1), row("b", "p", 2), row("c", "q", 1)], "id = 'a'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_a_global_index_finds_copies_in_other_partitions(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index)
    lab.writer.upsert(source([row("b", "q", 1)]))
    lab.writer.insert(source([row("a", "p", 1)]))
    lab.writer.insert(source([row("a", "q", 1), row("a", "r", 1)]))
    assert lab.writer.delete(keys("a")).deleted == 3
    lab.holds([row("b", "q", 1)], "id = 'a'")


@pytest.mark.parametrize(("kind", "index"), [*zip(KINDS, RECORD_INDEXES, strict=True)])
def test_files_are_searched_only_where_a_key_may_stand_twice(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index)

    def is_noted() -> bool:
        return noted_unique(Snapshot.open(lab.address.open()).timeline)

    lab.writer.upsert(source([row(key, "p", 1) for key in "abcdef"]))
    assert is_noted()
    lab.writer.delete(keys("a"))
    assert is_noted()
    lab.writer.insert(source([row("g", "p", 1)]))
    # The insert did not look, so nobody knows; the next delete counts, and says what it found.
    assert not is_noted()
    lab.writer.upsert(source([row("g", "p", 2)]))
    assert not is_noted()
    lab.writer.delete(keys("b"))
    assert is_noted()
    lab.writer.insert(source([row("c", "p", 1)]))
    lab.writer.delete(keys("d"))
    assert not is_noted()
    lab.writer.delete(keys("c"))
    lab.writer.delete(keys("e"))
    assert is_noted()
    dropping = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "drop"})
    dropping.insert(source([row("f", "p", 1), row("h", "p", 1)]))
    assert is_noted()
    lab.holds([row("f", "p", 1), row("g", "p", 2), row("h", "p", 1)], "id = 'c'")


def test_a_count_is_not_believed_when_another_writer_was_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "cow", "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    lab.writer.insert(source([row("c", "r", 1)]))
    # This delete counted before the second copy of `b` came.
    other = lab.meanwhile(lambda: lab.writer.insert(source([row("b", "s", 1)])))
    other.delete(keys("a"))
    assert not noted_unique(Snapshot.open(lab.address.open()).timeline)
    lab.writer.delete(source([row("b", "q", 1)]))
    lab.holds([row("c", "r", 1)], "id = 'b'")


def test_a_table_that_lost_its_index_is_not_said_to_have_unique_keys(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "cow", "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("b", "p", 1), row("c", "q", 1)]))
    lab.writer.insert(source(labelled("a")))
    shutil.rmtree(Path(lab.path) / ".hoodie/metadata")
    gone = {METADATA_PARTITIONS: None, METADATA_PARTITIONS_INFLIGHT: None, INDEX_DEFS_PATH: None}
    update_properties(lab.address.open(), gone)
    # This one builds the index anew; it has looked into the files, for its own key only.
    lab.writer.delete(keys("b"))
    assert not noted_unique(Snapshot.open(lab.address.open()).timeline)
    lab.writer.delete(keys("a"))
    lab.holds([row("c", "q", 1)], "id = 'a'")
