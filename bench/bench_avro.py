"""How fast Avro records turn into Arrow and back.

Records a second, by the processor time of one core, for the record index's payloads (many alike)
and for plain data rows, and how that compares with fastavro, which makes Python dictionaries.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator

import fastavro
import numpy as np
import pyarrow as pa
from report import Figure, best, run

from lakedex.format.avro import (
    METADATA_RECORD,
    decode_distinct,
    decode_records,
    encode_distinct,
    encode_records,
)
from lakedex.schema import arrow_schema, avro_schema

INDEX_ROWS = {True: 100_000, False: 1_000_000}
DATA_ROWS = {True: 20_000, False: 200_000}
MAP_ENTRIES = {True: 10_000, False: 100_000}
"""How many, quick or not."""

FILE_GROUPS = 200
PARTITIONS = 5
GOAL_RATE = 2_000_000


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


def bench_index(rows: int) -> Iterator[Figure]:
    batch = index_batch(rows)
    encoded = encode_distinct(METADATA_RECORD, batch)
    values = encoded.as_binary()
    wanted = ["recordIndexMetadata"]
    bounds = encoded.offsets[:-1], encoded.offsets[1:]
    seconds = best(
        lambda: decode_distinct(METADATA_RECORD, values, columns=wanted, path="bench"), clock="cpu"
    )
    yield Figure("record index entries: decode", rows / seconds, "/s", GOAL_RATE, at_least=True)
    seconds = best(lambda: encode_distinct(METADATA_RECORD, batch), clock="cpu")
    yield Figure("record index entries: encode", rows / seconds, "/s", GOAL_RATE, at_least=True)
    seconds = best(
        lambda: decode_records(
            METADATA_RECORD, encoded.data, *bounds, columns=wanted, path="bench"
        ),
        clock="cpu",
    )
    yield Figure("record index entries: decode, each by itself", rows / seconds, "/s")
    seconds = best(lambda: encode_records(METADATA_RECORD, batch), clock="cpu")
    yield Figure("record index entries: encode, each by itself", rows / seconds, "/s")


def bench_data(rows: int) -> Iterator[Figure]:
    batch = data_batch(rows)
    schema = avro_schema(batch.schema, "t_record", "hoodie.t")
    encoded = encode_records(schema, batch)
    judge = fastavro.parse_schema(json.loads(schema.to_json()))
    few = rows // 10
    raw = encoded.data[: int(encoded.offsets[few])].tobytes()

    def read_all() -> list[object]:
        stream = io.BytesIO(raw)
        return [fastavro.schemaless_reader(stream, judge) for _ in range(few)]

    records = read_all()

    def write_all() -> None:
        stream = io.BytesIO()
        for record in records:
            fastavro.schemaless_writer(stream, judge, record)

    bounds = encoded.offsets[:-1], encoded.offsets[1:]
    ours = best(lambda: decode_records(schema, encoded.data, *bounds, path="bench"), clock="cpu")
    yield Figure("rows of 10 columns: decode", rows / ours, "/s")
    theirs = best(read_all, clock="cpu") * rows / few
    yield Figure("rows of 10 columns: decode, times faster than fastavro", theirs / ours, "x")
    ours = best(lambda: encode_records(schema, batch), clock="cpu")
    yield Figure("rows of 10 columns: encode", rows / ours, "/s")
    theirs = best(write_all, clock="cpu") * rows / few
    yield Figure("rows of 10 columns: encode, times faster than fastavro", theirs / ours, "x")


def bench_long_map(count: int) -> Iterator[Figure]:
    """One record that lists many files, as the metadata table's `files` partition has it."""
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
    seconds = best(lambda: decode_distinct(METADATA_RECORD, values, path="bench"), clock="cpu")
    yield Figure("files in one record: decode", count / seconds, "/s")
    seconds = best(lambda: encode_records(METADATA_RECORD, batch), clock="cpu")
    yield Figure("files in one record: encode", count / seconds, "/s")


def measure(quick: bool) -> Iterator[Figure]:
    yield from bench_index(INDEX_ROWS[quick])
    yield from bench_long_map(MAP_ENTRIES[quick])
    yield from bench_data(DATA_ROWS[quick])


if __name__ == "__main__":
    run(measure)
