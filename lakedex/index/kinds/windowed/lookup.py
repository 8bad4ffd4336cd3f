"""Finding keys in a windowed record index; runs in workers, which read no timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.format.hfile import Cells, HFileReader
from lakedex.format.spill import Segment, read_segments
from lakedex.index.kinds.windowed.entries import DEAD, GONE, Ints, decode_entries
from lakedex.index.kinds.windowed.state import Run, RunFile
from lakedex.index.kinds.windowed.store import FOLDER
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.storage.protocol import Storage

GROUPS = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("based", pa.int64()),
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string()),
    ]
)
"""Covered file groups, as workers are told; spilled, as there may be many."""


@dataclass(frozen=True, slots=True)
class WindowAccess:
    """Where a windowed record index lies, and of which groups it is believed."""

    runs: tuple[Run, ...]
    groups: Segment


@dataclass(frozen=True, slots=True)
class Found:
    """Which groups hold some keys; all members are equally long."""

    query: Ints
    """The row of the key that was asked for."""
    group: Ints
    """The row of the group in the table of groups."""
    is_live: npt.NDArray[np.bool_]
    """False where a log file deleted the record and the base file has it still."""


def read_groups(storage: Storage, segment: Segment) -> pa.Table:
    """The table of groups that a driver spilled."""
    found = read_segments(storage, [segment])
    return GROUPS.empty_table() if found is None else found


def find_keys(storage: Storage, runs: tuple[Run, ...], groups: pa.Table, keys: pa.Array) -> Found:
    """The groups that hold the keys, each pair once, by row of the key."""
    parts = [
        (query, numbers, states, np.full(len(query), run.sequence, dtype=np.int64))
        for run in runs
        for query, numbers, states in _entries_of(storage, run, keys)
    ]
    nothing = np.zeros(0, np.int64)
    columns = [np.concatenate([nothing, *column]) for column in zip(*parts, strict=True)]
    query, numbers, states, sequences = columns or [nothing] * 4
    return _newest(groups, query, numbers, states, sequences)


def open_run(storage: Storage, file: RunFile) -> HFileReader:
    """A file of a run, open for reading."""
    return HFileReader(storage.source(f"{FOLDER}/{file.path}", file.size_bytes))


def entries_in(file: RunFile, cells: Cells) -> tuple[Ints, Ints, Ints]:
    """For each entry in some cells of a file the row of its cell, its group and its state."""
    return decode_entries(cells, path=f"{FOLDER}/{file.path}")


def _entries_of(storage: Storage, run: Run, keys: pa.Array) -> Iterator[tuple[Ints, Ints, Ints]]:
    shards = shards_of(keys, len(run.files))
    for shard in np.unique(shards).tolist():
        file = run.files[shard]
        if file is None:
            continue
        asked = np.flatnonzero(shards == shard)
        cells = open_run(storage, file).lookup(keys.take(pa.array(asked)))
        if cells.query is None or not len(cells):
            continue
        rows, numbers, states = entries_in(file, cells)
        yield asked[cells.query[rows]], numbers, states


def _newest(groups: pa.Table, query: Ints, numbers: Ints, states: Ints, sequences: Ints) -> Found:
    """Of several entries of a key and group the newest, where it says that the key is there."""
    known = groups["number"].to_numpy()
    order = np.argsort(known)
    at = np.searchsorted(known, numbers, sorter=order)
    rows = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(numbers), np.int64)
    believed = known[rows] == numbers if len(order) else np.zeros(len(numbers), np.bool_)
    query, rows, states, sequences = (each[believed] for each in (query, rows, states, sequences))
    order = np.lexsort((sequences, rows, query))
    query, rows, states, sequences = (each[order] for each in (query, rows, states, sequences))
    is_last = np.ones(len(query), dtype=np.bool_)
    is_last[:-1] = (query[1:] != query[:-1]) | (rows[1:] != rows[:-1])
    based = groups["based"].to_numpy()[rows]
    # A base file that is written again holds no deleted record any more.
    void = (states == GONE) | ((states == DEAD) & (sequences < based))
    kept = is_last & ~void
    return Found(query[kept], rows[kept], states[kept] != DEAD)
