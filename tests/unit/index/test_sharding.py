"""Shard hashes: Java's string hash over whole columns, against the shards of real tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidInput
from lakedex.index.metadata_table.group_reader import Selection
from lakedex.index.metadata_table.hashing import java_hashes, shards_of
from lakedex.storage import open_storage
from lakedex.table import Snapshot


def java_hash(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_hashes_equal_the_definition_character_by_character(texts):
    assert java_hashes(pa.array(texts, pa.string())).tolist() == [java_hash(t) for t in texts]


def test_the_smallest_hash_stays_in_range():
    # "polygenelubricants" hashes to the smallest int, whose absolute value Java leaves negative.
    word = pa.array(["polygenelubricants"])
    assert java_hashes(word).tolist() == [-(2**31)]
    for count in (1, 2, 3, 7, 10):
        assert 0 <= shards_of(word, count)[0] < count


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("sharded_record_index", "record_index"),
        ("cow_trips_all_indexes", "record_index"),
        ("cow_trips_all_indexes", "column_stats"),
        ("v6_mor", "record_index"),
        ("v8_mor", "record_index"),
        ("v8_cow", "secondary_index_idx_rider"),
    ],
)
def test_keys_of_real_tables_lie_in_the_shard_of_their_hash(golden, name, partition):
    # case B19: before table version 9 a secondary key is placed by its whole text
    metadata = Snapshot.open(open_storage(golden(name).path)).metadata
    groups = [group.file_id for group in metadata.groups(partition)]
    for number, file_id in enumerate(groups):
        batches = metadata.group_reader(partition, file_id).batches(Selection())
        for batch in batches:
            assert set(shards_of(batch.keys, len(groups)).tolist()) <= {number}


def test_no_shards_and_null_keys_are_refused():
    with pytest.raises(InvalidInput):
        shards_of(pa.array(["a"]), 0)
    with pytest.raises(InvalidInput):
        java_hashes(pa.array(["a", None]))
