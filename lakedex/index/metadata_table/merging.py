"""From the cells of a metadata file group, oldest first, to its merged logical content.

The last cell of a key wins and a deleted key is gone, with two exceptions:

* `files`: the maps of a key are united; a file that is marked deleted leaves the map, and of two
  sizes the larger counts;
* column and partition stats: unless the newer record has tight bounds (or one of the two is
  marked deleted), ranges are widened and counts added up.

The newest statistics record stands alone when its bounds are tight or when it, or the one before
it, is marked deleted. Otherwise ranges are widened and counts are added up. Keys with several
records that have to be joined are few (one per column and partition, never one per data record).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.partitions import (
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    SECONDARY_PAYLOAD,
    STATS_PAYLOAD,
    MetadataPartition,
)
from lakedex.index.metadata_table.stat_values import is_zone_note

_Bound = dict[str, Any]
_DECIMAL = 10
"""The type ordinal of decimals, whose bounds are bytes."""
_COUNTS = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_TRUE = pa.scalar(value=True)


def merge_file_maps(
    records: pa.Table,
    codes: _Ints,
    last: _Ints,
    alive: npt.NDArray[np.bool_],
    *,
    keeps_deleted: bool = False,
) -> pa.Table:
    """Put the united map of each key into the row of its last cell.

    Args:
        records: all cells, oldest first.
        codes: the number of each cell's key.
        last: the last cell of each key.
        alive: which cells still count.
        keeps_deleted: whether files that are marked deleted stay, with their mark.
    """
    maps = records[FILES_PAYLOAD].combine_chunks()
    entry_row = _row_of_entry(maps)
    counted = np.flatnonzero(alive[entry_row])
    names = maps.keys.take(pa.array(counted))
    items = maps.items.take(pa.array(counted))
    survivors, sizes, gone = _survivors(
        codes[entry_row[counted]], names, items, keeps_deleted=keeps_deleted
    )
    key_of = codes[entry_row[counted]][survivors]
    target = last[key_of]
    order = np.lexsort((np.arange(len(target)), target))
    counts = np.bincount(target, minlength=len(records))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    files = pa.StructArray.from_arrays(
        [pa.array(sizes[order]), pa.array(gone[order])],
        fields=list(maps.type.item_type),
    )
    united = pa.MapArray.from_arrays(
        pa.array(offsets), names.take(pa.array(survivors[order])), files, type=maps.type
    )
    position = records.column_names.index(FILES_PAYLOAD)
    return records.set_column(position, records.schema.field(position), united)


def _row_of_entry(maps: pa.MapArray) -> _Ints:
    lengths = np.diff(maps.offsets.to_numpy()).astype(np.int64)
    return np.repeat(np.arange(len(maps), dtype=np.int64), lengths)


def _survivors(
    key_codes: _Ints, names: pa.Array, items: pa.StructArray, *, keeps_deleted: bool
) -> tuple[_Ints, _Ints, npt.NDArray[np.bool_]]:
    """The last entry of each live (key, file), its size and mark, in order of file name."""
    encoded = names.dictionary_encode()
    name_codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = key_codes * max(1, len(encoded.dictionary)) + name_codes
    _, pair = np.unique(pairs, return_inverse=True)
    count = int(pair.max()) + 1 if len(pair) else 0
    gone = pc.struct_field(items, "isDeleted").to_numpy(zero_copy_only=False).astype(np.bool_)
    size = pc.struct_field(items, "size").to_numpy(zero_copy_only=False).astype(np.int64)
    arrival = np.arange(len(pair), dtype=np.int64)
    newest = np.full(count, -1, dtype=np.int64)
    newest[pair] = arrival
    cut = np.full(count, -1, dtype=np.int64)
    cut[pair[gone]] = arrival[gone]
    largest = np.zeros(count, dtype=np.int64)
    counted = arrival > cut[pair]
    np.maximum.at(largest, pair[counted], size[counted])
    live = np.flatnonzero(newest > cut) if not keeps_deleted else np.arange(count)
    by_name = pc.sort_indices(names.take(pa.array(newest[live])).cast(pa.binary())).to_numpy()
    live = live[by_name]
    return newest[live], largest[live], newest[live] <= cut[live]


def fold_stats(
    records: pa.Table, codes: _Ints, last: _Ints, alive: npt.NDArray[np.bool_]
) -> pa.Table:
    """Put the joined statistics of each key into the row of its last cell."""
    stats = records[STATS_PAYLOAD].combine_chunks()
    open_ended = ~_flag(stats, "isTightBound") & ~_flag(stats, "isDeleted")
    open_ended &= stats.is_valid().to_numpy(zero_copy_only=False)
    several = np.bincount(codes[alive], minlength=len(last)) > 1
    to_join = several & open_ended[last] & alive[last]
    rows = np.flatnonzero(to_join[codes] & alive)
    if len(rows) == 0:
        return records
    values = stats.take(pa.array(rows)).to_pylist()
    joined: dict[int, dict[str, Any]] = {}
    for code, value in zip(codes[rows].tolist(), values, strict=True):
        joined[code] = _join(joined.get(code), value)
    replaced: dict[int, dict[str, Any]] = defaultdict(dict)
    for code, value in joined.items():
        replaced[int(last[code])] = value
    targets = np.array(sorted(replaced), dtype=np.int64)
    fresh = pa.array([replaced[row] for row in targets.tolist()], type=stats.type)
    source = np.arange(len(stats), dtype=np.int64)
    source[targets] = len(stats) + np.arange(len(targets), dtype=np.int64)
    column = pa.concat_arrays([stats, fresh]).take(pa.array(source))
    position = records.column_names.index(STATS_PAYLOAD)
    return records.set_column(position, records.schema.field(position), column)


def _flag(stats: pa.StructArray, name: str) -> npt.NDArray[np.bool_]:
    values = pc.struct_field(stats, name).to_numpy(zero_copy_only=False)
    return values == np.True_


def _join(older: dict[str, Any] | None, newer: dict[str, Any] | None) -> dict[str, Any]:
    if newer is None:
        return older or {}
    if not older or older["isDeleted"] or newer["isDeleted"] or newer["isTightBound"]:
        return newer
    joined = dict(newer)
    kind = newer.get("valueType")
    is_decimal = kind is not None and kind["typeOrdinal"] == _DECIMAL
    key = _signed if is_decimal else None
    for name, pick in (("minValue", min), ("maxValue", max)):
        joined[name] = _wider(older[name], newer[name], partial(pick, key=key))
    if is_decimal and older.get("valueType") != kind:
        # Unscaled values of two scales are not comparable.
        joined["minValue"] = joined["maxValue"] = None
    if kind is not None and not is_decimal:
        # What is noted of one range need not be true of both, unless both are of one time zone.
        is_same = older.get("valueType") == kind and is_zone_note(kind["additionalInfo"])
        joined["valueType"] = kind if is_same else {**kind, "additionalInfo": None}
    for name in _COUNTS:
        known = older[name] is not None and newer[name] is not None
        joined[name] = older[name] + newer[name] if known else None
    return joined


def _signed(unscaled: bytes) -> int:
    """The unscaled value of a decimal, which is stored as the shortest big-endian bytes."""
    return int.from_bytes(unscaled, "big", signed=True)


def _wider(
    left: _Bound | None, right: _Bound | None, pick: Callable[[Any, Any], Any]
) -> _Bound | None:
    """The wider of two bounds; of a missing bound and a present one, the present one."""
    if left is None or right is None:
        return left or right
    member_left = next((name for name, value in left.items() if value is not None), None)
    member_right = next((name for name, value in right.items() if value is not None), None)
    if member_left is None or member_right is None:
        return right if member_left is None else left
    if member_left != member_right or "value" not in left[member_left]:
        # Two types under one key cannot be compared: no bound is the honest answer.
        return None
    chosen = pick(left[member_left]["value"], right[member_right]["value"])
    return {member_left: {"value": chosen}}


@dataclass(frozen=True, slots=True)
class CellBatch:
    """Cells of one file or log block: keys, and their records unless they are deletes."""

    keys: pa.Array
    records: pa.Table | None
    """`type` and the payload columns, as long as `keys`; None for deleted keys."""


def merge_batches(
    partition: MetadataPartition,
    schema: pa.Schema,
    batches: Sequence[CellBatch],
    *,
    keeps_deleted: bool = False,
) -> pa.Table:
    """The merged content as `key`, `type` and the payload columns, sorted by key.

    Batches are those of one group, oldest first, or of several groups, which share no key.
    `schema` is that of the records: `type` and the payload columns. With `keeps_deleted` deleted
    files stay in their maps with a mark, for cells that are to be laid over others.
    """
    full = pa.schema([pa.field("key", pa.string()), *schema])
    batches = [batch for batch in batches if len(batch.keys)]
    if not batches:
        return full.empty_table()
    if len(batches) == 1 and _stands_as_it_is(partition, batches[0]):
        only = _records(batches[0], schema).add_column(0, full.field("key"), batches[0].keys)
        return _drop_marked(only)
    keys = pa.concat_arrays([batch.keys for batch in batches])
    deleted = np.concatenate([_deletes(batch) for batch in batches])
    records = pa.concat_tables([_records(batch, schema) for batch in batches]).combine_chunks()
    codes, key_count = _codes(keys)
    arrival = np.arange(len(codes), dtype=np.int64)
    last = np.empty(key_count, dtype=np.int64)
    last[codes] = arrival
    alive = _alive(codes, key_count, arrival, deleted)
    if FILES_PAYLOAD in partition.payloads:
        # Even a lone map may name deleted files.
        records = merge_file_maps(records, codes, last, alive, keeps_deleted=keeps_deleted)
    elif STATS_PAYLOAD in partition.payloads and len(batches) > 1:
        records = fold_stats(records, codes, last, alive)
    # Records have some forty columns: rows are brought in order before they are taken, not after.
    winners = pa.array(last[~deleted[last]])
    found = keys.take(winners)
    order = pc.sort_indices(found.cast(pa.binary()))
    merged = records.take(winners.take(order))
    return _drop_marked(merged.add_column(0, full.field("key"), found.take(order)))


def _stands_as_it_is(partition: MetadataPartition, batch: CellBatch) -> bool:
    """Whether there is nothing to merge: live records of one file, by ascending keys."""
    if batch.records is None or FILES_PAYLOAD in partition.payloads:
        return False
    keys = batch.keys.cast(pa.binary())
    return bool(pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py())


def _deletes(batch: CellBatch) -> _Mask:
    return np.full(len(batch.keys), batch.records is None, dtype=np.bool_)


def _records(batch: CellBatch, schema: pa.Schema) -> pa.Table:
    if batch.records is not None:
        return batch.records
    nulls = [pa.nulls(len(batch.keys), field.type) for field in schema]
    return pa.table(nulls, schema=schema)


def _codes(keys: pa.Array) -> tuple[_Ints, int]:
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)


def _alive(codes: _Ints, key_count: int, arrival: _Ints, deleted: _Mask) -> _Mask:
    """Cells that come after the last delete of their key."""
    cut = np.full(key_count, -1, dtype=np.int64)
    cut[codes[deleted]] = arrival[deleted]
    return arrival > cut[codes]


def _drop_marked(merged: pa.Table) -> pa.Table:
    """Leave out records whose payload says that they are deleted."""
    for payload in (BLOOM_PAYLOAD, STATS_PAYLOAD, SECONDARY_PAYLOAD):
        if payload in merged.column_names and len(merged):
            marked = pc.equal(pc.struct_field(merged[payload], "isDeleted"), _TRUE)
            if pc.any(marked).as_py():
                merged = merged.filter(pc.or_kleene(pc.is_null(marked), pc.invert(marked)))
    return merged
