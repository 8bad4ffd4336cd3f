"""The records of a data block.

Avro and CDC blocks contain `int block version (3) | int record count | records`, each record after
an int of its length and encoded with the schema in the block's header. HFile and Parquet blocks
contain the bytes of such a file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.format.avro import decode_records
from lakedex.format.avro.lanes import concat_padded
from lakedex.format.chains import ChainRules, Positions, walk_chain
from lakedex.format.hfile import HFileReader
from lakedex.format.logfile.blocks import BlockKind, LogBlock
from lakedex.format.parquet.pages import read_parquet_bytes
from lakedex.schema.avro_schema import AvroRecord, parse_avro_record

_BLOCK_HEAD = 8
_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]
_HEAD = struct.Struct(">ii")
_MANY_WALKERS = 16
"""From about this many blocks on, walking all at once is faster than one by one."""
_READABLE_VERSIONS = range(1, 4)


def length_prefixed_rules(data: npt.NDArray[np.uint8], end: int) -> ChainRules:
    r"""The chain rules for length-prefixed records in the first `end` bytes of `data`.

    Example:
        >>> data = np.frombuffer(b"\x00\x00\x00\x02ab\x00\x00\x00\x00", dtype=np.uint8)
        >>> length_prefixed_rules(data, 10).step(np.array([0, 6, 1])).tolist()
        [6, 10, -1]
    """
    room = max(end - 3, 0)
    lengths: npt.NDArray[np.int32] = np.ndarray((room,), ">i4", data, strides=(1,))

    def step(at: Positions) -> Positions:
        fits = at < room
        size = lengths[np.where(fits, at, 0)].astype(np.int64) if room else np.full(len(at), -1)
        following = at + 4 + size
        return np.where(fits & (size >= 0) & (following <= end), following, -1)

    def step_one(at: int) -> int:
        size = lengths.item(at) if at < room else -1
        return at + 4 + size if 0 <= size <= end - at - 4 else -1

    return ChainRules(step, end, step_one)


def walk_prefixed(
    content: bytes | npt.NDArray[np.uint8], sizes: Positions, counts: Positions
) -> tuple[npt.NDArray[np.uint8], Positions, Positions] | None:
    r"""Find the records of many consecutive blocks, walking all blocks at once.

    Args:
        content: The blocks; each has a head of eight bytes, then its records.
        sizes: The bytes of each block.
        counts: The number of records in the head of each block.

    Returns:
        The bytes, and the start and end of each record, block by block; None if a block does not
        match its head.

    Example:
        >>> one, two = bytes(8) + b"\0\0\0\2ab", bytes(8) + b"\0\0\0\1c"
        >>> found = walk_prefixed(one + two, np.array([14, 13]), np.array([1, 1]))
        >>> found[1].tolist(), found[2].tolist()
        ([12, 26], [14, 27])
    """
    data = np.frombuffer(content, dtype=np.uint8)
    ends = np.cumsum(sizes)
    at = ends - sizes + _BLOCK_HEAD
    if (counts < 0).any() or (at > ends).any() or (counts > (ends - at) // 4).any():
        return None
    # The longest blocks come first, so that those with a next record are a prefix.
    order = np.argsort(-counts, kind="stable")
    at, ends, first = at[order], ends[order], (np.cumsum(counts) - counts)[order]
    left = np.searchsorted(-counts[order], -np.arange(int(counts.max(initial=0))), side="left")
    lengths: npt.NDArray[np.int32] = np.ndarray((max(len(data) - 3, 0),), ">i4", data, strides=(1,))
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    stops = np.empty_like(starts)
    for step, running in enumerate(left.tolist()):
        here = at[:running]
        if (here + 4 > ends[:running]).any():
            return None
        following = here + 4 + lengths[here]
        if ((following < here + 4) | (following > ends[:running])).any():
            return None
        starts[first[:running] + step] = here + 4
        stops[first[:running] + step] = following
        at[:running] = following
    return (data, starts, stops) if (at == ends).all() else None


def decode_avro_block(block: LogBlock, *, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Decode the records of an Avro block, or the changes of a CDC block, in order.

    Of `columns` those in the block are read; older blocks may have fewer.
    """
    schema = parse_avro_record(block.schema_text, path=block.path)
    data, bounds = _records_of(block)
    return decode_records(
        schema,
        data,
        bounds[:-1] + 4,
        bounds[1:],
        columns=_known(schema, columns),
        path=block.path,
        base_offset=block.content.base_offset,
    )


