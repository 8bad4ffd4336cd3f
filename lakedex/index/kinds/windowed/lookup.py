"""Finding keys in a windowed record index; runs in workers, which read no timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.format.hfile import Cells, HFileReader, write_hfile
from lakedex.format.spill import Segment, read_segments
from lakedex.index.kinds.windowed.state import FOLDER, Run, RunFile
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
LIVE: Final = 0
DEAD: Final = 1
"""A log file deleted the record, and the base file still has it."""
GONE: Final = 2
_STATE_BITS = 2
_STATE_MASK = 3
_CODE_BYTES = 8

Ints = npt.NDArray[np.int64]


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


def encode_entries(keys: pa.Array, numbers: Ints, states: Ints) -> bytes:
    """A file of entries, which are sorted by the bytes of their keys, each key and group once.

    Args:
        keys: Binary keys; one that stands in several groups repeats.
        numbers: The group of each entry.
        states: LIVE, DEAD or GONE for each entry.
    """
    codes = (numbers << _STATE_BITS | states).astype("<i8")
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    first = np.flatnonzero(is_first)
    bounds = np.append(first, len(keys)) * _CODE_BYTES
    values = pa.Array.from_buffers(
        pa.large_binary(),
        len(first),
        [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(codes)],
    )
    return write_hfile(keys.take(pa.array(first)), values)


def decode_entries(cells: Cells, *, path: str) -> tuple[Ints, Ints, Ints]:
    """Of some cells: for each entry the row of its cell, its group and its state.

    Raises:
        CorruptFile: a value is no list of entries.
    """
    values = cells.values.cast(pa.large_binary())
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    if (lengths % _CODE_BYTES).any() or (lengths == 0).any():
        raise CorruptFile(path, 0, expected="entries of 8 bytes each", actual="other lengths")
    codes = _codes(values)
    states = codes & _STATE_MASK
    if (codes < 0).any() or (states > GONE).any():
        raise CorruptFile(path, 0, expected="groups and states", actual="other numbers")
    return np.repeat(np.arange(len(values)), lengths // _CODE_BYTES), codes >> _STATE_BITS, states


def _codes(values: pa.Array) -> Ints:
    """The numbers of all values, which lie one after the other."""
    if not len(values):
        return np.zeros(0, np.int64)
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    start, end = int(bounds[0]), int(bounds[-1])
    return np.frombuffer(memoryview(data)[start:end], "<i8").astype(np.int64)
