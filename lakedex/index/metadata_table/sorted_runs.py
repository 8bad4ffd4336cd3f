"""Cells that come in any order, sorted and merged without all of them being in memory.

What is added is kept until it reaches a budget, then sorted and put on disk as a run. In the end
the runs, and sorted files beside them, are merged: of each stream one piece is in memory, and all
cells up to the least of the pieces' last keys are sorted at once. Of equal keys the newest wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MOST_RUNS = 64
"""More runs on disk than this become one."""
_PIECES = 16
"""A run is read back in pieces of this part of the budget."""


@dataclass(frozen=True, slots=True)
class Records:
    """Keys in ascending order with their encoded records (large_binary both).

    The record of a deleted key is null.
    """

    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The memory that keys and records take."""
        return int(self.keys.nbytes + self.values.nbytes)

    def slice(self, start: int, stop: int) -> Records:
        """The records from one row to another."""
        return Records(self.keys.slice(start, stop - start), self.values.slice(start, stop - start))

    def live(self) -> Records:
        """The records without deleted keys."""
        if not self.values.null_count:
            return self
        kept = self.values.is_valid()
        return Records(self.keys.filter(kept), self.values.filter(kept))

    def count_up_to(self, key: bytes) -> int:
        """How many keys are not greater than another."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.keys[middle].as_py() > key else (middle + 1, high)
        return low


def newest_of(parts: Sequence[Records]) -> Records:
    """The cells of some parts, oldest first, in the order of their keys, the newest of each.

    Example:
        >>> old = Records(pa.array([b"a", b"b"]), pa.array([b"1", b"1"]))
        >>> new = Records(pa.array([b"b", b"a"]), pa.array([b"2", None]))
        >>> newest_of([old, new]).values.to_pylist()
        [None, b'2']
    """
    keys = pa.concat_arrays([part.keys for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    # The sort is stable, so the last of equal keys is the newest.
    newest = np.ones(len(keys), dtype=np.bool_)
    newest[:-1] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    if newest.all():
        return Records(keys, values.take(order))
    kept = pa.array(newest)
    return Records(keys.filter(kept), values.take(order.filter(kept)))


def merge_sorted(streams: Sequence[Iterator[Records]]) -> Iterator[Records]:
    """The newest cells of streams that are sorted, oldest stream first, in pieces."""
    heads = [next(stream, None) for stream in streams]
    while True:
        waiting = [(number, head) for number, head in enumerate(heads) if head is not None]
        if not waiting:
            return
        limit = min(head.keys[-1].as_py() for _, head in waiting)
        parts = []
        for number, head in waiting:
            upto = head.count_up_to(limit)
            if upto:
                parts.append(head.slice(0, upto))
            rest = head.slice(upto, len(head))
            heads[number] = rest if len(rest) else next(streams[number], None)
        yield parts[0] if len(parts) == 1 else newest_of(parts)


class SortedRuns:
    """Cells in the order in which they came, kept in memory up to a budget and then on disk.

    Example:
        >>> with SortedRuns(budget=1) as runs:
        ...     runs.add(Records(pa.array([b"b", b"a"]), pa.array([b"1", b"1"])))
        ...     runs.add(Records(pa.array([b"b"]), pa.array([b"2"])))
        ...     [piece.values.to_pylist() for piece in merge_sorted(runs.streams())]
        [[b'1'], [b'2']]
    """

    def __init__(self, budget: int) -> None:
        """Keep so many bytes in memory."""
        self._budget = budget
        self._waiting: list[Records] = []
        self._bytes = 0
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(self._files)

    def add(self, records: Records) -> None:
        """Take cells, in any order of their keys; they are newer than all before."""
        if not len(records):
            return
        self._waiting.append(records)
        self._bytes += records.nbytes
        if self._bytes > self._budget:
            self._files.append(self._written(iter([newest_of(self._waiting)])))
            self._waiting, self._bytes = [], 0
        if len(self._files) > _MOST_RUNS:
            older, self._files = self._files, []
            self._files.append(self._written(merge_sorted([_read(each) for each in older])))
            self._close(older)

    def streams(self) -> list[Iterator[Records]]:
        """The sorted runs, the oldest first."""
        found = [_read(each) for each in self._files]
        if self._waiting:
            found.append(iter([newest_of(self._waiting)]))
            self._waiting = []
        return found

    def _written(self, run: Iterator[Records]) -> IO[bytes]:
        """A file without a name that holds a run; it goes when it is closed."""
        file = TemporaryFile(prefix="lakedex-run-")  # noqa: SIM115 - closed with the runs
        piece_bytes = max(1, self._budget // _PIECES)
        writer = None
        for records in run:
            rows = pa.table({"key": records.keys, "value": records.values})
            writer = writer or pa.ipc.new_stream(file, rows.schema)
            cells = max(1, len(rows) * piece_bytes // max(1, records.nbytes))
            writer.write_table(rows, max_chunksize=cells)
        if writer is not None:
            writer.close()
        return file

    @staticmethod
    def _close(files: list[IO[bytes]]) -> None:
        for file in files:
            file.close()


def _read(file: IO[bytes]) -> Iterator[Records]:
    file.seek(0)
    for batch in pa.ipc.open_stream(file):
        yield Records(batch.column(0), batch.column(1))
