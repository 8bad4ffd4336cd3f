"""Every HFile of every real table, and the smallest file there is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.storage.source import MemorySource

GOLDEN_FOLDER = Path(__file__).parents[3] / "golden"

SMALLEST = bytes.fromhex(
    "44415441424c4b2a 0000001c 00000018 ffffffffffffffff 00 00004000 00000039"
    "0000000e 00000001 0002 6b31 00 7fffffffffffffff 04 76 00   00000000"
    "494458524f4f5432 00000015 00000011 ffffffffffffffff 00 00004000 00000032"
    "0000000000000000 0000003d 04 0002 6b31   00000000"
    "494458524f4f5432 00000004 00000000 ffffffffffffffff 00 00004000 00000021"
    "00000000"
)


def smallest_file():
    def entry(key, value):
        return bytes([0x0A, len(key) + len(value) + 4, 0x0A, len(key)]) + (
            key + bytes([0x12, len(value)]) + value
        )

    info = (
        entry(b"KEY_VALUE_VERSION", bytes.fromhex("00000001"))
        + entry(b"MAX_MEMSTORE_TS_KEY", bytes(8))
        + entry(b"hfile.LASTKEY", bytes.fromhex("00026b31"))
    )
    assert len(info) == 0x53
    header = "46494c45494e4632 0000005c 00000058 ffffffffffffffff 00 00004000 00000079"
    info_block = bytes.fromhex(header) + b"PBUF\x53" + info + bytes(4)
    message = bytes.fromhex("089801 103d 2801 3000 3801 4001 6002 5a32") + (
        b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
    )
    trailer = b'TRABLK"$' + bytes([len(message)]) + message
    return SMALLEST + info_block + trailer.ljust(4092, b"\0") + b"\0\0\0\x03"


def test_smallest_file_is_read():
    data = smallest_file()
    assert len(data) == 277 + 4096
    reader = HFileReader(MemorySource(data))
    cells = reader.scan()
    assert cells.keys.to_pylist() == [b"k1"]
    assert cells.values.to_pylist() == [b"v"]
    assert reader.lookup(pa.array(["k1", "k2", ""])).query.tolist() == [0]
    assert reader.file_info["hfile.LASTKEY"] == b"\0\x02k1"
    assert reader.meta_block("bloomFilter") is None


def test_smallest_file_is_written_byte_for_byte_up_to_its_file_info():
    options = HFileOptions(codec=Codec.NONE, bytes_per_checksum=16384, index_key_suffix=False)
    data = write_hfile(pa.array(["k1"]), pa.array([b"v"]), options=options)
    assert data[: len(SMALLEST)] == SMALLEST


def golden_hfiles(golden):
    for archive in sorted(GOLDEN_FOLDER.glob("*.zip")):
        yield from sorted(Path(golden(archive.stem).path).rglob("*.hfile"))


def test_all_hfiles_of_all_real_tables_are_read_whole(golden):
    minors, count = set(), 0
    for path in golden_hfiles(golden):
        data = path.read_bytes()
        minors.add(data[-4])
        reader = HFileReader(MemorySource(data, str(path)))
        cells = reader.scan()
        keys = cells.keys.to_pylist()
        assert len(keys) == reader.entry_count
        assert keys == sorted(set(keys))
        found = reader.lookup(cells.keys)
        assert found.keys.equals(cells.keys)
        assert found.values.equals(cells.values)
        assert "schema" in reader.file_info
        assert reader.meta_block("bloomFilter")
        count += len(keys)
    assert minors == {0, 3}
    assert count > 5000


def test_real_files_written_again_hold_the_same_cells(golden):
    for path in golden_hfiles(golden):
        reader = HFileReader(MemorySource(path.read_bytes(), str(path)))
        cells = reader.scan()
        again = HFileReader(
            MemorySource(write_hfile(cells.keys, cells.values, file_info=reader.file_info))
        )
        assert again.scan().values.equals(cells.values)
        assert again.file_info["schema"] == reader.file_info["schema"]
