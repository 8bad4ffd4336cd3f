"""The files that handles write: footers, meta columns, markers, retries, zombies, statistics."""

from __future__ import annotations

import io
import math
import pickle
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import AlreadyExists, CommitConflict
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer, write_base_file
from lakedex.index.kinds.column_stats.collect import ColumnRanges
from lakedex.schema import parse_avro_record
from lakedex.write.handles import write_groups
from lakedex.write.handles.base_file import key_bounds
from lakedex.write.handles.publishing import Publisher
from tests.unit.write.handle_tables import HandTable, Job, Row

USER = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.float64())])


def row(key, ts, v=1.0, **tags):
    return Row(key, {"id": key, "p": "x", "ts": ts, "v": v}, **tags)


def table_of(root, table_type="cow"):
    return HandTable(root / "t", USER, table_type=table_type, ordering=("ts",))


def committed(table, jobs, **changes):
    instant = table.begin()
    result = write_groups(table.task(instant, jobs, **changes))
    table.complete(instant, result)
    return result


def at(file_id, *, live=True):
    return {"file_id": file_id, "live": live}


def removal(key, file_id, *, live=True):
    return Row(key, {}, delete=True, **at(file_id, live=live))


def test_a_new_base_file_has_hudis_footer_and_meta_columns(tmp_path):
    table = table_of(tmp_path)
    jobs = [Job("a-0", [row("k2", 1), row("k1", 1)]), Job("b-0", [row("k3", 1)])]
    result = committed(table, jobs, number=4)
    file = result.files[0]
    assert (file.num_writes, file.num_inserts, file.prev_commit) == (2, 2, "null")
    assert file.previous_base is None
    path = f"p=x/{file.name}"
    assert file.size == table.storage.size(path)
    footer = read_footer(table.storage.source(path))
    assert (footer.min_key, footer.max_key) == ("k1", "k2")
    schema = parse_avro_record(footer.avro_schema_text)
    assert (schema.full_name, len(schema.fields)) == ("hoodie.t.t_record", 9)
    filter_of_file, _ = result.index_notes["bloom_filters"]
    bloom = BloomFilter.decode(filter_of_file.text, type_code=filter_of_file.type_code)
    assert bloom.contains(pa.array(["k1", "k2", "k3"])).tolist() == [True, True, False]
    assert footer.entries[b"org.apache.hudi.bloomfilter"].decode() == filter_of_file.text
    read = {found["id"]: found for found in table.read()}
    time = file.name.rpartition("_")[2].removesuffix(".parquet")
    assert [read[key]["_hoodie_commit_seqno"] for key in ("k2", "k1", "k3")] == [
        f"{time}_4_{number}" for number in range(3)
    ]
    assert read["k1"]["_hoodie_file_name"] == file.name
    metafile = (table.root / "p=x" / ".hoodie_partition_metadata").read_text()
    assert metafile == f"#partition metadata\ncommitTime={time}\npartitionDepth=1\n"
    assert markers(table) == sorted(f"{f.name}.marker.CREATE" for f in result.files)


def markers(table):
    found = (table.root / ".hoodie" / ".temp").rglob("*.marker.*")
    return sorted(path.name for path in found)


def test_a_merge_keeps_commit_time_and_sequence_number_of_untouched_rows(tmp_path):
    table = table_of(tmp_path)
    first = committed(table, [Job("a-0", [row(f"k{n}", 5) for n in range(4)])]).files[0]
    before = {found["id"]: found for found in table.read()}
    changes = [
        row("k1", 6, **at("a-0")),
        row("k2", 4, **at("a-0")),
        removal("k3", "a-0"),
        row("new", 1),
    ]
    (file,) = committed(table, [Job("a-0", changes)]).files
    assert (file.num_writes, file.num_inserts, file.num_updates, file.num_deletes) == (4, 1, 1, 1)
    assert (file.previous_base, file.prev_commit) == (first.name, first.name[-25:-8])
    after = {found["id"]: found for found in table.read()}
    assert sorted(after) == ["k0", "k1", "k2", "new"]
    for key in ("k0", "k2"):
        assert after[key] == {**before[key], "_hoodie_file_name": file.name}
    assert after["k1"]["_hoodie_commit_time"] == after["new"]["_hoodie_commit_time"]
    assert f"{file.name}.marker.MERGE" in markers(table)


