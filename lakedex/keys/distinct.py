"""Work on the distinct values of a column instead of on every row."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


def by_distinct(values: pa.Array, work: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What `work` makes of the distinct values (null is one of them), for every row.

    Example:
        >>> import pyarrow.compute as pc
        >>> by_distinct(pa.array(["b", "a", "b"]), pc.utf8_upper).to_pylist()
        ['B', 'A', 'B']
    """
    if values.type == pa.string_view():
        values = values.cast(pa.string())
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return work(encoded.dictionary).take(encoded.indices)
