"""Values as whole numbers that keep their order, for columns of every type that has one.

Null comes first, NaN last; texts and bytes are compared byte by byte.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


def has_order(data_type: pa.DataType) -> bool:
    """Whether rows can be sorted by a column of this type."""
    return not (pa.types.is_nested(data_type) or pa.types.is_null(data_type))


def ranks(values: Column) -> Ints:
    """The rank of each value, the same for equal ones and without gaps; that of null is 0.

    Example:
        >>> ranks(pa.array(["b", None, "a", "b"])).tolist()
        [2, 0, 1, 2]
    """
    found: Ints = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy()
    found = found.astype(np.int64)
    if values.null_count:
        found[pc.is_null(values).to_numpy(zero_copy_only=False).astype(np.bool_)] = 0
    return found


def joint_ranks(first: Column, second: Column) -> tuple[Ints, Ints]:
    """The ranks of the values of two columns among each other."""
    both = ranks(pa.chunked_array([*_chunks(first), *_chunks(second)], first.type))
    return both[: len(first)], both[len(first) :]


def quantiles(values: Column, sample: Column, bits: int) -> Ints:
    """Where each value lies among those of a sample, from 0 to 2**bits - 1.

    As many sample rows lie in each stretch of numbers of one length, however values are spread;
    equal values have one number.

    Example:
        >>> quantiles(pa.array([5, 900, -1]), pa.array([1, 5, 7, 1000]), 4).tolist()
        [4, 12, 0]
    """
    count = len(sample)
    if not count:
        return np.zeros(len(values), dtype=np.int64)
    known, found = joint_ranks(sample, values)
    less = np.searchsorted(np.sort(known), found, side="left")
    return (np.minimum(less, count - 1) << bits) // count


def joined(first: Ints, second: Ints) -> Ints:
    """Ranks of pairs: by the first number, then by the second; small as long as both are."""
    pairs = first * (int(second.max(initial=0)) + 1) + second
    numbered: Ints = np.unique(pairs, return_inverse=True)[1]
    return numbered.astype(np.int64, copy=False)


def _chunks(values: Column) -> list[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
