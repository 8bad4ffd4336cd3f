"""Inverted lists: each value once, with the numbers of the data files that hold it.

A list that is null stands for all files of the run, so that a value which nearly every file holds
takes no space.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


def inverted(
    values: pa.Array, numbers: pa.ChunkedArray, files: int, *, most: int | None = None
) -> tuple[pa.Array, pa.ListArray]:
    """The distinct values in their order, null last, and the files of each.

    Args:
        values: The values of all files.
        numbers: The number of the file that each value is of.
        files: How many files there are.
        most: A value of more files than these gets a null list.

    Example:
        >>> owners = pa.chunked_array([pa.array([0, 1, 1])])
        >>> values, lists = inverted(pa.array(["b", "a", "b"]), owners, 2)
        >>> values.to_pylist(), lists.to_pylist()
        (['a', 'b'], [[1], [0, 1]])
    """
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    distinct = encoded.dictionary
    order = pc.sort_indices(distinct).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[encoded.indices.to_numpy().astype(np.int64)] if len(values) else rank
    width = max(1, files)
    pairs = np.unique(ranks * width + numbers.to_numpy().astype(np.int64))
    owners, held = pairs // width, pairs % width
    counts = np.bincount(owners, minlength=len(order))
    is_everywhere = counts > (files if most is None else most)
    held = held[~is_everywhere[owners]]
    offsets = np.append(0, np.cumsum(np.where(is_everywhere, 0, counts)))
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)),
        pa.array(held.astype(np.int32)),
        mask=pa.array(is_everywhere),
    )
    return distinct.take(pa.array(order)), lists


def pairs_of(lists: pa.ListArray, files: int) -> tuple[Ints, Ints]:
    """The positions of the lists and the files in them, one pair for each entry.

    Example:
        >>> rows, numbers = pairs_of(pa.array([[1], None]), 2)
        >>> rows.tolist(), numbers.tolist()
        ([0, 1, 1], [1, 0, 1])
    """
    is_everywhere = lists.is_null().to_numpy(zero_copy_only=False)
    counts = pc.fill_null(pc.list_value_length(lists), files).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lists)), counts)
    numbers = np.tile(np.arange(files), int(is_everywhere.sum()))
    merged = np.empty(len(rows), dtype=np.int64)
    merged[is_everywhere[rows]] = numbers
    merged[~is_everywhere[rows]] = file_numbers(lists)
    return rows, merged


def file_numbers(lists: pa.ListArray | pa.ChunkedArray) -> Ints:
    """The numbers of all lists, one after the other."""
    numbers: Ints = pc.list_flatten(lists).to_numpy().astype(np.int64)
    return numbers
