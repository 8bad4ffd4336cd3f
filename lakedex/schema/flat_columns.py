"""Arrow columns in one piece, and arrays rebuilt from the buffers of others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values of a column in one piece.

    Example:
        >>> flat(pa.chunked_array([[1], [2, 3]])).to_pylist()
        [1, 2, 3]
        >>> flat(pa.array(["a"])).to_pylist(), len(flat(pa.chunked_array([], pa.string())))
        (['a'], 0)
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # as some releases of Arrow leave a few types
        return pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.nulls(0, column.type)
    return whole


def validity_buffer(array: pa.Array) -> pa.Buffer | None:
    """The nulls of an array, slice or not, as a bitmap that starts at its first row."""
    if not array.null_count:
        return None
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(present, bitorder="little"))
