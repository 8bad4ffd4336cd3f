"""Parts of Arrow arrays that are rebuilt from their buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def validity_buffer(array: pa.Array) -> pa.Buffer | None:
    """The nulls of an array, slice or not, as a bitmap that starts at its first row."""
    if not array.null_count:
        return None
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(present, bitorder="little"))
