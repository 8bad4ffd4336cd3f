"""Rows out of file slices: several slices at a time, in order, filtered exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from os import cpu_count

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.evaluate import filter_table
from lakedex.expr.tree import Expr, columns_of
from lakedex.filegroup import FileSlice, ReadContext, read_slice, read_slices

_GROUPS_A_WORKER = 4
"""So many at least, as groups take unequally long."""
_TOGETHER_BYTES = 16 << 20
"""The log files of a group have no more bytes."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read: the slices, the columns to give out, and the rows to keep."""

    context: ReadContext
    slices: Sequence[FileSlice]
    columns: tuple[str, ...]
    predicate: Expr | None = None
    """A bound predicate; rows for which it is not true are left out."""
    arrow_filter: pc.Expression | None = None
    """A filter in Arrow's own terms, which are not SQL's where NaN is concerned."""
    arrow_columns: tuple[str, ...] = ()
    time_zone: str = "UTC"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows given out."""
        return self.context.target(self.columns)

    @property
    def needed(self) -> list[str]:
        """The columns that have to be read, those of the filters included.

        They stand in the table's order: Arrow's filters may name a column by its number.
        """
        names = {*self.columns, *self.arrow_columns}
        if self.predicate is not None:
            names.update(column.path[0] for column in columns_of(self.predicate))
        known = self.context.schema.names
        # Computed meta columns are not in the schema; they come last, so that numbers still fit.
        computed = [name for name in self.columns if name not in known]
        return [*(name for name in known if name in names), *computed]


def to_table(scan: Scan) -> pa.Table:
    """All rows at once; slices are read in parallel."""
    nothing = _no_rows(scan)
    workers = max(min(len(scan.slices), cpu_count() or 1), 1)
    groups = _groups(scan.slices, workers)
    if workers <= 1:
        parts = [_group_tables(scan, group) for group in groups]
    else:
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(lambda group: _group_tables(scan, group), groups))
    return _joined([nothing, *chain.from_iterable(parts)])


def _groups(slices: Sequence[FileSlice], workers: int) -> Iterator[list[FileSlice]]:
    """The slices in order, with those together that one worker reads at once."""
    most = max(len(slices) // (workers * _GROUPS_A_WORKER), 1)
    group: list[FileSlice] = []
    size = 0
    for file_slice in slices:
        own = sum(log.size_bytes for log in file_slice.logs)
        if group and (len(group) == most or size + own > _TOGETHER_BYTES):
            yield group
            group, size = [], 0
        group.append(file_slice)
        size += own
    if group:
        yield group


def to_batches(scan: Scan, *, ahead: int = 2) -> Iterator[pa.RecordBatch]:
    """The rows in batches; at most `ahead` batches are read in advance."""
    _no_rows(scan)
    return _read_ahead(scan, ahead)


def _read_ahead(scan: Scan, ahead: int) -> Iterator[pa.RecordBatch]:
    pending: deque[Future[list[pa.RecordBatch]]] = deque()
    with ThreadPoolExecutor(1) as pool:
        source = _batches(scan)
        for _ in range(ahead):
            pending.append(pool.submit(_next, source))
        while pending:
            batches = pending.popleft().result()
            if not batches:
                break
            pending.append(pool.submit(_next, source))
            yield from batches


def _group_tables(scan: Scan, slices: list[FileSlice]) -> list[pa.Table]:
    return [_kept(scan, part) for part in read_slices(scan.context, slices, scan.needed)]


def _batches(scan: Scan) -> Iterator[list[pa.RecordBatch]]:
    for file_slice in scan.slices:
        for part in read_slice(scan.context, file_slice, scan.needed):
            batches = [batch for batch in _kept(scan, part).to_batches() if batch.num_rows]
            if batches:
                yield batches


def _next(source: Iterator[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    return next(source, [])


def _no_rows(scan: Scan) -> pa.Table:
    """The result without rows; a filter that cannot be evaluated fails, whatever is pruned."""
    return _kept(scan, scan.context.target(scan.needed).empty_table())


def _joined(parts: list[pa.Table]) -> pa.Table:
    joined = pa.concat_tables(parts)
    if joined.num_columns:
        return joined
    # Rows without columns are still rows, but Arrow forgets them here.
    return pa.table({"": pa.nulls(sum(part.num_rows for part in parts))}).select([])


def _kept(scan: Scan, rows: pa.Table) -> pa.Table:
    if scan.predicate is not None:
        rows = filter_table(rows, scan.predicate, time_zone=scan.time_zone)
    if scan.arrow_filter is not None:
        rows = _arrow_filtered(rows, scan.arrow_filter)
    return rows.select(list(scan.columns))


def _arrow_filtered(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    try:
        return rows.filter(condition)
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"the filter {condition} cannot be evaluated: {reason}") from error
