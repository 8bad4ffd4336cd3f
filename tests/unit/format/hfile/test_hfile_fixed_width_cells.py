"""Cells found without walking are those that a walk finds, or none are."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.format.hfile.cell_starts import KEY_SUFFIX, find_cells, find_fixed_width_cells
from lakedex.format.hfile.keys import PADDING

VALUES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=4).map(lambda head: head + b"\xff" * 9),
        st.just(KEY_SUFFIX * 2),
    ),
    min_size=1,
    max_size=30,
)


def cell(content: bytes, value: bytes) -> bytes:
    lengths = struct.pack(">IIH", len(content) + 12, len(value), len(content))
    return lengths + content + KEY_SUFFIX + value + b"\0"


def joined(blocks: list[list[bytes]]) -> tuple[bytearray, np.ndarray]:
    sizes = [sum(map(len, block)) for block in blocks]
    data = bytearray(b"".join(b"".join(block) for block in blocks) + bytes(PADDING))
    return data, np.cumsum([0, *sizes])


@settings(max_examples=200, deadline=None)
@given(size=st.integers(0, 40), values=VALUES, cut=st.integers(0, 30))
def test_even_keys_give_what_a_walk_gives_or_nothing(size, values, cut):
    cells = [cell(bytes([number]) * size, value) for number, value in enumerate(values)]
    data, bounds = joined([cells[:cut], cells[cut:]])
    found = find_fixed_width_cells(data, bounds)
    if found is None:
        return
    walked = find_cells(data, bounds)
    assert found.starts.tolist() == walked.starts.tolist()
    assert found.shortest_key == size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 36])
def test_plain_values_are_found_at_every_alignment(size):
    cells = [cell(bytes([n]) * size, bytes(n)) for n in range(40)]
    data, bounds = joined([cells[:17], cells[17:]])
    found = find_fixed_width_cells(data, bounds)
    assert found is not None
    assert len(found.starts) == 40


@pytest.mark.parametrize(
    ("at", "byte"),
    [(0, 1), (1, 1), (3, 49), (4, 255), (7, 9), (8, 1), (9, 35)],
)
def test_a_wrong_length_is_left_to_the_walk(at, byte):
    cells = [cell(bytes([n]) * 36, b"value") for n in range(5)]
    data, bounds = joined([cells])
    data[2 * len(cells[0]) + at] = byte
    assert find_fixed_width_cells(data, bounds) is None


def test_a_wrapped_value_length_is_left_to_the_walk():
    cells = [bytearray(cell(bytes([n]) * 36, b"value")) for n in range(3)]
    struct.pack_into(">II", cells[1], 0, 47, 2**32 + 5 - 2**32)
    data, bounds = joined([[bytes(one) for one in cells]])
    assert find_fixed_width_cells(data, bounds) is None


def test_a_cell_that_crosses_a_block_is_left_to_the_walk():
    data, bounds = joined([[cell(b"a" * 8, b"v"), cell(b"b" * 8, b"v")]])
    assert find_fixed_width_cells(data, np.array([0, 20, bounds[-1]])) is None


def test_keys_of_two_lengths_and_no_cells_are_left_to_the_walk():
    data, bounds = joined([[cell(b"a", b"v"), cell(b"bb", b"v")]])
    assert find_fixed_width_cells(data, bounds) is None
    assert find_fixed_width_cells(bytearray(PADDING), np.array([0, 0])) is None
