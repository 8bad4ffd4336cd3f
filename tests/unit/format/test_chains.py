"""The chain walker finds every item, whatever the guesses are worth."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.format.chains import walk_chain
from lakedex.format.logfile.records import length_prefixed_rules


def _packed(records: list[bytes]) -> tuple[np.ndarray, list[int]]:
    data = b"".join(struct.pack(">i", len(record)) + record for record in records)
    ends = np.cumsum([len(record) + 4 for record in records]).tolist()
    return np.frombuffer(data, dtype=np.uint8), [0, *ends]


def _walk(data: np.ndarray, count: int) -> list[int]:
    return walk_chain(length_prefixed_rules(data, len(data)), 0, count).tolist()


_RANDOM = np.random.default_rng(5)
SHAPES = {
    "random bytes": [_RANDOM.bytes(int(size)) for size in _RANDOM.integers(0, 90, 5000)],
    "common prefix": [b"\x02\x2220261115" + _RANDOM.bytes(30) for _ in range(5000)],
    "empty records": [b""] * 5000,
    "zeros of any length": [bytes(number % 9) for number in range(5000)],
    "contents that look like records": [b"\0\0\0\4" * (number % 5) for number in range(5000)],
    "short, then long, then short": [b"ab"] * 3000 + [b"x" * 5000] * 300 + [b"y"] * 3000,
    "one huge record in the middle": [b"a"] * 1000 + [bytes(100_000)] + [b"b"] * 1000,
    "few": [b"abc"] * 7,
    "just at the limit": [b"abc"] * 64,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_all_records_are_found(shape):
    data, expected = _packed(SHAPES[shape])
    assert _walk(data, len(SHAPES[shape])) == expected


@given(st.lists(st.binary(max_size=12), max_size=300), st.integers(0, 5))
def test_any_records_are_found(records, repeats):
    data, expected = _packed(records * repeats)
    assert _walk(data, len(records) * repeats) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_fewer_items_can_be_asked_for(shape):
    data, expected = _packed(SHAPES[shape])
    count = len(SHAPES[shape]) * 2 // 3
    assert _walk(data, count) == expected[: count + 1]


def test_more_items_than_there_are_end_at_the_last():
    data, expected = _packed(SHAPES["random bytes"])
    assert _walk(data, 6000) == expected


def test_broken_chain_ends_where_it_broke():
    data, expected = _packed(SHAPES["common prefix"])
    broken = data.copy()
    broken[expected[3000]] = 0x7F
    assert _walk(broken, 5000) == expected[:3001]


def test_no_data_gives_no_item():
    assert _walk(np.empty(0, dtype=np.uint8), 3) == [0]
