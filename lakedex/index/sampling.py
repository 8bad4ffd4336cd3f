"""What a sample of file slices tells about a whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.filegroup import FileSlice, ReadContext, read_slice

Ints = npt.NDArray[np.int64]


def spread_slices(slices: tuple[FileSlice, ...], most: int) -> list[FileSlice]:
    """Some slices, evenly from first to last."""
    count = min(len(slices), most)
    return [slices[at * len(slices) // count] for at in range(count)]


def files_per_value(seen: Ints, slices: int, files: int) -> float:
    """How many of all files hold a value, in the mean over the values.

    The values that no sampled slice has are estimated from those that one or two of them have, by
    Chao's lower bound for sampling without replacement; so the mean is rather too high where
    some values are much rarer than others. Never more than there are files.

    Args:
        seen: In how many of the sampled slices each value is.
        slices: How many were sampled.
        files: How many there are.

    Example:
        >>> round(files_per_value(np.full(500, 1), slices=10, files=100), 1)
        1.0
        >>> round(files_per_value(np.full(50, 10), slices=10, files=100))
        100
    """
    if not len(seen):
        return 1.0
    share = slices / files
    unseen = 0.0
    once, twice = int((seen == 1).sum()), int((seen == 2).sum())
    if slices < files and once:
        again = 2 * twice * slices / max(1, slices - 1)
        unseen = once**2 / (again + once * share / (1 - share))
    mean = float(seen.sum()) / share / (len(seen) + unseen)
    return round(min(max(1.0, mean), float(files)), 6)


def files_with_any(values: float, per_value: float, files: float) -> float:
    """How many of some files hold at least one of so many values that are spread independently.

    Example:
        >>> files_with_any(1, 3.0, 12), round(files_with_any(2, 3.0, 12), 2)
        (3.0, 5.25)
        >>> files_with_any(1_000, 3.0, 12) <= 12
        True
    """
    if files <= 0:
        return 0.0
    share = min(1.0, per_value / files)
    return files * (1 - (1 - share) ** values)


def rows_of_slices(
    context: ReadContext, slices: Sequence[FileSlice], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Some columns of each slice, log files merged."""
    nothing = context.target(columns).empty_table()
    for each in slices:
        parts = read_slice(context, each, columns)
        yield pa.concat_tables([nothing, *(part.select(columns) for part in parts)])
