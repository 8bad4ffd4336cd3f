"""Rows between two stages of a write, as Arrow streams in files of a store.

A segment is one stream. A writer collects segments and writes them to files of limited size, each
created in one step, so that readers never see an incomplete file. Small segments need no file: the
first segments of a writer may hold their bytes themselves, and travel with the task that reads
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.storage.paths import split
from lakedex.storage.protocol import Storage

_FILE_BYTES = 64 << 20
_HELD_BYTES = 32 << 10
"""So much a writer leaves in its segments; those of all tasks come together on the driver."""
_PACKED_BYTES = 64 << 10
"""Smaller segments are not compressed, because compression would take more time than it saves."""
_PLAIN = pa.ipc.IpcWriteOptions()
_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")
_READING = pa.ipc.IpcReadOptions(use_threads=False)
"""Tasks already run in parallel, and a thread pool costs more than decoding a few columns."""


_filled: set[str] = set()
"""The folders that this process has written spill files to and `is_filled` did not name yet."""
_MOST_FILLED = 10_000
"""Workers of other processes do not call `is_filled`; beyond so many any folder may be filled."""


def is_filled(folder: str) -> bool:
    """Whether this process has put spill files into a folder; says so once."""
    found = folder in _filled or len(_filled) >= _MOST_FILLED
    _filled.discard(folder)
    return found


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of rows in a spill file."""

    path: str
    offset: int
    length: int
    rows: int
    raw_bytes: int = 0
    """The size of the rows in memory."""
    data: bytes | None = field(default=None, repr=False)
    """The stream itself, if it is in no file."""


class SpillWriter:
    """Writes segments to files `<prefix>-<n>`; `finish` must be called.

    The files of one prefix belong to one attempt of one task, so prefixes must be unique. With
    `holds_small` the first segments, while they are small, are held in memory instead; they are
    for tasks of the same write only.
    """

    def __init__(self, storage: Storage, prefix: str, *, holds_small: bool = False) -> None:
        """Create a writer, without writing yet."""
        self._storage = storage
        self._prefix = prefix
        self._held_left = _HELD_BYTES if holds_small else 0
        self._number = 0
        self._pieces: list[pa.Buffer] = []
        self._size = 0

    def add(self, rows: pa.Table) -> Segment:
        """Add rows and return their future position."""
        sink = pa.BufferOutputStream()
        raw_bytes = rows.nbytes
        options = _PLAIN if raw_bytes < _PACKED_BYTES else _PACKED
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_table(rows)
        data = sink.getvalue()
        if data.size <= self._held_left:
            self._held_left -= data.size
            # The place tells apart segments with the same rows.
            path, at = f"{self._prefix}-held", self._held_left
            return Segment(path, at, data.size, rows.num_rows, raw_bytes, data.to_pybytes())
        segment = Segment(self._path(), self._size, data.size, rows.num_rows, raw_bytes)
        self._pieces.append(data)
        self._size += data.size
        if self._size >= _FILE_BYTES:
            self.finish()
        return segment

    def add_by_number(
        self, rows: pa.Table, numbers: npt.NDArray[np.integer[Any]]
    ) -> list[tuple[int, Segment]]:
        """Add rows in one segment for each number, such as a bucket; return their positions."""
        return [(number, self.add(own)) for number, own in rows_by_number(rows, numbers)]

    def finish(self) -> None:
        """Write the segments that are still in memory."""
        if not self._pieces:
            return
        # A write that a power failure ends is started again, without its old spill files.
        if len(_filled) < _MOST_FILLED:
            _filled.add(split(self._prefix)[0])
        self._storage.create(self._path(), b"".join(self._pieces), durable=False)
        self._pieces, self._size = [], 0
        self._number += 1

    def _path(self) -> str:
        return f"{self._prefix}-{self._number}"


def rows_by_number(
    rows: pa.Table, numbers: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each number in order, by ascending number.

    Example:
        >>> rows = pa.table({"key": ["a", "b", "c"]})
        >>> [(n, own["key"].to_pylist()) for n, own in rows_by_number(rows, np.array([1, 0, 1]))]
        [(0, ['b']), (1, ['a', 'c'])]
    """
    order = np.argsort(numbers, kind="stable")
    rows = rows.take(pa.array(order)).combine_chunks()
    found, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    spans = zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True)
    for number, start, count in spans:
        yield number, rows.slice(start, count)


def read_segments(
    storage: Storage, segments: Sequence[Segment], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Read the rows of segments in order; None if there are no segments."""
    tables = [_read(storage, segment, columns) for segment in segments]
    return pa.concat_tables(tables) if tables else None


def segment_bytes(storage: Storage, segment: Segment) -> bytes:
    """The stream of a segment."""
    if segment.data is not None:
        return segment.data
    # The file contains at least the segment, so its size need not be requested from the store.
    end = segment.offset + segment.length
    return storage.source(segment.path, end).read(segment.offset, segment.length)


def _read(storage: Storage, segment: Segment, columns: Sequence[str] | None) -> pa.Table:
    data = segment_bytes(storage, segment)
    table = pa.ipc.open_stream(pa.py_buffer(data), options=_READING).read_all()
    return table if columns is None else table.select(list(columns))
