"""Bloom filters: bytes and hashes as Hudi's, no false negatives, hostile bytes refused."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.format.bloom import BloomFilter, DynamicBloomFilter, bloom_hashes, murmur_hash

SIMPLE_TEXT = "/////wAAAAcBAAAAYBIAAAAgAEACAAIAQA=="
DYNAMIC_TEXT = "/////wAAAAQBAAAADwAAAAMAAAAFAAAAAv////8AAAAEAQAAAA+9L/////8AAAAEAQAAAA9KPg=="


def _java_murmur(key: bytes, seed: int) -> int:
    """The hash written down byte by byte, to compare with."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (seed ^ len(key)) & mask
    for at in range(0, len(key) // 4 * 4, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    left = len(key) % 4
    for back in range(left, 0, -1):
        signed = struct.unpack("b", key[len(key) - back : len(key) - back + 1])[0]
        h ^= (signed << 8 * (back - 1)) & mask
    if left:
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def test_murmur_gives_the_hashes_of_the_jvm():
    assert murmur_hash(pa.array(["k1", "é1234"])).tolist() == [-1682427553, 223640620]


def test_default_filter_sets_the_positions_of_the_jvm():
    [(_, positions)] = bloom_hashes(pa.array(["k1"]), 5, 2587966)
    assert positions.ravel().tolist() == [249653, 2170140, 185587, 1378272, 417937]


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(-(2**31), 2**31 - 1))
def test_murmur_over_a_column_equals_key_by_key(keys, seed):
    expected = [_java_murmur(key, seed & 0xFFFFFFFF) for key in keys]
    assert murmur_hash(pa.array(keys, pa.binary()), seed).tolist() == expected


def test_sliced_key_column_hashes_its_own_keys():
    keys = pa.array(["a", "bb", "ccc", "dddd", "eeeee"])
    assert murmur_hash(keys.slice(2, 2)).tolist() == murmur_hash(keys).tolist()[2:4]


def test_simple_filter_has_the_bytes_of_the_jvm():
    bloom = BloomFilter.create_simple(10, 0.01)
    bloom.add(pa.array(["k1"]))
    assert bloom.encode() == SIMPLE_TEXT


def test_dynamic_filter_adds_and_reuses_rows_like_the_jvm():
    bloom = BloomFilter.create_dynamic(3, 0.1, 6)
    bloom.add(pa.array([f"k{number}" for number in range(8)]))
    assert bloom.encode() == DYNAMIC_TEXT


@pytest.mark.parametrize("split", range(9))
def test_dynamic_filter_does_not_depend_on_how_keys_are_batched(split):
    bloom = BloomFilter.create_dynamic(3, 0.1, 6)
    keys = pa.array([f"k{number}" for number in range(8)])
    bloom.add(keys[:split])
    bloom.add(keys[split:])
    assert bloom.encode() == DYNAMIC_TEXT


def test_default_footer_filter_has_its_known_header_and_size():
    bloom = BloomFilter.create_dynamic(60000, 1e-9, 100000)
    bloom.add(pa.array(["k1", "k2"]))
    head = "ffffffff0000001e0100277d3e0000ea600000000200000001ffffffff0000001e0100277d3e"
    assert bloom.to_bytes().hex().startswith(head)
    assert len(bloom.encode()) == 431380


@pytest.mark.parametrize(("text", "code"), [(SIMPLE_TEXT, None), (DYNAMIC_TEXT, "DYNAMIC_V0")])
def test_decoded_filter_encodes_to_the_same_text(text, code):
    assert BloomFilter.decode(text, type_code=code).encode() == text
    assert BloomFilter.decode(text.encode(), type_code=code).type_code == (code or "SIMPLE")


@given(
    st.lists(st.text(min_size=1, max_size=20), max_size=60),
    st.integers(1, 20),
    st.booleans(),
)
def test_every_added_key_is_found_after_a_round_trip(keys, entries, dynamic):
    make = BloomFilter.create_dynamic(entries, 0.01, 3 * entries)
    bloom = make if dynamic else BloomFilter.create_simple(entries, 0.01)
    column = pa.array(keys, pa.string())
    bloom.add(column)
    again = BloomFilter.decode(bloom.encode(), type_code=bloom.type_code)
    assert again.contains(column).all()


def test_false_positives_stay_near_the_asked_rate():
    bloom = BloomFilter.create_simple(20000, 0.01)
    bloom.add(pa.array([f"in-{number}" for number in range(20000)]))
    found = bloom.contains(pa.array([f"out-{number}" for number in range(20000)]))
    assert 0.003 < found.mean() < 0.02


