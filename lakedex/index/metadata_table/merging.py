"""From the cells of a metadata file group, oldest first, to its merged logical content.

The last cell of a key wins and a deleted key is gone, with two exceptions:

* `files`: the maps of a key are united; a file that is marked deleted leaves the map, and of two
  sizes the larger counts;
* column and partition stats: unless the newer record has tight bounds (or one of the two is
  marked deleted), ranges are widened and counts added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.file_maps import merge_file_maps
from lakedex.index.metadata_table.partitions import (
    BLOOM_PAYLOAD,
    FILES_PAYLOAD,
    SECONDARY_PAYLOAD,
    STATS_PAYLOAD,
    MetadataPartition,
)
from lakedex.index.metadata_table.stats_folding import fold_stats

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_TRUE = pa.scalar(value=True)


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
