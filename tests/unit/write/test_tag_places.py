"""Tagging against a plain Python model, for every write index."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.config.write_index import WriteIndex
from lakedex.errors import IndexUnusable
from lakedex.timeline import Action, CommitMetadata
from lakedex.write.rows import DELETE, FILE_ID, KEY, LIVE, PARTITION
from tests.support.table_builder import TableBuilder
from tests.support.tagging import (
    SCHEMA,
    copies_of,
    expected_tags,
    incoming,
    make_partitioned_record_index,
    run_tagging,
    table_rows,
    tags,
)
from tests.support.timeline_files import write_completed, write_pending

ALL = list(WriteIndex)
ODD_KEYS = ["é1", "\uffee", "\U0001f600", "with,comma:colon", " "]


def keys(first: int, last: int) -> list[str]:
    return [f"k{number:03d}" for number in range(first, last)]


def build(
    path: Path, table_type: str, index: WriteIndex, *, copies: bool = True, **options: object
) -> TableBuilder:
    settings = {"record_key": "id", "partition_by": "p", "ordering": "ver", **options}
    builder = TableBuilder(
        path, SCHEMA, table_type=table_type, indexes=["record_index"], **settings
    )
    builder.commit(
        [
            ("a", table_rows(keys(0, 40))),
            ("a", table_rows([*keys(40, 60), *ODD_KEYS])),
            ("b", table_rows(keys(60, 100))),
            ("c-1", table_rows(keys(100, 120))),
        ]
    )
    if copies:
        # As plain inserts of other writers make them: in the same partition and in another.
        builder.commit([("a", table_rows(keys(30, 35), ver=12)), ("b", table_rows(keys(0, 5)))])
    gone = [*keys(10, 20), *keys(70, 75), *ODD_KEYS[:2]]
    updates = table_rows(keys(35, 45), ver=20).append_column("p", pa.repeat("a", 10))
    if table_type == "mor":
        builder.log_commit(updates, gone)
        builder.log_commit(deletes=keys(100, 103))
    else:
        builder.commit(updates=updates, deletes=[*gone, *keys(100, 103)])
    builder.finish()
    if index is WriteIndex.RECORD_LEVEL_INDEX:
        make_partitioned_record_index(builder)
    return builder


def random_rows(seed: int) -> pa.Table:
    rng = random.Random(seed)
    parts = []
    for _ in range(12):
        some = [
            (rng.choice([*keys(0, 130), *ODD_KEYS]), rng.choice(["a", "b", "c-1", "new"]), ver)
            for ver in (rng.choice([None, -5, 5, 10, 12, 15, 20, 25]) for _ in range(25))
        ]
        parts.append(incoming(some, delete=rng.choice(["", "", "", "always", "marked"])))
    return pa.concat_tables(parts)


@pytest.mark.parametrize("update_partition_path", [True, False])
@pytest.mark.parametrize("index", ALL, ids=lambda index: index.value)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_tags_are_those_of_the_model(
    tmp_path: Path, table_type: str, index: WriteIndex, update_partition_path: bool
) -> None:
    builder = build(tmp_path / "t", table_type, index)
    for seed in range(2):
        rows = random_rows(seed)
        tagged = run_tagging(
            builder.path, rows, index, update_partition_path=update_partition_path, buckets=3 + seed
        )
        expected = expected_tags(
            copies_of(builder), rows, index, update_partition_path=update_partition_path
        )
        assert tags(tagged) == expected
        assert {FILE_ID, LIVE}.issubset(tagged.column_names)


@pytest.mark.parametrize("index", ALL, ids=lambda index: index.value)
def test_table_without_partitions(tmp_path: Path, index: WriteIndex) -> None:
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", ordering="ver", indexes=["record_index"]
    )
    rows = table_rows(keys(0, 30)).append_column("p", pa.repeat("x", 30))
    builder.commit([((), rows.slice(0, 15)), ((), rows.slice(15))])
    builder.finish()
    if index is WriteIndex.RECORD_LEVEL_INDEX:
        make_partitioned_record_index(builder)
    some = incoming([(key, "", 11) for key in keys(10, 40)], hive=False)
    expected = expected_tags(copies_of(builder), some, index, update_partition_path=True)
    assert tags(run_tagging(builder.path, some, index)) == expected
    assert sum(tag[3] is not None for tag in expected) == 20


@pytest.mark.parametrize("index", ALL, ids=lambda index: index.value)
def test_empty_table_takes_everything_as_new(tmp_path: Path, index: WriteIndex) -> None:
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", ordering="ver"
    )
    builder.finish()
    rows = pa.concat_tables(
        [incoming([("k1", "a", 1)]), incoming([("k2", "a", 1)], delete="always")]
    )
    assert tags(run_tagging(builder.path, rows, index)) == [
        ("k1", "p=a", False, None, False, "a", 1)
    ]


def test_commit_time_ordering_moves_without_reading_the_old_record(tmp_path: Path) -> None:
    builder = build(tmp_path / "t", "cow", WriteIndex.GLOBAL_SIMPLE, ordering=None, copies=False)
    tagged = run_tagging(
        builder.path, incoming([("k061", "a", -100)]), WriteIndex.GLOBAL_RECORD_LEVEL_INDEX
    )
    assert [(row[PARTITION], row[DELETE], row[LIVE]) for row in tagged.to_pylist()] == [
        ("p=b", True, True),
        ("p=a", False, False),
    ]


@pytest.mark.parametrize("index", [WriteIndex.SIMPLE, WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM])
def test_record_that_stands_in_a_log_file_only(tmp_path: Path, index: WriteIndex) -> None:
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", table_type="mor", metadata=None
    )
    builder.commit([("a", table_rows(keys(0, 10)))])
    [base] = builder.path.glob("p=a/*.parquet")
    before = base.read_bytes()
    builder.commit([("a", table_rows(["other"]))])
    builder.log_commit(table_rows(["k003"], ver=30).append_column("p", pa.array(["a"])))
    # The base file of another table without k003: what is in the log is now an insert.
    twin = TableBuilder(
        tmp_path / "twin", SCHEMA, record_key="id", partition_by="p", table_type="mor"
    )
    twin.commit([("a", table_rows([key for key in keys(0, 10) if key != "k003"]))])
    base.write_bytes(next((tmp_path / "twin").glob("p=a/*.parquet")).read_bytes())
    assert base.read_bytes() != before
    found = tags(run_tagging(builder.path, incoming([("k003", "a", 31)]), index))
    assert found == [("k003", "p=a", False, builder.file_ids[0], True, "a", 31)]


def test_entry_of_a_replaced_group_is_no_place(tmp_path: Path) -> None:
    builder = build(tmp_path / "t", "cow", WriteIndex.GLOBAL_RECORD_LEVEL_INDEX, copies=False)
    [group] = [group for group in builder._groups if group.partition == "p=b"]
    # An overwrite whose writer left the keys of the replaced group in the index (case B22).
    metadata = CommitMetadata(
        {}, {}, operation_type="DELETE_PARTITION", replaced_file_ids={"p=b": (group.file_id,)}
    )
    time, end = "20290101000000000", "20290101000000001"
    write_pending(builder.path / ".hoodie/metadata", time, Action.DELTACOMMIT)
    noted = CommitMetadata({}, {}, operation_type="UPSERT_PREPPED")
    write_completed(builder.path / ".hoodie/metadata", time, end, Action.DELTACOMMIT, noted)
    write_pending(builder.path, time, Action.REPLACECOMMIT)
    write_completed(builder.path, time, end, Action.REPLACECOMMIT, metadata)
    rows = incoming([("k061", "b", 1), ("k062", "a", 1), ("k001", "a", 11)])
    found = tags(run_tagging(builder.path, rows, WriteIndex.GLOBAL_RECORD_LEVEL_INDEX))
    assert [(tag[0], tag[1], tag[3]) for tag in found] == [
        ("k001", "p=a", builder.file_ids[0]),
        ("k061", "p=b", None),
        ("k062", "p=a", None),
    ]


@pytest.mark.parametrize(
    ("has", "asked"),
    [
        (WriteIndex.GLOBAL_RECORD_LEVEL_INDEX, WriteIndex.RECORD_LEVEL_INDEX),
        (WriteIndex.RECORD_LEVEL_INDEX, WriteIndex.GLOBAL_RECORD_LEVEL_INDEX),
    ],
)
def test_record_index_of_the_other_kind_is_refused(
    tmp_path: Path, has: WriteIndex, asked: WriteIndex
) -> None:
    builder = build(tmp_path / "t", "cow", has, copies=False)
    with pytest.raises(IndexUnusable, match=asked.value):
        run_tagging(builder.path, incoming([("k001", "a", 1)]), asked)


@pytest.mark.parametrize(
    "index", [WriteIndex.GLOBAL_RECORD_LEVEL_INDEX, WriteIndex.RECORD_LEVEL_INDEX]
)
def test_keys_of_a_table_without_record_index_are_found_in_its_files(
    tmp_path: Path, index: WriteIndex
) -> None:
    builder = TableBuilder(tmp_path / "t", SCHEMA, record_key="id", partition_by="p")
    builder.commit([("a", table_rows(["k1"]))])
    found = tags(run_tagging(builder.finish(), incoming([("k1", "a", 1), ("k2", "a", 1)]), index))
    assert [(tag[0], tag[3]) for tag in found] == [("k1", builder.file_ids[0]), ("k2", None)]


def test_record_index_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    builder = build(tmp_path / "t", "cow", WriteIndex.GLOBAL_RECORD_LEVEL_INDEX, copies=False)
    (Path(builder.path) / ".hoodie/metadata/.hoodie/hoodie.properties").write_text("")
    with pytest.raises(IndexUnusable, match="no usable record index"):
        run_tagging(builder.path, incoming([("k1", "a", 1)]), WriteIndex.GLOBAL_RECORD_LEVEL_INDEX)


def test_other_columns_stay_with_their_rows(tmp_path: Path) -> None:
    builder = build(tmp_path / "t", "cow", WriteIndex.GLOBAL_SIMPLE)
    rows = incoming([("k003", "b", 11), ("k031", "a", 13), ("nobody", "b", 1), ("k101", "a", 50)])
    rows = rows.set_column(5, "text", pa.array(["t3", "t31", "tn", "t101"]))
    tagged = run_tagging(builder.path, rows, WriteIndex.GLOBAL_SIMPLE)
    want = {"k003": "t3", "k031": "t31", "nobody": "tn", "k101": "t101"}
    for row in tagged.to_pylist():
        assert row["text"] == want[row[KEY]]
        assert row["id"] == row[KEY]
