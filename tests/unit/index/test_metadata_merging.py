"""Merging metadata cells: last one wins, file maps unite, statistics widen, deletes remove."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakedex.index.metadata_table.group_reader import record_schema
from lakedex.index.metadata_table.merging import CellBatch, merge_batches
from lakedex.index.metadata_table.partitions import metadata_partition

FILES = metadata_partition("files")
STATS = metadata_partition("partition_stats")
SECONDARY = metadata_partition("secondary_index_x")


def batch(partition, records):
    schema = record_schema(partition)
    payload = partition.payloads[0]
    rows = [{"type": 1, payload: value} for value in records.values()]
    keys = pa.array(list(records), pa.string())
    return CellBatch(keys, pa.Table.from_pylist(rows, schema=schema))


def deletes(*keys):
    return CellBatch(pa.array(keys, pa.string()), None)


def merged(partition, *batches):
    found = merge_batches(partition, record_schema(partition), batches)
    payload = partition.payloads[0]
    return {row["key"]: row[payload] for row in found.to_pylist()}


def files(**sizes):
    return [(n, {"size": s or 0, "isDeleted": s is None}) for n, s in sizes.items()]


def sizes(entries):
    return {name: info["size"] for name, info in entries}


def test_file_maps_unite_and_deleted_files_leave():
    found = merged(
        FILES,
        batch(FILES, {"p": files(a=1, b=2), "q": files(x=9)}),
        batch(FILES, {"p": files(b=None, c=3)}),
        batch(FILES, {"p": files(a=5)}),
    )
    assert {key: sizes(value) for key, value in found.items()} == {
        "p": {"a": 5, "c": 3},
        "q": {"x": 9},
    }


NAMES = st.sampled_from("abc")
ONE = st.dictionaries(
    st.sampled_from("pq"), st.dictionaries(NAMES, st.one_of(st.none(), st.integers(1, 9)))
)


@given(st.lists(st.one_of(ONE, st.sets(st.sampled_from("pq"))), min_size=1, max_size=5))
def test_file_maps_merge_as_one_after_the_other(history):
    expected: dict[str, dict[str, int]] = {}
    batches = []
    for change in history:
        if isinstance(change, set):
            batches.append(deletes(*sorted(change)))
            for key in change:
                expected.pop(key, None)
            continue
        batches.append(batch(FILES, {key: files(**entries) for key, entries in change.items()}))
        for key, entries in change.items():
            known = expected.setdefault(key, {})
            for name, size in entries.items():
                if size is None:
                    known.pop(name, None)
                else:
                    known[name] = max(size, known.get(name, 0))
    found = merged(FILES, *batches)
    assert {key: sizes(value) for key, value in found.items()} == expected


def stat(low, high, count, *, tight=False, deleted=False):
    return {
        "fileName": "p",
        "columnName": "c",
        "minValue": {"member1": {"value": low}},
        "maxValue": {"member1": {"value": high}},
        "valueCount": count,
        "nullCount": 0,
        "totalSize": 1,
        "totalUncompressedSize": 1,
        "isDeleted": deleted,
        "isTightBound": tight,
    }


def span(found):
    value = found["k"]
    low, high = value["minValue"]["member1"]["value"], value["maxValue"]["member1"]["value"]
    return low, high, value["valueCount"]


def test_loose_statistics_widen_and_tight_ones_replace():
    # case B10: loose against tight bounds
    loose = [batch(STATS, {"k": stat(3, 5, 2)}), batch(STATS, {"k": stat(1, 4, 3)})]
    assert span(merged(STATS, *loose)) == (1, 5, 5)
    tight = batch(STATS, {"k": stat(4, 4, 1, tight=True)})
    assert span(merged(STATS, *loose, tight)) == (4, 4, 1)
    assert span(merged(STATS, tight, *loose)) == (1, 5, 6)


def test_statistics_marked_deleted_are_gone_and_do_not_widen_what_follows():
    gone = batch(STATS, {"k": stat(0, 9, 1, deleted=True)})
    assert merged(STATS, batch(STATS, {"k": stat(3, 5, 2)}), gone) == {}
    assert span(merged(STATS, gone, batch(STATS, {"k": stat(3, 5, 2)}))) == (3, 5, 2)


def test_a_deleted_key_comes_back_when_it_is_written_again():
    one = batch(SECONDARY, {"v$k": {"isDeleted": False}})
    assert list(merged(SECONDARY, one, deletes("v$k"))) == []
    assert list(merged(SECONDARY, one, deletes("v$k"), one)) == ["v$k"]
    marked = batch(SECONDARY, {"v$k": {"isDeleted": True}})
    assert list(merged(SECONDARY, one, marked)) == []


def decimal_stats(low, high):
    counts = dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), 1)
    return {
        "minValue": {"member5": {"value": low.to_bytes(2, "big", signed=True)}},
        "maxValue": {"member5": {"value": high.to_bytes(2, "big", signed=True)}},
        "isDeleted": False,
        "isTightBound": False,
        "valueType": {"typeOrdinal": 10, "additionalInfo": "5,2"},
        **counts,
    }


def test_ranges_of_decimals_widen_by_value_not_by_bytes():
    one, other = ({"k": decimal_stats(-5, 299)}, {"k": decimal_stats(7, 12345)})
    found = merged(STATS, batch(STATS, one), batch(STATS, other))["k"]
    bounds = [found[name]["member5"]["value"] for name in ("minValue", "maxValue")]
    assert [int.from_bytes(bound, "big", signed=True) for bound in bounds] == [-5, 12345]
