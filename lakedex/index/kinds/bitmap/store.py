"""The runs of a bitmap index, and of which slices of a snapshot they know everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.catalog import IndexInfo
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import same_column, slice_files
from lakedex.index.kinds.bitmap.definitions import (
    KIND,
    bitmap_definitions,
    folder_of,
    source_columns,
)
from lakedex.index.kinds.bitmap.run import Ints, RunHead, read_head
from lakedex.storage.protocol import FileInfo, Storage

_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class SliceRun:
    """A run as slices of a snapshot see it."""

    head: RunHead
    slice_of: Ints
    """The slice that each file of the run belongs to; -1 for files of none."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the runs of an index say of the slices of a snapshot."""

    runs: tuple[SliceRun, ...]
    covered: npt.NDArray[np.bool_]
    """The slices all files of which are known."""


def list_runs(storage: Storage, definition: IndexDefinition) -> list[FileInfo]:
    """The files of the runs, those that others have taken the place of among them."""
    return storage.list(folder_of(definition))


def read_heads(storage: Storage, runs: Sequence[FileInfo]) -> list[RunHead]:
    """The heads of the runs that no other run has taken the place of."""
    heads = [read_head(storage, run.path, run.size_bytes) for run in runs]
    replaced = {name for head in heads for name in head.replaces}
    return [head for head in heads if name_of(head.path) not in replaced]


def name_of(path: str) -> str:
    """The name of a run without its folder."""
    return path.rpartition("/")[2]


def coverage(
    context: ReadContext,
    definition: IndexDefinition,
    value_type: pa.DataType,
    slices: tuple[FileSlice, ...],
    heads: Sequence[RunHead],
) -> Coverage:
    """Which slices the runs know; those of values of another type say nothing."""
    files = slice_files(slices)
    wanted = file_keys(slices)
    known = np.zeros(len(wanted), dtype=np.bool_)
    runs = []
    for head in heads:
        if head.type != value_type:
            continue
        at = pc.index_in(keys_of(head.files), value_set=wanted).fill_null(-1).to_numpy()
        here = at[at >= 0]
        known[here] = True
        slice_of = np.where(at >= 0, files.slice_of[at], -1) if len(wanted) else at
        runs.append(SliceRun(head, slice_of.astype(np.int64)))
    for column in source_columns(definition):
        same = same_column(context.history, column, files)
        if same is not None:
            known &= same
    unknown = np.bincount(files.slice_of[~known], minlength=len(slices)) > 0
    return Coverage(tuple(runs), ~unknown)


def file_keys(slices: tuple[FileSlice, ...]) -> pa.Array:
    """What stands for each file of the slices; the same order as that of `slice_files`."""
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
    """What stands for each file of a run, as `file_keys` has it."""
    columns = [files[name].combine_chunks().cast(pa.string()) for name in files.column_names]
    return pc.binary_join_element_wise(*columns, _SEPARATOR)


def list_bitmaps(storage: Storage, config: TableConfig) -> list[IndexInfo]:
    """The bitmap indexes of a table; their file groups are their runs."""
    found = []
    for name, each in bitmap_definitions(config).items():
        runs = list_runs(storage, each)
        size = sum(run.size_bytes for run in runs)
        found.append(
            IndexInfo(name, KIND, each.source_fields, each.function, "live", len(runs), size)
        )
    return found
