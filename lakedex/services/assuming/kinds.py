"""Indexes that do not exist: which file slices each would leave, told from the data itself.

The data of slices is read where an index would have been asked. So an answer is that of the real
index, at the price of reading its columns, and it is given for as many slices as are handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.expr.bounds import ColumnBounds, merge_by_group
from lakedex.expr.evaluate import evaluate
from lakedex.expr.may_match import may_match
from lakedex.expr.normal_form import restrict_to_columns
from lakedex.expr.tree import Column, Expr, columns_of
from lakedex.filegroup import RECORD_KEY, FileSlice, read_slice
from lakedex.index.contract import NEWEST_ONLY, Mask
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.record_index.lookup import record_keys
from lakedex.index.kinds.secondary.key_predicate import Asked as AskedKeys
from lakedex.index.kinds.secondary.key_predicate import asked_keys
from lakedex.schema.field_paths import column_at, values_at
from lakedex.services.index_estimating import Ints, files_per_value, files_with_any
from lakedex.services.index_names import existing_index
from lakedex.table import Snapshot
from lakedex.write.build_ranges import StoredRanges


@dataclass(frozen=True, slots=True)
class Asked:
    """The question: a predicate, bound and in normal form, of a table."""

    snapshot: Snapshot
    predicate: Expr
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen in some slices."""

    keep: Mask
    """Those that the index would leave."""
    typical: float | None
    """How many of all slices a question like this one leaves, as far as the sample tells."""
    reason: str


class AssumedIndex(Protocol):
    """An index that is only thought of."""

    @property
    def name(self) -> str:
        """What it is called in a report."""

    @property
    def kind(self) -> str:
        """The kind of index."""

    def why_not(self, asked: Asked) -> str | None:
        """Why it would not be asked, if so."""

    def look(self, asked: Asked, slices: Sequence[FileSlice], share: float) -> Sight:
        """Look into slices, which are such a share of those that are left."""


@dataclass(frozen=True, slots=True)
class AssumedSecondary:
    """A secondary index on a column, or on several."""

    columns: tuple[str, ...]
    kind: str = "secondary_index"

    @property
    def name(self) -> str:
        """The kind and the columns."""
        return f"secondary index on {', '.join(self.columns)}"

    def why_not(self, asked: Asked) -> str | None:
        """It answers what the real one would, on the newest snapshot."""
        there = existing_index(asked.snapshot, *self.columns)
        if there is not None:
            return f"the table has {there} already"
        found = self._asked(asked)
        if isinstance(found, str):
            return found
        return None if asked.snapshot.is_latest else NEWEST_ONLY

    def look(self, asked: Asked, slices: Sequence[FileSlice], share: float) -> Sight:
        """The slices that hold a row with one of the values."""
        own = restrict_to_columns(
            asked.predicate, *(tuple(column.split(".")) for column in self.columns)
        )
        names = list(dict.fromkeys(map(column_at, self.columns)))
        keep = np.zeros(len(slices), dtype=np.bool_)
        seen: list[pa.Table] = []
        rows = 0
        for number, found in enumerate(_rows(asked.snapshot, slices, names)):
            values = _distinct(pa.table({each: values_at(each, found) for each in self.columns}))
            # Structs are asked as they are: a predicate on a field names its way through them.
            keep[number] = any(
                pc.any(evaluate(own, batch, time_zone=asked.time_zone)).as_py()
                for batch in (values if names == [*self.columns] else found).to_batches()
            )
            rows += len(found)
            if share < 1:
                seen.append(values)
        question = self._asked(asked)
        values_asked = None if isinstance(question, str) else question.starts
        typical = None
        if seen and values_asked is not None:
            files = round(len(slices) / share)
            per_value = files_per_value(_times_seen(seen), len(slices), files)
            typical = files_with_any(len(values_asked), per_value, files)
        what = "a range" if values_asked is None else f"{len(values_asked)} values"
        reason = f"{what} asked, {rows:,} rows of {len(slices)} file slices read"
        if "record_index" not in asked.snapshot.config.metadata_partitions:
            reason += "; it needs the record index, which has to be built first"
        return Sight(keep, typical, reason)

    def _asked(self, asked: Asked) -> AskedKeys | str:
        definition = IndexDefinition(self.name, self.kind, "identity", self.columns, {}, 2)
        return asked_keys(definition, asked.predicate, asked.snapshot.schema)


