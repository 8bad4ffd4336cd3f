"""The keys of a write's spilled rows, as many buckets at a time as fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.format.spill import Segment, segment_bytes
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.rows import KEY, LEADING, PARTITION

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
