"""How fast HFiles are written and searched: a record index of a million UUID keys.

Rates are by the processor time of one core, so that a busy machine disturbs them little; a single
key is timed by the clock on the wall.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from report import Figure, best, run
from rides import uuid_texts

from lakedex.format.hfile import Codec, HFileOptions, HFileReader, write_hfile
from lakedex.format.hfile.block import decode_payload
from lakedex.format.hfile.data_blocks import read_stored
from lakedex.format.hfile.trailer import varint
from lakedex.storage import open_storage

ENTRIES = {True: 100_000, False: 1_000_000}
"""How many, quick or not."""

GROUPS = 200
GOAL_BYTES = 40
GOAL_KEYS = 500_000
GOAL_ONE_MS = 5
GOAL_BLOCKS = 2
SCHEMA = b'{"type":"record","name":"HoodieMetadataRecord","fields":[]}' * 100


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


def measure(quick: bool) -> Iterator[Figure]:
    count = ENTRIES[quick]
    rng = np.random.default_rng(7)
    texts = uuid_texts(count, rng).cast(pa.binary())
    keys, values = texts.take(pc.sort_indices(texts)), record_index_values(count, rng)
    info = {"schema": SCHEMA}
    seconds = best(lambda: write_hfile(keys, values, file_info=info), clock="cpu")
    yield Figure("HFile: write", count / seconds, "entries/s")
    data = write_hfile(keys, values, file_info=info)
    yield Figure("HFile: size of an entry in one file", len(data) / count, "bytes", GOAL_BYTES)
    yield split_size(keys, values, None if quick else GOAL_BYTES, rng)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "record_index.hfile").write_bytes(data)
        source = open_storage(folder).source("record_index.hfile", len(data))
        yield from batch_lookup(source, keys, None if quick else GOAL_KEYS, rng)
        yield uncompressed_lookup(folder, keys, values, rng)
        yield from one_lookup(source, keys, rng)
        seconds = best(lambda: HFileReader(source).scan(), clock="cpu")
        yield Figure("HFile: scan", count / seconds, "entries/s")


def split_size(keys, values, goal, rng) -> Figure:
    """The size of an entry when the index is cut into file groups."""
    group_of = rng.integers(0, GROUPS, len(keys))
    total = 0
    for group in range(GROUPS):
        rows = pa.array(np.flatnonzero(group_of == group))
        info = {"schema": SCHEMA}
        total += len(write_hfile(keys.take(rows), values.take(rows), file_info=info))
    what = f"HFile: size of an entry in {GROUPS} file groups"
    return Figure(what, total / len(keys), "bytes", goal)


def batch_lookup(source, keys, goal, rng) -> Iterator[Figure]:
    """A tenth of all keys at once, in no order: every block has to be inflated."""
    wanted = keys.take(pa.array(rng.permutation(len(keys))[: len(keys) // 10]))
    if len(HFileReader(source).lookup(wanted)) != len(wanted):
        raise SystemExit("keys were not found")
    seconds = best(lambda: HFileReader(source).lookup(wanted), 15, clock="cpu")
    rate = len(wanted) / seconds
    yield Figure("HFile: batch lookup, one core", rate, "keys/s", goal, at_least=True)
    inflating = best(lambda: inflate_all(source), 9, clock="cpu")
    yield Figure("HFile: share of inflating in it", 100 * inflating / seconds, "%")


def uncompressed_lookup(folder, keys, values, rng) -> Figure:
    """The same without gzip: what finding and gathering costs by itself."""
    data = write_hfile(keys, values, options=HFileOptions(codec=Codec.NONE))
    Path(folder, "plain.hfile").write_bytes(data)
    source = open_storage(folder).source("plain.hfile", len(data))
    wanted = keys.take(pa.array(rng.permutation(len(keys))[: len(keys) // 10]))
    seconds = best(lambda: HFileReader(source).lookup(wanted), 9, clock="cpu")
    return Figure("HFile: batch lookup, uncompressed", len(wanted) / seconds, "keys/s")


def one_lookup(source, keys, rng) -> Iterator[Figure]:
    """Single keys, each with a reader that has read nothing yet."""
    times, blocks = [], []
    for row in rng.integers(0, len(keys), 50).tolist():
        start = time.perf_counter()
        reader = HFileReader(source)
        found = reader.lookup(keys[row : row + 1])
        times.append(time.perf_counter() - start)
        blocks.append(reader.reads.blocks)
        if len(found) != 1:
            raise SystemExit("a key was not found")
    yield Figure("HFile: one key, cold reader", statistics.median(times) * 1e3, "ms", GOAL_ONE_MS)
    yield Figure("HFile: blocks read for one key, most", max(blocks), "blocks", GOAL_BLOCKS)
    reader = HFileReader(source)
    reader.lookup(keys[:1])
    seconds = best(lambda: reader.lookup(keys[5:6]), 20)
    yield Figure("HFile: one key, block kept", seconds * 1e3, "ms")


def inflate_all(source) -> None:
    """Read and inflate every data block, and nothing else."""
    reader = HFileReader(source)
    index = reader._root
    for block in read_stored(source, index, np.arange(len(index)), reader.reads):
        decode_payload(block.view, block.header, reader.trailer.codec, block.place)


if __name__ == "__main__":
    run(measure)
