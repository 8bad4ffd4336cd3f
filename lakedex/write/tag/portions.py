"""The rows of a bucket, no more of them at a time than fit in the memory of a task.

How many buckets a write has is said before its rows are seen, so a bucket of a large write may be
many times as large as a worker's memory. It is then split once more by its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.metadata_table.hashing import java_hashes
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.rows import KEY

PORTION_BYTES = 256 << 20
_GOLDEN = np.uint32(2_654_435_769)
_HALF = np.uint32(16)


def portions_of(
    storage: Storage, writer: SpillWriter, segments: Sequence[Segment]
) -> Iterator[pa.Table]:
    """The rows of segments, all rows of a key together.

    Args:
        storage: Where they lie.
        writer: Takes the rows of buckets that are split.
        segments: The segments of one bucket.
    """
    count = -(-sum(segment.raw_bytes for segment in segments) // PORTION_BYTES)
    shares = [list(segments)] if count <= 1 else _split(storage, writer, segments, count)
    for share in shares:
        rows = read_segments(storage, share)
        if rows is not None:
            yield rows


def _split(
    storage: Storage, writer: SpillWriter, segments: Sequence[Segment], count: int
) -> list[list[Segment]]:
    shares: list[list[Segment]] = [[] for _ in range(count)]
    for segment in segments:
        rows = read_segments(storage, [segment])
        if rows is None:
            continue
        for number, part in writer.add_by_number(rows, _numbers(flat(rows[KEY]), count)):
            shares[number].append(part)
    writer.finish()
    return shares


def _numbers(keys: pa.Array, count: int) -> npt.NDArray[np.uint32]:
    """The portion of each key. Hashes of one bucket are alike in their lower bits only."""
    mixed: npt.NDArray[np.uint32] = java_hashes(keys).view(np.uint32) * _GOLDEN >> _HALF
    return mixed % np.uint32(count)
