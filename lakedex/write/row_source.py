"""Where the rows of a write come from: read once, part by part, where they are.

A source runs a worker over each of its parts and gives back only what the workers answered, so
that rows never gather in one place. A part may be read by several attempts; the answers are those
of one attempt each, so a worker gives what it writes a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Protocol, TypeVar

import pyarrow as pa

from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput

Answer = TypeVar("Answer")


class RowSource(Protocol):
    """The input of a write."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch; timestamps with a zone are in UTC."""

    def run(
        self, label: str, worker: Callable[[int, Iterator[pa.RecordBatch]], Answer]
    ) -> list[Answer]:
        """Run a worker over each part, once, and collect its answers in the order of the parts.

        Args:
            label: What the work is, for people who watch it.
            worker: A function that can be pickled, of the part's number and its batches; a part
                may be empty. No two parts have one number, but two attempts at a part have.

        Raises:
            InvalidInput: The source can be read once only, and was.
        """


class ArrowRowSource:
    """Rows that are in this process, or that come to it batch by batch.

    A table is cut in as many parts as may run at the same time. What comes as a stream (a
    `RecordBatchReader`, or any iterable of batches) is one part, in the memory of one batch.

    Example:
        >>> source = ArrowRowSource(pa.table({"x": [1, 2, 3]}), parallelism=2)
        >>> source.run("count", lambda number, batches: (number, sum(map(len, batches))))
        [(0, 2), (1, 1)]
    """

    def __init__(
        self,
        rows: pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch],
        parallelism: int = 1,
    ) -> None:
        """Take the rows; a stream is not read before `run`, but for its first batch."""
        self._engine = LocalEngine(parallelism)
        self._table: pa.Table | None = None
        self._stream: Iterator[pa.RecordBatch] | None = None
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        if isinstance(rows, pa.Table):
            self._table = rows
            self._schema = rows.schema
        elif isinstance(rows, pa.RecordBatchReader):
            self._stream = iter(rows)
            self._schema = rows.schema
        else:
            self._schema, self._stream = _peeked(rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        return self._schema

    def run(
        self, label: str, worker: Callable[[int, Iterator[pa.RecordBatch]], Answer]
    ) -> list[Answer]:
        """Run a worker over each part, once, and collect its answers in the order of the parts."""
        if self._table is None:
            if self._stream is None:
                raise InvalidInput("a stream of rows can be written once only")
            stream, self._stream = self._stream, None
            return [worker(0, stream)]
        parts = _parts(self._table, self._engine.parallelism)
        return self._engine.map(
            label, lambda part: worker(part[0], iter(part[1].to_batches())), list(enumerate(parts))
        )


def _parts(table: pa.Table, most: int) -> list[pa.Table]:
    """Runs of rows of nearly equal length; at least one part, however few rows there are."""
    count = max(1, min(most, table.num_rows))
    edges = [-(-table.num_rows * number // count) for number in range(count + 1)]
    return [table.slice(start, end - start) for start, end in pairwise(edges)]


def _peeked(rows: Iterable[pa.RecordBatch]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if not isinstance(rows, Iterable):
        raise InvalidInput(f"rows are an Arrow table or batches, not {rows!r}")
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        raise InvalidInput("an iterable of no batches has no columns; give an empty table")
    if not isinstance(first, pa.RecordBatch):
        raise InvalidInput(f"rows are an Arrow table or batches, not an iterable of {type(first)}")
    return first.schema, _of_one_schema(chain([first], stream), first.schema)


def _of_one_schema(stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        if not isinstance(batch, pa.RecordBatch) or not batch.schema.equals(schema):
            raise InvalidInput("all batches of the rows must have the columns of the first one")
        yield batch