def test_large_columns_span_chunks():
    bloom = BloomFilter.create_dynamic(20000, 1e-6, 60000)
    keys = pa.chunked_array([[f"key-{number}" for number in range(45000)]])
    bloom.add(keys)
    assert isinstance(bloom, DynamicBloomFilter)
    assert len(bloom.rows) == 3
    assert bloom.contains(keys).all()


def test_null_and_empty_keys_cannot_be_ruled_out_and_cannot_be_added():
    bloom = BloomFilter.create_simple(10, 0.01)
    assert bloom.contains(pa.array(["", None, "x"])).tolist() == [True, True, False]
    for bad in ([""], [None], ["a", None]):
        with pytest.raises(InvalidInput):
            bloom.add(pa.array(bad, pa.string()))


def test_numbers_are_no_keys():
    with pytest.raises(InvalidInput):
        BloomFilter.create_simple(10, 0.01).contains(pa.array([1, 2]))


@pytest.mark.parametrize(("entries", "rate"), [(0, 0.1), (-1, 0.1), (10, 0), (10, 1), (2**31, 0.1)])
def test_senseless_sizes_are_refused(entries, rate):
    with pytest.raises(InvalidInput):
        BloomFilter.create_simple(entries, rate)


def _text(*parts: bytes) -> bytes:
    return base64.b64encode(b"".join(parts))


def _head(hashes: int = 7, hash_type: int = 1, bits: int = 96, version: int = -1) -> bytes:
    return struct.pack(">iibi", version, hashes, hash_type, bits)


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        (b"not base64!", None, CorruptFile),
        ("é", None, CorruptFile),
        (b"", None, CorruptFile),
        (_text(_head(), bytes(11)), None, CorruptFile),
        (_text(_head(), bytes(13)), None, CorruptFile),
        (_text(_head(bits=2**31 - 1), bytes(12)), None, CorruptFile),
        (_text(_head(bits=-1), bytes(12)), None, CorruptFile),
        (_text(_head(bits=0)), None, CorruptFile),
        (_text(_head(hashes=2**31 - 1), bytes(12)), None, CorruptFile),
        (_text(_head(hashes=0), bytes(12)), None, CorruptFile),
        (_text(_head(version=-2), bytes(12)), None, CorruptFile),
        (_text(_head(hash_type=5), bytes(12)), None, CorruptFile),
        (_text(_head(hash_type=0), bytes(12)), None, UnsupportedFeature),
        (_text(_head(version=7), bytes(12)), None, UnsupportedFeature),
        (_text(_head(), bytes(12)), "DYNAMIC_V9", UnsupportedFeature),
        (_text(_head(), bytes(12)), "DYNAMIC_V0", CorruptFile),
        (_text(_head(), struct.pack(">iii", 3, 0, 2**31 - 1)), "DYNAMIC_V0", CorruptFile),
        (_text(_head(), struct.pack(">iii", 3, 0, -1)), "DYNAMIC_V0", CorruptFile),
        (_text(_head(), struct.pack(">iii", 3, 0, 0)), "DYNAMIC_V0", CorruptFile),
        (
            _text(_head(), struct.pack(">iii", 0, 0, 1), _head(), bytes(12)),
            "DYNAMIC_V0",
            CorruptFile,
        ),
        (
            _text(_head(), struct.pack(">iii", 3, 0, 1), _head(bits=95), bytes(12)),
            "DYNAMIC_V0",
            CorruptFile,
        ),
    ],
)
def test_hostile_filters_are_refused(text, code, error):
    with pytest.raises(error):
        BloomFilter.decode(text, type_code=code, path="x.parquet")


@pytest.mark.parametrize(("text", "code"), [(SIMPLE_TEXT, None), (DYNAMIC_TEXT, "DYNAMIC_V0")])
def test_truncations_and_bit_flips_give_a_filter_or_an_error(text, code):
    raw = base64.b64decode(text)
    damaged = [raw[:end] for end in range(len(raw))]
    damaged += [
        raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
        for at in range(len(raw))
        for bit in range(8)
    ]
    for data in damaged:
        try:
            bloom = BloomFilter.decode(base64.b64encode(data), type_code=code)
        except LakedexError:
            continue
        assert bloom.contains(pa.array(["k1", "k2"])).dtype == np.bool_
