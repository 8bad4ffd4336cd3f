"""Keys of one length are looked up as any keys are: in another way, with the same answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.format.hfile import HFileOptions, HFileReader, write_hfile
from lakedex.format.hfile.data_blocks import DataBlocks
from lakedex.format.hfile.keys import key_column
from lakedex.format.hfile.reader import UNSURE, KeyLookup, find_rows, key_matrix
from lakedex.storage.source import MemorySource

LETTERS = (b"\0", b"a", b"b", b"\x7f", b"\xff")


@st.composite
def files_and_queries(draw):
    """Stored keys of one length that share much, and queries that nearly equal them."""
    size = draw(st.integers(8, 24))
    shared = draw(st.binary(max_size=size - 2))
    tail = st.lists(
        st.sampled_from(LETTERS), min_size=size - len(shared), max_size=size - len(shared)
    )
    key = tail.map(lambda letters: shared + b"".join(letters))
    stored = sorted(draw(st.sets(key, min_size=1, max_size=40)))
    near = st.one_of(st.sampled_from(stored), key, st.binary(min_size=size, max_size=size))
    return stored, draw(st.lists(near, min_size=1, max_size=60)), draw(st.integers(40, 2000))


def answers(reader: HFileReader, queries: list[bytes]) -> list[tuple[int, bytes, bytes]]:
    found = reader.lookup(pa.array(queries, pa.binary()))
    rows = found.query.tolist()
    return list(zip(rows, found.keys.to_pylist(), found.values.to_pylist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(files_and_queries())
def test_even_keys_are_found_as_any_keys_are(case):
    stored, queries, block_size = case
    values = [b"%d" % row for row in range(len(stored))]
    data = write_hfile(
        pa.array(stored, pa.binary()), pa.array(values), options=HFileOptions(block_size=block_size)
    )
    known = dict(zip(stored, values, strict=True))
    expected = [(row, key, known[key]) for row, key in enumerate(queries) if key in known]
    assert answers(HFileReader(MemorySource(data)), queries) == expected
    # One query of another length, and none of them is looked up as even keys are.
    assert answers(HFileReader(MemorySource(data)), [*queries, b"x"]) == expected


def group_of(stored: list[bytes], *, allow_duplicates: bool = False):
    options = HFileOptions(allow_duplicates=allow_duplicates)
    data = write_hfile(
        pa.array(stored, pa.binary()), pa.array([b"v"] * len(stored)), options=options
    )
    reader = HFileReader(MemorySource(data))
    blocks = DataBlocks(reader._source, reader.trailer.codec, reader.reads)
    return next(blocks.groups(reader._root, np.arange(len(reader._root))))


def rows_of(group, queries: list[bytes]) -> list[int] | None:
    rows = find_rows(group, key_matrix(key_column(pa.array(queries, pa.binary()))))
    return None if rows is None else rows.tolist()


def test_keys_that_share_the_searched_bytes_are_told_apart():
    stored = [b"head" + b"x" * 8 + bytes([n]) for n in range(50, 53)] + [b"tail" + b"y" * 9]
    queries = [stored[2], b"head" + b"x" * 8 + b"!", stored[0], stored[3]]
    assert rows_of(group_of(stored), queries) == [2, -1, 0, 3]


def test_where_many_keys_share_the_searched_bytes_another_search_tells():
    stored = [b"head" + b"x" * 8 + bytes([n]) for n in range(50, 60)] + [b"tail" + b"y" * 9]
    queries = [b"head" + b"x" * 8 + b"!", *stored]
    found = rows_of(group_of(stored), queries)
    assert found[0] == UNSURE
    assert found[-1] == 10
    data = write_hfile(pa.array(stored), pa.array([b"%d" % n for n in range(11)]))
    seen = answers(HFileReader(MemorySource(data)), queries)
    assert [(row, value) for row, _, value in seen] == [(n + 1, b"%d" % n) for n in range(11)]


def test_of_equal_keys_the_first_is_found():
    stored = [b"a" * 20, b"b" * 20, b"b" * 20, b"c" * 20]
    assert rows_of(group_of(stored, allow_duplicates=True), [b"b" * 20]) == [1]


@pytest.mark.parametrize("query", [b"a" * 19, b"a" * 21])
def test_queries_of_another_length_are_left_to_the_search_of_any_keys(query):
    assert rows_of(group_of([b"a" * 20, b"b" * 20]), [query]) is None


@pytest.mark.parametrize("shared", range(13))
def test_the_searched_bytes_may_start_anywhere_in_the_keys(shared):
    stored = [b"s" * shared + bytes([n]) * (22 - shared) for n in range(5)]
    assert rows_of(group_of(stored), [stored[4], b"s" * 22, stored[2]]) == [4, -1, 2]


def test_keys_that_differ_near_their_end_are_left_to_the_search_of_any_keys():
    stored = [b"s" * 15 + bytes([n]) * 7 for n in range(5)]
    assert rows_of(group_of(stored), [stored[2]]) is None
    data = write_hfile(pa.array(stored), pa.array([b"v"] * 5))
    assert len(answers(HFileReader(MemorySource(data)), stored)) == 5


def test_many_blocks_are_searched_as_one():
    stored = [b"key-%08d" % number for number in range(500)]
    values = [bytes(number % 7) for number in range(500)]
    options = HFileOptions(block_size=256)
    data = write_hfile(pa.array(stored), pa.array(values), options=options)
    reader = HFileReader(MemorySource(data))
    assert reader.scan().values.to_pylist() == values
    found = HFileReader(MemorySource(data)).lookup(pa.array(stored[::-3]))
    assert found.values.to_pylist() == values[::-3]


def test_blocks_whose_keys_differ_in_length_are_walked():
    stored = sorted([b"a-%08d" % n for n in range(40)] + [b"b-%04d" % n for n in range(40)])
    data = write_hfile(
        pa.array(stored), pa.array([b"v"] * 80), options=HFileOptions(block_size=200)
    )
    assert HFileReader(MemorySource(data)).scan().keys.to_pylist() == stored
    assert KeyLookup(pa.array(stored, pa.binary()))._matrix is None
    assert len(answers(HFileReader(MemorySource(data)), stored)) == 80
