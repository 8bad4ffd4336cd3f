"""Damaged and hostile files: a result or an error of ours, soon, and in little memory."""

from __future__ import annotations

import contextlib
import random
import struct
import time

import numpy as np
import pyarrow as pa
import pytest

from lakedex.errors import CorruptFile, LakedexError
from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.format.hfile.block import BlockFormat, encode_block, encode_root_index
from lakedex.format.hfile.cell_starts import KEY_SUFFIX, BrokenCell, find_cells
from lakedex.format.hfile.keys import PADDING
from lakedex.format.hfile.trailer import Trailer, encode_file_info, encode_trailer
from lakedex.storage.source import MemorySource, SourceWindow

KEYS = pa.array([b"key-%04d" % n for n in range(60)])


def small_file(codec):
    options = HFileOptions(block_size=500, codec=codec)
    return write_hfile(KEYS, KEYS, meta_blocks={"bloomFilter": b"AA=="}, options=options)


def use(data):
    """Do everything that a reader can do."""
    reader = HFileReader(MemorySource(data, "t/a.hfile"))
    reader.lookup(KEYS)
    reader.scan_prefixes([b"key-001", b"z"])
    reader.meta_block("bloomFilter")
    return reader.scan()


@pytest.mark.parametrize("codec", list(Codec))
def test_file_cut_off_anywhere_gives_an_error(codec):
    # case B36: a damaged file
    data = small_file(codec)
    cut = data[:-4096]
    for end in range(len(data)):
        with pytest.raises(LakedexError):
            use(data[:end])
    for end in range(0, len(cut), 7):
        with pytest.raises(LakedexError):
            use(data[:end] + data[-4096:])


@pytest.mark.parametrize("codec", list(Codec))
def test_flipped_bits_give_an_error_or_a_result(codec):
    data = small_file(codec)
    generator = random.Random(11)
    meaningful = len(data) - 4096 + 120
    for _ in range(500):
        damaged = bytearray(data)
        damaged[generator.randrange(meaningful)] ^= 1 << generator.randrange(8)
        with contextlib.suppress(LakedexError):
            use(bytes(damaged))


@pytest.mark.parametrize("value", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_hostile_numbers_anywhere_give_an_error_or_a_result(value):
    data = small_file(Codec.NONE)
    for at in range(0, len(data) - 4096 + 120, 13):
        damaged = bytearray(data)
        damaged[at : at + 4] = value.to_bytes(4, "big")
        with contextlib.suppress(LakedexError):
            use(bytes(damaged))


def test_error_names_file_and_place_in_the_outer_file():
    # case B36: a damaged file
    data = bytearray(small_file(Codec.GZIP))
    data[60] ^= 0xFF
    outer = MemorySource(b"x" * 100 + bytes(data), "t/a.log")
    with pytest.raises(CorruptFile) as caught:
        HFileReader(SourceWindow(outer, 100, len(data))).scan()
    assert caught.value.path == "t/a.log"
    assert caught.value.offset == 133


def file_of_one_block(payload, entry_count=1):
    form = BlockFormat(Codec.GZIP)
    block = encode_block(b"DATABLK*", memoryview(payload), -1, form)
    index = encode_root_index([0], [len(block)], [b"\0\x01a"])
    root = encode_block(b"IDXROOT2", memoryview(index), -1, form)
    meta = encode_block(b"IDXROOT2", memoryview(b""), -1, form)
    info = encode_block(b"FILEINF2", memoryview(encode_file_info({})), -1, form)
    trailer = Trailer(0, len(block), 1, 0, entry_count, Codec.GZIP)
    return block + root + meta + info + encode_trailer(trailer)


def cell(content=b"k", value=b"", key_length=None):
    length = len(content) + 12 if key_length is None else key_length
    head = struct.pack(">IIH", length, len(value), len(content))
    return head + content + KEY_SUFFIX + value + b"\0"


@pytest.mark.parametrize(
    "payload",
    [
        cell()[:-1],
        cell() + b"\0",
        cell() + cell()[:9],
        cell(key_length=12),
        cell(key_length=0x10000 + 13),
        cell() + struct.pack(">II", 0xFFFFFFFF, 0xFFFFFFFF) + bytes(30),
        bytes(100),
    ],
)
def test_cells_that_do_not_fit_are_refused(payload):
    reader = HFileReader(MemorySource(file_of_one_block(payload)))
    with pytest.raises(CorruptFile, match="cell"):
        reader.scan()


@pytest.mark.parametrize(
    "payload",
    [
        bytes(60_000_000),
        cell(b"") * 2_000_000,
        struct.pack(">IIH", 12, 0, 0).ljust(21, b"\x01") * 2_000_000,
        (cell(b"", (cell(b"zz", b"")[:-1] + b"\0") * 2)) * 400_000,
    ],
    ids=["zeros", "smallest cells", "no suffixes", "cells in values"],
)
def test_large_hostile_blocks_end_soon(payload):
    reader = HFileReader(MemorySource(file_of_one_block(payload)))
    start = time.process_time()
    with pytest.raises(CorruptFile):
        reader.scan()
    assert time.process_time() - start < 5


def test_trailer_counts_do_not_allocate():
    data = small_file(Codec.GZIP)
    trailer = HFileReader(MemorySource(data)).trailer
    start = trailer.load_on_open_offset
    for fields in ((2**40, 0, 1), (1, 2**40, 1), (2**63, 2**63, 2**63)):
        hostile = encode_trailer(Trailer(0, start, *fields, Codec.GZIP))
        with pytest.raises(CorruptFile):
            HFileReader(MemorySource(data[:-4096] + hostile))


def test_broken_cell_names_its_position():
    payload = bytearray(cell(b"a") + cell(b"b", key_length=99) + bytes(PADDING))
    with pytest.raises(BrokenCell):
        find_cells(payload, np.array([0, len(payload) - PADDING]))
