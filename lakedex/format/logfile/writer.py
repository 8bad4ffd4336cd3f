"""Encodes log blocks; `reader` describes the layout of a block."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.format.avro import encode_records
from lakedex.format.logfile.blocks import (
    LOG_FORMAT_VERSION,
    MAGIC,
    ROLLBACK_COMMAND,
    BlockKind,
    HeaderKey,
)
from lakedex.format.logfile.deletes import encode_delete_content
from lakedex.format.parquet.writer import write_base_file
from lakedex.schema.avro_schema import AvroRecord

AVRO_BLOCK_VERSION = 3
_NO_FOOTER = struct.pack(">i", 0)


def encode_block(kind: BlockKind, header: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """Encode a block, with header entries in the given order.

    Example:
        >>> block = encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: "20260101"}, b"")
        >>> block[:14].hex(" ", 7)
        '23485544492300 00000000000030'
    """
    if kind is BlockKind.CORRUPT:
        raise InvalidInput("a block of kind CORRUPT cannot be written")
    inside = b"".join(
        [
            struct.pack(">ii", LOG_FORMAT_VERSION, kind),
            _encode_entries(header),
            struct.pack(">q", len(content)),
            content,
            _NO_FOOTER,
        ]
    )
    length = len(inside) + 8
    lead = MAGIC + struct.pack(">q", length)
    return b"".join([lead, inside, struct.pack(">q", length + len(MAGIC))])


def encode_rollback_block(instant_time: str, target_instant_time: str) -> bytes:
    """Encode the command block with which `instant_time` rolls back `target_instant_time`."""
    header = {
        HeaderKey.INSTANT_TIME: instant_time,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
        HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
    }
    return encode_block(BlockKind.COMMAND, header, b"")


def empty_init_block(instant_time: str) -> bytes:
    """Encode the empty delete block with which a new metadata file group starts.

    Example:
        >>> len(empty_init_block("00000000000000000"))
        80
    """
    nothing = pa.array([], pa.string())
    content = encode_delete_content(nothing, nothing, None)
    return encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant_time}, content)


def encode_avro_content(schema: AvroRecord, batch: pa.RecordBatch | pa.Table) -> bytes:
    """Encode the content of an Avro (or CDC) block with these records."""
    return encode_avro_contents(schema, batch, [batch.num_rows])[0]


def encode_avro_contents(
    schema: AvroRecord, batch: pa.RecordBatch | pa.Table, counts: Sequence[int]
) -> list[bytes]:
    """Encode the contents of some Avro blocks: each has so many of the records, in their order.

    To encode all records at once costs less than to encode those of each block.
    """
    encoded = encode_records(schema, batch)
    sizes = np.diff(encoded.offsets)
    starts = encoded.offsets + 4 * np.arange(len(sizes) + 1)
    if len(encoded.data) > 2**31 - 1:
        raise InvalidInput(f"{len(encoded.data)} bytes exceed the size of a log block")
    out = np.empty(starts[-1], dtype=np.uint8)
    is_prefix = np.zeros(len(out), dtype=np.bool_)
    for byte in range(4):
        is_prefix[starts[:-1] + byte] = True
    out[is_prefix] = np.frombuffer(sizes.astype(">i4").tobytes(), dtype=np.uint8)
    out[~is_prefix] = encoded.data
    ends = np.cumsum(counts)
    return [
        struct.pack(">ii", AVRO_BLOCK_VERSION, count)
        + out[starts[end - count] : starts[end]].tobytes()
        for count, end in zip(counts, ends.tolist(), strict=True)
    ]


def encode_parquet_content(
    table: pa.Table, *, avro_schema_text: str, compression: str = "gzip"
) -> bytes:
    """Encode the content of a Parquet block with these records."""
    sink = pa.BufferOutputStream()
    write_base_file(table, sink, avro_schema_text=avro_schema_text, compression=compression)
    return sink.getvalue().to_pybytes()


def _encode_entries(entries: Mapping[HeaderKey, str]) -> bytes:
    parts = [struct.pack(">i", len(entries))]
    for key, value in entries.items():
        text = value.encode("utf-8")
        parts += [struct.pack(">ii", key, len(text)), text]
    return b"".join(parts)
