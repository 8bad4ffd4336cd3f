"""The hash keys and hashes of record keys, against values that Hudi 1.2.0 computed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lakedex.index.kinds.bucket.hashes import hash_keys, list_hashes, ring_hashes, xxhash32
from tests.support.golden import GOLDEN_FOLDER

HUDI = json.loads((GOLDEN_FOLDER / "bucket_hashes.json").read_text())["keys"]


def as_lists(found):
    values, lists = found.values.to_pylist(), []
    for count in found.counts.tolist():
        lists.append(values[:count])
        values = values[count:]
    return lists


@pytest.mark.parametrize("case", HUDI, ids=lambda case: f"{case['fields']}|{case['key'][:30]}")
def test_a_key_is_hashed_as_hudi_does(case):  # case B51
    found = hash_keys(pa.array([case["key"]]), case["fields"].split(","))
    assert as_lists(found) == [case["hash_keys"]]
    hashed = list_hashes(found)
    assert hashed.tolist() == [case["list_hash"] & 0x7FFFFFFF]
    assert [(hashed % 4).tolist(), (hashed % 7).tolist()] == [[case["of_4"]], [case["of_7"]]]
    assert ring_hashes(found).tolist() == [case["ring_hash"]]


@pytest.mark.parametrize("fields", sorted({case["fields"] for case in HUDI}))
def test_many_keys_at_once_are_hashed_as_each_by_itself(fields):
    cases = [case for case in HUDI if case["fields"] == fields] * 3
    array = pa.array(["other", *(case["key"] for case in cases)]).slice(1)
    found = hash_keys(array, fields.split(","))
    assert as_lists(found) == [case["hash_keys"] for case in cases]
    assert list_hashes(found).tolist() == [case["list_hash"] & 0x7FFFFFFF for case in cases]
    assert ring_hashes(found).tolist() == [case["ring_hash"] for case in cases]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("id:1,s:a:b", ["1"]),
        ("id:1,s:2024-01-01 10:11:12", ["1"]),
        ("2024-01-01 10:11:12,5", ["2024-01-01 10:11:12,5"]),
        ("a,b:c:d", ["a,b:c:d"]),
    ],
)
def test_a_last_value_with_colons_that_is_no_hash_key(key, expected):
    """Hudi 1.2.0 does not come back from these; a value never ends inside of itself here."""
    assert as_lists(hash_keys(pa.array([key]), ["id"])) == [expected]


@given(st.lists(st.text(max_size=80), max_size=40))
def test_xxhash32_is_that_of_the_library(texts):
    expected = [xxhash.xxh32_intdigest(text.encode(), seed=0) for text in texts]
    assert xxhash32(pa.array(texts, pa.string())).tolist() == expected


def java_hash(text):
    units = np.frombuffer(text.encode("utf-16-le"), dtype="<u2").tolist()
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    return number


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.text("ab:,.", max_size=9))
    )
)
def test_values_that_cannot_be_taken_for_fields_are_hashed_whole(pairs):
    """Whatever the last value of a key is, and whatever has no colon."""
    pairs = [(first.replace(":", ""), second.replace(":", "")) for first, second in pairs]
    keys = pa.array([f"id:{first},s:{second}" for first, second in pairs], pa.string())
    found = hash_keys(keys, ["id", "s"])
    assert as_lists(found) == [list(pair) for pair in pairs]
    expected = []
    for pair in pairs:
        number = 1
        for text in pair:
            number = (31 * number + java_hash(text)) & 0xFFFFFFFF
        expected.append(number & 0x7FFFFFFF)
    assert list_hashes(found).tolist() == expected


def test_no_keys():
    found = hash_keys(pa.array([], pa.string()), ["id"])
    assert list_hashes(found).tolist() == []
    assert ring_hashes(found).tolist() == []
