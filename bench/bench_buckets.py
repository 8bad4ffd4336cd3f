"""Bucket indexes beside bloom filters, the record index and Hudi: writes, resizes and growth.

    python bench/bench_buckets.py [--quick] [--rows 1000000]

Tables of the same rows, each with another write index, take turns: a load, then upserts of which
80 % are updates. Hudi 1.2 loads and upserts the same rows on Spark, if `make interop` has installed
it. Then upserts beside a pending resize, the cost of tagging by the number of buckets, and tables
that grow to a hundred times their rows while their buckets are split.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_write import prepare, rides
from children import PYTHON, answer_of
from report import ROOT, Figure, best, run

from lakedex.config.bucket_options import BucketEngineType
from lakedex.engine import LocalEngine
from lakedex.filegroup import count_rows_of
from lakedex.index.kinds.bucket.engine import RingBuckets, SimpleBuckets
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.index.kinds.bucket.ring import even_ring, prefix_ring
from lakedex.services.clustering.resizing import schedule_resize
from lakedex.services.inline import writer_with_services
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.timeline import Action
from lakedex.write.resizing import ResizeLimits
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.tag.bucket_index import BucketGroups, BucketPlan
from lakedex.write.verbs import TableWriter

ROWS, QUICK_ROWS = 1_000_000, 20_000
PARTITIONS = 10
BUCKETS = 4
"""Of each partition."""
UPSERT_SHARE = 20
"""An upsert has the rows of the table divided by this."""
RINGS = ("consistent", "extendible")
RECORDS, PLAIN = "record index", "no bucket index"
BUCKETS_OF = {"simple": "SIMPLE", "consistent": "CONSISTENT_HASHING"}
INDEXES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        **{
            name: {
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": engine,
                "hoodie.bucket.index.num.buckets": str(BUCKETS),
            }
            for name, engine in (*BUCKETS_OF.items(), ("extendible", "EXTENDIBLE_HASHING"))
        },
        "bloom": {"hoodie.index.type": "BLOOM"},
        RECORDS: {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
    }
)
HUDI = ("hudi-simple-buckets", "hudi-consistent-buckets", "hudi-bloom", "hudi-mor")
DUAL = {
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy."
        "SparkConsistentBucketDuplicateUpdateStrategy"
    )
}
CONSISTENT_BESIDE_SIMPLE, BLOOM_BESIDE_SIMPLE, BESIDE_RECORDS, BESIDE_PLAIN = 1.1, 3.0, 1.0, 1.0
DUAL_BESIDE_SINGLE = 1.5
FEW_BUCKETS, MANY_BUCKETS, TAGGED = 4, 100_000, 50_000
GROWTH, STEPS, FILES = 100, 20, 32
"""The table grows so many times, in so many writes, to about so many files of the target size."""
SMALLEST, LARGEST, REWRITTEN = 0.5, 2.0, 2.0
ZIPF = 1.2
GROWTH_SCHEMA = pa.schema([("id", pa.string()), ("ver", pa.int64()), ("v", pa.string())])


def measure(quick: bool, rows: int | None = None) -> Iterator[Figure]:
    count = rows or (QUICK_ROWS if quick else ROWS)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        prepare(data, count, PARTITIONS, max(count // UPSERT_SHARE, 1))
        for kind in ("cow", "mor"):
            yield from writes(Path(folder, kind), data, kind)
        yield from hudi(data)
        yield from dual_writes(Path(folder, "dual"), data)
    yield from tagging(min(TAGGED, max(count // UPSERT_SHARE, 1)))
    for keys in (uniform_keys, zipf_keys):
        with tempfile.TemporaryDirectory() as folder:
            yield from growth(Path(folder), count, keys)


def new_table(path: Path, kind: str, index: Mapping[str, str]) -> TableWriter:
    """An empty table of rides."""
    address = StorageAddress.of(str(path))
    schema = rides(np.arange(1), 1, 1, np.random.default_rng(1)).schema
    create_table(address.open(), TableSpec("rides", schema, "id", "ver", "part", kind, dict(index)))
    return TableWriter(address, LocalEngine())


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def batches_of(data: Path) -> list[pa.Table]:
    return [pq.read_table(folder) for folder in sorted(data.glob("batch-*"))]


def writes(folder: Path, data: Path, kind: str) -> Iterator[Figure]:
    """Loads and upserts of tables with each index, by turns."""
    load, batches = pq.read_table(data / "load"), batches_of(data)
    writers, loads = loaded(folder, load, kind)
    upserts = upserted(writers, batches)
    counts = {name: rows_of(writers[name]) for name in INDEXES}
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"tables disagree about the rows: {counts}")
    where = f"{load.num_rows:,} rows, {kind}"
    for name, seconds in loads.items():
        yield Figure(f"{where}: load, {name}", seconds, "s")
    for name, seconds in upserts.items():
        yield Figure(f"{where}: upsert of {batches[0].num_rows:,}, {name}", seconds, "s")
    yield from ratios(where, loads, upserts)


def loaded(
    folder: Path, rows: pa.Table, kind: str
) -> tuple[dict[str, TableWriter], dict[str, float]]:
    """The writers of loaded tables, and the seconds of each load."""
    writers, loads, sizes = {}, {}, {}
    # What is loaded first waits for imports.
    new_table(folder / "first", kind, INDEXES["simple"]).bulk_insert(ArrowRowSource(rows[:1000]))
    for name, index in (INDEXES | {PLAIN: {"hoodie.index.type": "SIMPLE"}}).items():
        writer = new_table(folder / name.replace(" ", "-"), kind, index).with_options(sizes)
        loads[name] = timed(lambda w=writer: w.bulk_insert(ArrowRowSource(rows)))
        writers[name] = writer
        if not sizes:
            # All tables have files alike: those that are no buckets are as large as buckets.
            of_bucket = sum(sizes_of(writer.address)) // (PARTITIONS * BUCKETS)
            sizes = {"hoodie.parquet.max.file.size": str(of_bucket)}
    return writers, loads


def upserted(writers: Mapping[str, TableWriter], batches: list[pa.Table]) -> dict[str, float]:
    """The median seconds of upserts into the table of each index."""
    taken: dict[str, list[float]] = {name: [] for name in INDEXES}
    names = list(INDEXES)
    for number, batch in enumerate(batches):
        # Each is the first one now and then.
        for name in names[2 * number :] + names[: 2 * number]:
            upsert = writers[name].upsert
            taken[name].append(timed(lambda u=upsert, b=batch: u(ArrowRowSource(b))))
    return {name: statistics.median(each) for name, each in taken.items()}


def ratios(
    where: str, loads: Mapping[str, float], upserts: Mapping[str, float]
) -> Iterator[Figure]:
    """How loads and upserts with buckets compare."""
    simple = upserts["simple"]
    for name in RINGS:
        ratio, goal = upserts[name] / simple, CONSISTENT_BESIDE_SIMPLE
        yield Figure(f"{where}: upsert, {name} beside simple", ratio, "times", goal)
    ratio = upserts["bloom"] / simple
    yield Figure(
        f"{where}: upsert, bloom beside simple", ratio, "times", BLOOM_BESIDE_SIMPLE, at_least=True
    )
    for name in ("simple", *RINGS):
        ratio = upserts[name] / upserts[RECORDS]
        yield Figure(f"{where}: upsert, {name} beside {RECORDS}", ratio, "times", BESIDE_RECORDS)
    for name in ("simple", *RINGS):
        ratio = loads[name] / loads[PLAIN]
        yield Figure(f"{where}: load, {name} beside {PLAIN}", ratio, "times", BESIDE_PLAIN)


def rows_of(writer: TableWriter) -> int:
    """How many rows the table of a writer has."""
    snapshot = writer.snapshot()
    return count_rows_of(snapshot.read_context, list(snapshot.slices))


def hudi(data: Path) -> Iterator[Figure]:
    """The same load and upserts by Hudi on Spark."""
    jars = ROOT / ".interop" / "jars"
    if not PYTHON.exists() or not list(jars.glob("hudi-spark3.5-bundle*")):
        print("  Hudi is not measured: `make interop` installs it", file=sys.stderr)
        return
    for name in HUDI:
        with tempfile.TemporaryDirectory() as work:
            answer = answer_of("measure.py", name, data, work)
        yield Figure(f"load, {name}", answer["load"], "s")
        yield Figure(f"upsert, {name}", statistics.median(answer["upserts"]), "s")


def dual_writes(folder: Path, data: Path) -> Iterator[Figure]:
    """Upserts while all buckets are being split, beside those of a table that nobody resizes."""
    load, batches = pq.read_table(data / "load"), batches_of(data)
    single, dual = (
        new_table(folder / name, "mor", INDEXES["consistent"]) for name in ("single", "dual")
    )
    for writer in (single, dual):
        writer.bulk_insert(ArrowRowSource(load))
    everything = ResizeLimits(1, split_above=0, merge_below=0)
    if schedule_resize(dual, everything, MiddlePolicy()) is None:
        raise RuntimeError("no bucket is to be split")
    dual = dual.with_options(DUAL)
    taken: tuple[list[float], list[float]] = ([], [])
    for batch in batches:
        for writer, seconds in zip((single, dual), taken, strict=True):
            seconds.append(timed(lambda w=writer, b=batch: w.upsert(ArrowRowSource(b))))
    alone, beside = map(statistics.median, taken)
    yield Figure("upsert, no resize pends", alone, "s")
    yield Figure("upsert to old and new buckets", beside, "s")
    ratio = beside / alone
    yield Figure("upsert to old and new buckets, ratio", ratio, "times", DUAL_BESIDE_SINGLE)


def tagging(count: int) -> Iterator[Figure]:
    """The file groups of keys, of which nothing is read, by the number of buckets."""
    keys = pa.array(np.char.add("ride-", np.arange(count).astype(str)))
    partitions = pa.repeat("p0", count)
    most = log(MANY_BUCKETS) / log(FEW_BUCKETS)
    makers = {
        BucketEngineType.SIMPLE: lambda n: SimpleBuckets("p0", n),
        BucketEngineType.CONSISTENT_HASHING: lambda n: RingBuckets(even_ring("p0", n)),
        BucketEngineType.EXTENDIBLE_HASHING: lambda n: RingBuckets(
            prefix_ring("p0", 1 << (n - 1).bit_length()), is_of_prefixes=True
        ),
    }
    for engine, make in makers.items():
        seconds = {}
        for buckets in (FEW_BUCKETS, MANY_BUCKETS):
            own = make(buckets)
            present = frozenset(own.file_id(number) for number in range(own.count))
            plan = BucketPlan.of(("id",), {"p0": BucketGroups(own, present, frozenset())})
            seconds[buckets] = best(lambda p=plan: p.targets(keys, partitions), 5)
            what = f"tagging {count:,} keys, {engine.value}, {buckets:,} buckets"
            yield Figure(what, seconds[buckets] * 1000, "ms")
        ratio = seconds[MANY_BUCKETS] / seconds[FEW_BUCKETS]
        yield Figure(f"tagging, {engine.value}, ratio", ratio, "times", most)


@dataclass(frozen=True)
class Keys:
    """The keys of a table that grows."""

    name: str
    of: Callable[[int, int], pa.Array]
    """Those from one number to another."""


def _uniform(first: int, last: int) -> pa.Array:
    return pa.array(np.char.add("ride-", np.arange(first, last).astype(str)))


def _zipf(first: int, last: int) -> pa.Array:
    prefixes = np.random.default_rng(first).zipf(ZIPF, last - first) % 1_000_000
    numbers = np.char.add("-", np.arange(first, last).astype(str))
    return pa.array(np.char.add(prefixes.astype(str), numbers))


uniform_keys = Keys("uniform keys", _uniform)
zipf_keys = Keys("Zipf prefixes", _zipf)


def growth(folder: Path, rows: int, keys: Keys) -> Iterator[Figure]:
    """A table that grows while its buckets are split beside the writes."""
    address = StorageAddress.of(str(folder / "t"))
    index = {**INDEXES["consistent"], "hoodie.bucket.index.num.buckets": "1"}
    create_table(address.open(), TableSpec("t", GROWTH_SCHEMA, "id", "ver", "", "cow", dict(index)))
    first = max(rows // GROWTH, 1)
    TableWriter(address).upsert(ArrowRowSource(_new_rows(keys, 0, first)))
    begun = sum(sizes_of(address))
    # A file without rows has a size of its own, which the table does not grow by.
    target = max(begun * GROWTH // FILES, 2 * begun)
    options = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.class": (
            "org.apache.hudi.client.clustering.plan.strategy."
            "SparkConsistentBucketClusteringPlanStrategy"
        ),
        "hoodie.clustering.execution.strategy.class": (
            "org.apache.hudi.client.clustering.run.strategy."
            "SparkConsistentBucketClusteringExecutionStrategy"
        ),
        "hoodie.parquet.max.file.size": str(target),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    writer = writer_with_services(address, LocalEngine(), options)
    at = first
    for step in range(1, STEPS + 1):
        until = round(first * GROWTH ** (step / STEPS))
        writer.upsert(ArrowRowSource(_new_rows(keys, at, until)))
        at = until
    sizes = sizes_of(address)
    where = f"{keys.name}, {first:,} to {at:,} rows"
    yield Figure(f"{where}: files", len(sizes), "files")
    yield Figure(
        f"{where}: smallest file, of the target",
        min(sizes) / target,
        "times",
        SMALLEST,
        at_least=True,
    )
    yield Figure(f"{where}: largest file, of the target", max(sizes) / target, "times", LARGEST)
    rewritten = _rewritten(address) / (sum(sizes) - begun)
    yield Figure(f"{where}: rewritten by resizes, of the growth", rewritten, "times", REWRITTEN)


def _new_rows(keys: Keys, first: int, last: int) -> pa.Table:
    rng = np.random.default_rng(first)
    columns = [keys.of(first, last), np.ones(last - first, np.int64)]
    text = pa.array(np.char.add("text ", rng.integers(0, 1 << 40, last - first).astype(str)))
    return pa.table([*columns, text], schema=GROWTH_SCHEMA)


def sizes_of(address: StorageAddress) -> list[int]:
    """The sizes of the files that the table consists of."""
    slices = Snapshot.open(address.open()).slices
    return [each.base.size_bytes for each in slices if each.base is not None]


def _rewritten(address: StorageAddress) -> int:
    timeline = Snapshot.open(address.open()).timeline
    return sum(
        stat.file_size_bytes
        for each in timeline.write_instants()
        if each.action is Action.REPLACECOMMIT
        for stat in timeline.commit_metadata(each).stats()
    )


if __name__ == "__main__":
    run(measure, takes_rows=True)
