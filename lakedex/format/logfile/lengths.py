"""Records that stand one after the other, each behind a big-endian int of its length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakedex.format.chains import ChainRules, Positions


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
