"""Targets for Avro: schemas as text, and records of known and of hostile schemas."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import numpy as np
import pyarrow as pa

from lakedex.format.avro import (
    METADATA_RECORD_SCHEMA,
    decode_distinct,
    decode_records,
    encode_records,
)
from lakedex.schema import arrow_schema, parse_avro_record, parse_avro_schema
from lakedex.schema.avro_schema import AvroRecord
from tests.fuzz.cases import Target
from tests.fuzz.mutators import EXTREMES, mutate, zigzag
from tests.fuzz.nesting import deep_json

_LEN = struct.Struct(">I")
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    ("int", "date"),
    ("long", "timestamp-micros"),
    ("long", "time-micros"),
    ("int", "time-millis"),
    ("long", "local-timestamp-millis"),
)

ALL_KINDS = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "s", "type": ["null", "string"]},
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "f", "type": {"type": "fixed", "name": "fx", "size": 4}},
            {"name": "e", "type": {"type": "enum", "name": "en", "symbols": ["A", "B"]}},
            {"name": "l", "type": {"type": "array", "items": ["null", "int"]}},
            {"name": "m", "type": {"type": "map", "values": "double"}},
            {"name": "u", "type": ["null", "int", "string", "boolean"]},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "z", "type": {"type": "array", "items": "null"}},
        ],
    }
)
ROWS = [
    {"n": 1, "s": "a", "d": 1, "f": b"abcd", "e": "A", "l": [1, None], "m": [("k", 1.5)],
     "u": {"member0": 7}, "t": 0, "z": [None, None]},
    {"n": -(2**62), "s": None, "d": -5, "f": b"\0\0\0\0", "e": "B", "l": [], "m": [],
     "u": None, "t": 5, "z": []},
]  # fmt: skip


@cache
def _known() -> list[tuple[str, bytes, tuple[int, ...]]]:
    """Schemas with encoded records and their lengths."""
    schema = parse_avro_record(ALL_KINDS)
    batch = pa.RecordBatch.from_pylist(ROWS * 3, schema=arrow_schema(schema))
    encoded = encode_records(schema, batch)
    sizes = tuple(np.diff(encoded.offsets).tolist())
    return [(ALL_KINDS, encoded.data.tobytes(), sizes)]


def pack(schema: str, data: bytes, sizes: Sequence[int]) -> bytes:
    """A case: schema, lengths of the records, bytes."""
    text = schema.encode()
    lengths = b"".join(_LEN.pack(size) for size in sizes[:100])
    return b"".join([_LEN.pack(len(text)), text, _LEN.pack(len(lengths) // 4), lengths, data])


def _unpack(case: bytes) -> tuple[str, bytes, list[int]]:
    padded = case.ljust(8, b"\0")
    text_size = min(_LEN.unpack_from(padded)[0], len(padded) - 8)
    text = padded[4 : 4 + text_size].decode("utf-8", "replace")
    count = min(_LEN.unpack_from(padded, 4 + text_size)[0], 100)
    at = 8 + text_size
    lengths = padded[at : at + 4 * count]
    sizes = [number for (number,) in _LEN.iter_unpack(lengths[: len(lengths) // 4 * 4])]
    return text, padded[at + 4 * count :], sizes


def _bounds(data: bytes, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.minimum(np.cumsum(np.array(sizes or [len(data)], np.int64)), len(data))
    return np.concatenate([[0], ends[:-1]]).astype(np.int64), ends


def read_records(case: bytes) -> None:
    """Decode records both ways, whole and in part."""
    text, data, sizes = _unpack(case)
    schema = parse_avro_record(text, path="x.log")
    buffer = np.frombuffer(data, np.uint8)
    starts, ends = _bounds(data, sizes)
    pieces = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    error: Exception | None = None
    for decode in (
        lambda: decode_records(schema, buffer, starts, ends, path="x.log"),
        lambda: decode_records(
            schema, buffer, starts, ends, columns=_some_columns(schema), path="x.log"
        ),
        lambda: decode_distinct(schema, pa.array(pieces * 400, pa.binary()), path="x.log"),
    ):
        try:
            decode().validate(full=True)
        except Exception as found:  # noqa: BLE001 - every way is tried, the worst is told
            error = found if error is None or not _is_refusal(found) else error
    if error is not None:
        raise error


def _is_refusal(error: Exception) -> bool:
    return type(error).__module__ == "lakedex.errors"


def _some_columns(schema: AvroRecord) -> list[str]:
    return [item.name for item in schema.fields][::2]


def _record_seeds() -> list[bytes]:
    return [pack(*known) for known in _known()]


def _hostile_data(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    text, data, sizes = rng.choice(_known())
    damaged = mutate(rng, data, [data])
    return pack(text, damaged, sizes if rng.random() < 0.7 else (len(damaged),))


def _hostile_metadata(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """Bytes that are nearly a record of the metadata table."""
    parts = [zigzag(rng.choice((0, 1, 2, 3, 5, -1, *EXTREMES))) for _ in range(rng.randrange(40))]
    body = mutate(rng, b"".join(parts) + b"key" * 3, [b"\2\6key\4\0\0"])
    return pack(METADATA_RECORD_SCHEMA, body, (len(body),))


def _hostile_schema(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """A random schema with random bytes, blocks of huge counts among them."""
    tree = {"type": "record", "name": "r", "fields": _fields(rng, 0)}
    numbers = [zigzag(rng.choice((*EXTREMES, 0, 0, 1, 1, 2, 3))) for _ in range(rng.randrange(30))]
    data = b"".join(numbers) + rng.randbytes(rng.randrange(20))
    cut = rng.randrange(len(data) + 1)
    return pack(json.dumps(tree), data, (cut, len(data) - cut) if rng.random() < 0.5 else ())


def _fields(rng: Random, depth: int) -> list[dict[str, object]]:
    return [
        {"name": f"c{depth}_{at}", "type": random_type(rng, depth + 1)}
        for at in range(rng.randrange(5))
    ]


def random_type(rng: Random, depth: int) -> object:
    """A random Avro type, not always a right one."""
    kind = rng.randrange(11) if depth < 5 else rng.randrange(5)
    name = f"t{rng.randrange(10**6)}"
    if kind <= 2:
        return rng.choice(_PRIMITIVES)
    if kind == 3:
        base, logical = rng.choice(_LOGICAL)
        return {"type": base, "logicalType": logical}
    if kind == 4:
        digits = rng.choice((1, 9, 18, 38, 39, 76, 77, 10**6, 0, -1))
        base = rng.choice(({"type": "bytes"}, {"type": "fixed", "name": name, "size": 8}))
        return {**base, "logicalType": "decimal", "precision": digits, "scale": rng.choice((0, 2))}
    if kind == 5:
        return {"type": "array", "items": random_type(rng, depth + 1)}
    if kind == 6:
        return {"type": "map", "values": random_type(rng, depth + 1)}
    if kind == 7:
        return {"type": "fixed", "name": name, "size": rng.choice((0, 1, 16, 2**31, 2**63, -1))}
    if kind == 8:
        return {"type": "enum", "name": name, "symbols": ["A", "B"][: rng.randrange(3)]}
    if kind == 9:
        return ["null", random_type(rng, depth + 1), *([random_type(rng, depth + 1)] * (depth % 2))]
    return {"type": "record", "name": name, "fields": _fields(rng, depth)}


def _record_extremes() -> list[Callable[[], bytes]]:
    def of(kind: object, data: bytes, copies: int = 1) -> Callable[[], bytes]:
        tree = {"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]}
        return lambda: pack(json.dumps(tree), data * copies, [len(data)] * copies)

    nulls = {"type": "array", "items": "null"}
    empty = {"type": "record", "name": "e", "fields": []}
    found = []
    for number in (2**20, 2**28, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1):
        counts = zigzag(number) + b"\0", zigzag(-number) + zigzag(0) + b"\0"
        for data in counts:
            found += [of(nulls, data), of({"type": "array", "items": empty}, data, 60)]
            found.append(of({"type": "array", "items": nulls}, data))
            found.append(of({"type": "map", "values": "null"}, data))
        found.append(of("bytes", zigzag(number)))
    return found


RECORDS = Target(
    "avro-records",
    _record_seeds,
    read_records,
    shapes=(_hostile_data, _hostile_data, _hostile_metadata, _hostile_schema),
    extremes=_record_extremes,
    shape_share=0.8,
)


def read_schema(case: bytes) -> None:
    """Parse, go to Arrow and back to text."""
    schema = parse_avro_schema(case.decode("utf-8", "surrogateescape"), path="x.avsc")
    schema.to_json()
    if isinstance(schema, AvroRecord):
        arrow_schema(schema)


def _schema_seeds() -> list[bytes]:
    return [
        b'{"type":"record","name":"r","fields":[]}',
        ALL_KINDS.encode(),
        METADATA_RECORD_SCHEMA.encode(),
    ]


def _random_schema(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    return json.dumps(random_type(rng, 0)).encode()


def _schema_extremes() -> list[Callable[[], bytes]]:
    record = ('{"type":"record","name":"r%d","fields":[{"name":"c","type":', "}]}")
    wide = json.dumps({"type": "record", "name": "r", "fields": [
        {"name": f"c{at}", "type": ["null", "string"]} for at in range(20_000)]})  # fmt: skip
    doubling = '{"type":"record","name":"r0","fields":[]}'
    for at in range(1, 40):
        doubling = (
            f'{{"type":"record","name":"r{at}","fields":[{{"name":"a","type":{doubling}}},'
            f'{{"name":"b","type":"r{at - 1}"}}]}}'
        )
    itself = '{"type":"record","name":"r","fields":[{"name":"c","type":"r"}]}'
    return [
        *deep_json(),
        *(lambda depth=depth: _nested(*record, depth) for depth in (60, 70, 1000, 50_000)),
        *(
            lambda depth=depth: _nested('{"type":"array","items":', "}", depth)
            for depth in (63, 65, 9000)
        ),
        wide.encode,
        doubling.encode,
        itself.encode,
    ]


def _nested(head: str, tail: str, depth: int) -> bytes:
    heads = "".join(head % at if "%d" in head else head for at in range(depth))
    return f'{heads}"int"{tail * depth}'.encode()


SCHEMA = Target(
    "avro-schema",
    _schema_seeds,
    read_schema,
    shapes=(_random_schema,),
    extremes=_schema_extremes,
)

TARGETS = (SCHEMA, RECORDS)