def test_a_merge_in_which_nothing_changes_writes_nothing(tmp_path):
    table = table_of(tmp_path)
    committed(table, [Job("a-0", [row("k", 5)])])
    files, marked = table.data_files(), markers(table)
    late = [row("k", 4, **at("a-0")), removal("gone", "a-0", live=False)]
    result = committed(table, [Job("a-0", late)])
    assert (result.files, result.notes, result.index_notes) == ((), (), {})
    assert (table.data_files(), markers(table)) == (files, marked)


def test_a_merge_that_deletes_all_rows_leaves_an_empty_base_file(tmp_path):
    table = table_of(tmp_path)
    committed(table, [Job("a-0", [row("k", 5)])])
    result = committed(table, [Job("a-0", [removal("k", "a-0")])])
    assert [file.num_writes for file in result.files] == [0]
    assert result.index_notes["column_stats"]["v"].to_pylist()[0]["minimum"] is None
    assert table.read() == []
    again = committed(table, [Job("a-0", [row("k", 1, **at("a-0", live=False))])])
    assert [note["is_delete"] for note in table.notes(again)] == [False]
    assert len(table.read()) == 1


def test_a_removed_key_that_stands_twice_goes_away_wholly(tmp_path):
    # case B71: duplicate keys after plain inserts
    table = table_of(tmp_path)
    committed(table, [Job("a-0", [row("k", 5), row("k", 7), row("other", 1)])])
    assert len(table.read()) == 3
    result = committed(table, [Job("a-0", [removal("k", "a-0")])])
    assert [found["id"] for found in table.read()] == ["other"]
    assert [note["key"] for note in table.notes(result)] == ["k"]
    assert result.files[0].num_deletes == 2


def test_late_and_winning_deletes_in_a_log_are_told_apart(tmp_path):
    user = pa.schema([*USER, ("_hoodie_is_deleted", pa.bool_())])
    table = HandTable(tmp_path / "t", user, table_type="mor", ordering=("ts",))
    committed(table, [Job("a-0", [row(key, 5) for key in ("late", "won", "sure", "stays")])])

    def flagged(key, ts):
        values = {"id": key, "p": "x", "ts": ts, "_hoodie_is_deleted": True}
        return Row(key, values, **at("a-0"))

    changes = [
        flagged("late", 4),
        flagged("won", 5),
        removal("sure", "a-0"),
        row("stays", 9, **at("a-0")),
    ]
    result = committed(table, [Job("a-0", changes, is_log=True)])
    (file,) = result.files
    assert (file.num_writes, file.num_inserts, file.num_updates, file.num_deletes) == (3, 0, 1, 2)
    assert file.previous_base is None
    assert sorted(note["key"] for note in table.notes(result)) == ["sure", "won"]
    assert sorted(found["id"] for found in table.read()) == ["late", "stays"]
    # A version below the delete that is in the log loses to it, one at its height comes back.
    low = committed(table, [Job("a-0", [row("won", 4, **at("a-0", live=False))], is_log=True)])
    assert low.notes == ()
    back = committed(table, [Job("a-0", [row("won", 5, **at("a-0", live=False))], is_log=True)])
    assert [(n["key"], n["is_delete"]) for n in table.notes(back)] == [("won", False)]
    assert sorted(found["id"] for found in table.read()) == ["late", "stays", "won"]


def test_a_log_with_deletes_of_absent_records_only_is_not_written(tmp_path):
    table = table_of(tmp_path, "mor")
    committed(table, [Job("a-0", [row("k", 5)])])
    files = table.data_files()
    gone = [removal("x", "a-0", live=False), Row("y", {}, delete=True)]
    assert committed(table, [Job("a-0", gone, is_log=True)]).files == ()
    assert table.data_files() == files


def test_a_delete_only_log_has_statistics_of_no_rows(tmp_path):
    table = table_of(tmp_path, "mor")
    committed(table, [Job("a-0", [row("k", 5), row("l", 5)])])
    result = committed(table, [Job("a-0", [removal("k", "a-0")], is_log=True)])
    (stats,) = result.index_notes["column_stats"]["v"].to_pylist()
    assert stats["value_count"] == stats["total_size"] == 0
    assert stats["minimum"] is stats["maximum"] is None
    assert [found["id"] for found in table.read()] == ["l"]


def test_older_rows_get_nulls_and_wider_types_when_the_schema_grows(tmp_path):
    table = HandTable(tmp_path / "t", pa.schema([*list(USER)[:2], ("ts", pa.int32())]))
    committed(table, [Job("a-0", [Row("k", {"id": "k", "p": "x", "ts": 5})])])
    table.user = pa.schema([*USER, ("more", pa.list_(pa.field("element", pa.int32())))])
    added = Row("l", {"id": "l", "p": "x", "ts": 1 << 40, "more": [1, None]})
    result = committed(table, [Job("a-0", [added])])
    read = {found["id"]: found for found in table.read()}
    assert (read["k"]["ts"], read["k"]["more"], read["k"]["v"]) == (5, None, None)
    assert (read["l"]["ts"], read["l"]["more"]) == (1 << 40, [1, None])
    assert result.index_notes["column_stats"]["v"].to_pylist()[0]["null_count"] == 2


