"""Bitmap indexes as pruners: the predicate is asked about each value, not about ranges.

Of the row groups of a run those are read whose first and last value allow the predicate; then each
of their values is a candidate by itself, and its files are the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.arrays import is_text
from lakedex.expr.bind import bound_type
from lakedex.expr.bounds import ColumnBounds, exact_bounds
from lakedex.expr.leaf_match import is_portable
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import Column, Expr
from lakedex.index.contract import Answer, IndexedTable, Question, Stage, covered_up_to
from lakedex.index.cost import Estimate, round_trip_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import positions
from lakedex.index.kinds.bitmap.definitions import KIND, bitmap_definitions, bitmap_target
from lakedex.index.kinds.bitmap.run import NUMBERS, VALUE, flat_numbers, read_groups
from lakedex.index.kinds.bitmap.store import Coverage, coverage, list_runs, read_heads
from lakedex.index.kinds.expression.definition import FIELDS_CHANGED, is_of_fields
from lakedex.storage.protocol import FileInfo

_RUN_S = 1.5e-3
"""Opening a run, and reading one row group of it."""
_BYTE_S = 1 / 100e6
_GROUP_BYTES = 256 << 10
_FILE_S = 1.5e-6
"""Finding one file of the table among those of the runs."""


@dataclass(frozen=True, slots=True)
class _Asked:
    definition: IndexDefinition
    expression: Expr


class BitmapIndex:
    """Prunes by whatever a predicate says of one column or expression."""

    kind = KIND
    stage = Stage.EXPRESSIONS
    describes_files = False

    def names(self, table: IndexedTable) -> list[str]:
        """The bitmap indexes of the table."""
        try:
            return sorted(bitmap_definitions(table.read.config))
        except LakedexError:
            return []  # no query fails by an index

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Opening the runs, and a row group or two of each."""
        found = _asked(name, question)
        if isinstance(found, str):
            return found
        table = question.table
        runs = list_runs(table.read.storage, found.definition)
        requests = len(runs) * 2 * round_trip_seconds(table.read.storage)
        values = sum(min(run.size_bytes, _GROUP_BYTES) for run in runs) * _BYTE_S
        heads = sum(run.size_bytes for run in runs) * _BYTE_S + len(table.slices) * _FILE_S
        is_kept = f"{KIND} {name}" in table.kept
        once = 0.0 if is_kept else len(runs) * _RUN_S + heads
        return Estimate(once + len(runs) * _RUN_S + values + requests, once=once)

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices that hold a value for which the predicate may be true."""
        found = _asked(name, question)
        if isinstance(found, str):
            return found
        storage = question.table.read.storage
        known = _coverage(question.table, found, list_runs(storage, found.definition))
        if not known.covered.any():
            return "no file slice is in it: every one is read, until it is refreshed"
        holding = np.zeros(len(question.table.slices), dtype=np.bool_)
        match = partial(may_match, question.predicate, time_zone=question.table.time_zone)
        values = 0
        for run in known.runs:
            groups = run.head.groups
            chosen = np.flatnonzero(match({found.expression: groups}, len(groups)))
            if not len(chosen):
                continue
            table = read_groups(storage, run.head, chosen.tolist())
            points = _points(found.expression, table[VALUE].combine_chunks())
            if is_text(points.type) and not is_portable(question.predicate):
                # Engines of other Unicode versions may change other letters.
                plain = pc.fill_null(pc.string_is_ascii(points.minimum), fill_value=True)
                points = points.where(plain.to_numpy(zero_copy_only=False))
            mask = match({found.expression: points}, len(points))
            values += int(mask.sum())
            slices = run.slice_of[flat_numbers(table[NUMBERS].filter(pa.array(mask)))]
            holding[slices[slices >= 0]] = True
        here = positions(question)
        reason = f"{values} values of it may match"
        if found.definition.is_async:
            reason += covered_up_to(question.table.slices, known.covered)
        return Answer(holding[here], known.covered[here], reason)


def _asked(name: str, question: Question) -> _Asked | str:
    """The index and its expression, if the predicate says something of it."""
    table = question.table
    definition = bitmap_definitions(table.read.config)[name]
    try:
        target = bitmap_target(definition, table.read.schema)
    except LakedexError as error:
        return str(error)
    if target.zone not in (None, table.time_zone):
        return f"it was built in the time zone {target.zone}, which is not that of the query"
    if table.read.history is not None and is_of_fields(target.expression):
        return FIELDS_CHANGED
    used: set[Expr] = set()
    nothing = {target.expression: _unknown(bound_type(target.expression))}
    may_match(question.predicate, nothing, 1, time_zone=table.time_zone, used=used)
    if not used:
        return f"the predicate does not ask for {', '.join(definition.source_fields)} as it does"
    return _Asked(definition, target.expression)


def _points(expression: Expr, values: pa.Array) -> ColumnBounds:
    """Each value as what a file without any other would hold."""
    points = exact_bounds(values)
    if pa.types.is_floating(values.type) and not isinstance(expression, Column):
        # A plain column is evaluated; of ranges NaN is in none.
        nan = pc.fill_null(pc.is_nan(values), fill_value=False).to_numpy(zero_copy_only=False)
        return replace(points.where(~nan), no_nan=~nan)
    return points


def _coverage(table: IndexedTable, asked: _Asked, runs: list[FileInfo]) -> Coverage:
    """What the runs say of all slices of the snapshot; the newest answer is kept."""
    place = f"{KIND} {asked.definition.name}"
    known: tuple[list[FileInfo], Coverage] | None = table.kept.get(place)
    if known is None or known[0] != runs:
        heads = read_heads(table.read.storage, runs)
        kind = bound_type(asked.expression)
        found = coverage(table.read, asked.definition, kind, table.slices, heads)
        known = runs, found
        table.kept[place] = known
    return known[1]


def _unknown(kind: pa.DataType) -> ColumnBounds:
    nothing, none = pa.nulls(1, kind), np.full(1, -1, dtype=np.int64)
    return ColumnBounds(kind, nothing, nothing, none, none, np.zeros(1, dtype=np.bool_))
