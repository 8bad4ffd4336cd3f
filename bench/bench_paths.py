"""What each second code path gains over the general one beside it, on the data that it is for.

Each path is timed as it is and with its condition set so that the general code runs, in turns, by
the processor time of one core. A path that gains nothing should be removed.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bench_avro import data_batch, index_batch
from bench_hfile import record_index_values
from bench_write import rides
from report import Figure, best, run
from rides import uuid_texts

from lakedex.format import chains
from lakedex.format.avro import METADATA_RECORD, decode_distinct, encode_distinct, encode_records
from lakedex.format.avro import distinct as avro_distinct
from lakedex.format.avro import skip as avro_skip
from lakedex.format.hfile import HFileReader, block, data_blocks, write_hfile
from lakedex.format.hfile import keys as hfile_keys
from lakedex.format.hfile import reader as hfile_reader
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    decode_avro_block,
    encode_avro_content,
    encode_block,
    read_blocks,
)
from lakedex.format.logfile import records as log_records
from lakedex.format.parquet import writer as parquet_writer
from lakedex.schema import arrow_schema, avro_schema
from lakedex.storage import open_storage

ENTRIES = {True: 50_000, False: 1_000_000}
NEVER = 1 << 62
FILE_ROWS = 100_000
LEAST_GAIN = 1.05
"""Below this a path is not worth its lines."""
MOST_COST = 1.05
"""What finding out may cost where the general code is the right one."""
TRIES = 7

Switch = tuple[Any, str, Any]
"""A module, one of its names, and the value by which the general code runs."""


def gain(what: str, work: Callable[[], object], *switches: Switch) -> Figure:
    """How many times faster some work is by the path than without it."""
    fast, slow = [], []
    for _ in range(TRIES):
        fast.append(best(work, 1, clock="cpu"))
        with general(switches):
            slow.append(best(work, 1, clock="cpu"))
    return Figure(what, min(slow) / min(fast), "x", LEAST_GAIN, at_least=True)


class general:  # noqa: N801 - used as a statement
    """While it lasts, the general code runs."""

    def __init__(self, switches: tuple[Switch, ...]) -> None:
        self._patches = [mock.patch.object(*switch) for switch in switches]

    def __enter__(self) -> None:
        for each in self._patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._patches):
            each.stop()


def repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    """Short work, so often that a clock can time it."""

    def again() -> None:
        for _ in range(times):
            work()

    return again


def avro_figures(entries: int) -> Iterator[Figure]:
    batch = index_batch(entries)
    values = encode_distinct(METADATA_RECORD, batch).as_binary()
    wanted = ["recordIndexMetadata"]
    off = (avro_distinct, "_WORTH_ROWS", NEVER)

    def decode(records: pa.Array) -> object:
        return decode_distinct(METADATA_RECORD, records, columns=wanted, path="bench")

    yield gain("Avro: repeated records decoded once (distinct)", lambda: decode(values), off)
    yield gain(
        "Avro: repeated records encoded once (distinct)",
        lambda: encode_distinct(METADATA_RECORD, batch),
        (avro_distinct, "_rows_repeat", lambda *_: False),
    )
    plain = data_batch(max(entries // 5, 10_000))
    schema = avro_schema(plain.schema, "t_record", "hoodie.t")
    once = encode_records(schema, plain).as_binary()
    sampled = gain(
        "Avro: the sample that shows that records do not repeat, as a share of decoding",
        lambda: decode_distinct(schema, once, path="bench"),
        off,
    )
    yield Figure(sampled.what, 1 / sampled.value, "times", MOST_COST)
    for count in (1, 4, 16):
        few = values[:count]
        yield gain(
            f"Avro: {count} records decoded one by one (distinct)",
            repeated(lambda few=few: decode(few), 100),
            (avro_distinct, "MOST_RECORDS", -1),
        )
    files = arrow_schema(METADATA_RECORD).field("filesystemMetadata").type
    listed = [(f"{n:036d}_0.parquet", {"size": n, "isDeleted": False}) for n in range(entries // 5)]
    listing = pa.record_batch(
        {
            "key": [""],
            "type": pa.array([2], pa.int32()),
            "filesystemMetadata": pa.array([listed], files),
        }
    )
    long = encode_records(METADATA_RECORD, listing).as_binary()
    yield gain(
        "Avro: one record with a long map, in runs (skip)",
        lambda: decode_distinct(METADATA_RECORD, long, path="bench"),
        (avro_skip, "_RUN_ITEMS", NEVER),
    )


def hfile_figures(entries: int, folder: Path) -> Iterator[Figure]:
    rng = np.random.default_rng(7)
    texts = uuid_texts(entries, rng).cast(pa.binary())
    keys, values = texts.take(pc.sort_indices(texts)), record_index_values(entries, rng)
    source = written(folder, "fixed.hfile", keys, values)
    many = keys.take(pa.array(rng.permutation(entries)[: entries // 10]))
    yield gain(
        "HFile: cells of keys of one length",
        lambda: HFileReader(source).lookup(many),
        (data_blocks, "find_fixed_width_cells", lambda *_: None),
    )
    yield gain(
        "HFile: many keys of one length as a matrix",
        lambda: HFileReader(source).lookup(many),
        (hfile_reader, "key_matrix", lambda _: None),
    )
    reader = HFileReader(source)
    for count in (1, 4, 16):
        few = many[:count]
        reader.lookup(few)
        yield gain(
            f"HFile: {count} keys searched one by one (PointLookup)",
            repeated(lambda few=few: reader.lookup(few), 50),
            (hfile_reader, "MOST_KEYS", -1),
        )
    lengths = rng.integers(0, 30, entries)
    texts = pa.array([f"{n:08x}{'x' * pad}" for n, pad in enumerate(lengths)], pa.binary())
    various = written(folder, "various.hfile", texts, values)
    prefix = [b"0000", b"0001"]
    reader_of_ranges = HFileReader(various)
    reader_of_ranges.scan_prefixes(prefix)
    yield gain(
        "HFile: bounds of one or two ranges searched one by one",
        repeated(lambda: reader_of_ranges.scan_prefixes(prefix), 20),
        (hfile_keys, "_FEW_QUERIES", -1),
    )


def written(folder: Path, name: str, keys: pa.Array, values: pa.Array) -> Any:
    data = write_hfile(keys, values)
    (folder / name).write_bytes(data)
    return open_storage(str(folder)).source(name, len(data))


def log_figures(rows: int, folder: Path) -> Iterator[Figure]:
    """Blocks of log files: one with many records, and many with few."""
    batch = data_batch(rows)
    schema = avro_schema(batch.schema, "t_record", "hoodie.t")
    header = {HeaderKey.INSTANT_TIME: "20260101000000000", HeaderKey.SCHEMA: schema.to_json()}

    def blocks(name: str, pieces: list[pa.RecordBatch]) -> list[Any]:
        data = b"".join(
            encode_block(BlockKind.AVRO_DATA, header, encode_avro_content(schema, piece))
            for piece in pieces
        )
        (folder / name).write_bytes(data)
        return list(read_blocks(open_storage(str(folder)).source(name, len(data))))

    (whole,) = blocks("one.log", [batch])
    yield gain(
        "Log file: records of a block found from many places at once (chains)",
        lambda: decode_avro_block(whole),
        (chains, "_SHORT_CHAIN", NEVER),
    )
    few = blocks("many.log", [batch.slice(at, 20) for at in range(0, rows // 4, 20)])
    yield gain(
        "Log file: records of many small blocks found together",
        lambda: log_records.decode_avro_blocks(few),
        (log_records, "_MANY_WALKERS", NEVER),
    )


def parquet_figures() -> Iterator[Figure]:
    table = rides(np.arange(FILE_ROWS), 1, 1, np.random.default_rng(3))
    table = table.append_column("_hoodie_record_key", table["id"])
    sizes = []

    def write() -> None:
        file = io.BytesIO()
        sink = pa.PythonFile(file, "w")
        parquet_writer.write_base_file(table, sink, avro_schema_text="{}", compression="snappy")
        sizes.append(file.tell())

    off = (parquet_writer, "seldom_repeats", lambda _: False)
    yield gain("Parquet: columns that seldom repeat, without a dictionary", write, off)
    what = "Parquet: size of the file with dictionaries, beside it"
    yield Figure(what, max(sizes) / min(sizes), "x", LEAST_GAIN, at_least=True)


def gzip_figures(entries: int) -> Iterator[Figure]:
    data = record_index_values(entries, np.random.default_rng(1)).buffers()[2].to_pybytes()
    off = ((block, "_isal", None), (block, "_igzip", None))
    yield gain("gzip: compress by isal", lambda: block.gzip(data), *off)
    packed = block.gzip(data[: 32 << 20])
    size = min(len(data), 32 << 20)
    yield gain(
        "gzip: inflate by isal",
        lambda: block.gunzip(packed, expected_size=size, path="bench", offset=0),
        *off,
    )


def measure(quick: bool) -> Iterator[Figure]:
    entries = ENTRIES[quick]
    yield from avro_figures(entries)
    with tempfile.TemporaryDirectory() as folder:
        yield from hfile_figures(entries, Path(folder))
        yield from log_figures(max(entries // 5, 10_000), Path(folder))
    yield from parquet_figures()
    yield from gzip_figures(entries)


if __name__ == "__main__":
    run(measure)
