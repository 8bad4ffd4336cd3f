"""Unites the file maps of the `files` partition: one map from file name to size for each key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.partitions import FILES_PAYLOAD

_Ints = npt.NDArray[np.int64]


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
