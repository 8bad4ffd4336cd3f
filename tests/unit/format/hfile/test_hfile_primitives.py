"""Varints, trailer, block headers and file info, against bytes of real files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.hfile.block import BlockFormat, Place, decode_header, encode_block
from lakedex.format.hfile.trailer import (
    Codec,
    Cursor,
    Trailer,
    check_no_timestamps,
    decode_file_info,
    decode_trailer,
    encode_file_info,
    encode_trailer,
    varint,
    vint,
)

REAL_HEADER = bytes.fromhex("44415441424c4b2a0000003f00000034ffffffffffffffff00000040000000005c")
REAL_TRAILER_START = bytes.fromhex(
    "545241424c4b22244a08ab04108c0318342801300138014001480050005a32"
) + (b"org.apache.hudi.io.storage.HoodieHBaseKVComparator" + bytes.fromhex("6001"))
REAL_TRAILER = REAL_TRAILER_START.ljust(4092, b"\0") + b"\0\0\0\x03"


def cursor(data):
    return Cursor(data, path="x", offset=0)


@given(st.integers(0, 2**64 - 1))
def test_varint_round_trip(value):
    assert cursor(varint(value)).varint() == value


@given(st.integers(0, 2**63 - 1))
def test_vint_round_trip(value):
    assert cursor(vint(value)).vint() == value


@pytest.mark.parametrize(
    ("encoded", "value"),
    [("14", 20), ("7f", 127), ("8f80", 128), ("8e0133", 307), ("90", -112), ("8770", -113)],
)
def test_vint_examples(encoded, value):
    assert cursor(bytes.fromhex(encoded)).vint() == value


def test_endless_varint_is_refused():
    with pytest.raises(CorruptFile):
        cursor(b"\xff" * 20).varint()


def test_real_header_gives_its_sizes():
    header = decode_header(memoryview(REAL_HEADER + bytes(63)), 0, Place("x", 0))
    assert (header.raw_size, header.payload_end, header.end) == (52, 92, 96)


def test_real_header_without_its_block_is_refused():
    with pytest.raises(CorruptFile, match="a block of 63 bytes"):
        decode_header(memoryview(REAL_HEADER + bytes(62)), 0, Place("x", 0))


@pytest.mark.parametrize(("per_checksum", "checksums"), [(16384, 3), (0x7FFFFFFF, 1)])
def test_blocks_carry_the_checksum_area_that_their_header_implies(per_checksum, checksums):
    form = BlockFormat(Codec.NONE, bytes_per_checksum=per_checksum)
    block = encode_block(b"DATABLK*", memoryview(bytes(40000)), -1, form)
    assert len(block) == 33 + 40000 + 4 * checksums


def test_real_trailer_is_read_and_written_byte_for_byte():
    trailer = decode_trailer(REAL_TRAILER, path="x", offset=0)
    assert trailer == Trailer(
        file_info_offset=555,
        load_on_open_offset=396,
        data_index_count=1,
        meta_index_count=1,
        entry_count=1,
        codec=Codec.GZIP,
    )
    written = Trailer(555, 396, 1, 1, 1, Codec.GZIP, total_raw_bytes=52)
    assert encode_trailer(written) == REAL_TRAILER


def test_minor_version_is_not_looked_at():
    hbase = REAL_TRAILER[:-4] + b"\x03\0\0\x03"
    assert decode_trailer(hbase, path="x", offset=0).load_on_open_offset == 396


def test_other_major_version_is_refused_by_name():
    with pytest.raises(UnsupportedFeature, match="major version 2"):
        decode_trailer(REAL_TRAILER[:-1] + b"\x02", path="x", offset=0)


@pytest.mark.parametrize(("code", "name"), [(0, "LZO"), (3, "SNAPPY"), (6, "ZSTD"), (77, "77")])
def test_other_codecs_are_refused_by_name(code, name):
    start = REAL_TRAILER_START[:-1] + bytes([code])
    trailer = start.ljust(4092, b"\0") + b"\0\0\0\x03"
    with pytest.raises(UnsupportedFeature, match=name):
        decode_trailer(trailer, path="x", offset=0)


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=300), max_size=8))
def test_file_info_round_trip(info):
    assert decode_file_info(encode_file_info(info), path="x", offset=0) == info


def test_cells_with_versions_are_refused():
    with pytest.raises(UnsupportedFeature, match="versions"):
        check_no_timestamps({"MAX_MEMSTORE_TS_KEY": (5).to_bytes(8, "big")}, path="x")
