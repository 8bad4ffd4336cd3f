"""Look into Arrow buffers with numpy, without a copy."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Scalar = TypeVar("Scalar", bound=np.generic)


def view(
    buffer: pa.Buffer | None, dtype: type[Scalar], first: int, count: int
) -> npt.NDArray[Scalar]:
    """`count` values of the buffer from the `first` one on; Arrow may pad it, or leave it out.

    Example:
        >>> view(pa.py_buffer(bytes([1, 2, 3])), np.uint8, 1, 2).tolist()
        [2, 3]
    """
    if buffer is None or not buffer.size or not count:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, first * np.dtype(dtype).itemsize)


def offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """The n + 1 offsets of a binary array into its data buffer."""
    buffer = array.buffers()[1]
    if pa.types.is_large_binary(array.type):
        return view(buffer, np.int64, array.offset, len(array) + 1 if buffer else 1)
    narrow = view(buffer, np.int32, array.offset, len(array) + 1 if buffer else 1)
    return narrow.astype(np.int64)


def payload(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The whole data buffer of a binary array."""
    buffer = array.buffers()[2]
    return view(buffer, np.uint8, 0, buffer.size if buffer is not None else 0)
