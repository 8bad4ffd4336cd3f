"""The record index: what a lookup costs by keys and file groups, and upserts by each write index.

RFC-8 expects a lookup of M keys in N file groups to take K + M/N * c: K for opening the files, c
for each key. Lookups of many sizes in tables of several numbers of file groups are timed, and the
terms are fitted by least squares. One process looks one group up after the other, so what it pays
is K for each group that is opened, b for each block that holds a key, and c for each key; with an
executor for each group that is K + M/N * (b + c) while keys are fewer than blocks, and K + the
blocks of a group * b + M/N * c from then on. Processor seconds count, which other work on the
machine changes less. Then the same upserts are done with SIMPLE, BLOOM and the record index as
write index, on copy-on-write tables without Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from report import Figure, run
from rides import uuid_texts

import lakedex
from lakedex.engine import LocalEngine
from lakedex.index.metadata_table.file_cache import KEPT_FILES
from lakedex.index.metadata_table.group_files import HFILE_OPTIONS
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.table_builder import TableBuilder

ENTRIES = {True: 20_000, False: 1_000_000}
GROUPS = {True: (1, 4), False: (1, 4, 16)}
LOOKUPS = {True: (1, 100, 1_000), False: (1, 100, 1_000, 10_000, 50_000)}
UPSERTS = {True: (10_000, 10, 500), False: (300_000, 60, 5_000)}
"""Rows, files and rows of an upsert."""
INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_RECORD_LEVEL_INDEX")
FILES = 20
TRIES = 3
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ver", pa.int64()), ("fare", pa.float64())]
)


def build(path: Path, keys: pa.Array, groups: int) -> None:
    """A table whose files exist in its metadata table only."""
    builder = TableBuilder(
        path,
        pa.schema([("id", pa.string()), ("n", pa.int64())]),
        record_key="id",
        metadata="base",
        indexes=["record_index"],
        groups={"record_index": groups},
    )
    each = len(keys) // FILES
    rows = pa.table({"id": keys, "n": np.arange(len(keys))})
    builder.commit([((), rows.slice(at * each, each)) for at in range(FILES)], phantom_files=True)
    builder.finish()


def looked_up(path: Path, wanted: pa.Array) -> float:
    """Seconds of a lookup that opens every file anew; the least of some."""
    seconds = []
    for _ in range(TRIES):
        KEPT_FILES.forget()
        metadata = lakedex.open(str(path)).snapshot.metadata
        metadata.groups("record_index")
        began = time.process_time()
        found = metadata.lookup("record_index", wanted).num_rows
        seconds.append(time.process_time() - began)
        if found != len(wanted):
            raise SystemExit(f"{found} of {len(wanted)} keys were found")
    return min(seconds)


def block_count(path: Path) -> int:
    """How many data blocks the record index has."""
    metadata = lakedex.open(str(path)).snapshot.metadata
    groups = [group.file_id for group in metadata.groups("record_index")]
    bases = [metadata.group_reader("record_index", name).base for name in groups]
    return sum(-(-base.raw_bytes // HFILE_OPTIONS.block_size) for base in bases if base)


def lookups(quick: bool) -> Iterator[Figure]:
    """Times of lookups, and the model fitted to them."""
    rng = np.random.default_rng(8)
    keys = uuid_texts(ENTRIES[quick], rng)
    terms, seconds = [], []
    for groups in GROUPS[quick]:
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder, "t"), keys, groups)
            blocks = block_count(Path(folder, "t"))
            for count in LOOKUPS[quick]:
                chosen = keys.take(pa.array(rng.choice(len(keys), count, replace=False)))
                took = looked_up(Path(folder, "t"), chosen)
                terms.append([of_any(groups, count), of_any(blocks, count), count])
                seconds.append(took)
                yield Figure(f"lookup of {count:,} keys in {groups} file groups", took * 1e3, "ms")
    weights = 1 / np.array(seconds)  # so that short lookups count as much as long ones
    matrix = np.array(terms) * weights[:, None]
    found = np.linalg.lstsq(matrix, np.ones(len(seconds)), rcond=None)[0]
    opening, block, key = found
    errors = np.abs(matrix @ found - 1)
    yield Figure("K, opening a file group", opening * 1e3, "ms")
    yield Figure("b, reading a block", block * 1e3, "ms")
    yield Figure("c, finding a key in its block", key * 1e6, "us")
    yield Figure("the model is off by, in the mean", float(errors.mean()) * 100, "%")


def of_any(count: int, keys: int) -> float:
    """How many of so many groups or blocks have one of the keys, which are spread evenly."""
    return count * (1 - (1 - 1 / count) ** keys)


def batch(numbers: np.ndarray, files: int, version: int) -> ArrowRowSource:
    """Rows by number; each file is a partition."""
    columns = {
        "id": np.char.add("ride-", np.char.zfill((numbers * 7919 % 10**9).astype(str), 9)),
        "part": np.char.add("p", (numbers % files).astype(str)),
        "ver": np.full(len(numbers), version),
        "fare": numbers / 8,
    }
    return ArrowRowSource(pa.table(columns, schema=SCHEMA))


def upserts(quick: bool) -> Iterator[Figure]:
    """The same upserts by each write index: few rows of one file, and rows of all files."""
    rows, files, count = UPSERTS[quick]
    for index in INDEXES:
        rng = np.random.default_rng(9)
        with tempfile.TemporaryDirectory() as folder:
            address = StorageAddress.of(str(Path(folder, "t")))
            spec = TableSpec("t", SCHEMA, "id", "ver", "part", "cow", {"hoodie.index.type": index})
            create_table(address.open(), spec)
            writer = TableWriter(address, LocalEngine(2), {})
            writer.bulk_insert(batch(np.arange(rows), files, 1))
            few, spread = [], []
            for turn in range(TRIES):
                one = np.arange(turn, rows, files)[: count // 10]
                many = rng.choice(rows, count, replace=False)
                for numbers, into in ((one, few), (many, spread)):
                    began, busy = time.perf_counter(), time.process_time()
                    writer.upsert(batch(numbers, files, 2 + turn))
                    into.append((time.perf_counter() - began, time.process_time() - busy))
            found = lakedex.open(str(Path(folder, "t"))).to_arrow(columns=["id"]).num_rows
        if found != rows:
            raise SystemExit(f"{index}: {found} rows for {rows}")
        few_rows, all_files = f"{count // 10:,} rows in one file", f"{count:,} rows in all files"
        for what, taken in ((few_rows, few), (all_files, spread)):
            wall, busy = (median(seconds) for seconds in zip(*taken, strict=True))
            yield Figure(f"{index}: upsert of {what}", wall, "s")
            yield Figure(f"{index}: upsert of {what}, processor", busy, "s")


def measure(quick: bool) -> Iterator[Figure]:
    yield from lookups(quick)
    yield from upserts(quick)


if __name__ == "__main__":
    run(measure)
