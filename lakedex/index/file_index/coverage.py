"""Which file slices of a snapshot the runs of a file index describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import same_column, slice_files
from lakedex.index.file_index.definitions import source_columns
from lakedex.index.file_index.run import RunHead

Ints = npt.NDArray[np.int64]
_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class DescribedRun:
    """A run and the slices of a snapshot that its files belong to."""

    head: RunHead
    slice_of: Ints
    """The slice of each file of the run; -1 for files of no slice."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the runs of an index describe of the slices of a snapshot."""

    runs: tuple[DescribedRun, ...]
    covered: npt.NDArray[np.bool_]
    """The slices all files of which are described."""
    other_versions: frozenset[int] = frozenset()
    """Versions of the kind that made runs which this version does not read."""


def coverage(
    context: ReadContext,
    definition: IndexDefinition,
    slices: tuple[FileSlice, ...],
    heads: Sequence[RunHead],
) -> Coverage:
    """The slices that these runs describe.

    A file is not described where the column had another name when it was written.
    """
    files = slice_files(slices)
    keys = file_keys(slices)
    described = np.zeros(len(keys), dtype=np.bool_)
    runs = []
    for head in heads:
        at = pc.index_in(keys_of(head.files), value_set=keys).fill_null(-1).to_numpy()
        described[at[at >= 0]] = True
        slice_of = np.where(at >= 0, files.slice_of[at], -1) if len(keys) else at
        runs.append(DescribedRun(head, slice_of.astype(np.int64)))
    for column in source_columns(definition):
        same = same_column(context.history, column, files)
        if same is not None:
            described &= same
    lacking = np.bincount(files.slice_of[~described], minlength=len(slices)) > 0
    return Coverage(tuple(runs), ~lacking)


def file_keys(slices: tuple[FileSlice, ...]) -> pa.Array:
    """The identity of each file of the slices, in the order of `slice_files`."""
    return pa.array(
        [
            f"{each.partition}/{file.name}/{file.size_bytes}"
            for each in slices
            for file in (each.base, *each.logs)
            if file is not None
        ],
        pa.string(),
    )


def keys_of(files: pa.Table) -> pa.Array:
    """The identity of each file of a run, as `file_keys` has it."""
    columns = [files[name].combine_chunks().cast(pa.string()) for name in files.column_names]
    return pc.binary_join_element_wise(*columns, _SEPARATOR)
