"""Delete blocks: exact bytes, ordering values, large lists, damage."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.format.logfile import (
    BlockKind,
    DeleteRecords,
    HeaderKey,
    decode_delete_block,
    encode_block,
    encode_delete_content,
    read_blocks,
)
from lakedex.format.logfile.deletes import _Skipper
from lakedex.storage.source import MemorySource

DATA_EXAMPLE = "000000030000000e0202046b320208703d7031040000"
METADATA_EXAMPLE = (
    "0000000300000026020212"
    + b"str\\$a$k1".hex()
    + "022a"
    + b"secondary_index_idx_s".hex()
    + "040000"
)


def _decode(content: bytes) -> DeleteRecords:
    header = {HeaderKey.INSTANT_TIME: "1"}
    block = encode_block(BlockKind.DELETE, header, content)
    [found] = read_blocks(MemorySource(block, "t/log"))
    return decode_delete_block(found)


def _list(body: bytes, version: int = 3) -> bytes:
    return struct.pack(">ii", version, len(body)) + body


@pytest.mark.parametrize(
    ("text", "key", "partition"),
    [(DATA_EXAMPLE, "k2", "p=p1"), (METADATA_EXAMPLE, "str\\$a$k1", "secondary_index_idx_s")],
)
def test_delete_of_the_jvm_is_read_and_written_to_the_byte(text, key, partition):
    found = _decode(bytes.fromhex(text))
    assert (found.keys.to_pylist(), found.partitions.to_pylist()) == ([key], [partition])
    assert found.ordering_values().unconditional.tolist() == [True]
    written = encode_delete_content(pa.array([key]), pa.array([partition]), None)
    assert written.hex() == text


def test_non_partitioned_delete_has_an_empty_path():
    content = encode_delete_content(pa.array(["k"]), pa.array([""]), None)
    assert content.hex() == "00000003" + "00000009" + "02" + "02026b" + "0200" + "0400" + "00"
    assert _decode(content).partitions.to_pylist() == [""]


def test_empty_list_has_no_deletes():
    assert len(_decode(bytes.fromhex("000000030000000100"))) == 0


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_delete_versions_are_refused_by_name(version):
    with pytest.raises(UnsupportedFeature, match=f"version {version}"):
        _decode(_list(b"\0", version))


def test_int_zero_and_null_are_unconditional_among_real_values():
    ordering = pa.array([4, 0, None, -6], pa.int32())
    found = _decode(encode_delete_content(pa.array(list("abcd")), pa.array(["p"] * 4), ordering))
    values = found.ordering_values()
    assert values.unconditional.tolist() == [False, True, True, False]
    assert values.values.to_pylist() == [4, None, None, -6]


def test_long_zero_is_a_real_value_and_null_is_unconditional():
    ordering = pa.array([0, None], pa.int64())
    values = _decode(
        encode_delete_content(pa.array(["a", "b"]), pa.array(["p"] * 2), ordering)
    ).ordering_values()
    assert values.unconditional.tolist() == [False, True]
    assert values.values.to_pylist() == [0, None]


def test_null_branch_is_unconditional():
    values = _decode(_list(bytes.fromhex("02" + "02026b" + "0200" + "00" + "00"))).ordering_values()
    assert values.unconditional.tolist() == [True]


def test_values_of_different_types_have_no_single_column():
    body = bytes.fromhex("04" + "02026b" + "0200" + "040e" + "02026c" + "0200" + "060e" + "00")
    values = _decode(_list(body)).ordering_values()
    assert values.values is None
    assert values.unconditional.tolist() == [False, False]


def test_several_ordering_fields_become_a_struct():
    ordering = [pa.array([1, 2], pa.int64()), pa.array(["x", "y"])]
    content = encode_delete_content(pa.array(["a", "b"]), pa.array(["p", "p"]), ordering)
    first = "020261" + "020270" + "18" + "02" + "04" + "0602" + "0e0278" + "00"
    assert content.hex()[18:].startswith(first)
    values = _decode(content).ordering_values()
    assert values.values.to_pylist() == [{"0": 1, "1": "x"}, {"0": 2, "1": "y"}]


def test_list_in_several_parts_is_read():
    item = bytes.fromhex("02026b" + "0200" + "0400")
    sized = b"\x03" + bytes([2 * len(item) * 2]) + item * 2
    assert len(_decode(_list(b"\x02" + item + sized + b"\x04" + item * 2 + b"\0"))) == 5


def test_list_in_absurdly_many_parts_is_refused():
    with pytest.raises(UnsupportedFeature):
        _decode(_list(b"\x02\0\0\0" * 300 + b"\0"))


def test_large_list_round_trips():
    count = 40_000
    numbers = np.arange(count)
    keys = pa.array([f"key-{number:x}" * (1 + number % 3) for number in range(count)])
    partitions = pa.array([f"p={number % 11}" for number in range(count)])
    for ordering in (None, pa.array(numbers + 2**40), [pa.array(numbers), pa.array(numbers / 2)]):
        found = _decode(encode_delete_content(keys, partitions, ordering))
        assert found.keys.equals(keys)
        assert found.partitions.equals(partitions)
    assert found.ordering_values().values.field(1).to_numpy().tolist() == (numbers / 2).tolist()


def test_large_hostile_list_of_smallest_records_is_read():
    count = 100_000
    body = bytes.fromhex("c09a0c") + b"\0\0\0" * count + b"\0"
    assert _decode(_list(body)).keys.null_count == count


@given(
    st.lists(
        st.tuples(st.text(max_size=8), st.text(max_size=4), st.none() | st.integers(-9, 9)),
        max_size=150,
    )
)
def test_any_deletes_round_trip(rows):
    keys, partitions, ordering = (
        pa.array([row[place] for row in rows], kind)
        for place, kind in enumerate((pa.string(), pa.string(), pa.int64()))
    )
    found = _decode(encode_delete_content(keys, partitions, ordering))
    assert found.keys.equals(keys)
    assert found.partitions.equals(partitions)
    values = found.ordering_values()
    assert values.values.to_pylist() == ordering.to_pylist()
    assert values.unconditional.tolist() == [row[2] is None for row in rows]


def test_columns_of_different_lengths_are_refused():
    two, one = pa.array(["a", "b"]), pa.array(["a"])
    for arguments in ((two, one, None), (two, two, pa.array([1])), (two, two, [pa.array([1])])):
        with pytest.raises(InvalidInput):
            encode_delete_content(*arguments)


def test_ordering_types_without_a_wrapper_are_refused():
    for column in (pa.array([[1]]), pa.array([1], pa.uint64())):
        with pytest.raises(InvalidInput):
            encode_delete_content(pa.array(["k"]), pa.array(["p"]), column)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02",
        b"\x02\0\0\0",
        b"\0\0",
        b"\x04\0\0\0\0",
        b"\xff" * 12,
        bytes.fromhex("02" + "02026b" + "0200" + "1a00" + "00"),
        bytes.fromhex("02" + "0401" + "0200" + "0400" + "00"),
        bytes.fromhex("02" + "0201" + "0200" + "0400" + "00"),
        bytes.fromhex("fcffffffffffffffff01") + b"\0" * 9,
        bytes.fromhex("01") * 20,
    ],
)
def test_damaged_lists_are_refused(body):
    with pytest.raises(CorruptFile):
        _decode(_list(body))


def test_wrong_sizes_are_refused():
    for content in (b"", b"\0\0\0\3", _list(b"\0") + b"x", struct.pack(">ii", 3, -1)):
        with pytest.raises(CorruptFile):
            _decode(content)


def test_every_damage_gives_deletes_or_an_error():
    keys = pa.array([f"key{number}" for number in range(12)])
    ordering = [pa.array(range(12)), pa.array(["ab"] * 12)]
    for column in (None, pa.array(range(12)), ordering):
        content = encode_delete_content(keys, keys, column)
        variants = [content[:end] for end in range(len(content))]
        variants += [
            content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            for at in range(len(content))
        ]
        for variant in variants:
            try:
                _decode(variant).ordering_values()
            except LakedexError:
                continue


_LIKELY = (0, 2, 2, 2, 4, 6, 8, 10, 12, 14, 16, 24, 1, 3, 0x80, 0xFF)


@given(st.lists(st.one_of(st.sampled_from(_LIKELY), st.integers(0, 255)), min_size=3, max_size=40))
def test_one_record_ends_where_the_vectors_say(data):
    skipper = _Skipper(np.array(data, dtype=np.uint8))
    ends = skipper.item(np.arange(len(data)))
    assert [skipper.one_item(at) for at in range(len(data))] == ends.tolist()
