"""Target for log files: the blocks, and the content of every kind of block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import write_hfile
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    LogBlock,
    decode_avro_block,
    decode_delete_block,
    decode_parquet_block,
    effective_blocks,
    empty_init_block,
    encode_avro_content,
    encode_block,
    encode_delete_content,
    encode_parquet_content,
    encode_rollback_block,
    hfile_of,
    read_blocks,
)
from lakedex.schema import arrow_schema, parse_avro_record
from lakedex.storage.source import MemorySource
from tests.fuzz.cases import Target
from tests.fuzz.corpus import golden_files
from tests.fuzz.mutators import EXTREMES, mutate, zigzag
from tests.fuzz.targets.avro import ALL_KINDS, ROWS
from tests.fuzz.targets.files import PARQUET

_TIME = "20260101000000000"


def read_log(data: bytes) -> None:
    """All blocks and what is in them; a block that is refused does not hide the next."""
    blocks = read_blocks(MemorySource(data, path="x.log"))
    refusal: LakedexError | None = None
    try:
        effective_blocks(blocks, is_committed=lambda time: time != "x")
    except LakedexError as error:
        refusal = error
    for block in blocks[:50]:
        try:
            _read_block(block)
        except LakedexError as error:
            refusal = error
    if refusal is not None:
        raise refusal


def _read_block(block: LogBlock) -> None:
    if block.kind in (BlockKind.AVRO_DATA, BlockKind.CDC_DATA):
        decode_avro_block(block).validate(full=True)
        decode_avro_block(block, columns=["n", "l"])
    elif block.kind is BlockKind.DELETE:
        decode_delete_block(block).ordering_values()
    elif block.kind is BlockKind.HFILE_DATA:
        reader = hfile_of(block)
        reader.scan()
        reader.lookup(pa.array([b"k1"]))
    elif block.kind is BlockKind.PARQUET_DATA:
        decode_parquet_block(block)
    elif block.kind is BlockKind.COMMAND:
        block.check_rollback()
        _ = block.target_instant_time
    _ = block.compacted_times, block.is_partial


@cache
def _contents() -> list[tuple[BlockKind, str, bytes]]:
    schema = parse_avro_record(ALL_KINDS)
    batch = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(schema))
    keys, parts = pa.array(["k1", "k2"]), pa.array(["p", "q"])
    table = pa.table({"n": [1, 2], "s": ["a", None]})
    cells = pa.array([b"k1", b"k2"]), pa.array([b"v" * 9, b""])
    return [
        (BlockKind.AVRO_DATA, ALL_KINDS, encode_avro_content(schema, batch)),
        (BlockKind.CDC_DATA, ALL_KINDS, encode_avro_content(schema, batch)),
        (BlockKind.DELETE, "", encode_delete_content(keys, parts, None)),
        (BlockKind.DELETE, "", encode_delete_content(keys, parts, pa.array([5, None]))),
        (BlockKind.DELETE, "", encode_delete_content(keys, parts, [keys, pa.array([1.5, 2.5])])),
        (BlockKind.PARQUET_DATA, "{}", encode_parquet_content(table, avro_schema_text="{}")),
        (BlockKind.HFILE_DATA, METADATA_RECORD_SCHEMA, write_hfile(*cells)),
    ]


def _block(kind: BlockKind, schema: str, content: bytes) -> bytes:
    return encode_block(kind, {HeaderKey.INSTANT_TIME: _TIME, HeaderKey.SCHEMA: schema}, content)


def _seeds() -> list[bytes]:
    blocks = [_block(*content) for content in _contents()]
    command = encode_rollback_block(_TIME, _TIME)
    return [
        b"".join([command, _block(*_contents()[3]), b"#HUDI# torn", empty_init_block(_TIME)]),
        *blocks,
        b"".join(blocks[:3]),
        *golden_files("*/.*.log.*", "*mor*", most=2),
    ]


def _damaged_content(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A block that is right outside and wrong inside."""
    kind, schema, content = rng.choice(_contents())
    if kind is BlockKind.PARQUET_DATA and rng.random() < 0.8:
        content = rng.choice(PARQUET.shapes)(rng, [content])
    else:
        content = mutate(rng, content, [each for _, _, each in _contents()])
    del seeds
    return _block(kind, schema, content)


def _damaged_schema(rng: Random, seeds: Sequence[bytes]) -> bytes:
    kind, schema, content = rng.choice(_contents()[:2])
    text = mutate(rng, schema.encode(), seeds).decode("utf-8", "replace")
    return _block(kind, text, content)


def _many_items(number: int) -> Callable[[], bytes]:
    body = (3).to_bytes(4, "big") + (9).to_bytes(4, "big") + zigzag(number)
    return lambda: _block(BlockKind.DELETE, "", body)


def _many_blocks() -> list[Callable[[], bytes]]:
    tiny = encode_block(BlockKind.COMMAND, {}, b"")
    long_length = b"#HUDI#" + (2**63 - 1).to_bytes(8, "big")
    return [
        lambda: tiny * 5_000,
        lambda: b"#HUDI#" * 50_000,
        lambda: long_length * 20_000,
        *(_many_items(number) for number in EXTREMES),
        lambda: _block(
            BlockKind.AVRO_DATA, ALL_KINDS, b"\0\0\0\3\x7f\xff\xff\xff" + bytes(1 << 20)
        ),
    ]


LOG = Target(
    "log-blocks",
    _seeds,
    read_log,
    shapes=(_damaged_content, _damaged_content, _damaged_schema),
    extremes=_many_blocks,
    shape_share=0.6,
)

TARGETS = (LOG,)
