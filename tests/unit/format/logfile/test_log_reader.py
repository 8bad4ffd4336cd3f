"""Finding the blocks of a log file: exact bytes, torn blocks, hostile headers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, LakedexError, UnsupportedFeature
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    empty_init_block,
    encode_block,
    encode_rollback_block,
    read_blocks,
)
from lakedex.storage.source import MemorySource

ROLLBACK = bytes.fromhex(
    "234855444923000000000000005b0000000100000000000000030000000000000011"
    + b"20250126040936578".hex()
    + "000000030000000130000000010000001"
    + "1"
    + b"20250126040826878".hex()
    + "0000000000000000000000000000000000000061"
)


def _blocks(data: bytes):
    return read_blocks(MemorySource(data, "t/.f_1.log.1_0-0-0"))


def _kinds(data: bytes) -> list[str]:
    return [block.kind.name for block in _blocks(data)]


def _data_block(content: bytes = b"abc", instant: str = "1") -> bytes:
    return encode_block(BlockKind.AVRO_DATA, {HeaderKey.INSTANT_TIME: instant}, content)


def test_rollback_block_of_the_jvm_is_read():
    assert len(ROLLBACK) == 105
    [block] = _blocks(ROLLBACK)
    assert block.kind is BlockKind.COMMAND
    assert block.instant_time == "20250126040936578"
    assert block.target_instant_time == "20250126040826878"
    assert block.content.size == 0
    block.check_rollback()


def test_rollback_block_is_written_as_the_jvm_does():
    assert encode_rollback_block("20250126040936578", "20250126040826878") == ROLLBACK


def test_delete_block_of_the_jvm_has_its_known_frame():
    schema = "s" * 1527
    content = bytes.fromhex("000000030000000e0202046b320208703d7031040000")
    header = {HeaderKey.INSTANT_TIME: "20261115183121930", HeaderKey.SCHEMA: schema}
    block = encode_block(BlockKind.DELETE, header, content)
    assert len(block) == 1628
    assert block[:26].hex() == "234855444923000000000000064e000000010000000100000002"
    assert block[-12:].hex() == "000000000000000000000654"
    assert block[26:51] == bytes.fromhex("0000000000000011") + b"20261115183121930"
    assert block[51:59].hex() == "00000002000005f7"
    assert block[51 + 8 + 1527 : -12] == bytes.fromhex("0000000000000016") + content


def test_empty_init_block_has_80_bytes_and_no_schema():
    block = empty_init_block("00000000000000000")
    assert len(block) == 80
    [found] = _blocks(block)
    assert found.kind is BlockKind.DELETE
    assert list(found.header) == [HeaderKey.INSTANT_TIME]
    assert found.content.read(0, 9).hex() == "000000030000000100"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([kind for kind in BlockKind if kind is not BlockKind.CORRUPT]),
            st.dictionaries(st.sampled_from(HeaderKey), st.text(max_size=9), max_size=9),
            st.binary(max_size=30),
        ),
        max_size=5,
    )
)
def test_blocks_round_trip(parts):
    found = _blocks(b"".join(encode_block(*part) for part in parts))
    read = [(b.kind, dict(b.header), b.content.read(0, b.content.size)) for b in found]
    assert read == parts


def test_empty_file_has_no_blocks():
    assert _blocks(b"") == []


def test_torn_last_block_is_corrupt():
    data = _data_block() + _data_block()[:-1]
    assert _kinds(data) == ["AVRO_DATA", "CORRUPT"]


def test_torn_block_does_not_hide_the_next_one():
    torn = _data_block()[:-5]
    data = torn + _data_block()
    first, second = _blocks(data)
    assert (first.kind.name, first.offset, first.content.size) == ("CORRUPT", 0, len(torn))
    assert (second.kind.name, second.offset) == ("AVRO_DATA", len(torn))


def test_wrong_trailing_length_makes_a_block_corrupt():
    block = _data_block()
    data = block[:-1] + bytes([block[-1] ^ 1]) + _data_block()
    assert _kinds(data) == ["CORRUPT", "AVRO_DATA"]


def test_bytes_without_magic_are_one_corrupt_block():
    assert _kinds(b"x" * 1000) == ["CORRUPT"]
    assert _kinds(b"#HUDI") == ["CORRUPT"]


def test_instant_of_a_corrupt_block_cannot_be_asked_for():
    [block] = _blocks(b"x" * 100)
    with pytest.raises(CorruptFile):
        _ = block.instant_time


def test_unknown_header_key_is_skipped():
    block = bytearray(encode_block(BlockKind.DELETE, {HeaderKey.IS_PARTIAL: "true"}, b""))
    block[26:30] = struct.pack(">i", 99)
    [found] = _blocks(bytes(block))
    assert found.header == {}


@pytest.mark.parametrize("version", [0, 2, -1])
def test_other_log_format_versions_are_refused_by_name(version):
    block = bytearray(_data_block())
    block[14:18] = struct.pack(">i", version)
    with pytest.raises(UnsupportedFeature, match=f"version {version}"):
        _blocks(bytes(block))


@pytest.mark.parametrize("kind", [7, -1, 1000])
def test_unknown_block_types_are_refused_by_name(kind):
    block = bytearray(_data_block())
    block[18:22] = struct.pack(">i", kind)
    with pytest.raises(UnsupportedFeature, match=f"type {kind}"):
        _blocks(bytes(block))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_impossible_header_counts_are_refused(count):
    block = bytearray(_data_block())
    block[22:26] = struct.pack(">i", count)
    with pytest.raises(CorruptFile):
        _blocks(bytes(block))


@pytest.mark.parametrize("length", [-1, 4, 2**63 - 1])
def test_impossible_content_lengths_are_refused(length):
    block = bytearray(_data_block())
    block[-23:-15] = struct.pack(">q", length)
    with pytest.raises(CorruptFile):
        _blocks(bytes(block))


def test_header_text_that_is_not_utf8_is_refused():
    block = bytearray(_data_block(instant="12"))
    block[34:36] = b"\xff\xfe"
    with pytest.raises(CorruptFile, match="UTF-8"):
        _blocks(bytes(block))


def test_other_commands_than_rollback_are_refused():
    header = {HeaderKey.INSTANT_TIME: "1", HeaderKey.COMMAND_BLOCK_TYPE: "5"}
    [block] = _blocks(encode_block(BlockKind.COMMAND, header, b""))
    with pytest.raises(UnsupportedFeature, match="'5'"):
        block.check_rollback()


class _CountingSource(MemorySource):
    """Notes how much was read."""

    __slots__ = ("ranges",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data, "counted")
        object.__setattr__(self, "ranges", [])

    def read(self, start: int, length: int) -> bytes:
        self.ranges.append((start, length))
        return MemorySource.read(self, start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(*one) for one in ranges]


def test_contents_of_large_blocks_are_not_read():
    data = b"".join(_data_block(bytes(3 << 20), str(number)) for number in range(4))
    source = _CountingSource(data)
    assert [block.instant_time for block in read_blocks(source)] == ["0", "1", "2", "3"]
    assert sum(length for _, length in source.ranges) < 1 << 20
    assert len(source.ranges) <= 5


def test_small_file_is_read_in_one_go():
    source = _CountingSource(_data_block() * 50)
    assert len(read_blocks(source)) == 50
    assert len(source.ranges) == 1


def test_magic_is_found_across_the_pieces_of_a_large_torn_block():
    for shift in range(8):
        torn = b"#HUDI#" + bytes((1 << 20) - 9 + shift)
        data = torn + _data_block() + bytes(1 << 20)
        assert _kinds(data) == ["CORRUPT", "AVRO_DATA", "CORRUPT"]


def test_many_false_magics_in_a_large_file_take_bounded_time():
    lure = b"#HUDI#" + struct.pack(">q", 1 << 20)
    assert set(_kinds(lure * 20_000 + bytes(2 << 20))) == {"CORRUPT"}


def test_every_truncation_and_bit_flip_gives_blocks_or_an_error():
    data = ROLLBACK + _data_block() + empty_init_block("0" * 17)
    damaged = [data[:end] for end in range(len(data))]
    damaged += [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    for variant in damaged:
        try:
            blocks = _blocks(variant)
        except LakedexError:
            continue
        assert all(block.offset < len(variant) for block in blocks)
