"""Secondary indexes as pruners: column value to record keys, and those to file groups.

The keys of the index are `escaped value $ escaped record key`, so all record keys of a value are
one prefix scan away, and those of a range of values in few ranges; where they live the record
index knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.contract import (
    NEWEST_ONLY,
    NOT_LIVE,
    Answer,
    IndexedTable,
    Question,
    Stage,
    covered_up_to,
)
from lakedex.index.cost import Estimate, count_seconds, scan_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.record_index.completeness import (
    check_seconds,
    live_entries,
    row_count,
    row_count_seconds,
)
from lakedex.index.kinds.record_index.lookup import distinct_locations, locate, locate_seconds
from lakedex.index.kinds.secondary.coverage import (
    covering_noted,
    groups_not_kept_up,
    right_composites,
    without_coverage,
)
from lakedex.index.kinds.secondary.key_predicate import (
    KeyPredicate,
    key_predicate,
    keys_from_start,
    united,
)
from lakedex.index.kinds.secondary.records import PREFIX
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import record_keys_of_secondary

_RECORD_INDEX = "record_index"
_SWITCHED_OFF = "it needs the record index, which is switched off by the caller"
_ROWS = "secondary_rows"
MAX_ROWS_OF_RANGE = 200_000
"""A range with more rows leaves out hardly any file, and is left to statistics."""
MAX_ROWS_OF_VALUES = 1_000_000
"""The same for values, whose rows all become known: they are in memory for a while."""
_ROWS_OF_BLOCKS = 10_000
"""So many rows more are counted for a value, of the blocks that it begins and ends in."""
_PEEK = 0.1
"""The part of what an index may be worth that its entries are read for before it is weighed."""
_ROWS_OF_A_VALUE = 10
"""How many rows a value has shows only when it is looked up; opening the files costs more."""


class SecondaryIndex:
    """Prunes by `=`, IN, IS NULL, prefixes and ranges on an indexed column."""

    kind = "secondary_index"
    stage = Stage.KEYS
    describes_files = False

    def names(self, table: IndexedTable) -> list[str]:
        """The secondary indexes that are defined or live."""
        return table.named_indexes(PREFIX)

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Reading the entries of the values, then looking their record keys up."""
        table = question.table
        predicate = _key_predicate(name, question)
        if isinstance(predicate, str):
            return predicate
        if not (table.is_live(name) and table.is_live(_RECORD_INDEX) and table.is_latest):
            return str(_why_unusable(name, table))
        if not table.is_asked(_RECORD_INDEX) and not _covers(table, name):
            return _SWITCHED_OFF
        is_known = f"{name}_problem" in table.kept or _is_never_counted(table, name)
        checked = 0.0 if is_known else count_seconds(table.metadata, name)
        rows = _expected_rows(table, name, predicate, question.worth)
        scanned = scan_seconds(table.metadata, name, rows, share=0.0)
        most_left = None
        if predicate.starts is not None and scanned <= _PEEK * question.worth:
            # The entries tell how many files are left at most, before the index is checked.
            entries = _kept_entries(name, question, predicate)
            if isinstance(entries, str):
                return entries
            rows, scanned = entries.num_rows, 0.0
            most_left = rows + len(groups_not_kept_up(table, name))
        if _covers(table, name):
            once = 0.0 if is_known else checked + row_count_seconds(table)
            return Estimate(once + scanned, most_left, once=once)
        once = checked + check_seconds(table)
        seconds = checked + scanned + locate_seconds(table, rows)
        return Estimate(seconds, most_left, once=once)

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The file groups that hold rows with the values which the predicate asks for."""
        table = question.table
        predicate = _key_predicate(name, question)
        if isinstance(predicate, str):
            return predicate
        problem = _why_unusable(name, table)
        if problem is not None:
            return problem
        entries = _kept_entries(name, question, predicate)
        if isinstance(entries, str):
            return entries
        covers = _covers(table, name)
        keys = record_keys_of_secondary(entries["key"].combine_chunks(), len(predicate.columns))
        rows = _Rows(entries, keys, groups_not_kept_up(table, name)).among(question.found)
        named = _places(table, rows.entries) if covers else None
        if named is None and not table.is_asked(_RECORD_INDEX):
            return _SWITCHED_OFF
        if named is None:
            found = locate(table, rows.keys.unique(), question.partitions)
            if isinstance(found, str):
                return f"the record index that it needs cannot be used: {found}"
        else:
            found = named
        what = "a range" if predicate.starts is None else f"{len(predicate.starts)} values"
        reason = f"{what} asked, {len(rows.keys)} rows in {len(found)} file groups"
        reason += "" if named is None else " that the entries name"
        definition = table.definitions[name]
        if definition.is_async:
            stale = groups_not_kept_up(table, name)
            reason += covered_up_to(table.slices, ~table.slices.mask_of(stale))
        elif rows.stale:
            reason += f"; {len(rows.stale)} file groups changed without the index and are kept"
        if not rows.stale and predicate.starts is not None:
            question.locate(predicate.columns)
        return Answer(question.mask_of(found), ~question.mask_of(rows.stale), reason)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that may match, by their entries in one index."""

    entries: pa.Table
    keys: pa.Array
    """Their record keys."""
    stale: frozenset[FileSliceId]
    """File groups that the entries may say nothing about."""

    def among(self, known: dict[str, Any]) -> _Rows:
        """Those that the indexes before this one selected as well; kept for the next one.

        Two conditions may be true in the same files and yet of no row: that shows here.
        """
        before: _Rows | None = known.get(_ROWS)
        rows = self
        if before is not None:
            both = pc.is_in(self.keys, value_set=before.keys)
            left = self.entries.filter(both), self.keys.filter(both)
            rows = _Rows(*left, self.stale | before.stale)
        known[_ROWS] = rows
        return rows


