"""How fast HFiles are written and searched: a record index of a million UUID keys.

Run `python bench/bench_hfile.py [entries]`; it prints figures and, where there is one, the goal.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format import compression
from lakedex.format.hfile import HFileReader, write_hfile
from lakedex.format.hfile.block import decode_payload
from lakedex.format.hfile.data_blocks import read_stored
from lakedex.format.hfile.varint import varint
from lakedex.storage import open_storage

LOOKUPS = 100_000
GROUPS = 200
SCHEMA = b'{"type":"record","name":"HoodieMetadataRecord","fields":[]}' * 100


def timed(work: Callable[[], object], repeat: int = 5) -> float:
    """The best time of some runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def uuid_keys(count: int, rng: np.random.Generator) -> pa.Array:
    """Sorted random UUIDs as text."""
    hexadecimal = np.frombuffer(rng.bytes(16 * count).hex().encode(), np.uint8).reshape(count, 32)
    text = np.full((count, 36), ord("-"), np.uint8)
    for start, stop, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        text[:, at : at + stop - start] = hexadecimal[:, start:stop]
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), count, [None, pa.py_buffer(text)])
    keys = fixed.cast(pa.binary())
    return keys.take(pc.sort_indices(keys))


def record_index_values(count: int, rng: np.random.Generator) -> pa.Array:
    """Avro values of the record index: 200 file ids in 28 partitions, written by 8 commits."""
    kinds = []
    for number in range(GROUPS):
        date = f"2024-01-{number % 28 + 1:02d}".encode()
        high, low = (zigzag(int(bits)) for bits in rng.integers(-(2**63), 2**63 - 1, 2))
        instant = zigzag(1_704_067_200_000 + number % 8 * 3_600_000)
        head = b"\0" * 6 + b"\x0a\0\0\0\x02\x02" + zigzag(len(date)) + date
        kinds.append(
            head + b"\x02" + high + b"\x02" + low + b"\x02\0\x02\0\x02" + instant + b"\0\0\0"
        )
    return pa.array(kinds, pa.binary()).take(pa.array(rng.integers(0, GROUPS, count)))


def zigzag(value: int) -> bytes:
    """A long in Avro's encoding."""
    return varint((value << 1) ^ (value >> 63))


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(7)
    keys, values = uuid_keys(count, rng), record_index_values(count, rng)
    info = {"schema": SCHEMA}
    print(f"{count:,} entries, values of {values.nbytes / count - 4:.0f} bytes")
    seconds = timed(lambda: write_hfile(keys, values, file_info=info), 3)
    data = write_hfile(keys, values, file_info=info)
    print(f"write: {seconds:.2f} s, {count / seconds:,.0f} entries/s")
    print(f"size: {len(data) / count:.1f} bytes per entry (goal 40)")
    group_of = rng.integers(0, GROUPS, count)
    total = 0
    for group in range(GROUPS):
        rows = pa.array(np.flatnonzero(group_of == group))
        total += len(write_hfile(keys.take(rows), values.take(rows), file_info=info))
    print(f"size in {GROUPS} file groups: {total / count:.1f} bytes per entry (goal 40)")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "record_index.hfile").write_bytes(data)
        source = open_storage(folder).source("record_index.hfile", len(data))
        reading(source, keys, rng)
        without_isal(source, keys, values, seconds)


def reading(source, keys, rng):
    count = len(keys)
    wanted = keys.take(pa.array(rng.permutation(count)[:LOOKUPS]))
    seconds = timed(lambda: HFileReader(source).lookup(wanted), 7)
    assert len(HFileReader(source).lookup(wanted)) == len(wanted)
    rate = len(wanted) / seconds
    print(
        f"batch lookup: {len(wanted):,} keys in {seconds * 1e3:.0f} ms, {rate:,.0f} keys/s "
        f"(goal 500,000: {rate / 500_000:.2f}x)"
    )
    inflating = timed(lambda: inflate_all(source), 5)
    print(f"  of which reading and inflating the blocks: {inflating * 1e3:.0f} ms")
    times, blocks = [], []
    for row in rng.integers(0, count, 50).tolist():
        start = time.perf_counter()
        reader = HFileReader(source)
        assert len(reader.lookup(keys[row : row + 1])) == 1
        times.append(time.perf_counter() - start)
        blocks.append(reader.reads.blocks)
    print(
        f"one key, cold reader: {statistics.median(times) * 1e3:.2f} ms "
        f"(worst {max(times) * 1e3:.2f}; goal 5), {max(blocks)} data blocks (goal < 3)"
    )
    reader = HFileReader(source)
    reader.lookup(keys[:1])
    seconds = timed(lambda: reader.lookup(keys[5:6]), 20)
    print(f"one key, block kept: {seconds * 1e3:.2f} ms")
    seconds = timed(lambda: HFileReader(source).scan(), 3)
    print(f"scan: {seconds:.2f} s, {count / seconds:,.0f} entries/s")


def inflate_all(source):
    reader = HFileReader(source)
    index = reader._root
    for block in read_stored(source, index, np.arange(len(index)), reader.reads):
        decode_payload(block.view, block.header, reader.trailer.codec, block.place)


def without_isal(source, keys, values, seconds):
    scan = timed(lambda: HFileReader(source).scan(), 3)
    compression._isal = compression._igzip = None
    with_zlib = timed(lambda: write_hfile(keys, values), 1)
    size = len(write_hfile(keys, values)) / len(keys)
    slow_scan = timed(lambda: HFileReader(source).scan(), 3)
    print(
        f"zlib instead of isal: write {with_zlib / seconds:.1f}x the time, {size:.1f} bytes per "
        f"entry, scan {slow_scan / scan:.1f}x the time"
    )


if __name__ == "__main__":
    main()
