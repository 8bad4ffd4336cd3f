"""Gzip with limits: right answers, and no more memory than was promised."""

from __future__ import annotations

import gzip as standard_gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile
from lakedex.format.hfile import block
from lakedex.format.hfile.block import MAX_INFLATED_BYTES, gunzip, gzip


@pytest.fixture(params=["isal", "zlib"])
def either_library(request, monkeypatch):
    if request.param == "zlib":
        monkeypatch.setattr(block, "_isal", None)
        monkeypatch.setattr(block, "_igzip", None)
        monkeypatch.setattr(block, "_ERRORS", (zlib.error, EOFError))
    else:
        pytest.importorskip("isal")
    return request.param


@given(st.binary(max_size=2000), st.integers(1, 3))
def test_round_trip_and_standard_library_agree(data, level):
    packed = gzip(data, level=level)
    assert standard_gzip.decompress(packed) == data
    assert gunzip(packed, expected_size=len(data), path="x", offset=0) == data


def test_empty_member_is_read(either_library):
    assert gunzip(gzip(b""), expected_size=0, path="x", offset=0) == b""


@pytest.mark.parametrize("expected", [0, 1, 99_999, 100_001])
def test_wrong_size_is_refused(either_library, expected):
    packed = gzip(bytes(100_000))
    with pytest.raises(CorruptFile, match="at offset 7"):
        gunzip(packed, expected_size=expected, path="x", offset=7)


def test_every_truncation_is_refused(either_library):
    packed = gzip(b"some bytes to keep" * 3)
    for end in range(len(packed)):
        with pytest.raises(CorruptFile):
            gunzip(packed[:end], expected_size=54, path="x", offset=0)


def test_flipped_checksum_is_refused(either_library):
    packed = bytearray(gzip(b"some bytes to keep"))
    packed[-6] ^= 1
    with pytest.raises(CorruptFile):
        gunzip(bytes(packed), expected_size=18, path="x", offset=0)


def test_sizes_that_deflate_cannot_reach_are_refused_before_inflating(either_library):
    with pytest.raises(CorruptFile, match="after inflating"):
        gunzip(b"\x1f\x8b" * 10, expected_size=20 * 1032 + 1, path="x", offset=0)
    with pytest.raises(CorruptFile, match="after inflating"):
        gunzip(bytes(1 << 20), expected_size=MAX_INFLATED_BYTES + 1, path="x", offset=0)
