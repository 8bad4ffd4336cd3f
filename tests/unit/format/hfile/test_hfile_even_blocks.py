"""Blocks that are deflated by what is known of cells: every inflater gets the cells back."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.format.compression import gzip
from lakedex.format.deflate.bit_rows import BitRows
from lakedex.format.deflate.codes import CodeTables, Weights, code_lengths
from lakedex.format.hfile import (
    Codec,
    HFileBuilder,
    HFileOptions,
    HFileReader,
    even_blocks,
    even_matches,
    write_hfile,
)
from lakedex.format.hfile.even_blocks import EvenDeflater
from lakedex.format.hfile.even_matches import as_even_cells
from lakedex.format.hfile.writer import _cut_blocks, _lay_out
from lakedex.storage.source import MemorySource


@pytest.fixture(autouse=True)
def _few_cells_are_enough(monkeypatch):
    pytest.importorskip("isal")
    monkeypatch.setattr(even_matches, "_FEWEST_CELLS", 1)
    monkeypatch.setattr(even_blocks, "_SLICE_CELLS", 50)
    monkeypatch.setattr(even_blocks, "_LEAST_SEEN", 0.0)
    monkeypatch.setattr(even_blocks, "_MOST_LONGER", 1e9)


def deflated(keys: list[bytes], values: list[bytes], block_size: int) -> list[tuple[bytes, bytes]]:
    """Each block as it was and as it is deflated; nothing when it is of another kind."""
    stored = pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())
    data, bounds = _lay_out(*stored)
    duplicate = np.append(False, np.array(keys[1:]) == np.array(keys[:-1]))
    cuts = _cut_blocks(bounds, duplicate, block_size)
    cells = as_even_cells(data, bounds, *stored)
    members = None if cells is None else EvenDeflater().members(cells, cuts)
    if members is None:
        return []
    limits = bounds[cuts].tolist()
    raws = [bytes(data[a:b]) for a, b in itertools.pairwise(limits)]
    return list(zip(raws, members, strict=True))


@st.composite
def columns(draw):
    """Keys of one length, and values some of which repeat, differ a little or not at all."""
    width = draw(st.integers(8, 40))
    shared = draw(st.binary(max_size=width - 3))
    count = draw(st.integers(1, 150))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    letters = np.array([0, 48, 49, 97, 255], np.uint8)
    tails = rng.choice(letters[: draw(st.integers(1, 5))], (count, width - len(shared)))
    keys = sorted({shared + tail.tobytes() for tail in tails})
    kinds = draw(st.lists(st.binary(max_size=150), min_size=1, max_size=12))
    picked = rng.integers(0, len(kinds), len(keys))
    values = [kinds[kind] for kind in picked]
    for row in np.flatnonzero(rng.random(len(keys)) < draw(st.sampled_from((0, 0.3, 1)))):
        value = bytearray(values[row])
        for at in rng.integers(0, len(value), 3 if value else 0):
            value[at] = rng.integers(0, 256)
        values[row] = bytes(value)
    return keys, values


@settings(max_examples=200, deadline=None)
@given(columns=columns(), block_size=st.sampled_from((1, 300, 2000, 64_000)))
def test_what_is_deflated_inflates_to_the_same(columns, block_size):
    keys, values = columns
    for raw, member in deflated(keys, values, block_size):
        assert zlib.decompress(member, 31) == raw


def record_index(count: int, kinds: int = 20) -> tuple[list[bytes], list[bytes]]:
    rng = np.random.default_rng(5)
    keys = sorted({b"%032x" % int.from_bytes(rng.bytes(16)) for _ in range(count)})
    ends = [rng.bytes(20 + number % 2) for number in range(kinds)]
    picked = rng.integers(0, kinds, len(keys)).tolist()
    return keys, [b"\0" * 12 + b"2024-01-%02d" % (n % 28) + ends[n] + b"\2\0\2\0" for n in picked]


def test_it_is_no_longer_than_what_a_compressor_makes():
    keys, values = record_index(4000)
    blocks = deflated(keys, values, 64_000)
    assert len(blocks) >= 5
    assert sum(len(member) for _, member in blocks) < sum(len(gzip(raw)) for raw, _ in blocks)
    assert all(zlib.decompress(member, 31) == raw for raw, member in blocks)


def test_far_values_that_a_match_does_not_reach_are_written_again():
    keys, values = record_index(2000, kinds=1500)
    for raw, member in deflated(keys, values, 1_000_000):
        assert zlib.decompress(member, 31) == raw


def test_equal_keys_are_deflated_too():
    keys = [b"k%07d" % (number // 3) for number in range(300)]
    for size in (100, 5000):
        for raw, member in deflated(keys, [b"value"] * 300, size):
            assert zlib.decompress(member, 31) == raw


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ([b"k0000001", b"k00000002"], [b"v", b"v"]),
        ([b"k1", b"k2"], [b"v", b"v"]),
        ([b"k0000001", b"k0000002"], [b"v", b"v" * 240]),
    ],
    ids=["uneven", "short", "long"],
)
def test_other_cells_are_left_to_the_compressor(keys, values):
    assert deflated(keys, values, 100) == []


def test_values_that_are_seldom_seen_again_are_left_to_the_compressor(monkeypatch):
    monkeypatch.setattr(even_blocks, "_LEAST_SEEN", 0.5)
    keys, values = record_index(300, kinds=290)
    assert deflated(keys, values, 5000) == []
    assert deflated(keys, [b"v"] * len(keys), 5000)


def test_keys_that_are_like_their_neighbours_are_left_to_the_compressor(monkeypatch):
    monkeypatch.setattr(even_blocks, "_MOST_LONGER", 1.05)
    heads, values = record_index(2000)
    alike = [head[:24] + b"-%02d" % number for head in heads[:100] for number in range(20)]
    assert deflated(alike, values, 64_000) == []
    assert deflated(*record_index(2000), 64_000)


def test_without_a_fast_checksum_all_is_left_to_the_compressor(monkeypatch):
    monkeypatch.setattr(even_matches, "fast_crc32", None)
    assert deflated([b"k0000001", b"k0000002"], [b"v", b"v"], 100) == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.NONE])
def test_files_hold_their_cells(codec):
    keys, values = record_index(3000)
    options = HFileOptions(block_size=20_000, codec=codec)
    reader = HFileReader(
        MemorySource(write_hfile(pa.array(keys), pa.array(values), options=options))
    )
    cells = reader.scan()
    assert (cells.keys.to_pylist(), cells.values.to_pylist()) == (keys, values)
    assert reader.lookup(pa.array(keys[::-7])).values.to_pylist() == values[::-7]


def test_codes_of_the_first_cells_serve_quite_other_ones():
    keys, values = record_index(600)
    builder = HFileBuilder(HFileOptions(block_size=5000))
    builder.add(pa.array(keys), pa.array(values))
    others = [b"\xf0" * 20 + bytes([n, 255 - n]) for n in range(100)]
    builder.add(pa.array(others), pa.array([bytes(range(n, n + 90)) for n in range(100)]))
    cells = HFileReader(MemorySource(builder.finish())).scan()
    assert cells.keys.to_pylist() == keys + others
    assert cells.values[-1].as_py() == bytes(range(99, 189))


def test_parts_of_arrays_are_taken_where_they_lie():
    keys, values = record_index(900)
    whole = pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())
    data = write_hfile(*(column.slice(100, 700) for column in whole))
    assert HFileReader(MemorySource(data)).scan().keys.to_pylist() == keys[100:800]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1, 1e9), min_size=19, max_size=286), st.integers(9, 15))
def test_codes_are_complete_and_short_enough(weights, limit):
    lengths = code_lengths(weights, limit)
    assert int(lengths.max()) <= limit
    assert sum(2.0**-lengths) == 1.0


def test_rows_of_few_bits_and_of_none_are_packed():
    tables = CodeTables(Weights(np.ones(256), np.ones(29), np.ones(30)))
    text = b"a row is a byte here, and every fifth row is none"
    entries = tables.literals[np.frombuffer(text, np.uint8)]
    kept = np.arange(len(text)) % 5 > 0
    entries[~kept] = 0
    rows = BitRows(len(text))
    rows.add_entries(entries)
    cuts = np.array([0, 20, len(text)])
    streams = rows.pack(cuts, [tables.header] * 2, tables.end)
    found = [zlib.decompress(stream.tobytes(), -15) for stream in streams]
    assert found == [
        bytes(np.frombuffer(text, np.uint8)[a:b][kept[a:b]]) for a, b in ((0, 20), (20, 49))
    ]


def test_a_block_that_does_not_inflate_to_its_cells_is_compressed_anew(monkeypatch):
    keys = pa.array([f"key-{number:08d}" for number in range(500)])
    values = pa.array([b"the same"] * len(keys))
    wrong = gzip(b"other cells")
    monkeypatch.setattr(EvenDeflater, "members", lambda _, __, cuts: (wrong for _ in cuts[1:]))
    found = HFileReader(MemorySource(write_hfile(keys, values))).scan()
    assert found.keys.to_pylist() == [key.encode() for key in keys.to_pylist()]


def test_a_block_that_inflates_to_its_cells_is_taken():
    keys = [f"key-{number:08d}".encode() for number in range(500)]
    values = [b"the same"] * len(keys)
    data = write_hfile(pa.array(keys), pa.array(values))
    ((_, member),) = deflated(keys, values, HFileOptions().block_size)
    assert member in data
