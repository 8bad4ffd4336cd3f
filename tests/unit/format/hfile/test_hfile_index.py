"""The block index: shortened keys, levels, keys for HBase readers, and what a lookup reads."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.format.hfile.block import (
    BlockFormat,
    Place,
    decode_block,
    encode_block,
    encode_root_index,
    root_entries,
)
from lakedex.format.hfile.cell_starts import KEY_SUFFIX
from lakedex.format.hfile.trailer import Trailer, encode_file_info, encode_trailer
from lakedex.storage.source import MemorySource

FORM = BlockFormat(Codec.GZIP)


def stored_key(key, suffix=b""):
    return len(key).to_bytes(2, "big") + key + suffix


def data_payload(cells):
    return b"".join(
        struct.pack(">IIH", len(k) + 12, len(v), len(k)) + k + KEY_SUFFIX + v + b"\0"
        for k, v in cells
    )


def child_payload(entries):
    bodies = [struct.pack(">qI", offset, size) + stored_key(key) for offset, size, key in entries]
    ends = [0]
    for body in bodies:
        ends.append(ends[-1] + len(body))
    return struct.pack(f">I{len(ends)}I", len(bodies), *ends) + b"".join(bodies)


class FileMaker:
    """Builds HFiles block by block, as the HBase writer may have."""

    def __init__(self):
        self.data = b""

    def add(self, magic, payload):
        block = encode_block(magic, memoryview(payload), -1, FORM)
        self.data += block
        return len(self.data) - len(block), len(block)

    def finish(self, root, entry_count, levels=1, info=None, tail=b""):
        start = len(self.data)
        offsets, sizes, keys = zip(*root, strict=True)
        payload = encode_root_index(offsets, sizes, [stored_key(key, KEY_SUFFIX) for key in keys])
        self.add(b"IDXROOT2", payload + tail)
        self.add(b"IDXROOT2", b"")
        file_info, _ = self.add(b"FILEINF2", encode_file_info(info or {}))
        trailer = Trailer(file_info, start, len(root), 0, entry_count, Codec.GZIP, levels)
        return self.data + encode_trailer(trailer)


def test_index_keys_shorter_than_first_keys_mislead_nobody():
    # case B30: an index key below the first key of its block
    maker = FileMaker()
    first = maker.add(b"DATABLK*", data_payload([(b"apple", b"1"), (b"banana", b"2")]))
    second = maker.add(b"DATABLK*", data_payload([(b"cherry", b"3"), (b"date", b"4")]))
    data = maker.finish([(*first, b"a"), (*second, b"c")], 4)
    reader = HFileReader(MemorySource(data))
    asked = ["date", "a", "c", "cat", "cherry", "b", "banana", "apple", "c", "ce", "", "zoo"]
    cells = reader.lookup(pa.array(asked))
    assert cells.query.tolist() == [0, 4, 6, 7]
    assert cells.values.to_pylist() == [b"4", b"3", b"2", b"1"]
    assert reader.scan_prefixes([b"c", b"ch", b"b"]).values.to_pylist() == [b"2", b"3"]
    assert reader.scan_prefixes([b"ca", b"cz"]).values.to_pylist() == []


def levels_file(levels):
    """Ten blocks of ten keys; leaves of two blocks; above them intermediate blocks of two."""
    maker = FileMaker()
    entries = []
    for block in range(10):
        cells = [(b"%03d" % (10 * block + n), b"v%d" % n) for n in range(10)]
        entries.append((*maker.add(b"DATABLK*", data_payload(cells)), cells[0][0]))
    for level in range(levels - 1):
        magic = b"IDXLEAF2" if level == 0 else b"IDXINTE2"
        parents = []
        for at in range(0, len(entries), 2):
            pair = entries[at : at + 2]
            parents.append((*maker.add(magic, child_payload(pair)), pair[0][2]))
        entries = parents
    # HBase adds the place of the middle key after the entries of such a root.
    return maker.finish(entries, 100, levels, tail=bytes(16) if levels > 1 else b"")


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_indexes_of_several_levels_are_walked(levels):
    data = levels_file(levels)
    reader = HFileReader(MemorySource(data))
    keys = [b"%03d" % n for n in range(100)]
    assert reader.scan().keys.to_pylist() == keys
    assert reader.lookup(pa.array([*keys, b"0", b"100"])).query.tolist() == list(range(100))
    assert reader.scan_prefixes([b"04", b"099"]).keys.to_pylist() == [*keys[40:50], b"099"]
    fresh = HFileReader(MemorySource(data))
    assert fresh.lookup(pa.array(["055"])).values.to_pylist() == [b"v5"]
    assert fresh.reads.blocks == 1


def test_level_count_out_of_range_is_refused():
    data = levels_file(2)
    trailer = HFileReader(MemorySource(data)).trailer
    many = Trailer(0, trailer.load_on_open_offset, 5, 0, 100, Codec.GZIP, 200)
    with pytest.raises(CorruptFile, match="levels"):
        HFileReader(MemorySource(data[:-4096] + encode_trailer(many)))


def test_root_that_claims_too_few_levels_is_refused():
    data = levels_file(2)
    trailer = HFileReader(MemorySource(data)).trailer
    one = Trailer(0, trailer.load_on_open_offset, 5, 0, 100, Codec.GZIP, 1)
    with pytest.raises(CorruptFile, match="DATABLK"):
        HFileReader(MemorySource(data[:-4096] + encode_trailer(one))).scan()


def test_blocks_listed_twice_are_refused():
    maker = FileMaker()
    block = maker.add(b"DATABLK*", data_payload([(b"a", b"1")]))
    with pytest.raises(CorruptFile, match="ascending blocks"):
        HFileReader(MemorySource(maker.finish([(*block, b"a"), (*block, b"b")], 2)))


def test_entry_count_that_is_wrong_is_refused_by_scans():
    maker = FileMaker()
    block = maker.add(b"DATABLK*", data_payload([(b"a", b"1")]))
    reader = HFileReader(MemorySource(maker.finish([(*block, b"a")], 7)))
    with pytest.raises(CorruptFile, match="7 cells"):
        reader.scan()


def test_cells_with_versions_are_refused():
    maker = FileMaker()
    block = maker.add(b"DATABLK*", data_payload([(b"a", b"1")]))
    info = {"MAX_MEMSTORE_TS_KEY": (9).to_bytes(8, "big")}
    with pytest.raises(UnsupportedFeature):
        HFileReader(MemorySource(maker.finish([(*block, b"a")], 1, info=info)))


def index_keys(data):
    trailer = HFileReader(MemorySource(data)).trailer
    view = memoryview(data)
    place = Place("x", 0)
    payload, _ = decode_block(view, trailer.load_on_open_offset, trailer.codec, place, b"IDXROOT2")
    entries = root_entries(payload, trailer.data_index_count, place)
    return [entries.key(row) for row in range(trailer.data_index_count)]


def test_index_keys_are_whole_keys_as_hbase_readers_want_them():
    # case B32: whole keys in the index
    keys = pa.array([b"%04d" % n for n in range(200)])
    data = write_hfile(keys, keys, options=HFileOptions(block_size=1000))
    stored = index_keys(data)
    assert len(stored) > 5
    assert all(len(key) == 2 + 4 + 10 and key.endswith(KEY_SUFFIX) for key in stored)
    last = HFileReader(MemorySource(data)).file_info["hfile.LASTKEY"]
    assert last == stored_key(b"0199", KEY_SUFFIX)


def test_single_key_reads_one_block_and_no_more():
    keys = pa.array([b"%08d" % n for n in range(100_000)])
    data = write_hfile(keys, keys)
    for wanted, blocks in ((b"00054321", 1), (b"00054321x", 1), (b"", 0), (b"z", 1)):
        reader = HFileReader(MemorySource(data))
        opened = reader.reads.bytes
        reader.lookup(pa.array([wanted]))
        assert reader.reads.blocks == blocks
        assert reader.reads.bytes - opened < 66_000
    assert opened <= 65536


def test_block_is_read_once_per_batch_and_kept_for_the_next():
    keys = pa.array([b"%08d" % n for n in range(10_000)])
    reader = HFileReader(
        MemorySource(write_hfile(keys, keys, options=HFileOptions(block_size=4096)))
    )
    batch = keys[:100].take(pa.array([5, 3, 5, 99, 0, 3]))
    assert reader.lookup(batch).keys.equals(batch)
    assert reader.reads.blocks == 1
    assert reader.lookup(batch).keys.equals(batch)
    assert reader.reads.blocks == 1


def test_walks_over_one_file_at_the_same_time_do_not_disturb_each_other():
    """As threads do that share a snapshot: each took what the other had just inflated."""
    keys = pa.array([b"%08d" % n for n in range(2_000)])
    reader = HFileReader(
        MemorySource(write_hfile(keys, keys, options=HFileOptions(block_size=1024)))
    )
    index = reader._leaf_index(lambda each: np.arange(len(each)))
    rows = np.arange(len(index))
    walks = [reader._blocks.groups(index, rows, max_bytes=1) for _ in range(3)]
    alone = [group.cells().keys[0].as_py() for group in walks[0]]
    ahead = [next(walks[1]).blocks[0] for _ in range(4)]
    together = [
        (one.cells().keys[0].as_py(), other.cells().keys[0].as_py())
        for one, other in zip(walks[1], walks[2], strict=False)
    ]
    assert together == list(zip(alone[len(ahead) :], alone, strict=False))
    assert len(together) > 10


def test_prefix_reads_only_the_blocks_of_its_range():
    keys = pa.array([b"%08d" % n for n in range(100_000)])
    reader = HFileReader(
        MemorySource(write_hfile(keys, keys, options=HFileOptions(block_size=4096)))
    )
    assert len(reader.scan_prefixes([b"000500"])) == 100
    assert reader.reads.blocks <= 3


def test_missing_last_key_is_fine():
    maker = FileMaker()
    block = maker.add(b"DATABLK*", data_payload([(b"a", b"1")]))
    reader = HFileReader(MemorySource(maker.finish([(*block, b"a")], 1)))
    assert reader.file_info == {}
    assert len(reader.lookup(pa.array(["a", "zzz"]))) == 1


# case B33: probes with a length prefix
def test_a_lookup_compares_keys_without_their_stored_length():
    """Keys are stored behind their length; by that a short key would come before every long one."""
    keys = sorted(
        [b"a", b"aa", b"ab" * 200, b"b", b"ba" * 150, b"c" * 257, b"d", b"\x00\x02k1", b"k1"]
    )
    cells = pa.array(keys, pa.binary())
    data = write_hfile(cells, cells, options=HFileOptions(block_size=64))
    reader = HFileReader(MemorySource(data))
    absent = [stored_key(key) for key in keys if stored_key(key) not in keys]
    absent += [b"", b"\x00", b"\x00\x01", b"aaa", b"bb", b"c" * 256, b"c" * 258, b"k", b"z" * 300]
    found = reader.lookup(pa.array([*absent, *reversed(keys)], pa.binary()))
    assert sorted(found.values.to_pylist()) == keys
    assert [len(reader.lookup(pa.array([key], pa.binary())).keys) for key in absent] == [0] * len(
        absent
    )
    assert reader.scan_prefixes([b"b"]).keys.to_pylist() == [b"b", b"ba" * 150]