def test_a_second_attempt_leaves_and_answers_the_same(tmp_path):
    table = table_of(tmp_path, "mor")
    committed(table, [Job("a-0", [row(f"k{n}", 5) for n in range(50)])])
    instant = table.begin()
    jobs = [
        Job("a-0", [row("k1", 9, **at("a-0")), removal("k2", "a-0")], is_log=True),
        Job("b-0", [row("n1", 1, math.nan), row("n2", 1)]),
    ]
    task = pickle.loads(pickle.dumps(table.task(instant, jobs)))
    first = pickle.loads(pickle.dumps(write_groups(task)))
    files = table.data_files()
    second = write_groups(task)
    assert table.data_files() == files
    for name in [file.name for file in first.files]:
        (table.root / "p=x" / name).unlink()
    third = write_groups(task)
    assert table.data_files() == files
    for other in (second, third):
        assert (
            other.files,
            other.index_notes["bloom_filters"],
            other.index_notes["column_stats"],
        ) == (
            first.files,
            first.index_notes["bloom_filters"],
            first.index_notes["column_stats"],
        )
        assert [*map(strip, table.notes(other))] == [*map(strip, table.notes(first))]


def strip(note):
    return (note["bucket"], note["key"], note["file_id"], note["is_delete"])


def test_a_write_that_was_rolled_back_puts_no_file_into_the_table(tmp_path):
    table = table_of(tmp_path)
    instant = table.begin()
    task = table.task(instant, [Job("a-0", [row("k", 1)])])
    (table.root / ".hoodie" / "timeline" / f"{instant}.inflight").unlink()
    with pytest.raises(CommitConflict, match=f"{instant} to table t was rolled back"):
        write_groups(task)
    assert (table.data_files(), markers(table)) == ({}, [])


def test_a_write_that_is_rolled_back_halfway_puts_no_file_into_the_table(tmp_path):
    table = table_of(tmp_path)
    instant = table.begin()
    task = table.task(instant, [Job("a-0", [row("k", 1)])])
    publisher = Publisher(task.facts, table.storage)
    shutil.move(table.root / ".hoodie" / "timeline" / f"{instant}.inflight", tmp_path)
    with pytest.raises(CommitConflict, match="was rolled back"):
        publisher.publish(task.groups[0], b"data")
    assert list(table.data_files()) == [".hoodie_partition_metadata"]
    assert markers(table) == []


def test_an_attempt_that_outlives_its_commit_leaves_no_file(tmp_path):
    table = table_of(tmp_path)
    instant = table.begin()
    task = table.task(instant, [Job("a-0", [row("k", 1)]), Job("b-0", [row("l", 1)])])
    late = Publisher(task.facts, table.storage)
    late.publish(task.groups[0], b"data")
    shutil.rmtree(table.root / ".hoodie" / ".temp")
    (table.root / ".hoodie" / ".lakedex" / "writers" / f"{instant}.json").unlink()
    before = sorted(table.root.rglob("*"))
    with pytest.raises(CommitConflict, match=f"{instant} to table t has ended"):
        late.publish(task.groups[1], b"data")
    with pytest.raises(CommitConflict, match="has ended"):
        late.finish()
    with pytest.raises(CommitConflict, match="has ended"):
        write_groups(task)
    assert sorted(table.root.rglob("*")) == before


def test_a_marker_is_there_before_its_file_can_be(tmp_path, monkeypatch):
    table = table_of(tmp_path)
    task = table.task(table.begin(), [Job("a-0", [row("k", 1)])])
    made = []
    original = type(table.storage).create

    def create(self, path, data, **options):
        made.append(path.rpartition("/")[2])
        original(self, path, data, **options)

    monkeypatch.setattr(type(table.storage), "create", create)
    name = write_groups(task).files[0].name
    expected = [f"{name}.marker.CREATE", ".hoodie_partition_metadata", name]
    assert made[:3] == expected


def test_files_that_need_not_be_durable_still_have_one_maker(tmp_path):
    storage = table_of(tmp_path).storage
    storage.create("folder/empty", b"", durable=False)
    assert storage.read("folder/empty") == b""
    for durable in (False, True):
        with pytest.raises(AlreadyExists):
            storage.create("folder/empty", b"", durable=durable)
    storage.create("folder/full", b"content", durable=False)
    assert storage.read("folder/full") == b"content"