@dataclass(frozen=True, slots=True)
class AssumedKeys:
    """A record index, or bloom filters of record keys."""

    kind: str

    @property
    def name(self) -> str:
        """The kind, as tables have it once."""
        return self.kind

    def why_not(self, asked: Asked) -> str | None:
        """They answer `=` and IN on the record key."""
        if self.kind in asked.snapshot.config.metadata_partitions:
            return "the table has it already"
        keys = record_keys(asked.predicate, asked.snapshot.read_context)
        if isinstance(keys, str):
            return keys
        is_located = self.kind == "bloom_filters" or asked.snapshot.is_latest
        return None if is_located else NEWEST_ONLY

    def look(self, asked: Asked, slices: Sequence[FileSlice], share: float) -> Sight:
        """The slices that hold one of the keys; a filter says nothing about log files."""
        keys = record_keys(asked.predicate, asked.snapshot.read_context)
        wanted = pa.array([] if isinstance(keys, str) else keys, pa.string())
        keep = np.zeros(len(slices), dtype=np.bool_)
        for number, found in enumerate(_rows(asked.snapshot, slices, [RECORD_KEY])):
            keep[number] = bool(pc.any(pc.is_in(found[RECORD_KEY], value_set=wanted)).as_py())
        typical = float(len(wanted))
        if self.kind == "bloom_filters":
            logged = np.array([bool(each.logs) for each in slices], dtype=np.bool_)
            keep |= logged
            typical += int(logged.sum()) / share
        reason = f"{len(wanted)} keys asked"
        return Sight(keep, typical if share < 1 else None, reason)


@dataclass(frozen=True, slots=True)
class AssumedStats:
    """Column stats of every column that the predicate names."""

    kind: str = "column_stats"
    name: str = "column_stats"

    def why_not(self, asked: Asked) -> str | None:
        """They answer comparisons of columns that have no statistics yet."""
        return None if self._columns(asked) else "the table has statistics of these columns already"

    def look(self, asked: Asked, slices: Sequence[FileSlice], share: float) -> Sight:
        """The slices whose ranges allow the predicate."""
        del share  # What is left of a part is taken for the whole.
        columns = self._columns(asked)
        ranges = StoredRanges(asked.snapshot.read_context, [each.name for each in columns])
        for each in slices:
            ranges.add(each)
        places = {
            (each.partition, file.name): number
            for number, each in enumerate(slices)
            for file in (each.base, *each.logs)
            if file is not None
        }
        stats = ranges.tables()
        bounds: dict[Expr, ColumnBounds] = {
            column: _bounds(column, stats[column.name], places, len(slices))
            for column in columns
            if column.name in stats
        }
        keep = may_match(asked.predicate, bounds, len(slices), time_zone=asked.time_zone)
        return Sight(keep, None, f"ranges of {', '.join(each.name for each in columns)}")

    @staticmethod
    def _columns(asked: Asked) -> list[Column]:
        snapshot = asked.snapshot
        definition = snapshot.definitions.get("column_stats")
        known: tuple[str, ...] | None = ()
        if "column_stats" in snapshot.config.metadata_partitions:
            known = definition.source_fields if definition else None
        return [
            column
            for column in columns_of(asked.predicate)
            if column.type is not None and len(column.path) == 1
            if known is not None and column.name not in known
        ]


def _rows(
    snapshot: Snapshot, slices: Sequence[FileSlice], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Some columns of each slice, log files merged."""
    nothing = snapshot.read_context.target(columns).empty_table()
    for each in slices:
        parts = read_slice(snapshot.read_context, each, columns)
        yield pa.concat_tables([nothing, *(part.select(columns) for part in parts)])


def _times_seen(parts: Sequence[pa.Table]) -> Ints:
    """In how many of some tables each row is, none of which has a row twice."""
    rows = pa.concat_tables(parts)
    counted = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    found: Ints = counted["count_all"].to_numpy()
    return found


def _distinct(rows: pa.Table) -> pa.Table:
    """Rows that are alike only once."""
    return rows.group_by(rows.column_names).aggregate([])


def _bounds(
    column: Column, stats: pa.Table, places: dict[tuple[str, str], int], count: int
) -> ColumnBounds:
    """Ranges of files as bounds of slices; a slice with a file of no range has none."""
    names = zip(stats["partition"].to_pylist(), stats["file"].to_pylist(), strict=True)
    slice_of = np.array([places[name] for name in names], dtype=np.int64)
    told = np.bincount(slice_of, minlength=count)
    wanted = np.bincount(np.array(list(places.values()), dtype=np.int64), minlength=count)
    files = ColumnBounds(
        stats["minimum"].type,
        stats["minimum"].combine_chunks(),
        stats["maximum"].combine_chunks(),
        stats["null_count"].to_numpy(),
        stats["value_count"].to_numpy(),
        (told == wanted)[slice_of],
    )
    return merge_by_group(files, slice_of, count)
