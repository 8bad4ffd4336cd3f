"""Record locations: which file groups contain a key, and which row of a write has that key.

`incoming_keys` reads the keys of the spilled rows, as many buckets at a time as fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.spill import Segment, segment_bytes
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.rows import FILE_ID, KEY, LEADING, LIVE, PARTITION, TWICE

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LOCATIONS = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field(PARTITION, pa.string()),
        pa.field(FILE_ID, pa.string()),
        pa.field(LIVE, pa.bool_()),
        pa.field(TWICE, pa.bool_()),
    ]
)
"""One row for each file group that holds a key; not live where a log deleted it."""


def mask_of(values: pa.Array | pa.ChunkedArray) -> Mask:
    """Booleans as numpy has them; null is False."""
    filled = flat(values).fill_null(pa.scalar(value=False))
    result: Mask = filled.to_numpy(zero_copy_only=False).astype(np.bool_)
    return result


def positions_of(values: pa.Array | pa.ChunkedArray) -> Positions:
    """Positions as numpy has them; null is -1."""
    found: Positions = flat(values).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def group_names(partitions: pa.ChunkedArray, file_ids: pa.ChunkedArray) -> pa.Array:
    """A name for each file group: a file id has no slash, so no two groups share one.

    Example:
        >>> group_names(pa.chunked_array([["p=1", ""]]), pa.chunked_array([["f", "g"]])).to_pylist()
        ['p=1/f', '/g']
    """
    return flat(pc.binary_join_element_wise(partitions, file_ids, "/"))


def distinct(places: pa.Table) -> pa.Table:
    """Each place once; it is live if one of its mentions is, and held twice if several are."""
    if places.num_rows == 0:
        return places
    grouped = places.group_by([KEY, PARTITION, FILE_ID], use_threads=False)
    found = grouped.aggregate([(LIVE, "max"), (LIVE, "sum")]).rename_columns(LOCATIONS.names)
    twice = pc.greater(found[TWICE], 1)
    return found.set_column(LOCATIONS.get_field_index(TWICE), LOCATIONS.field(TWICE), twice).cast(
        LOCATIONS
    )


def row_of_location(places: pa.Table, rows: pa.Table, *, per_partition: bool) -> Positions:
    """The row with each place's key (and partition, if asked); -1 where there is none.

    Keys, or keys with partitions, are unique among the rows.

    Example:
        >>> rows = pa.table({KEY: ["a", "a"], PARTITION: ["p", "q"]})
        >>> places = pa.table({KEY: ["a", "b", "a"], PARTITION: ["q", "q", "r"]})
        >>> row_of_location(places, rows, per_partition=True).tolist()
        [1, -1, -1]
    """
    if not per_partition:
        return positions_of(pc.index_in(places[KEY], value_set=flat(rows[KEY])))
    codes, asked = _pair_codes(rows, places)
    if len(codes) == 0:
        return np.full(len(asked), -1, dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    at = np.minimum(np.searchsorted(codes[order], asked), len(codes) - 1)
    found = order[at]
    return np.where((asked >= 0) & (codes[found] == asked), found, -1)


def key_codes(rows: pa.Table, *, per_partition: bool) -> Positions:
    """Numbers that are equal where keys (and partitions, if asked) are."""
    codes = _codes(rows[KEY])[0]
    if not per_partition:
        return codes
    partitions, names = _codes(rows[PARTITION])
    return codes * max(len(names), 1) + partitions


def _pair_codes(rows: pa.Table, places: pa.Table) -> tuple[Positions, Positions]:
    """The pairs of key and partition as numbers; -1 for places that no row can have."""
    keys, key_names = _codes(rows[KEY])
    partitions, partition_names = _codes(rows[PARTITION])
    scale = max(len(partition_names), 1)
    asked_keys = positions_of(pc.index_in(places[KEY], value_set=key_names))
    asked_partitions = positions_of(pc.index_in(places[PARTITION], value_set=partition_names))
    known = (asked_keys >= 0) & (asked_partitions >= 0)
    asked = np.where(known, asked_keys * scale + asked_partitions, -1)
    return keys * scale + partitions, asked


def _codes(values: pa.ChunkedArray) -> tuple[Positions, pa.Array]:
    encoded = flat(values).dictionary_encode()
    return positions_of(encoded.indices), encoded.dictionary


_ROUND_ROWS = 1_000_000
_NAMES = [field.name for field in LEADING]
_ONLY_KEYS = pa.ipc.IpcReadOptions(included_fields=[_NAMES.index(KEY), _NAMES.index(PARTITION)])


@dataclass(frozen=True, slots=True)
class Incoming:
    """Keys of some buckets, duplicates included; all members are equally long."""

    keys: pa.Array
    partitions: pa.Array
    bucket: npt.NDArray[np.int64]
    """The bucket that each key lies in."""


def incoming_keys(
    storage: Storage, buckets: Sequence[Sequence[Segment]], round_rows: int = _ROUND_ROWS
) -> Iterator[Incoming]:
    """The keys of all buckets, in rounds of about `round_rows` rows."""
    chosen: list[int] = []
    count = 0
    for number, segments in enumerate(buckets):
        rows = sum(segment.rows for segment in segments)
        if chosen and count + rows > round_rows:
            yield _read(storage, buckets, chosen)
            chosen, count = [], 0
        if rows:
            chosen.append(number)
            count += rows
    if chosen:
        yield _read(storage, buckets, chosen)


def _read(
    storage: Storage, buckets: Sequence[Sequence[Segment]], chosen: Sequence[int]
) -> Incoming:
    tables, owners = [], []
    for number in chosen:
        for segment in buckets[number]:
            data = segment_bytes(storage, segment)
            # The other columns are not even decompressed.
            stream = pa.ipc.open_stream(pa.py_buffer(data), options=_ONLY_KEYS)
            tables.append(stream.read_all())
            owners.append(np.full(tables[-1].num_rows, number, dtype=np.int64))
    rows = pa.concat_tables(tables)
    return Incoming(flat(rows[KEY]), flat(rows[PARTITION]), np.concatenate(owners))
