"""BLOOM indexes read the keys of those files only that may hold a key of the write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.config.write_index import WriteIndex
from lakedex.errors import CorruptFile
from lakedex.format.parquet import footer as footer_keys
from lakedex.write.rows import FILE_ID
from lakedex.write.tag import locations
from tests.support.table_builder import TableBuilder
from tests.support.tagging import SCHEMA, incoming, run_tagging, table_rows, tags

BOTH = pytest.mark.parametrize("index", [WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM])


def build(path: Path, *groups: tuple[str, list[str]], table_type: str = "cow") -> TableBuilder:
    # Without a metadata table files may change their size.
    builder = TableBuilder(
        path,
        SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ver",
        table_type=table_type,
        metadata=None,
    )
    builder.commit([(partition, table_rows(keys)) for partition, keys in groups])
    return builder


def base_file(builder: TableBuilder, number: int) -> Path:
    group = builder._groups[number]
    return builder.path / group.partition / group.base_name


def break_pages(builder: TableBuilder, number: int) -> None:
    """Spoil everything but the footer."""
    file = base_file(builder, number)
    data = bytearray(file.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little")
    data[4 : len(data) - 8 - footer] = b"\xff" * (len(data) - 12 - footer)
    file.write_bytes(data)


def set_footer(builder: TableBuilder, number: int, **changed: bytes | None) -> None:
    """Write a base file anew with other footer entries."""
    file = base_file(builder, number)
    table = pq.read_table(file, partitioning=None)
    entries = dict(table.schema.metadata)
    for name, value in changed.items():
        key = getattr(footer_keys, name)
        entries.pop(key, None)
        if value is not None:
            entries[key] = value
    pq.write_table(table.replace_schema_metadata(entries), file)


def places(builder: TableBuilder, rows: pa.Table, index: WriteIndex) -> dict[str, str | None]:
    return {tag[0]: tag[3] for tag in tags(run_tagging(builder.path, rows, index))}


@BOTH
def test_files_whose_filter_says_no_are_not_read(tmp_path: Path, index: WriteIndex) -> None:
    odd = [f"k{number:04d}" for number in range(1, 400, 2)]
    even = [f"k{number:04d}" for number in range(0, 400, 2)]
    builder = build(tmp_path / "t", ("a", odd), ("a", even))
    break_pages(builder, 1)
    # Two other keys are false positives of this filter.
    rows = incoming([(key, "a", 11) for key in odd[30:75]])
    assert set(places(builder, rows, index).values()) == {builder.file_ids[0]}
    with pytest.raises(CorruptFile):
        places(builder, incoming([(even[3], "a", 11)]), index)


@BOTH
def test_files_whose_range_says_no_are_not_read(tmp_path: Path, index: WriteIndex) -> None:
    builder = build(tmp_path / "t", ("a", ["a1", "a5"]), ("a", ["m1", "m5"]), ("a", ["x1"]))
    for number in range(3):
        set_footer(builder, number, BLOOM_FILTER=None)
    break_pages(builder, 0)
    break_pages(builder, 2)
    rows = incoming([("m1", "a", 11), ("m2", "a", 11), ("a6", "a", 1), ("x0", "a", 1)])
    found = places(builder, rows, index)
    assert found == {"m1": builder.file_ids[1], "m2": None, "a6": None, "x0": None}


def test_other_partitions_are_not_touched_by_the_local_index(tmp_path: Path) -> None:
    builder = build(tmp_path / "t", ("a", ["k1"]), ("b", ["k1"]), ("c", ["k2"]))
    base_file(builder, 1).unlink()
    base_file(builder, 2).write_bytes(b"no Parquet at all")
    # Both keys come in, each for a partition whose file has the other one.
    rows = incoming([("k1", "a", 11)])
    assert places(builder, rows, WriteIndex.BLOOM) == {"k1": builder.file_ids[0]}
    builder = build(tmp_path / "u", ("a", ["k1"]), ("b", ["k2"]))
    for number in range(2):
        break_pages(builder, number)
    rows = incoming([("k2", "a", 11), ("k1", "b", 11)])
    assert places(builder, rows, WriteIndex.BLOOM) == {"k1": None, "k2": None}


@BOTH
def test_a_file_without_a_usable_filter_is_read(tmp_path: Path, index: WriteIndex) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k9"]), ("a", ["k2", "k8"]))
    set_footer(builder, 0, BLOOM_FILTER=None, MIN_RECORD_KEY=None, MAX_RECORD_KEY=None)
    set_footer(builder, 1, BLOOM_FILTER=b"/////wAAAAcAAAAAYBIAAAAgAEACAAIAQA==")
    rows = incoming([(f"k{number}", "a", 11) for number in range(1, 10)])
    found = places(builder, rows, index)
    assert {key for key, file_id in found.items() if file_id} == {"k1", "k9", "k2", "k8"}


@BOTH
def test_key_range_in_the_order_of_the_jvm(tmp_path: Path, index: WriteIndex) -> None:
    """Case B20: U+FFEE is below U+1F600 by bytes and above it by UTF-16 units."""
    low, high = "\U0001f600", "\uffee"
    builder = build(tmp_path / "t", ("a", [low, high, "\U0001f64f"]))
    set_footer(builder, 0, MIN_RECORD_KEY=low.encode(), MAX_RECORD_KEY=high.encode())
    rows = incoming([(low, "a", 11), (high, "a", 11), ("\U0001f64f", "a", 11), ("z", "a", 1)])
    found = places(builder, rows, index)
    assert [key for key, file_id in found.items() if file_id is None] == ["z"]


@BOTH
def test_dynamic_filter_with_several_rows(tmp_path: Path, index: WriteIndex) -> None:
    """The golden filter of eight keys in two rows, made for three."""
    text = b"/////wAAAAQBAAAADwAAAAMAAAAFAAAAAv////8AAAAEAQAAAA+9L/////8AAAAEAQAAAA9KPg=="
    names = [f"k{number}" for number in range(8)]
    builder = build(tmp_path / "t", ("a", names))
    set_footer(builder, 0, BLOOM_FILTER=text, BLOOM_TYPE_CODE=b"DYNAMIC_V0")
    for name in names:
        rows = incoming([(name, "a", 11)])
        assert places(builder, rows, index) == {name: builder.file_ids[0]}


@BOTH
def test_log_files_do_not_make_a_slice_a_candidate(tmp_path: Path, index: WriteIndex) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k2", "k3"]), ("a", ["k4"]), table_type="mor")
    builder.log_commit(table_rows(["k1"], ver=20).append_column("p", pa.array(["a"])), ["k3"])
    break_pages(builder, 0)
    assert places(builder, incoming([("k4", "a", 11)]), index) == {"k4": builder.file_ids[1]}
    with pytest.raises(CorruptFile):
        places(builder, incoming([("k3", "a", 11)]), index)


@pytest.mark.parametrize(
    "index",
    [WriteIndex.SIMPLE, WriteIndex.GLOBAL_SIMPLE, WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM],
)
def test_more_keys_than_fit_in_one_round(
    tmp_path: Path, index: WriteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations.incoming_keys, "__defaults__", (50,))
    keys = [f"k{number:04d}" for number in range(600)]
    groups = [("a", keys[start : start + 100]) for start in range(0, 600, 100)]
    builder = build(tmp_path / "t", *groups)
    rows = incoming([(key, "a", 11) for key in keys[::2]] + [("new", "a", 1)])
    found = run_tagging(builder.path, rows, index, buckets=8)
    assert found[FILE_ID].null_count == 1
    want = {key: builder.file_ids[number // 100] for number, key in enumerate(keys)}
    got = {tag[0]: tag[3] for tag in tags(found)}
    assert got == {key: want.get(key) for key in [*keys[::2], "new"]}