def decode_avro_blocks(
    blocks: Sequence[LogBlock], *, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Decode the records of Avro blocks of one schema, block by block, all at once.

    A block of few records costs almost as much as one of many.

    Raises:
        InvalidInput: The blocks have different schemas.
    """
    if len({block.schema_text for block in blocks}) != 1:
        raise InvalidInput("blocks that are decoded together have one schema")
    schema = parse_avro_record(blocks[0].schema_text, path=blocks[0].path)
    found = _records_of_many(blocks)
    try:
        return decode_records(schema, *found, columns=_known(schema, columns), path=blocks[0].path)
    except LakedexError:
        # Decoding one by one gives an error with the file and the position.
        for block in blocks:
            decode_avro_block(block, columns=columns)
        raise


def decode_matching(
    blocks: Sequence[LogBlock], *, key: str, wanted: pa.Array, columns: Sequence[str]
) -> tuple[pa.RecordBatch, _Places]:
    """Decode the records of Avro blocks of one schema whose text field `key` has certain values.

    Of other records only the fields up to the key are read.

    Returns:
        The records, and their numbers among the records of all blocks.
    """
    schema = parse_avro_record(blocks[0].schema_text, path=blocks[0].path)
    path = blocks[0].path
    data, starts, ends = _records_of_many(blocks)
    try:
        keys = decode_records(schema, data, starts, ends, columns=[key], leading=True, path=path)
        is_wanted = pc.is_in(keys.column(0), value_set=wanted)
        numbers = np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))
        found = decode_records(
            schema,
            *_cut_out(data, starts[numbers], ends[numbers]),
            columns=_known(schema, columns),
            path=path,
        )
    except LakedexError:
        # Decoding one by one gives an error with the file and the position.
        for block in blocks:
            decode_avro_block(block, columns=columns)
        raise
    return found, numbers


def _cut_out(data: _Bytes, starts: _Places, ends: _Places) -> tuple[_Bytes, _Places, _Places]:
    """Copy some records, without the bytes between them."""
    lengths = ends - starts
    stops = np.cumsum(lengths)
    moved = np.repeat(starts - (stops - lengths), lengths)
    return data[moved + np.arange(len(moved))], stops - lengths, stops


def _records_of_many(blocks: Sequence[LogBlock]) -> tuple[_Bytes, _Places, _Places]:
    """The concatenated contents of blocks, with the starts and ends of all records."""
    counts = np.array([count_records(block) for block in blocks], dtype=np.int64)
    if int(counts.sum()) >= _MANY_WALKERS * int(counts.max()):
        contents = [block.content.read(0, block.content.size) for block in blocks]
        sizes = np.array([len(content) for content in contents], dtype=np.int64)
        data = concat_padded(contents)
        walked = walk_prefixed(data, sizes, counts)
        if walked is not None:
            return data, *walked[1:]
    parts, starts, ends = [], [], []
    size = 0
    for block in blocks:
        data, bounds = _records_of(block)
        parts.append(data)
        starts.append(bounds[:-1] + 4 + size)
        ends.append(bounds[1:] + size)
        size += len(data)
    return np.concatenate(parts), np.concatenate(starts), np.concatenate(ends)


def count_records(block: LogBlock) -> int:
    """The record count in the head of an Avro block; -1 if it cannot be read."""
    check_kind(block, BlockKind.AVRO_DATA, BlockKind.CDC_DATA)
    if block.content.size < _HEAD.size:
        return -1
    version, count = _HEAD.unpack(block.content.read(0, _HEAD.size))
    return int(count) if version in _READABLE_VERSIONS else -1


def _known(schema: AvroRecord, columns: Sequence[str] | None) -> list[str] | None:
    names = {field.name for field in schema.fields}
    return None if columns is None else [name for name in columns if name in names]


def _records_of(block: LogBlock) -> tuple[_Bytes, _Places]:
    """The content of a block, and the starts of its records, with the end of the last one."""
    check_kind(block, BlockKind.AVRO_DATA, BlockKind.CDC_DATA)
    path, base = block.path, block.content.base_offset
    content = block.content.read(0, block.content.size)
    if len(content) < _HEAD.size:
        raise CorruptFile(path, base, expected="an Avro block", actual=f"{len(content)} bytes")
    version, count = _HEAD.unpack_from(content)
    if version not in _READABLE_VERSIONS:
        raise UnsupportedFeature(f"Avro log block version {version} in {path}")
    if not 0 <= count <= (len(content) - _HEAD.size) // 4:
        raise CorruptFile(
            path, base + 4, expected="a record count that fits in the block", actual=count
        )
    data = np.frombuffer(content, dtype=np.uint8)
    found = walk_chain(length_prefixed_rules(data, len(data)), _HEAD.size, count)
    if len(found) != count + 1 or found[-1] != len(data):
        raise CorruptFile(
            path,
            base + int(found[-1]),
            expected=f"{count} records up to the end of the block",
            actual=f"{len(found) - 1} up to here",
        )
    return data, found


def hfile_of(block: LogBlock) -> HFileReader:
    """Open the content of an HFile block, without reading yet."""
    check_kind(block, BlockKind.HFILE_DATA)
    return HFileReader(block.content)


def decode_parquet_block(block: LogBlock, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode the records of a Parquet block."""
    check_kind(block, BlockKind.PARQUET_DATA)
    content = block.content.read(0, block.content.size)
    return read_parquet_bytes(
        content, columns, path=block.path, base_offset=block.content.base_offset
    )


def check_kind(block: LogBlock, *kinds: BlockKind) -> None:
    """Reject a block of a kind that the caller cannot decode."""
    if block.kind not in kinds:
        names = " or ".join(kind.name for kind in kinds)
        raise InvalidInput(f"{block.path} at {block.offset}: {block.kind.name}, not {names}")
