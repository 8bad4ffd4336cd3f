"""What is written is read back: scans, lookups and prefixes against plain dictionaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidInput
from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.format.hfile.cell_starts import KEY_SUFFIX
from lakedex.format.hfile.reader import MOST_KEYS
from lakedex.storage.source import MemorySource

# Few letters make keys that are prefixes of one another; NUL and 0xff are the hard ones.
KEYS = st.one_of(
    st.lists(st.sampled_from([b"\0", b"a", b"b", b"\xff"]), max_size=12).map(b"".join),
    st.binary(max_size=20),
    st.binary(min_size=100, max_size=300),
    st.sampled_from([b"", KEY_SUFFIX, KEY_SUFFIX * 2, b"shared-prefix-", "schlüssel".encode()]),
    st.integers(0, 99).map(lambda n: b"shared-prefix-%05d" % n),
)
VALUES = st.one_of(st.just(b""), st.binary(max_size=60), st.just(KEY_SUFFIX * 3))
CONTENT = st.dictionaries(KEYS, VALUES, max_size=60)
OPTIONS = st.builds(
    HFileOptions,
    block_size=st.sampled_from([1, 64, 300, 65536]),
    codec=st.sampled_from(Codec),
    bytes_per_checksum=st.sampled_from([1, 16384, 0x7FFFFFFF]),
    index_key_suffix=st.booleans(),
)


def columns(content):
    keys = sorted(content)
    return pa.array(keys, pa.binary()), pa.array([content[k] for k in keys], pa.binary())


def reader_of(content, options=None):
    keys, values = columns(content)
    data = write_hfile(keys, values, options=options or HFileOptions())
    return HFileReader(MemorySource(data))


@given(CONTENT, OPTIONS)
def test_scan_returns_what_was_written(content, options):
    reader = reader_of(content, options)
    cells = reader.scan()
    assert cells.keys.to_pylist() == sorted(content)
    assert cells.values.to_pylist() == [content[key] for key in sorted(content)]
    assert reader.entry_count == len(content)


@given(CONTENT, OPTIONS, st.lists(KEYS, max_size=20), st.randoms())
def test_lookup_agrees_with_a_dictionary(content, options, others, random):
    # case B31: keys to look up in any order
    asked = [*content, *others, *others]
    random.shuffle(asked)
    reader = reader_of(content, options)
    cells = reader.lookup(pa.array(asked, pa.binary()))
    found = [number for number, key in enumerate(asked) if key in content]
    assert cells.query.tolist() == found
    assert cells.keys.to_pylist() == [asked[number] for number in found]
    assert cells.values.to_pylist() == [content[asked[number]] for number in found]
    # A few keys are looked up in another way than many.
    few, many = asked[:MOST_KEYS], (asked or [b""]) * (MOST_KEYS + 1)
    for some in (few, many):
        found = [number for number, key in enumerate(some) if key in content]
        cells = reader.lookup(pa.array(some, pa.binary()))
        assert cells.query.tolist() == found
        assert cells.values.to_pylist() == [content[some[number]] for number in found]


@given(CONTENT, OPTIONS, st.lists(KEYS, max_size=6))
def test_prefix_scan_agrees_with_a_filter(content, options, prefixes):
    cells = reader_of(content, options).scan_prefixes(prefixes)
    wanted = [key for key in sorted(content) if key.startswith(tuple(prefixes))]
    assert cells.keys.to_pylist() == wanted
    assert cells.values.to_pylist() == [content[key] for key in wanted]


@given(CONTENT, OPTIONS, st.sampled_from([1, 100, 10_000]))
def test_batches_join_to_the_scan(content, options, max_bytes):
    batches = list(reader_of(content, options).scan_batches(max_bytes=max_bytes))
    keys = [key for batch in batches for key in batch.keys.to_pylist()]
    assert keys == sorted(content)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("block_size", [4096, 65536, 1 << 20])
def test_last_records_of_large_blocks_are_there(codec, block_size):
    # case B72: the end of blocks over 16 KiB
    count = 60_000
    content = {b"key-%010d" % n: b"v%07d" % n for n in range(count)}
    options = HFileOptions(block_size=block_size, codec=codec, bytes_per_checksum=16384)
    reader = reader_of(content, options)
    cells = reader.scan()
    assert cells.values.to_pylist() == list(content.values())
    assert reader.lookup(cells.keys).query.tolist() == list(range(count))


def test_cells_of_many_sizes_in_one_block_are_found():
    rng = np.random.default_rng(3)
    content = {
        b"%06d" % n + b"x" * int(rng.integers(0, 400)): rng.bytes(int(rng.integers(0, 300)))
        for n in range(5000)
    }
    reader = reader_of(content, HFileOptions(block_size=1 << 22))
    assert reader.scan().values.to_pylist() == list(content.values())


@pytest.mark.parametrize("fakes", [1, 3])
def test_values_that_look_like_cells_do_not_mislead(fakes):
    fake = bytes.fromhex("0000000e000000100002") + b"zz" + KEY_SUFFIX
    content = {b"%06d" % n: fake * fakes + b"%d" % n for n in range(20_000)}
    reader = reader_of(content, HFileOptions(block_size=1 << 22))
    assert reader.scan().values.to_pylist() == list(content.values())


def test_file_without_entries_is_empty():
    reader = reader_of({})
    assert len(reader.scan()) == 0
    assert len(reader.lookup(pa.array(["a"]))) == 0
    assert len(reader.scan_prefixes([b""])) == 0


def test_meta_blocks_and_file_info_are_kept():
    data = write_hfile(
        pa.array(["a"]),
        pa.array([b""]),
        file_info={"schema": b"{}", "minRecordKey": b"a"},
        meta_blocks={"bloomFilter": b"AAAA", "other": b""},
    )
    reader = HFileReader(MemorySource(data))
    assert reader.meta_block("bloomFilter") == b"AAAA"
    assert reader.meta_block("other") == b""
    assert reader.meta_block("none") is None
    assert reader.file_info["schema"] == b"{}"
    assert reader.file_info["KEY_VALUE_VERSION"] == b"\0\0\0\x01"


def test_strings_large_types_and_nulls_can_be_looked_up():
    reader = reader_of({"ä".encode(): b"1", b"z": b"2"})
    for type_ in (pa.string(), pa.large_string()):
        cells = reader.lookup(pa.array([None, "z", "ä", None], type_))
        assert cells.query.tolist() == [1, 2]
        assert cells.values.to_pylist() == [b"2", b"1"]
    assert len(reader.lookup(pa.chunked_array([pa.array(["z"]), pa.array(["y"])]))) == 1
    with pytest.raises(InvalidInput, match="int64"):
        reader.lookup(pa.array([1]))


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        (["b", "a"], [b"", b""], "'a' at row 1 sorts before"),
        (["a", "a"], [b"", b""], "'a' at row 1 repeats"),
        (["a", None], [b"", b""], "keys must not be null; row 1"),
        (["a"], [None], "values must not be null"),
        (["a"], [b"", b""], "1 HFile keys for 2 values"),
        (["a" * 32768], [b""], "32768"),
    ],
)
def test_bad_columns_are_refused_by_name(keys, values, message):
    with pytest.raises(InvalidInput, match=message):
        write_hfile(pa.array(keys, pa.string()), pa.array(values, pa.binary()))


def test_keys_sort_by_bytes_not_by_utf16():
    keys = sorted(["\ue000", "\U00010000", "a"], key=lambda key: key.encode())
    data = write_hfile(pa.array(keys), pa.array([b"1", b"2", b"3"]))
    assert HFileReader(MemorySource(data)).lookup(pa.array(keys)).query.tolist() == [0, 1, 2]


def test_allowed_duplicates_stay_in_one_block_and_the_first_is_found():
    keys = pa.array([b"a"] * 3 + [b"b"] * 50 + [b"c"])
    values = pa.array([b"%d" % n for n in range(54)])
    options = HFileOptions(block_size=64, allow_duplicates=True)
    reader = HFileReader(MemorySource(write_hfile(keys, values, options=options)))
    assert reader.trailer.data_index_count == 3
    assert reader.scan().values.equals(values)
    assert reader.lookup(pa.array(["b", "a"])).values.to_pylist() == [b"3", b"0"]


def test_value_too_large_to_read_back_is_refused():
    values = pa.array([bytes(97 * 1024 * 1024)], pa.binary())
    with pytest.raises(InvalidInput, match="an HFile block has 101711894 bytes"):
        write_hfile(pa.array(["a"]), values)


def test_file_that_inflates_too_far_is_scanned_in_batches_only():
    count = 140
    keys = pa.array([b"%05d" % n for n in range(count)])
    values = pa.array([bytes(1 << 20)] * count)
    reader = HFileReader(MemorySource(write_hfile(keys, values)))
    with pytest.raises(InvalidInput, match="too large to scan at once"):
        reader.scan()
    assert sum(len(batch) for batch in reader.scan_batches()) == count
