"""Whether the values of a column repeat: a dictionary of values that do not is written for nothing.

It would be a second copy of them, and making it takes longer than all else that is done to such a
column. A sample tells: by the birthday problem a few dozen values of a column with fewer values
than half of its rows have so many pairs among them that their lack is no accident. Neighbours are
looked at apart, since sorted values repeat there only.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pyarrow as pa

_FEWEST_ROWS = 1_000
"""Below this any choice costs next to nothing."""
_PAIRS = 16
"""How many equal pairs a sample should have if every value were there twice."""


def seldom_repeats(column: pa.ChunkedArray) -> bool:
    """Whether nearly every value of a flat column is another one.

    Example:
        >>> names = [f"ride-{number}" for number in range(1000)]
        >>> seldom_repeats(pa.chunked_array([names])), seldom_repeats(pa.chunked_array([names * 3]))
        (True, False)
    """
    rows = len(column)
    if rows < _FEWEST_ROWS or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    size = math.isqrt(_PAIRS * rows)
    return not _repeats(column.slice(0, size)) and not _repeats(column.take(_anywhere(rows, size)))


@lru_cache(maxsize=8)
def _anywhere(rows: int, size: int) -> pa.Array:
    """Some row numbers, in no order: regular ones would miss what repeats regularly."""
    return pa.array(np.random.default_rng(rows).choice(rows, size, replace=False))


def _repeats(sample: pa.ChunkedArray) -> bool:
    pairs = len(sample) - len(sample.unique())
    return pairs > _PAIRS // 2
