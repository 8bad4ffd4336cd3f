"""Records of the metadata table, encoded: keys and Avro values for each kind of index."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, encode_distinct, encode_records
from lakedex.index.metadata_table.hashing import file_name_id, name_id
from lakedex.index.metadata_table.keys import SECONDARY_NULL, bloom_key, partition_id
from lakedex.index.metadata_table.partitions import (
    ALL_PARTITIONS_KEY,
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    NON_PARTITIONED_KEY,
    PARTITION_STAT_MARK,
    RECORD_INDEX_PAYLOAD,
    SECONDARY_PAYLOAD,
    STATS_PAYLOAD,
    RecordType,
)

_FILES_TYPE = pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))
_NO_KEYS = pa.array([], pa.string())
_NO_VALUES = pa.array([], pa.large_binary())
_HALF = 1 << 63
_ALL_DIGITS = Context(prec=1000)


@dataclass(frozen=True)
class Change:
    """What a commit does to one metadata partition.

    `hashed` and `hashed_deletes` are what places a key in a file group, where not the key itself.
    """

    keys: pa.Array = field(default_factory=lambda: _NO_KEYS)
    values: pa.Array = field(default_factory=lambda: _NO_VALUES)
    deletes: pa.Array = field(default_factory=lambda: _NO_KEYS)
    hashed: pa.Array | None = None
    hashed_deletes: pa.Array | None = None

    def __add__(self, other: Change) -> Change:
        """Both changes in one, for partitions that place keys by themselves."""
        return Change(
            pa.concat_arrays([self.keys, other.keys]),
            pa.concat_arrays([self.values, other.values]),
            pa.concat_arrays([self.deletes, other.deletes]),
        )


def files_change(files: Mapping[str, Mapping[str, int]]) -> Change:
    """The listing of new files with their sizes, by partition path."""
    listed = {partition: [(partition_key(partition), 0)] for partition in files}
    keys = [ALL_PARTITIONS_KEY, *(partition_key(partition) for partition in files)]
    maps = [[entry for entries in listed.values() for entry in entries]]
    maps += [list(sizes.items()) for sizes in files.values()]
    types = [RecordType.PARTITION_LIST.value] + [RecordType.FILES.value] * len(files)
    payload = pa.array(
        [[(name, {"size": size, "isDeleted": False}) for name, size in one] for one in maps],
        _FILES_TYPE,
    )
    return _change(pa.array(keys), pa.array(types, pa.int32()), FILES_PAYLOAD, payload)


def partition_key(partition: str) -> str:
    """How the metadata table spells a partition path."""
    return partition or NON_PARTITIONED_KEY


def bloom_change(names: Sequence[str], partitions: Sequence[str], texts, instant: str) -> Change:
    """The bloom filters of new base files, as base64 text."""
    keys = [bloom_key(partition, name) for partition, name in zip(partitions, names, strict=True)]
    columns = [
        pa.array(["SIMPLE"] * len(keys)),
        pa.array([instant] * len(keys)),
        pa.array([text.encode() for text in texts], pa.binary()),
        pa.array([False] * len(keys)),
    ]
    payload = pa.StructArray.from_arrays(columns, ["type", "timestamp", "bloomFilter", "isDeleted"])
    return _change(pa.array(keys, pa.string()), RecordType.BLOOM_FILTER, BLOOM_PAYLOAD, payload)


def record_index_change(keys: pa.Array, locations: pa.Table, instant_ms: int) -> Change:
    """The places of new records; `locations` has the columns `partition` and `file_id`."""
    distinct = pc.dictionary_encode(locations["file_id"].combine_chunks())
    halves = [uuid.UUID(file_id[:36]).int for file_id in distinct.dictionary.to_pylist()]
    high = pa.array([_signed(half >> 64) for half in halves], pa.int64())
    low = pa.array([_signed(half & (2**64 - 1)) for half in halves], pa.int64())
    number = [int(file_id[37:]) for file_id in distinct.dictionary.to_pylist()]
    count = len(keys)
    columns = {
        "partitionName": locations["partition"].combine_chunks(),
        "fileIdHighBits": high.take(distinct.indices),
        "fileIdLowBits": low.take(distinct.indices),
        "fileIndex": pa.array(number, pa.int32()).take(distinct.indices),
        "fileId": pa.repeat("", count),
        "instantTime": pa.repeat(pa.scalar(instant_ms, pa.int64()), count),
        "fileIdEncoding": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    payload = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return _change(keys, RecordType.RECORD_INDEX, RECORD_INDEX_PAYLOAD, payload)


def secondary_keys(values: pa.ChunkedArray, record_keys: pa.ChunkedArray) -> tuple:
    """The secondary keys of rows, and the part of each that places it."""
    texts = _escaped(values.cast(pa.string()))
    texts = pc.if_else(pc.is_null(texts), SECONDARY_NULL, texts)
    placed = pc.binary_join_element_wise(texts, "$", "")
    keys = pc.binary_join_element_wise(placed, _escaped(record_keys), "")
    return _flat(keys), _flat(placed)


def secondary_change(old: tuple, new: tuple) -> Change:
    """The pairs that came and those that went, both as `secondary_keys` gives them."""
    came = pc.invert(pc.is_in(new[0], old[0]))
    went = pc.invert(pc.is_in(old[0], new[0]))
    keys, placed = new[0].filter(came), new[1].filter(came)
    payload = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(value=False), len(keys))], ["isDeleted"]
    )
    added = _change(keys, RecordType.SECONDARY_INDEX, SECONDARY_PAYLOAD, payload)
    return Change(keys, added.values, old[0].filter(went), placed, old[1].filter(went))


def stats_change(column: str, stats: pa.Table, level: str) -> Change:
    """Statistics in the form of `column_statistics.file_statistics`.

    `level` is `file`, `partition`, or `expr_partition` for those inside an expression index.
    """
    partitions = [partition_id(partition) for partition in stats["partition"].to_pylist()]
    files = stats["file"].to_pylist()
    if level == "file":
        ends = [part + file_name_id(name) for part, name in zip(partitions, files, strict=True)]
    elif level == "partition":
        ends = partitions
    else:
        ends = [name_id(PARTITION_STAT_MARK) + part for part in partitions]
    keys = pa.array([name_id(column) + end for end in ends], pa.string())
    kind = RecordType.COLUMN_STATS if level == "file" else RecordType.PARTITION_STATS
    return _change(keys, kind, STATS_PAYLOAD, _stats_payload(column, stats, tight=level != "file"))


def _stats_payload(column: str, stats: pa.Table, *, tight: bool) -> pa.StructArray:
    count = len(stats)
    member, ordinal, info, unwrap = _wire_form(stats["minimum"].type)
    empty = pc.equal(stats["value_count"], 0).combine_chunks()
    ordinals = pc.if_else(empty, pa.scalar(1, pa.int32()), pa.scalar(ordinal, pa.int32()))
    value_type = pa.StructArray.from_arrays(
        [ordinals, pa.repeat(pa.scalar(info, pa.string()), count)],
        ["typeOrdinal", "additionalInfo"],
    )
    columns = {
        "fileName": _flat(stats["file"]),
        "columnName": pa.repeat(column, count),
        "minValue": _union(member, unwrap(_flat(stats["minimum"]))),
        "maxValue": _union(member, unwrap(_flat(stats["maximum"]))),
        "valueCount": _flat(stats["value_count"]),
        "nullCount": _flat(stats["null_count"]),
        "totalSize": _flat(stats["total_size"]),
        "totalUncompressedSize": _flat(stats["total_uncompressed"]),
        "isDeleted": pa.repeat(pa.scalar(value=False), count),
        "isTightBound": pa.repeat(pa.scalar(tight), count),
        "valueType": value_type,
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _union(member: int, values: pa.Array) -> pa.StructArray:
    """Values in their wrapper, under the name that the union's member has."""
    missing = values.is_null()
    boxed = pa.StructArray.from_arrays([values], ["value"], mask=missing)
    return pa.StructArray.from_arrays([boxed], [f"member{member}"], mask=missing)


