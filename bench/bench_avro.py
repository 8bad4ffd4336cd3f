"""How fast Avro records turn into Arrow and back.

Prints records a second for the record index's payloads (many alike) and for plain data rows, and
how that compares with fastavro, which makes Python dictionaries.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable

import fastavro
import numpy as np
import pyarrow as pa

from lakedex.format.avro import (
    METADATA_RECORD,
    decode_distinct,
    decode_records,
    encode_distinct,
    encode_records,
)
from lakedex.schema import arrow_schema, avro_schema

INDEX_ROWS = 1_000_000
DATA_ROWS = 200_000
FILE_GROUPS = 200
PARTITIONS = 5


def best_seconds(work: Callable[[], object], tries: int = 3) -> float:
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def index_batch(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(1)
    group = rng.integers(0, FILE_GROUPS, rows)
    ids = [uuid.UUID(int=int.from_bytes(rng.bytes(16), "big")).int for _ in range(FILE_GROUPS)]
    high = np.array([i >> 64 for i in ids], np.uint64).view(np.int64)
    low = np.array([i & (2**64 - 1) for i in ids], np.uint64).view(np.int64)
    partitions = pa.array([f"state=s{n}" for n in range(PARTITIONS)])
    target = arrow_schema(METADATA_RECORD).field("recordIndexMetadata").type
    info = pa.StructArray.from_arrays(
        [
            partitions.take(pa.array(group % PARTITIONS)),
            pa.array(high[group]),
            pa.array(low[group]),
            pa.array(np.zeros(rows, np.int32)),
            pa.array([""]).take(pa.array(np.zeros(rows, np.int64))),
            pa.array(1794767405287 + group),
            pa.array(np.zeros(rows, np.int32)),
            pa.nulls(rows, pa.int64()),
        ],
        fields=list(target),
    )
    return pa.record_batch(
        {
            "key": pa.array([""]).take(pa.array(np.zeros(rows, np.int64))),
            "type": pa.array(np.full(rows, 5, np.int32)),
            "recordIndexMetadata": info,
        }
    )


def data_batch(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(2)

    def nullable(array: pa.Array) -> pa.Array:
        mask = pa.array(rng.random(rows) < 0.05)
        return pa.array(array.to_pylist(), array.type, mask=mask.to_numpy(zero_copy_only=False))

    words = pa.array([f"word{n}" for n in range(5000)])
    return pa.record_batch(
        {
            "id": pa.array([f"key-{n:010d}" for n in range(rows)]),
            "a": nullable(pa.array(rng.integers(-(2**31), 2**31, rows).astype(np.int32))),
            "b": nullable(pa.array(rng.integers(-(2**62), 2**62, rows))),
            "c": pa.array(rng.random(rows)),
            "d": nullable(pa.array(rng.random(rows).astype(np.float32))),
            "e": nullable(words.take(pa.array(rng.integers(0, 5000, rows)))),
            "f": pa.array(rng.random(rows) < 0.5),
            "g": pa.array(rng.integers(0, 20000, rows).astype(np.int32)).cast(pa.date32()),
            "h": pa.array(rng.integers(0, 2**50, rows)).cast(pa.timestamp("us", "UTC")),
            "i": pa.array(rng.integers(-(10**8), 10**8, rows)).cast(pa.decimal128(20, 0)),
        }
    )


def report(name: str, rows: int, seconds: float, against: float | None = None) -> None:
    ratio = "" if against is None else f"  {against / seconds:6.1f} x fastavro"
    print(f"{name:42s} {rows / seconds:12,.0f} records/s{ratio}")


def bench_index() -> None:
    batch = index_batch(INDEX_ROWS)
    encoded = encode_distinct(METADATA_RECORD, batch)
    values = encoded.as_binary()
    wanted = ["recordIndexMetadata"]
    work = {
        "record index: decode_distinct": lambda: decode_distinct(
            METADATA_RECORD, values, columns=wanted, path="bench"
        ),
        "record index: encode_distinct": lambda: encode_distinct(METADATA_RECORD, batch),
        "record index: decode_records (each)": lambda: decode_records(
            METADATA_RECORD,
            encoded.data,
            encoded.offsets[:-1],
            encoded.offsets[1:],
            columns=wanted,
            path="bench",
        ),
        "record index: encode_records (each)": lambda: encode_records(METADATA_RECORD, batch),
    }
    for name, one in work.items():
        report(name, INDEX_ROWS, best_seconds(one))


def bench_data() -> None:
    batch = data_batch(DATA_ROWS)
    schema = avro_schema(batch.schema, "t_record", "hoodie.t")
    encoded = encode_records(schema, batch)
    judge = fastavro.parse_schema(json.loads(schema.to_json()))
    few = 20_000
    size = int(encoded.offsets[few])
    raw = encoded.data[:size].tobytes()

    def read_all() -> list[object]:
        stream = io.BytesIO(raw)
        return [fastavro.schemaless_reader(stream, judge) for _ in range(few)]

    rows = read_all()

    def write_all() -> None:
        stream = io.BytesIO()
        for row in rows:
            fastavro.schemaless_writer(stream, judge, row)

    scale = DATA_ROWS / few
    bounds = encoded.offsets[:-1], encoded.offsets[1:]
    seconds = best_seconds(lambda: decode_records(schema, encoded.data, *bounds, path="bench"))
    report("data rows, 10 columns: decode", DATA_ROWS, seconds, best_seconds(read_all) * scale)
    seconds = best_seconds(lambda: encode_records(schema, batch))
    report("data rows, 10 columns: encode", DATA_ROWS, seconds, best_seconds(write_all) * scale)


def bench_long_map() -> None:
    """One record that lists many files, as the metadata table's `files` partition has it."""
    count = 100_000
    files = arrow_schema(METADATA_RECORD).field("filesystemMetadata").type
    ids = [uuid.UUID(int=n * 2**90) for n in range(count)]
    names = [f"{one}-0_{n % 97}-31-66_20261115182308345.parquet" for n, one in enumerate(ids)]
    entries = [(name, {"size": 430_000 + n, "isDeleted": False}) for n, name in enumerate(names)]
    batch = pa.record_batch(
        {
            "key": [""],
            "type": pa.array([2], pa.int32()),
            "filesystemMetadata": pa.array([entries], files),
        }
    )
    values = encode_records(METADATA_RECORD, batch).as_binary()
    seconds = best_seconds(lambda: decode_distinct(METADATA_RECORD, values, path="bench"))
    report("one record of 100,000 files: decode", count, seconds)
    seconds = best_seconds(lambda: encode_records(METADATA_RECORD, batch))
    report("one record of 100,000 files: encode", count, seconds)


if __name__ == "__main__":
    bench_index()
    bench_long_map()
    bench_data()
