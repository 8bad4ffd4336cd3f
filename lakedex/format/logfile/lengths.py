"""Records that stand one after the other, each behind a big-endian int of its length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakedex.format.chains import ChainRules, Positions

_BLOCK_HEAD = 8


def length_prefixed_rules(data: npt.NDArray[np.uint8], end: int) -> ChainRules:
    r"""The chain rules for such records in `data`, of which the first `end` bytes count.

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
    r"""The records of many blocks that lie one after the other, walked in all blocks at once.

    Args:
        content: The blocks; each has a head of eight bytes, then its records.
        sizes: The bytes of each block.
        counts: How many records each block says that it has.

    Returns:
        The bytes, and where each record begins and ends, block after block; None when a block does
        not hold what it says.

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
    # The longest blocks first: those that have a next record are then the first ones.
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