NAN = math.nan
RANGES = [
    (pa.float64(), [1.0, NAN, None], -math.inf, math.inf),
    (pa.float32(), [NAN], -math.inf, math.inf),
    (pa.float64(), [0.0], "-0.0", "0.0"),
    (pa.float64(), [-0.0, -1.0], -1.0, "0.0"),
    (pa.float64(), [None], None, None),
    (pa.int64(), [3, None, -(1 << 63)], -(1 << 63), 3),
    (pa.string(), ["\U0001f600", "\uff5e", "z" * 5000], "z" * 5000, "\U0001f600"),
    (pa.binary(), [b"\xff", b"", None], b"", b"\xff"),
    (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal(7)], Decimal("-1.50"), Decimal("7.00")),
    (pa.bool_(), [True, True], True, True),
    (pa.string(), [], None, None),
]


@pytest.mark.parametrize(("kind", "values", "low", "high"), RANGES)
def test_ranges_cover_all_orders_of_their_values(kind, values, low, high):
    # cases B1, B2: NaN, infinity and negative zero; statistics of long strings
    ranges = ColumnRanges(["c"], pa.schema([("c", kind)]))
    ranges.add("p", "f", pa.table({"c": pa.array(values, kind)}), {"c": (3, 4)})
    (found,) = ranges.tables()["c"].to_pylist()
    shown = [
        str(found[end]) if isinstance(want, str) and kind == pa.float64() else found[end]
        for end, want in (("minimum", low), ("maximum", high))
    ]
    assert shown == [low, high]
    assert (found["value_count"], found["null_count"]) == (len(values), values.count(None))
    assert (found["total_size"], found["total_uncompressed"]) == (3, 4)


def test_sizes_in_statistics_are_those_of_the_column_chunks(tmp_path):
    nested = pa.struct([("x", pa.int32()), ("v", pa.list_(pa.field("element", pa.int32())))])
    table = HandTable(tmp_path / "t", pa.schema([*list(USER)[:2], ("s", nested), *list(USER)[2:]]))
    result = committed(table, [Job("a-0", [row("k", 1), row("l", 2)])])
    chunks = pq.read_metadata(table.root / "p=x" / result.files[0].name).row_group(0)
    by_path = {chunks.column(n).path_in_schema: chunks.column(n) for n in range(chunks.num_columns)}
    for name in ("id", "ts", "v"):
        (stats,) = result.index_notes["column_stats"][name].to_pylist()
        assert stats["total_size"] == by_path[name].total_compressed_size
        assert stats["total_uncompressed"] == by_path[name].total_uncompressed_size


def test_a_float_column_with_a_negative_zero_has_no_dictionary():
    inner = pa.array([{"f": -0.0}], pa.struct([("f", pa.float64())]))
    table = pa.table({"a": [-0.0], "b": [0.0], "c": ["x"], "s": inner, "l": [["x"]]})
    others = {"b", "c", "l.list.element"}
    assert dictionaries(table) == others
    assert dictionaries(table.select(["b", "c", "l"])) == others


def dictionaries(table):
    sink = io.BytesIO()
    chunks = write_base_file(table, sink, avro_schema_text="{}").row_group(0)
    columns = [chunks.column(number) for number in range(chunks.num_columns)]
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


CHARACTERS = st.sampled_from("ab\ud7ff\ue000\uff5e\uffff\U00010000\U0001f600\U0010ffff")


@given(st.lists(st.text(CHARACTERS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_key_bounds_hold_for_java_and_for_everybody_else(keys):
    # case B20: UTF-8 and UTF-16 order of keys
    low, high = key_bounds(pa.array(["a" + key for key in keys]))
    for key in ("a" + key for key in keys):
        assert low <= key <= high
        assert low.encode("utf-16-be") <= key.encode("utf-16-be") <= high.encode("utf-16-be")


@given(st.lists(st.text(CHARACTERS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_key_bounds_always_hold_for_java(keys):
    low, high = (bound.encode("utf-16-be") for bound in key_bounds(pa.array(keys)))
    assert all(low <= key.encode("utf-16-be") <= high for key in keys)


def test_key_bounds_of_a_slice_look_at_the_slice_only():
    keys = pa.array(["\U0001f600", "b", "a", "\uff5e"]).slice(1, 2)
    assert key_bounds(keys) == ("a", "b")
    assert key_bounds(keys.slice(0, 0)) == (None, None)
