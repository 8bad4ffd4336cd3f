"""One row of each key: what a write says last about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakedex.filegroup.ordering import ordering_of
from lakedex.merge import Entries, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.write.rows import DELETE
from lakedex.write.tag.places import key_codes, mask_of


def has_repeated_keys(rows: pa.Table, *, per_partition: bool) -> bool:
    """Whether a key stands in several rows; per partition, in several of one partition.

    Example:
        >>> from lakedex.write.rows import KEY, PARTITION
        >>> rows = pa.table({KEY: ["a", "b", "a"], PARTITION: ["p", "p", "q"]})
        >>> [has_repeated_keys(rows, per_partition=each) for each in (False, True)]
        [True, False]
    """
    return len(np.unique(key_codes(rows, per_partition=per_partition))) < rows.num_rows


def deduplicate(rows: pa.Table, ordering: Sequence[str], *, per_partition: bool) -> pa.Table:
    """The winning row of each key, in the order in which they came.

    The largest ordering value wins as it does between stored versions (no value counts as the
    lowest, NaN as the highest), of equal ones the last. A delete that is not conditional wins
    over every value. Without ordering columns the last row wins, whatever it is.

    Args:
        rows: Rows in the form of `lakedex.write.rows`.
        ordering: The ordering columns.
        per_partition: Whether a key may stand once in each partition.

    Example:
        >>> from lakedex.write.rows import KEY, PARTITION
        >>> rows = pa.table({KEY: ["a", "b", "a"], PARTITION: ["p", "p", "q"],
        ...                  DELETE: [False] * 3, "v": [2, 1, 1]})
        >>> deduplicate(rows, ["v"], per_partition=False)["v"].to_pylist()
        [2, 1]
        >>> deduplicate(rows, [], per_partition=True).num_rows
        3
    """
    codes = key_codes(rows, per_partition=per_partition)
    counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(counts[2]) == len(codes):
        return rows
    keep = counts[2][counts[1]] == 1
    doubtful = np.flatnonzero(~keep)
    chosen = rows.take(pa.array(doubtful))
    values = ordering_of(chosen, ordering)
    if values:
        deletes = pa.array(mask_of(chosen[DELETE]).astype(np.int8))
        values.insert(0, deletes)
    no = np.zeros(len(doubtful), dtype=np.bool_)
    entries = Entries(pa.array(codes[doubtful]), tuple(map(flat, values)), no, no, no)
    keep[doubtful[newest_per_key(entries).positions]] = True
    return rows.filter(pa.array(keep))
