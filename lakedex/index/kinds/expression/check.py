"""Verifies an expression index: the expression is computed again over the rows of every file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable, LakedexError, UnsupportedFeature
from lakedex.expr.bind import bound_type
from lakedex.expr.evaluate import evaluate
from lakedex.expr.tree import Expr, columns_of
from lakedex.index.expressions import source_names
from lakedex.index.kinds.bloom_filters.check import FilterCheck
from lakedex.index.kinds.expression.definition import (
    certain_values,
    depends_on_zone,
    expression_text,
    indexed_expression,
)
from lakedex.index.metadata_table import STATS_PAYLOAD, RecordType
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import expression_partition_id
from lakedex.index.metadata_table.stat_values import StatValues, stat_values
from lakedex.index.verification.check import Check, FileRows, Subject
from lakedex.index.verification.stat_entries import FileEntries, compare_partitions
from lakedex.index.verification.statistics import Actual, FileStatistics
from lakedex.schema.field_paths import flat

_BLOOM_FLAVOUR = "bloom_filters"
_ID_LENGTH = 12
_QUARTERS = range(-12 * 4, 14 * 4 + 1)
_SAMPLE = 256
"""So many files are enough to identify a zone."""


@dataclass(slots=True)
class ExpressionRangeCheck(Check):
    """Compares the ranges of an expression, by file and by partition.

    What the expression gives may depend on a time zone. It is computed in the one that the table
    keeps for the index. Where it keeps none, as for indexes of other engines, it is the zone of the
    caller; where that does not fit and another one does, that one is used.
    """

    column: str = field(kw_only=True)
    label: str = field(kw_only=True)
    expression: Expr = field(kw_only=True)
    zone: str = field(kw_only=True)
    zone_is_guessed: bool = field(kw_only=True)
    is_own: bool = field(kw_only=True)
    """Whether lakedex alone keeps it, and without entries of partitions."""
    _unknown: set[int] = field(default_factory=set)
    """Files with values that the expression cannot be computed for."""
    _without_column: set[int] = field(default_factory=set)
    """Files that need no entry, as they are from before the column came."""
    _results: FileStatistics = field(default_factory=FileStatistics)
    _sources: FileStatistics = field(default_factory=FileStatistics)

    def see_file(self, part: FileRows) -> None:
        """Compute the expression over some rows of a file."""
        self._results.add_rows(part.file_number, part.rows.num_rows)
        if not part.lacking.isdisjoint(self.file_columns):
            self._without_column.add(part.file_number)
        try:
            values = certain_values(self.expression, part.rows, self.zone)
        except UnsupportedFeature:
            self._unknown.add(part.file_number)
            return
        self._results.add(part.file_number, self.column, values)
        if self.zone_is_guessed:
            self._sources.add(part.file_number, self.column, self._source(part.rows))

    def finish(self) -> None:
        """Compare the entries of files, then those of partitions."""
        records = self.subject.metadata.scan(self.name)
        self.count(len(records))
        by_file = records.filter(pc.equal(records["type"], RecordType.COLUMN_STATS.value))
        by_partition = records.filter(pc.equal(records["type"], RecordType.PARTITION_STATS.value))
        self._note_left_over(by_file)
        if self.zone_is_guessed and self._is_of_another_zone(by_file):
            return
        entries = FileEntries(self, self._results)
        for found in self._results.of(self.column):
            is_known = ~np.isin(found.files, list(self._unknown))
            actual = found.at(np.flatnonzero(is_known))
            entries.compare(self.column, self.label, by_file, actual)
            if not self.is_own:
                compare_partitions(self, self.label, by_partition, actual, self._partition_key)
        for number in self._without_column:
            entries.without.pop(number, None)
        if self.is_own and entries.without:
            self.note(f"{len(entries.without)} {self._without_entry} have no entry: they are read")
            entries.without.clear()
        entries.report_rest()

    @property
    def _without_entry(self) -> str:
        is_async = self.subject.definitions[self.name].is_async
        return "files that are newer than it" if is_async else "files of other engines"

    def _source(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        return evaluate(columns_of(self.expression)[0], rows, time_zone=self.zone)

    def _is_of_another_zone(self, records: pa.Table) -> bool:
        tails = self.subject.files.key_tails
        start = name_id(self.column)
        zone = built_in(
            self.expression,
            records,
            self._sources.of(self.column),
            lambda number: start + tails[number].as_py(),
            self.zone,
        )
        if zone is None:
            return False
        self.note(
            f"it was built in the time zone {zone}, not in {self.zone}; its ranges "
            f"are those of {zone} (open the table with expression_time_zone to compare them)"
        )
        return True

    def _partition_key(self, partition: str) -> str:
        return name_id(self.column) + expression_partition_id(partition)

    def _note_left_over(self, records: pa.Table) -> None:
        listed = self.subject.listed_tails()
        tails = pc.utf8_slice_codeunits(records["key"], _ID_LENGTH)
        left = len(records) - int(pc.sum(pc.is_in(tails, value_set=listed)).as_py() or 0)
        if left:
            self.note(f"{left} entries of files that were removed are left; none is used")


def start(name: str, subject: Subject) -> Check:
    """The check of one expression index, of either flavour."""
    definition = subject.definitions.get(name)
    if definition is None:
        raise IndexUnusable("it has no definition")
    kept = subject.table.zones().get(name)
    zone = kept or subject.time_zone
    expression = indexed_expression(definition, subject.schema, zone)
    if isinstance(expression, str):
        raise IndexUnusable(expression)
    columns = frozenset(source_names(columns_of(expression)))
    zoned = depends_on_zone(expression)
    if definition.index_type == _BLOOM_FLAVOUR:
        return FilterCheck(
            name,
            subject,
            file_columns=columns,
            values_of=partial(_texts, expression, zone),
            stale_is_note=True,
            may_lack_filters=definition.is_own,
        )
    return ExpressionRangeCheck(
        name,
        subject,
        file_columns=columns,
        column=definition.source_fields[0],
        label=expression_text(definition),
        expression=expression,
        zone=zone,
        zone_is_guessed=zoned and kept is None,
        is_own=definition.is_own,
    )


def _texts(expression: Expr, zone: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    return certain_values(expression, rows, zone).cast(pa.string())


def built_in(
    expression: Expr,
    records: pa.Table,
    sources: list[Actual],
    key_of: Callable[[int], str],
    zone: str,
) -> str | None:
    """Another zone that explains all entries where `zone` explains some of them not.

    None when `zone` explains them, or no zone does.

    Args:
        expression: What is indexed, bound.
        records: The entries of files.
        sources: The real bounds of the source column.
        key_of: The key of a file's entry.
        zone: The zone that the caller believes in.
    """
    if len(sources) != 1:
        return None
    sampled = _with_values(sources[0])
    wanted = pa.array([key_of(number) for number in sampled.files.tolist()], pa.string())
    place = pc.index_in(wanted, value_set=records["key"].combine_chunks())
    rows = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))[:_SAMPLE]
    if not len(rows):
        return None
    stats = records[STATS_PAYLOAD].combine_chunks().take(place.take(pa.array(rows)))
    claimed = stat_values(stats, bound_type(expression))
    known = sampled.at(rows)
    if _explains(expression, known, claimed, zone):
        return None
    zones = _candidates()
    return next((each for each in zones if _explains(expression, known, claimed, each)), None)


def _with_values(actual: Actual) -> Actual:
    return actual.at(np.flatnonzero(actual.has_values))


def _candidates() -> Iterator[str]:
    """Fixed offsets first, those near UTC before others; then regions, whose offsets change."""
    for quarters in sorted(_QUARTERS, key=abs):
        sign = "-" if quarters < 0 else "+"
        hours, quarter = divmod(abs(quarters), 4)
        yield f"{sign}{hours:02d}:{quarter * 15:02d}"
    yield from sorted(name for name in available_timezones() if "/" in name)


def _explains(expression: Expr, known: Actual, claimed: StatValues, zone: str) -> bool:
    try:
        low = _computed(expression, known.minimum, zone)
        high = _computed(expression, known.maximum, zone)
    except LakedexError:
        return False
    first = pc.equal(low, claimed.minimum)
    last = pc.equal(high, claimed.maximum)
    both = pc.and_(first, last).fill_null(pa.scalar(value=False))
    return bool(pc.all(both).as_py())


def _computed(expression: Expr, values: pa.Array, zone: str) -> pa.Array:
    source = columns_of(expression)[0]
    rows = _nested(values, source.path)
    result = evaluate(expression, rows, time_zone=zone)
    return flat(result)


def _nested(values: pa.Array, path: tuple[str, ...]) -> pa.Table:
    """A table whose column at `path` has the values."""
    for name in reversed(path[1:]):
        values = pa.StructArray.from_arrays([values], names=[name])
    return pa.table({path[0]: values})
