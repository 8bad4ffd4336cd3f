"""Duplicate keys after plain inserts (case B71).

A delete removes every copy, an update reaches all that are older, and indexes know those that stay.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.config.keys import (
    INDEX_DEFS_PATH,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
)
from lakedex.config.write_index import WriteIndex
from lakedex.errors import InvalidInput
from lakedex.services.index_creating import create_index
from lakedex.table.snapshot import Snapshot
from lakedex.timeline import update_properties
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.unique_keys import noted_unique
from tests.support.write_lab import SCHEMA, Lab, Row, row, source

# In a bucket index a key has one file group: see `test_bucket_writes`.
INDEXES = [index.value for index in WriteIndex if index is not WriteIndex.BUCKET]
RECORD_INDEXES = [index.value for index in WriteIndex if index.uses_record_index]
KINDS = ["cow", "mor"]
MARKED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))


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
    dropping.insert(source([row("f", "p", 9), row("f", "p", 9), row("i", "p", 1)]))
    assert is_noted()
    dropping.insert(source([row("i", "p", 9), row("j", "p", 1), row("j", "p", 2)]))
    assert not is_noted()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"])
def test_a_policy_for_inserts_looks_at_the_table_and_not_at_the_other_rows(tmp_path, kind, index):
    lab = Lab(tmp_path, kind, index)
    lab.writer.insert(source([row("a", "p", 1)]))
    rows = [row("a", "p", 2), row("b", "p", 1), row("a", "p", 3), row("b", "p", 2)]
    dropping = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "drop"})
    dropping.insert(source(rows))
    assert lab.rows() == [row("a", "p", 1), row("b", "p", 1), row("b", "p", 2)]
    failing = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "fail"})
    with pytest.raises(InvalidInput, match="'a' is in the table already"):
        failing.insert(source([row("c", "p", 1), row("a", "p", 4), row("a", "p", 5)]))
    failing.insert(source([row("c", "p", 1), row("c", "p", 2)]))
    for indexes in (True, False):
        assert lab.rows("id > 'a'", indexes=indexes) == [
            row(key, "p", version) for key in "bc" for version in (1, 2)
        ]
    # The older option reduces the rows, too, and so does the one that combines them.
    older = lab.writer.with_options({"hoodie.datasource.write.insert.drop.duplicates": "true"})
    older.insert(source([row("a", "p", 6), row("d", "p", 1), row("d", "p", 2)]))
    dropping.with_options({"hoodie.combine.before.insert": "true"}).insert(
        source([row("e", "p", 2), row("e", "p", 1)])
    )
    lab.writer.delete(source([row("b", "p", 1), row("c", "p", 1)]))
    lab.holds([row("a", "p", 1), row("d", "p", 2), row("e", "p", 2)], "id = 'd'")


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


def marked(found: Row, *, gone: bool = False) -> Row:
    return found | {"_hoodie_is_deleted": gone}


def global_lab(root: Path, kind: str, index: str, schema: pa.Schema = SCHEMA) -> Lab:
    """A table whose keys are found in its files, and that has a record index beside."""
    wanted = {"hoodie.metadata.record.index.enable": "true"}
    return Lab(root, kind, index, schema=schema, properties=wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_indexes_keep_a_key_whose_other_copy_goes(tmp_path: Path, kind: str, index: str) -> None:
    lab = global_lab(tmp_path, kind, index)
    lab.writer.insert(source([row("a", "p", 1), row("b", "p", 1)]))
    create_index(lab.writer, "by_x", "x")
    lab.writer.insert(source([row("a", "q", 1), row("c", "q", 1)]))
    # The copy in `p` is updated; that in `q` would belong there, too, and is taken away.
    lab.writer.upsert(source([row("a", "p", 2)]))
    left = [row("b", "p", 1), row("c", "q", 1)]
    lab.holds([row("a", "p", 2), *left], "id = 'a'", "x = 0.0")
    lab.writer.upsert(source([row("a", "q", 3)]))
    lab.holds([row("a", "q", 3), *left], "id = 'a'", "x = 0.0")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_indexes_keep_a_key_whose_newer_copy_stays(tmp_path: Path, kind: str, index: str) -> None:
    lab = global_lab(tmp_path, kind, index, MARKED)
    lab.writer.insert(source([marked(row("a", "p", 5)), marked(row("b", "p", 1))], MARKED))
    create_index(lab.writer, "by_x", "x")
    lab.writer.insert(source([marked(row("a", "q", 1)), marked(row("c", "q", 1))], MARKED))
    # It is newer than the copy in `q`, to which the entry leads, and older than that in `p`.
    lab.writer.upsert(source([marked(row("a", "q", 3), gone=True)], MARKED))
    left = [row("a", "p", 5), row("b", "p", 1), row("c", "q", 1)]
    lab.holds(left, "id = 'a'", "x = 0.0")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [each for each in INDEXES if each not in RECORD_INDEXES])
def test_an_update_reaches_every_copy_that_is_older(tmp_path: Path, kind: str, index: str) -> None:
    lab = with_copies(tmp_path, kind, index)
    lab.writer.insert(source([row("a", "p", 8, 6.0)]))
    result = lab.writer.upsert(source([row("a", "p", 7, 9.0), row("b", "p", 2)]))
    assert result.updated >= 6
    assert [found["x"] for found in lab.rows("id = 'a'")] == [9.0] * 5 + [6.0]
    lab.writer.delete(keys("a"))
    lab.holds([row("b", "p", 2), row("c", "q", 1)], "id = 'a'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", RECORD_INDEXES)
def test_rows_that_are_marked_as_deleted_take_every_copy_away(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index, schema=MARKED)
    for there in ("ab", "a", "a"):
        lab.writer.bulk_insert(source([marked(row(key, "p", 1)) for key in there], MARKED))
    gone = [marked(row("a", "p", 2), gone=True), marked(row("c", "p", 1))]
    assert lab.writer.upsert(source(gone, MARKED)).deleted == 3
    lab.holds([row("b", "p", 1), row("c", "p", 1)], "id = 'a'", "id = 'c'")


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_inserts_merge_with_the_records_of_their_keys_where_duplicates_are_forbidden(
    tmp_path, kind, index
):
    lab = Lab(tmp_path, kind, index)
    lab.writer.insert(source([row("a", "p", 5), row("b", "p", 5)]))
    merging = lab.writer.with_options({"hoodie.merge.allow.duplicate.on.inserts": "false"})
    rows = [row("a", "p", 4, 9.0), row("b", "p", 6, 9.0), row("c", "p", 1), row("c", "p", 2, 2.0)]
    result = merging.insert(source(rows))
    assert result.operation == "INSERT"
    lab.holds([row("a", "p", 5), row("b", "p", 6, 9.0), row("c", "p", 2, 2.0)], "id = 'b'")
    dropping = merging.with_options({"hoodie.datasource.insert.dup.policy": "drop"})
    dropping.insert(source([row("b", "p", 7, 7.0), row("d", "p", 1)]))
    kept = [row("a", "p", 5), row("b", "p", 6, 9.0), row("c", "p", 2, 2.0), row("d", "p", 1)]
    lab.holds(kept, "id = 'b'")