def _key_predicate(name: str, question: Question) -> KeyPredicate | str:
    definition = question.table.definitions.get(name)
    if definition is None or not definition.names_columns:
        return "it has no definition that names its column"
    known = f"{name}_predicate"
    if known not in question.found:
        schema = question.table.read.schema
        question.found[known] = key_predicate(definition, question.predicate, schema)
    predicate: KeyPredicate | str = question.found[known]
    return predicate


def _kept_entries(name: str, question: Question, predicate: KeyPredicate) -> pa.Table | str:
    """The entries that match the predicate, read once for a question; or why they are not read."""
    known = f"{name}_entries"
    if known not in question.found:
        table = question.table
        covers = _covers(table, name)
        found = _entries(table, table.definitions[name], predicate, with_places=covers)
        if not isinstance(found, str):
            found = predicate.matching(found, question.predicate, table.time_zone)
        question.found[known] = found
    entries: pa.Table | str = question.found[known]
    return entries


def _expected_rows(table: IndexedTable, name: str, predicate: KeyPredicate, worth: float) -> int:
    """How many rows a lookup will find, about; block indexes tell that for ranges."""
    if predicate.starts is not None:
        return _ROWS_OF_A_VALUE * len(predicate.starts)
    if predicate.ranges is None or scan_seconds(table.metadata, name, 0, share=0.0) > worth:
        return _ROWS_OF_A_VALUE
    return table.metadata.count_between(name, predicate.ranges)


def _why_unusable(name: str, table: IndexedTable) -> str | None:
    if not table.is_live(name):
        return NOT_LIVE
    if not table.is_latest:
        return NEWEST_ONLY
    if table.read.has_virtual_keys:
        return "Hudi does not bring it up to date in a table without meta columns"
    if not table.is_live(_RECORD_INDEX):
        return "it needs the record index, which the table does not have"
    if not table.is_asked(_RECORD_INDEX) and not _covers(table, name):
        return _SWITCHED_OFF
    known = f"{name}_problem"
    if known not in table.kept and not _is_right(table, name):
        table.kept[known] = "another engine wrote to the table, which does not keep it up"
    if known not in table.kept:
        table.kept[known] = _find_problem(name, table)
    problem: str | None = table.kept[known]
    return problem


def _is_never_counted(table: IndexedTable, name: str) -> bool:
    """Whether it need not have an entry for every row, or is known to have one."""
    return table.definitions[name].is_async or table.metadata.has_every_row(name)


def _is_right(table: IndexedTable, name: str) -> bool:
    """Whether it is an index that all engines know, or one that all writers so far have kept up."""
    if not table.definitions[name].is_composite:
        return True
    return name in right_composites(table.timeline, table.definitions)


def _find_problem(name: str, table: IndexedTable) -> str | None:
    if _is_never_counted(table, name):
        return None
    entries, rows = live_entries(table, name), row_count(table)
    if entries == rows:
        return None
    return f"it has {entries} entries for {rows} rows, so it was not kept up"


def _covers(table: IndexedTable, name: str) -> bool:
    """Whether entries say where their rows are, and all writers so far have kept that right."""
    known = f"{name}_covers"
    if known not in table.kept:
        is_covering = table.definitions[name].is_covering
        table.kept[known] = is_covering and name in covering_noted(
            table.timeline, table.definitions
        )
    covers: bool = table.kept[known]
    return covers


def _places(table: IndexedTable, entries: pa.Table) -> set[FileSliceId] | None:
    """The file groups that entries name; None where one names none, or one that was replaced."""
    if entries[RECORD_INDEX_PAYLOAD].null_count:
        return None
    found = distinct_locations(entries)
    return found if found <= table.slice_ids else None


def _entries(
    table: IndexedTable, definition: IndexDefinition, predicate: KeyPredicate, *, with_places: bool
) -> pa.Table | str:
    """The entries of the index that the predicate selects, or why they are too many."""
    metadata, name = table.metadata, definition.name
    ranges, shards, most = predicate.ranges or [], None, MAX_ROWS_OF_RANGE
    if predicate.starts is not None:
        ranges = united(keys_from_start(start) for start in predicate.starts)
        most = MAX_ROWS_OF_VALUES + _ROWS_OF_BLOCKS * len(predicate.starts)
        if definition.is_placed_by_value:
            starts = pa.array([start.decode() for start, _ in ranges], pa.string())
            shards = shards_of(starts, len(metadata.groups(name))).tolist()
    count = metadata.cell_count(name, shards)
    if count > most:
        count = metadata.count_between(name, ranges, shards)
    if count > most:
        return f"about {count} rows have such values, which are too many to look up"
    found = metadata.scan_ranges(name, ranges, shards, with_places=with_places)
    return without_coverage(found) if definition.is_async else found