_WireForm = tuple[int, int, str | None, Callable[[pa.Array], pa.Array]]
_PLAIN: dict[pa.DataType, tuple[int, int, pa.DataType]] = {
    pa.bool_(): (0, 2, pa.bool_()),
    pa.int8(): (1, 3, pa.int32()),
    pa.int16(): (1, 3, pa.int32()),
    pa.int32(): (1, 3, pa.int32()),
    pa.int64(): (2, 4, pa.int64()),
    pa.float32(): (3, 5, pa.float32()),
    pa.float64(): (4, 6, pa.float64()),
    pa.string(): (6, 7, pa.string()),
    pa.binary(): (5, 8, pa.binary()),
    pa.date32(): (1, 12, pa.int32()),
    pa.timestamp("us", "UTC"): (2, 16, pa.int64()),
    pa.timestamp("us"): (2, 19, pa.int64()),
}


def _wire_form(kind: pa.DataType) -> _WireForm:
    """Union member, type ordinal, additional info and conversion for values of a type."""
    if pa.types.is_decimal(kind):
        return 5, 10, f"{kind.precision},{kind.scale}", _unscaled
    member, ordinal, stored = _PLAIN[kind]
    return member, ordinal, None, lambda values: values.cast(stored)


def _unscaled(values: pa.Array) -> pa.Array:
    """Decimals as the shortest big-endian bytes of their unscaled value."""
    numbers = [
        None if value is None else int(value.scaleb(values.type.scale, _ALL_DIGITS))
        for value in values.to_pylist()
    ]
    texts = [
        None
        if number is None
        else number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
        for number in numbers
    ]
    return pa.array(texts, pa.binary())


def _change(keys: pa.Array, types: RecordType | pa.Array, name: str, payload: pa.Array) -> Change:
    count = len(keys)
    if isinstance(types, RecordType):
        types = pa.repeat(pa.scalar(types.value, pa.int32()), count)
    batch = pa.record_batch({"key": pa.repeat("", count), "type": types, name: payload})
    encode = encode_records if pa.types.is_map(payload.type) else encode_distinct
    return Change(keys, encode(METADATA_RECORD, batch).as_binary())


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    for special in ("\\", "$", "\x00"):
        texts = pc.replace_substring(texts, special, "\\" + special)
    return texts


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _signed(number: int) -> int:
    return int(np.int64(number - 2 * _HALF if number >= _HALF else number))
