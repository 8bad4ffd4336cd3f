"""The record keys of a file slice, those of deleted records included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup.context import RECORD_KEY, ReadContext
from lakedex.filegroup.log_changes import read_changes
from lakedex.filegroup.ordering import ordering_of
from lakedex.filegroup.reading import read_slice
from lakedex.filegroup.slices import FileSlice


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys of one slice; `live` says which of them a query sees."""

    keys: pa.Array
    live: npt.NDArray[np.bool_]


def stored_keys(
    context: ReadContext, file_slice: FileSlice, *, deleted_in_logs: bool = False
) -> StoredKeys:
    """The keys of a slice, those of deleted records of its base file too.

    Args:
        context: The table.
        file_slice: The slice.
        deleted_in_logs: Whether keys count too that logs delete and the base file does not have.
    """
    if not file_slice.logs:
        parts = [
            context.record_keys(rows)
            for rows in read_slice(context, file_slice, [RECORD_KEY], batch_rows=None)
        ]
        keys = _joined(parts)
        return StoredKeys(keys, np.ones(len(keys), dtype=np.bool_))
    needed = context.target(list(dict.fromkeys([RECORD_KEY, *context.merge_columns()])))
    changes = read_changes(context, file_slice, needed)
    in_base, alive = [], []
    for rows in read_slice(context, replace(file_slice, logs=()), needed.names):
        keys = context.record_keys(rows)
        ordering = ordering_of(rows, context.ordering_fields)
        in_base.append(keys)
        alive.append(context.record_keys(changes.apply(rows, keys, ordering)))
    alive.append(context.record_keys(changes.inserts()))
    living = _joined(alive)
    base = _joined([*in_base, changes.deletes()] if deleted_in_logs else in_base)
    if deleted_in_logs:
        base = base.unique()
    dead = base.filter(pc.invert(pc.is_in(base, value_set=living)))
    live = np.arange(len(living) + len(dead)) < len(living)
    return StoredKeys(_joined([living, dead]), live)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.string())
